"""Cases of a kind, in this process; what they did that they may not.

python -m tests.fuzz where,recipes 300 1000    # 300 cases of two kinds, seeds from 1000
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from pathlib import Path

import torch

from tests.fuzz.harness import found
from tests.fuzz.kinds import KINDS

if __name__ == "__main__":
    warnings.simplefilter("error")
    torch.set_num_threads(1)
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("kinds", help=f"all, or some with commas between them: {', '.join(KINDS)}")
    parser.add_argument("count", type=int, help="cases of each kind")
    parser.add_argument("first", type=int, nargs="?", default=0, help="the first seed")
    given = parser.parse_args()
    kinds = list(KINDS) if given.kinds == "all" else given.kinds.split(",")
    if unknown := [kind for kind in kinds if kind not in KINDS]:
        parser.error(f"no kind of case is called {unknown[0]}; there are {', '.join(KINDS)}")
    for kind in kinds:
        with tempfile.TemporaryDirectory() as folder:
            findings = found(KINDS[kind](Path(folder)), kind, given.count, given.first)
        for finding in findings:
            print(finding)
        print(f"=== {kind}: {given.count} cases from {given.first}, {len(findings)} findings", flush=True)

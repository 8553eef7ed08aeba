"""Run cases of a kind in this process, and print the forbidden outcomes.

python -m tests.fuzz where,recipes 300 1000    # 300 cases of two kinds, seeds from 1000
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from pathlib import Path

import torch

from tests.fuzz.harness import find_failures
from tests.fuzz.kinds import KINDS

if __name__ == "__main__":
    warnings.simplefilter("error")
    torch.set_num_threads(1)
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("kinds", help=f"all, or some, separated by commas: {', '.join(KINDS)}")
    parser.add_argument("count", type=int, help="cases of each kind")
    parser.add_argument("first", type=int, nargs="?", default=0, help="the first seed")
    arguments = parser.parse_args()
    kinds = list(KINDS) if arguments.kinds == "all" else arguments.kinds.split(",")
    if unknown := [kind for kind in kinds if kind not in KINDS]:
        parser.error(f"no kind of case is called {unknown[0]}; there are {', '.join(KINDS)}")
    for kind in kinds:
        with tempfile.TemporaryDirectory() as folder:
            findings = find_failures(KINDS[kind](Path(folder)), kind, arguments.count, arguments.first)
        for finding in findings:
            print(finding)
        print(f"=== {kind}: {arguments.count} cases from {arguments.first}, {len(findings)} findings", flush=True)

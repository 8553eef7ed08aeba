"""`python -m tests.fuzz KIND COUNT [FIRST]`: cases of a kind, in this process; what they did that they may not."""

from __future__ import annotations

import sys
import tempfile
import warnings
from pathlib import Path

import torch

from tests.fuzz.harness import found
from tests.fuzz.kinds import KINDS

if __name__ == "__main__":
    warnings.simplefilter("error")
    torch.set_num_threads(1)
    name, count, *first = sys.argv[1:]
    for kind in KINDS if name == "all" else name.split(","):
        with tempfile.TemporaryDirectory() as folder:
            findings = found(KINDS[kind](Path(folder)), kind, int(count), int(first[0]) if first else 0)
        for finding in findings:
            print(finding)
        print(f"=== {kind}: {count} cases from {first[0] if first else 0}, {len(findings)} findings", flush=True)

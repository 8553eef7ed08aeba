"""Compare the time of elaborating examples here and in another checkout that has a `.venv`.

python benchmarks/elaboration.py OTHER [--rounds 7] [EXAMPLE.arch ...]

Processes of both checkouts take turns on every example that both have; medians of processor time are compared.
"""

from __future__ import annotations

import argparse
import gc
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

from measure import Table

HERE = Path(__file__).resolve().parent.parent
WORKER = "answer"
"""Argument that starts this script as a measured process."""
MIN_SECONDS = 1.0
"""Minimum total seconds of each side per example."""
MAX_ROUNDS = 60
"""Maximum number of rounds per example."""


class Side:
    """A process that elaborates examples of a checkout on request."""

    def __init__(self, checkout: Path) -> None:
        self.checkout = checkout
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0", "PYTHONPATH": str(checkout)}
        self.process = subprocess.Popen(
            [checkout / ".venv/bin/python", __file__, WORKER],
            cwd=checkout, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def examples(self) -> set[str]:
        """Return the files of the checkout's examples."""
        folder = self.checkout / "examples"
        return {str(path.relative_to(folder)) for path in folder.rglob("*.arch")}

    def seconds(self, example: str) -> float:
        """Return the processor seconds of one elaboration."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(example, file=self.process.stdin, flush=True)
        return float(self.process.stdout.readline())


def serve() -> None:
    """Read names of examples from stdin, and print the processor seconds of each."""
    from archir.api import loading

    for line in sys.stdin:
        gc.collect()
        begin = time.process_time()
        loading.graphs(Path("examples") / line.strip())
        print(time.process_time() - begin, flush=True)


def compare(other: Path, rounds: int, names: list[str]) -> Table:
    """Return medians of both sides and their ratios."""
    table = Table("elaboration, seconds of processor time", ["example", "there", "here", "here / there"])
    sides = Side(other), Side(HERE)
    for name in names or sorted(sides[0].examples() & sides[1].examples()):
        for side in sides:
            side.seconds(name)  # warm
        times: tuple[list[float], list[float]] = [], []
        while len(times[0]) < rounds or (sum(times[0]) < MIN_SECONDS and len(times[0]) < MAX_ROUNDS):
            for i in (0, 1) if len(times[0]) % 2 else (1, 0):
                times[i].append(sides[i].seconds(name))
        there, here = map(median, times)
        table.add(name, f"{there:.4f}", f"{here:.4f}", f"{here / there:.2f}")
        print(*table.rows[-1], flush=True)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other", type=Path)
    parser.add_argument("examples", nargs="*")
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_intermixed_args()
    print(compare(arguments.other.resolve(), arguments.rounds, arguments.examples))


if __name__ == "__main__":
    serve() if sys.argv[1:] == [WORKER] else main()

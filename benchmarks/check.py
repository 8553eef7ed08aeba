"""Measure `archir check` of large spaces, in processes of the command line, one after the other.

python benchmarks/check.py [--rounds 5]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from statistics import median

from measure import Table

ROOT = Path(__file__).resolve().parent.parent
SPACES = {
    "hierarchical NAS-Bench-201": ("tests/spaces/hnas.arch", "--max-work", "80000000"),
    "NAS-Bench-101": ("examples/nas_bench_101/nas_bench_101.arch",),
    "NOS": ("examples/nos/nos.arch",),
    "NAS-FPN": ("examples/nas_fpn/nas_fpn.arch",),
}
"""Arguments of the command for each space."""


CHILD = """
import resource, sys
from archir.__main__ import run
try:
    run()
finally:
    used = resource.getrusage(resource.RUSAGE_SELF)
    peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
    print(used.ru_utime + used.ru_stime, int(peak.split()[1]) / 1024, file=sys.stderr)
"""
"""Program of the measured process: it prints its processor seconds and peak MiB on stderr."""


def run_check(arguments: tuple[str, ...]) -> tuple[float, float, list[dict[str, int]]]:
    """Return the processor seconds and MiB of a process that checks a file, and the nets in its output."""
    done = subprocess.run(
        [sys.executable, "-c", CHILD, "check", *arguments, "--json"], cwd=ROOT, capture_output=True, text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}, check=True,
    )  # fmt: skip
    seconds, mebibytes = map(float, done.stderr.split())
    return seconds, mebibytes, json.loads(done.stdout)["nets"]


def measure(rounds: int) -> Table:
    """Return medians of some rounds."""
    table = Table("archir check, whole process", ["space", "nodes", "choices", "seconds of processor time", "MiB"])
    for name, arguments in SPACES.items():
        results = [run_check(arguments) for _ in range(rounds)]
        nets = results[0][2]
        seconds, memory = median(result[0] for result in results), median(result[1] for result in results)
        size = [f"{sum(net[what] for net in nets):,}" for what in ("nodes", "choices")]
        table.add(name, *size, f"{seconds:.1f}", f"{memory:.0f}")
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    print(f"Python {platform.python_version()}; {platform.machine()}; one processor\n")
    print(measure(parser.parse_args().rounds))


if __name__ == "__main__":
    main()

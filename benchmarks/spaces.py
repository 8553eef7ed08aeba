"""What a space costs before anything is built: loading, counting, sampling, mutation, specialisation."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

import numpy as np
from measure import Table

import archir

SPACE = Path(__file__).resolve().parent.parent / "examples" / "full_attention" / "full_attention.arch"


def timed(run: object, count: int, rounds: int = 7) -> float:
    """Seconds per call: the median of `rounds` runs of `count` calls."""
    found = []
    for _ in range(rounds):
        begin = time.perf_counter()
        for _ in range(count):
            run()  # type: ignore[operator]
        found.append((time.perf_counter() - begin) / count)
    return median(found)


def run(quick: bool) -> Table:
    table = Table("the full-attention space (4,747,561,509,943 architectures, 1,003 nodes)", ["what", "figure"])
    load = timed(lambda: archir.load(SPACE).size, 1, 3 if quick else 7)
    table.add("load, check every shape, count", f"{1000 * load:.0f} ms")
    space = archir.load(SPACE)
    rng = random.Random(0)
    numbers = np.random.default_rng(0)
    architecture = space.sample(rng)
    batched = timed(lambda: space.sample_codes(100_000, numbers), 1)
    table.add("sampling in batches of 100,000", f"{100_000 / batched:,.0f} architectures/s")
    table.add("one sample", f"{1e6 * timed(lambda: space.sample(rng), 300):.1f} us")
    table.add("one mutation", f"{1e6 * timed(lambda: space.mutate(architecture, rng), 1000):.1f} us")
    table.add("specialise one architecture", f"{1e3 * timed(lambda: space.specialize(architecture), 30):.2f} ms")
    graph = space.specialize(architecture)
    table.add("its parameters and MACs", f"{1e3 * timed(lambda: archir.cost(graph), 10):.2f} ms")
    command = [sys.executable, "-m", "archir", "check", str(SPACE)]
    whole = timed(lambda: subprocess.run(command, check=True, capture_output=True), 1, 3 if quick else 9)
    table.add("archir check, whole process", f"{whole:.2f} s")
    return table

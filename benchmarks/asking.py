"""Measure the cost of `ask` and `tell` in searches of the nine published spaces.

python benchmarks/asking.py [--trials 2000] [--repeats 3] [--to FILE]

Figures are microseconds of processor time per candidate of `ask` and `tell` together, after the first batch, in a space
that is new to each search, and milliseconds until the first batch; the minimum of some equal searches. Scores are
random. A second part does not merge architectures that compute the same (`archir.without_dedup`). The figures are kept
in `benchmarks/results/asking_cpu.txt`.
"""

from __future__ import annotations

import argparse
import platform
import random
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import archir

ROOT = Path(__file__).resolve().parents[1]
NINE = {
    "full attention": "full_attention/full_attention.arch",
    "TrioNet": "trionet/trionet.arch",
    "AutoLA": "autola/autola.arch",
    "NOS": "nos/nos.arch:nos",
    "GLiT": "glit/glit.arch",
    "DARTS": "darts/darts.arch:darts",
    "NAS-Bench-201": "nas_bench_201/nas_bench_201.arch",
    "OFA-MobileNetV3": "mobilenet_v3_ofa/mobilenet_v3_ofa.arch",
    "AutoFormer-Tiny": "autoformer/autoformer.arch",
}
"""The nine published spaces, by file below `examples`."""
STRATEGIES: Mapping[str, Mapping[str, Any]] = {
    "random": {"batch": 50},
    "evolution": {"population": 50, "parents": 50, "tournament": 10},
    "nsga2": {"population": 50, "objectives": ["accuracy:max", "latency:min"]},
}


def measure_search(path: str, name: str, trials: int, separate: bool) -> tuple[float, float]:
    """Return microseconds per candidate of a search, and milliseconds until its first batch. `separate`: without
    merging equivalent architectures."""
    space = archir.load(ROOT / "examples" / path)
    space = archir.without_dedup(space) if separate else space
    space.satisfying  # noqa: B018  (counted once and cached, outside of the measured time)
    rng, count = random.Random(0), 0
    search = archir.strategy(name, space, {**STRATEGIES[name], "trials": trials})
    begin = time.process_time()
    search.ask()
    first = time.process_time()
    while batch := search.ask():
        count += len(batch)
        search.tell([(candidate, {"accuracy": rng.random(), "latency": rng.random()}) for candidate in batch])
    return 1e6 * (time.process_time() - first) / count, 1e3 * (first - begin)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=2000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--to", type=Path, default=ROOT / "benchmarks" / "results" / "asking_cpu.txt")
    arguments = parser.parse_args()
    lines = [f"CPU, 1 thread; Python {platform.python_version()}; {platform.machine()}", ""]
    lines += [f"microseconds of ask and tell a candidate, {arguments.trials:,} candidates of a space that is new;"]
    lines += [
        f"in brackets, milliseconds until the first batch; processor time, the least of {arguments.repeats} searches"
    ]
    for separate in (False, True):
        if separate:
            lines += ["", "architectures that compute the same are tried apart"]
        lines += [f"{'space':16}" + "".join(f"{name:>16}" for name in STRATEGIES)]
        for space, path in NINE.items():
            cells = [
                [min(times) for times in zip(*repeats, strict=True)]
                for repeats in (
                    [measure_search(path, name, arguments.trials, separate) for _ in range(arguments.repeats)]
                    for name in STRATEGIES
                )
            ]
            lines.append(f"{space:16}" + "".join(f"{f'{each:,.0f} ({first:,.0f})':>16}" for each, first in cells))
            print(lines[-1], flush=True)
    arguments.to.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()

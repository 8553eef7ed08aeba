"""What it costs to ask for candidates and to tell their scores, in the nine published spaces.

python benchmarks/asking.py [--trials 2000] [--repeats 3] [--to FILE]

Microseconds of processor time a candidate of `ask` and `tell` together after the first batch, of a space that is new to
each search, and milliseconds until the first batch is there; the least of some searches that are the same. Scores are
random. Then the same where equivalent architectures are tried separately (`archir.without_dedup`). The figures are kept
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
STRATEGIES: Mapping[str, Mapping[str, Any]] = {
    "random": {"batch": 50},
    "evolution": {"population": 50, "parents": 50, "tournament": 10},
    "nsga2": {"population": 50, "objectives": ["accuracy:max", "latency:min"]},
}


def asked(path: str, name: str, trials: int, apart: bool) -> tuple[float, float]:
    """A candidate's share of a search of a space, in microseconds, and milliseconds until the first batch."""
    space = archir.load(ROOT / "examples" / path)
    space = archir.without_dedup(space) if apart else space
    space.satisfying  # noqa: B018  (counted once, whoever asks)
    rng, count = random.Random(0), 0
    search = archir.strategy(name, space, {**STRATEGIES[name], "trials": trials})
    begin = time.process_time()
    search.ask()
    first = time.process_time()
    while batch := search.ask():
        count += len(batch)
        search.tell([(one, {"accuracy": rng.random(), "latency": rng.random()}) for one in batch])
    return 1e6 * (time.process_time() - first) / count, 1e3 * (first - begin)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=2000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--to", type=Path, default=ROOT / "benchmarks" / "results" / "asking_cpu.txt")
    given = parser.parse_args()
    lines = [f"CPU, 1 thread; Python {platform.python_version()}; {platform.machine()}", ""]
    lines += [f"microseconds of ask and tell a candidate, {given.trials:,} candidates of a space that is new;"]
    lines += [f"in brackets, milliseconds until the first batch; processor time, the least of {given.repeats} searches"]
    for apart in (False, True):
        if apart:
            lines += ["", "architectures that compute the same are tried apart"]
        lines += [f"{'space':16}" + "".join(f"{name:>16}" for name in STRATEGIES)]
        for space, path in NINE.items():
            cells = [
                [min(times) for times in zip(*several, strict=True)]
                for several in (
                    [asked(path, one, given.trials, apart) for _ in range(given.repeats)] for one in STRATEGIES
                )
            ]
            lines.append(f"{space:16}" + "".join(f"{f'{each:,.0f} ({first:,.0f})':>16}" for each, first in cells))
            print(lines[-1], flush=True)
    given.to.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()

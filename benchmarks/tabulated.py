"""Searches of NAS-Bench-201 in its table of results: the best validation accuracy found, averaged over seeds.

ARCHIR_NAS=FOLDER python benchmarks/tabulated.py [--seeds 500]

The folder has `nb201.npz` (see `benchmarks/published.py`). Seeds of the benchmark's trainings are averaged before a
strategy sees them. The figures are kept in `benchmarks/results/tabulated_cpu.txt`.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import archir
from archir.search.scores.results.table import Results
from archir.search.spaces.space import Space

ROOT = Path(__file__).resolve().parents[1]
MEASURES = {"CIFAR-10": "accuracy", "CIFAR-100": "accuracy_cifar100", "ImageNet16": "accuracy_imagenet16"}
STRATEGIES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "random": ("random", {"batch": 50}),
    "regularised evolution, population 20, tournament 5": (
        "evolution", {"population": 20, "parents": 20, "tournament": 5},
    ),
}  # fmt: skip
AT = (100, 300)


def found(space: Space, table: Results, strategy: str, seed: int) -> list[float]:
    """The best score after each of `AT` evaluations, in percent."""
    name, options = STRATEGIES[strategy]
    aim = {"objectives": [f"{table.criterion}:max"]} if name == "random" else {"objective": f"{table.criterion}:max"}
    search = archir.strategy(name, space, {**options, **aim, "trials": max(AT)}, seed=seed)
    scores: list[float] = []
    while batch := search.ask():
        told = table.scored(batch)
        scores += [one[table.criterion] for _, one in told if one is not None]
        search.tell(told)
    return [100 * max(scores[:count]) for count in AT]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=500)
    given = parser.parse_args()
    space = archir.load(ROOT / "examples/nas_bench_201/nas_bench_201.arch")
    file, about = Path(os.environ["ARCHIR_NAS"]) / "nb201.npz", ROOT / "examples/tables/nas_bench_201.toml"
    lines = [f"NAS-Bench-201: best validation accuracy found, percent, mean of {given.seeds} seeds (standard error)"]
    begin = time.perf_counter()
    for data, measure in MEASURES.items():
        table = archir.results(file, space, map=about, measures=[measure])
        for strategy in STRATEGIES:
            columns = zip(*(found(space, table, strategy, seed) for seed in range(given.seeds)), strict=True)
            cells = [
                f"{at} evaluations {fmean(one):.2f} ({stdev(one) / given.seeds**0.5:.3f})"
                for at, one in zip(AT, columns, strict=True)
            ]
            lines.append(f"{data:11}{strategy:52}{'   '.join(cells)}")
            print(lines[-1], f"{time.perf_counter() - begin:.0f} s", flush=True)
    lines.append(f"{time.perf_counter() - begin:.0f} s on one core, beside other work")
    (ROOT / "benchmarks/results/tabulated_cpu.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()

"""Evaluate searches of a space with known optimum and front, of which a tenth is scored; Optuna's searches for
comparison."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from statistics import mean, median
from typing import Any

from measure import Table
from rugged import Evaluated, Rugged, search, search_by_optuna, space

from archir.search.registry import create

TENTH = 558
"""Number of scored architectures, a tenth of the space."""
SINGLE: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "evolution, regularised": ("evolution", {"trials": TENTH}),
    "the same, 50 parents, tournaments of 10": (
        "evolution", {"population": 50, "parents": 50, "tournament": 10, "trials": TENTH},
    ),
    "evolution, spos": ("evolution", {"preset": "spos", "trials": TENTH}),
    "evolution, ofa": ("evolution", {"preset": "ofa", "trials": TENTH}),
    "random": ("random", {"trials": TENTH}),
}  # fmt: skip
"""Strategies with one objective, and their options."""
POPULATIONS = (20, 40, 100)
"""Population sizes of the strategies with two objectives."""


def run(quick: bool) -> Table:
    seeds = range(100, 103 if quick else 120)
    problems = {seed: Rugged(seed) for seed in seeds}
    table = Table(
        f"{TENTH} of {space().size:,} architectures scored, {len(seeds)} problems, each with its own scores",
        ["strategy", "best found", "scored until then", "hypervolume, least", "mean", "seconds"],
    )

    def add(name: str, run_search: Callable[[int], Evaluated], front: bool) -> None:
        begin = time.perf_counter()
        tried = [run_search(seed) for seed in seeds]
        seconds = (time.perf_counter() - begin) / len(seeds)
        until = [count for each in tried if (count := each.count_until_best()) is not None]
        cells = [f"{len(until)} of {len(seeds)}", f"{median(until):.0f}" if until else "-"]
        volumes = [each.volume() for each in tried] if front else []
        cells += [f"{100 * part(volumes):.2f}%" if volumes else "" for part in (min, mean)]
        table.add(name, *cells, f"{seconds:.2f}")

    for name, (kind, options) in SINGLE.items():
        add(name, lambda s, k=kind, o=options: search(create(k, space(), o, s), problems[s]), name == "random")
    for size in POPULATIONS:
        add(
            f"Optuna, accuracy alone, population {size}",
            lambda s, n=size: search_by_optuna(problems[s], 1, TENTH, n, s),
            False,
        )
    for size in POPULATIONS:
        options = {"population": size, "trials": TENTH}
        add(f"nsga2, population {size}", lambda s, o=options: search(create("nsga2", space(), o, s), problems[s]), True)
    for size in POPULATIONS:
        add(f"Optuna, population {size}", lambda s, n=size: search_by_optuna(problems[s], 2, TENTH, n, s), True)
    return table

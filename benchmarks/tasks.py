"""What the searches of `examples/tasks` find, and 20 of each space that are drawn at random and cost no more."""

from __future__ import annotations

import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from multiprocessing import get_context
from pathlib import Path

import torch
from chance import DRAWN, TASKS, Comparison, compared
from measure import Table

PROCESSES = 3
"""Comparisons that are made at the same time, each on one core."""


def run(quick: bool) -> Table:
    table = Table(
        f"What is found, and {DRAWN} of at most its MACs drawn at random, trained and tested alike",
        ["task", "seed", "measure", "found", "median", "best", "worst", "MACs", "MACs of the others", "CPU s"],
    )
    cases, won = list(product(TASKS, range(1 if quick else 3))), 0
    with ProcessPoolExecutor(PROCESSES, get_context("spawn")) as pool:
        for (name, seed), (one, seconds) in zip(cases, pool.map(timed, cases), strict=True):
            criterion, larger = TASKS[name]
            figures = [one.figure, one.median, one.ranked[0], one.ranked[-1]]
            costs = [f"{one.macs:,}", f"{min(one.costs):,} to {max(one.costs):,}"]
            measure = f"{criterion}, {'more' if larger else 'less'} is better"
            table.add(name, str(seed), measure, *(f"{figure:.4g}" for figure in figures), *costs, f"{seconds:.0f}")
            print(*table.rows[-1], flush=True)
            won += one.won
    table.title += f": {won} of {len(cases)} are better than the median"
    return table


def timed(case: tuple[str, int]) -> tuple[Comparison, float]:
    """A comparison, and the seconds of processor time that it took."""
    torch.set_num_threads(1)
    begin = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        return compared(*case, Path(folder)), time.process_time() - begin

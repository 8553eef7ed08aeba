"""Compare the searches of `examples/tasks` with 20 random networks of each space that cost no more."""

from __future__ import annotations

import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from multiprocessing import get_context
from pathlib import Path

import torch
from chance import RANDOM_COUNT, TASKS, Comparison, compare_with_random
from measure import Table

PROCESSES = 3
"""Number of comparisons that run at the same time, each on one core."""


def run(quick: bool) -> Table:
    table = Table(
        f"What is found, and {RANDOM_COUNT} of at most its MACs drawn at random, trained and tested alike",
        ["task", "seed", "measure", "found", "median", "best", "worst", "MACs", "MACs of the others", "CPU s"],
    )
    jobs, won = list(product(TASKS, range(1 if quick else 3))), 0
    with ProcessPoolExecutor(PROCESSES, get_context("spawn")) as pool:
        for (name, seed), (comparison, seconds) in zip(jobs, pool.map(timed, jobs), strict=True):
            criterion, larger = TASKS[name]
            ranked = comparison.sorted_others
            figures = [comparison.figure, comparison.median, ranked[0], ranked[-1]]
            costs = [f"{comparison.macs:,}", f"{min(comparison.costs):,} to {max(comparison.costs):,}"]
            measure = f"{criterion}, {'more' if larger else 'less'} is better"
            table.add(name, str(seed), measure, *(f"{figure:.4g}" for figure in figures), *costs, f"{seconds:.0f}")
            print(*table.rows[-1], flush=True)
            won += comparison.is_better
    table.title += f": {won} of {len(jobs)} are better than the median"
    return table


def timed(job: tuple[str, int]) -> tuple[Comparison, float]:
    """Run a comparison, and return it with its processor seconds."""
    torch.set_num_threads(1)
    begin = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        return compare_with_random(*job, Path(folder)), time.process_time() - begin

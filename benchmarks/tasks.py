"""What the searches of `examples/tasks` find, and 20 of each space that are drawn at random and cost no more."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from chance import DRAWN, TASKS, compared
from measure import Table


def run(quick: bool) -> Table:
    table = Table(
        f"What is found, and {DRAWN} of at most its MACs drawn at random, trained and tested alike",
        ["task", "seed", "measure", "found", "median", "best", "worst", "MACs", "MACs of the others", "CPU s"],
    )
    won = 0
    for name, (criterion, larger) in TASKS.items():
        for seed in range(1 if quick else 3):
            begin = time.process_time()
            with tempfile.TemporaryDirectory() as folder:
                one = compared(name, seed, Path(folder))
            figures = [one.figure, one.median, one.ranked[0], one.ranked[-1]]
            costs = [f"{one.macs:,}", f"{min(one.costs):,} to {max(one.costs):,}"]
            measure = f"{criterion}, {'more' if larger else 'less'} is better"
            seconds = f"{time.process_time() - begin:.0f}"
            table.add(name, str(seed), measure, *(f"{figure:.4g}" for figure in figures), *costs, seconds)
            print(table.rows[-1], flush=True)
            won += one.won
    table.title += f": {won} of {len(table.rows)} are better than the median"
    return table

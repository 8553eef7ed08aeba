"""Side-by-side measurements: candidates take turns, so that other load affects all of them, and medians are
compared."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import median

import torch


@dataclass
class Table:
    """A table of figures that is printed as text."""

    title: str
    columns: list[str]
    rows: list[tuple[str, ...]] = field(default_factory=list)

    def add(self, *cells: str) -> None:
        self.rows.append(cells)

    def __str__(self) -> str:
        widths = [max(len(row[i]) for row in [tuple(self.columns), *self.rows]) for i in range(len(self.columns))]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in self.rows
        ]
        head = "  ".join(name.ljust(width) for name, width in zip(self.columns, widths, strict=True)).rstrip()
        return "\n".join([self.title, head, "-" * len(head), *lines])


def medians(
    candidates: Mapping[str, Callable[[], object]],
    rounds: int,
    device: str = "cpu",
    warm: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Return milliseconds per candidate: the median of `rounds` turns, after `warm` turns that do not count.

    `clock` returns seconds: `time.process_time`, with one thread, is hardly affected by other load.
    """
    times: dict[str, list[float]] = {name: [] for name in candidates}
    for turn in range(warm + rounds):
        order = list(candidates.items())
        for name, run in order if turn % 2 else reversed(order):
            if device != "cpu":
                torch.cuda.synchronize()
            begin = clock()
            run()
            if device != "cpu":
                torch.cuda.synchronize()
            if turn >= warm:
                times[name].append(1000 * (clock() - begin))
    return {name: median(samples) for name, samples in times.items()}


def machine(device: str) -> str:
    """Return a line that describes the device and versions of the measurement."""
    name = torch.cuda.get_device_name() if device != "cpu" else f"CPU, {torch.get_num_threads()} threads"
    return f"{name}; torch {torch.__version__}; Python {platform.python_version()}; {platform.machine()}"

"""Timing until the figure is known well enough."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Timed = Callable[[int], float]
"""Runs something so many times in a row; the nanoseconds that took."""


@dataclass(frozen=True)
class Effort:
    """How long to go on: samples last at least `sample` ns, and are taken until the median is known to `precision`.

    The error of the median is estimated as interquartile range / sqrt(samples).
    """

    sample: float = 2e5
    precision: float = 0.01
    least: int = 11
    most: int = 101
    limit: float = 1e9
    """No further samples after so many ns."""


USUAL = Effort()


@dataclass(frozen=True)
class Timing:
    """Nanoseconds of one run: the median, the interquartile range, and of how many samples."""

    median: float
    spread: float
    samples: int


def measure(timed: Timed, effort: Effort = USUAL) -> Timing:
    """Time something. Runs before the first sample double in number until a sample is long enough: the warm-up."""
    calls, spent = 1, timed(1)
    while (last := timed(calls)) < effort.sample and spent < effort.limit:
        calls, spent = 2 * calls, spent + last
    samples: list[float] = []
    while True:
        took = timed(calls)
        samples.append(took / calls)
        spent += took
        if len(samples) < effort.least and spent < effort.limit:
            continue
        low, middle, high = (float(x) for x in np.percentile(samples, [25, 50, 75]))
        known = high - low <= effort.precision * middle * len(samples) ** 0.5
        if known or len(samples) >= effort.most or spent >= effort.limit:
            return Timing(middle, high - low, len(samples))

"""Timing until the figure is known well enough."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

Timed = Callable[[int], float]
"""Runs something so many times in a row; the nanoseconds that took."""

_FEWEST = 3
"""Samples that even the slowest thing gets."""


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


class _Sampler:
    """Takes samples of one thing. Runs before the first double in number until they last long enough: the warm-up."""

    def __init__(self, timed: Timed, effort: Effort) -> None:
        self._timed, self._effort = timed, effort
        self._samples: list[float] = []
        self._calls, self._spent = 1, timed(1)
        while (took := timed(self._calls)) < effort.sample and self._spent < effort.limit:
            self._calls, self._spent = 2 * self._calls, self._spent + took

    def sample(self) -> bool:
        """Take a sample; whether that was the last one."""
        took = self._timed(self._calls)
        self._samples.append(took / self._calls)
        self._spent += took
        count, effort = len(self._samples), self._effort
        if self._spent >= effort.limit or count >= effort.most:
            return count >= _FEWEST
        timing = self.timing()
        return count >= effort.least and timing.spread <= effort.precision * timing.median * count**0.5

    def timing(self) -> Timing:
        """What the samples say."""
        low, middle, high = (float(x) for x in np.percentile(self._samples, [25, 50, 75]))
        return Timing(middle, high - low, len(self._samples))


def measure(timed: Timed, effort: Effort = USUAL) -> Timing:
    """Time one thing."""
    sampler = _Sampler(timed, effort)
    while not sampler.sample():
        pass
    return sampler.timing()


def measure_in_turns(things: Sequence[Timed], effort: Effort = USUAL) -> Iterator[tuple[int, Timing]]:
    """Time several things that take turns, so that a machine is busy for all when it is busy; each when it is known."""
    left = {position: _Sampler(timed, effort) for position, timed in enumerate(things)}
    while left:
        known = [position for position, sampler in left.items() if sampler.sample()]
        for position in known:
            yield position, left.pop(position).timing()

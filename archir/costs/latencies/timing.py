"""Repeated timing until the median is known precisely enough."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

TimedRun = Callable[[int], float]
"""Function that executes something n times in a row and returns the elapsed nanoseconds."""

_MIN_SAMPLES = 3
"""Minimum number of samples, even if each takes very long."""


@dataclass(frozen=True)
class Effort:
    """How long to measure: samples of at least `sample_ns` ns are taken until the median is precise.

    The median is precise once its estimated relative error, interquartile range / sqrt(samples) / median, is at most
    `precision`. At least `min_samples` and at most `max_samples` samples are taken.
    """

    sample_ns: float = 2e5
    precision: float = 0.01
    min_samples: int = 11
    max_samples: int = 101
    max_ns: float = 1e9
    """Nanoseconds of measuring after which no further sample is taken."""


DEFAULT_EFFORT = Effort()


@dataclass(frozen=True)
class Timing:
    """Nanoseconds of one execution: median and interquartile range (`spread`) of `samples` samples."""

    median: float
    spread: float
    samples: int


class _Sampler:
    """Sampler of one function's execution time.

    As a warm-up, the number of executions per sample is doubled until a sample lasts long enough.
    """

    def __init__(self, timed: TimedRun, effort: Effort) -> None:
        self._timed, self._effort = timed, effort
        self._samples: list[float] = []
        self._calls, self._spent = 1, timed(1)
        while (took := timed(self._calls)) < effort.sample_ns and self._spent < effort.max_ns:
            self._calls, self._spent = 2 * self._calls, self._spent + took

    def sample(self) -> bool:
        """Take a sample; return True if no further sample is needed."""
        took = self._timed(self._calls)
        self._samples.append(took / self._calls)
        self._spent += took
        count, effort = len(self._samples), self._effort
        if self._spent >= effort.max_ns or count >= effort.max_samples:
            return count >= _MIN_SAMPLES
        timing = self.timing()
        return count >= effort.min_samples and timing.spread <= effort.precision * timing.median * count**0.5

    def timing(self) -> Timing:
        """Return the statistics of the samples."""
        low, middle, high = (float(x) for x in np.percentile(self._samples, [25, 50, 75]))
        return Timing(middle, high - low, len(self._samples))


def measure(run: TimedRun, effort: Effort = DEFAULT_EFFORT) -> Timing:
    """Measure the execution time of one function."""
    sampler = _Sampler(run, effort)
    while not sampler.sample():
        pass
    return sampler.timing()


def measure_in_turns(runs: Sequence[TimedRun], effort: Effort = DEFAULT_EFFORT) -> Iterator[tuple[int, Timing]]:
    """Measure several functions alternately, so that other load on the machine affects all of them equally.

    Yields the index and timing of each function as soon as its timing is precise enough.
    """
    samplers = {position: _Sampler(run, effort) for position, run in enumerate(runs)}
    while samplers:
        finished = [position for position, sampler in samplers.items() if sampler.sample()]
        for position in finished:
            yield position, samplers.pop(position).timing()

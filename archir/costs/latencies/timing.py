"""Timing of functions in turns, in many short visits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import NDArray

TimedRun = Callable[[int], float]
"""Function that executes something n times in a row and returns the elapsed nanoseconds."""

COUNTED = 0.9
"""Fraction of the samples that count; the slowest ones do not, because another program may have interrupted them."""
_MIN_SAMPLES = 3
"""Minimum number of samples, even if each takes very long."""


@dataclass(frozen=True)
class Effort:
    """How long to measure."""

    visits: int = 30
    """Minimum number of visits over which the samples of a function are spread."""
    max_visits: int = 100
    """Maximum number of visits."""
    precision: float = 0.01
    """Relative standard error to which half of the functions must be known to end before `max_visits`."""
    warm_ns: float = 5e6
    """Nanoseconds that a function runs for in a visit, first without being timed and then again for samples."""
    sample_ns: float = 2e5
    """Minimum duration of a sample in nanoseconds."""
    max_ns: float = 1e10
    """Nanoseconds of measuring after which no further sample is taken, once there are a few."""


DEFAULT_EFFORT = Effort()


@dataclass(frozen=True)
class Timing:
    """Nanoseconds of one execution: mean of the fastest COUNTED of all samples, interquartile range of all (`spread`),
    their number, and the standard error of the mean in comparison with the functions that were measured in turns."""

    mean: float
    spread: float
    samples: int
    error: float = 0.0


class _Sampler:
    """Samples of one function's execution time."""

    def __init__(self, timed: TimedRun, effort: Effort) -> None:
        self._timed, self._effort = timed, effort
        self._samples: list[float] = []
        self.means: list[float] = []
        """Mean of the samples of each visit."""
        self._calls, self._spent = 0, 0.0

    def visit(self) -> None:
        """Warm up and take samples, unless there is no time left. In the first visit, the number of executions per
        sample is doubled until a sample lasts long enough."""
        if self._is_spent:
            return
        if not self._calls:
            self._calls = 1
            self._run(1)
            while self._run(self._calls) < self._effort.sample_ns and self._spent < self._effort.max_ns:
                self._calls *= 2
        warmed = 0.0
        while warmed < self._effort.warm_ns and self._spent < self._effort.max_ns:
            warmed += self._run(self._calls)
        first, sampled = len(self._samples), 0.0
        while len(self._samples) == first or (sampled < self._effort.warm_ns and not self._is_spent):
            took = self._run(self._calls)
            self._samples.append(took / self._calls)
            sampled += took
        self.means.append(float(np.mean(self._samples[first:])))

    def _run(self, calls: int) -> float:
        took = self._timed(calls)
        self._spent += took
        return took

    @property
    def _is_spent(self) -> bool:
        """True if there is no time left."""
        return self._spent >= self._effort.max_ns and len(self._samples) >= _MIN_SAMPLES

    def timing(self, relative_error: float) -> Timing:
        """Return the statistics of the samples."""
        samples = np.sort(self._samples)
        low, high = (float(x) for x in np.percentile(samples, [25, 75]))
        mean = float(samples[: ceil(COUNTED * len(samples))].mean())
        return Timing(mean, high - low, len(samples), mean * relative_error)


def _relative_errors(samplers: Sequence[_Sampler]) -> NDArray[np.float64]:
    """Return the standard error of each function's mean, relative to it.

    The samples of a visit resemble each other, so each visit counts once. Of its deviations, those that the other
    functions of the round share are no error, because functions are only compared with each other; unless the others
    deviate more than the function itself.
    """
    deviations = np.zeros((len(samplers), max(len(sampler.means) for sampler in samplers)))
    visited = np.zeros_like(deviations)
    for row, sampler in enumerate(samplers):
        means = np.array(sampler.means)
        deviations[row, : len(means)] = means / (means.mean() or 1.0) - 1
        visited[row, : len(means)] = 1
    others = np.maximum(visited.sum(0) - 1, 1)
    own = visited * (deviations - (deviations.sum(0) - deviations) / others)
    visits = visited.sum(1)
    squares = np.minimum((deviations**2).sum(1), (own**2).sum(1))
    errors: NDArray[np.float64] = np.sqrt(squares / np.maximum(visits - 1, 1) / visits)
    return errors


def measure_in_visits(timers: Sequence[TimedRun], effort: Effort = DEFAULT_EFFORT) -> Iterator[Timing | None]:
    """Measure several functions, each by itself and warm, in many short visits.

    In a visit, one function runs on its own, first without being timed, so that caches hold its data as in a process
    that runs nothing else. Each function is visited once in a round, and each round has a random order, so that a
    period in which something else slows the machine down affects all functions alike. For the same reason, the number
    of rounds depends on the errors of all functions; only a function whose time (`max_ns`) is spent is left out. Yields
    None after each visit, and then the timings of the functions in their order.
    """
    samplers = [_Sampler(timed, effort) for timed in timers]
    rng = np.random.default_rng(0)
    for visit in range(effort.max_visits):
        if visit >= effort.visits and np.median(_relative_errors(samplers)) <= effort.precision:
            break
        for position in rng.permutation(len(samplers)).tolist():
            samplers[position].visit()
            yield None
    for sampler, error in zip(samplers, _relative_errors(samplers).tolist(), strict=True):
        yield sampler.timing(error)

"""Repeated timing until the mean is known precisely enough."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np

TimedRun = Callable[[int], float]
"""Function that executes something n times in a row and returns the elapsed nanoseconds."""

VISITS = 10
"""Default minimum number of visits over which the samples of a function are spread."""
COUNTED = 0.9
"""Fraction of the samples that count; the slowest ones do not, because another program may have interrupted them."""
_MIN_SAMPLES = 3
"""Minimum number of samples, even if each takes very long."""


@dataclass(frozen=True)
class Effort:
    """How long to measure: samples of at least `sample_ns` ns are taken until the mean is precise.

    The mean is precise once its estimated relative standard error is at most `precision`. At least `min_samples`
    samples are taken, unless `max_ns` ends it first, and at most `max_samples` in one visit.
    """

    sample_ns: float = 2e5
    precision: float = 0.01
    min_samples: int = 11
    max_samples: int = 101
    max_ns: float = 1e10
    """Nanoseconds of measuring after which no further sample is taken, once there are a few."""
    warm_ns: float = 5e6
    """Nanoseconds that a function runs for in a visit, first without being timed and then again for samples."""
    visits: int = VISITS
    """Minimum number of visits, if there are several functions."""


DEFAULT_EFFORT = Effort()


@dataclass(frozen=True)
class Timing:
    """Nanoseconds of one execution: mean of the fastest COUNTED of all samples, interquartile range of all (`spread`),
    their number, and the standard error of the mean."""

    mean: float
    spread: float
    samples: int
    error: float = 0.0


class _Sampler:
    """Samples of one function's execution time."""

    def __init__(self, effort: Effort) -> None:
        self._effort = effort
        self._visits: list[list[float]] = []
        self._means: list[float] = []  # of all visits but the last
        self._calls, self._spent = 0, 0.0

    def begin_visit(self, timed: TimedRun) -> None:
        """Warm up. In the first visit, the number of executions per sample is doubled until a sample lasts long
        enough."""
        if not self._calls:
            self._calls, self._spent = 1, timed(1)
            while (took := timed(self._calls)) < self._effort.sample_ns and self._spent < self._effort.max_ns:
                self._calls, self._spent = 2 * self._calls, self._spent + took
        warmed = 0.0
        while warmed < self._effort.warm_ns and self._spent < self._effort.max_ns:
            took = timed(self._calls)
            warmed, self._spent = warmed + took, self._spent + took
        if self._visits:
            self._means.append(float(np.mean(self._visits[-1])))
        self._visits.append([])

    def sample(self, timed: TimedRun) -> float:
        """Take a sample; return the nanoseconds that it lasted."""
        took = timed(self._calls)
        self._visits[-1].append(took / self._calls)
        self._spent += took
        return took

    @property
    def is_spent(self) -> bool:
        """True if there is no time left."""
        return self._spent >= self._effort.max_ns and sum(map(len, self._visits)) >= _MIN_SAMPLES

    @property
    def is_precise(self) -> bool:
        """True if the mean is known precisely enough."""
        enough = sum(map(len, self._visits)) >= self._effort.min_samples
        return enough and self._relative_error() <= self._effort.precision

    def _relative_error(self) -> float:
        """Return the relative standard error of the mean. Samples of one visit resemble each other, so that only
        visits count as independent if there are several."""
        last = self._visits[-1]
        values = np.array([*self._means, np.mean(last)] if self._means else last)
        return float(values.std(ddof=1) / len(values) ** 0.5 / values.mean()) if values.any() else 0.0

    def timing(self) -> Timing:
        """Return the statistics of the samples."""
        samples = np.sort(np.concatenate(self._visits))
        low, high = (float(x) for x in np.percentile(samples, [25, 75]))
        mean = float(samples[: ceil(COUNTED * len(samples))].mean())
        return Timing(mean, high - low, len(samples), mean * self._relative_error())


def measure(run: TimedRun, effort: Effort = DEFAULT_EFFORT) -> Timing:
    """Measure the execution time of one function, warm."""
    sampler = _Sampler(effort)
    sampler.begin_visit(run)
    for _ in range(effort.max_samples):
        sampler.sample(run)
        if sampler.is_spent or sampler.is_precise:
            break
    return sampler.timing()


def measure_in_visits(
    timers: Sequence[TimedRun], effort: Effort = DEFAULT_EFFORT
) -> Iterator[tuple[int, Timing | None]]:
    """Measure several functions, each by itself and warm, in many short visits.

    In a visit, one function runs on its own, first without being timed, so that caches hold its data as in a process
    that runs nothing else. The visits of a function are spread over the whole time, and each round of visits has a
    random order, so that a period in which something else slows the machine down affects all functions alike. A
    function is visited until its mean is precise, at least `visits` times, and not again once its time (`max_ns`) is
    spent. Yields the index of a function after each of its first visits, with None, and after its last visit, with its
    timing.
    """
    samplers = {position: _Sampler(effort) for position in range(len(timers))}
    rng = np.random.default_rng(0)
    visit = 0
    while samplers:
        visit += 1
        for position in rng.permutation([*samplers]).tolist():
            timer, sampler = timers[position], samplers[position]
            sampler.begin_visit(timer)
            sampled = sampler.sample(timer)
            while sampled < effort.warm_ns and not sampler.is_spent:
                sampled += sampler.sample(timer)
            if sampler.is_spent or (visit >= effort.visits and sampler.is_precise):
                yield position, samplers.pop(position).timing()
            elif visit < effort.visits:
                yield position, None

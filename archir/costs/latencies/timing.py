"""Repeated timing until the median is known precisely enough."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

TimedRun = Callable[[int], float]
"""Function that executes something n times in a row and returns the elapsed nanoseconds."""

VISITS, MAX_VISITS = 3, 10
"""Minimum and maximum number of visits over which the samples of a function are spread."""
MAX_RESIDENT = 20
"""Maximum number of functions that are kept between visits; if there are more, each visit sets its function up anew."""
MAX_DELAY = 0.1
"""A sample that took longer than the fastest one by more than this fraction was disturbed and does not count."""
_MIN_SAMPLES = 3
"""Minimum number of samples, disturbed ones included, even if each takes very long."""


@dataclass(frozen=True)
class Effort:
    """How long to measure: samples of at least `sample_ns` ns are taken until the median is precise.

    The median is precise once its estimated relative error, interquartile range / sqrt(samples) / median, is at most
    `precision`. At least `min_samples` undisturbed samples are taken, unless `max_ns` or `max_samples` ends it first.
    """

    sample_ns: float = 2e5
    precision: float = 0.01
    min_samples: int = 11
    max_samples: int = 101
    max_ns: float = 2e9
    """Nanoseconds of measuring after which no further sample is taken, once there are a few."""
    warm_ns: float = 2e7
    """Nanoseconds that a function runs for without being timed before the samples of a visit."""


DEFAULT_EFFORT = Effort()


@dataclass(frozen=True)
class Timing:
    """Nanoseconds of one execution: median and interquartile range (`spread`) of `samples` undisturbed samples."""

    median: float
    spread: float
    samples: int


class _Sampler:
    """Samples of one function's execution time."""

    def __init__(self, effort: Effort) -> None:
        self._effort = effort
        self._visits: list[list[float]] = []
        self._calls, self._spent = 0, 0.0

    def visit(self, timed: TimedRun, most: int) -> None:
        """Warm up, then take at most `most` samples, until the median is precise.

        In the first visit, the number of executions per sample is doubled until a sample lasts long enough.
        """
        if not self._calls:
            self._calls, self._spent = 1, timed(1)
            while (took := timed(self._calls)) < self._effort.sample_ns and self._spent < self._effort.max_ns:
                self._calls, self._spent = 2 * self._calls, self._spent + took
        warmed = 0.0
        while warmed < self._effort.warm_ns and self._spent < self._effort.max_ns:
            took = timed(self._calls)
            warmed, self._spent = warmed + took, self._spent + took
        self._visits.append([])
        for _ in range(most):
            took = timed(self._calls)
            self._visits[-1].append(took / self._calls)
            self._spent += took
            if self.is_done:
                break

    @property
    def undisturbed(self) -> list[list[float]]:
        """The undisturbed samples of each visit that has any."""
        longest = (1 + MAX_DELAY) * min(map(min, self._visits))
        undisturbed = ([sample for sample in visit if sample <= longest] for visit in self._visits)
        return [visit for visit in undisturbed if visit]

    @property
    def is_spent(self) -> bool:
        """True if there is no time left."""
        return self._spent >= self._effort.max_ns

    @property
    def is_done(self) -> bool:
        """True if no further sample is needed."""
        timing, effort, taken = self.timing(), self._effort, sum(map(len, self._visits))
        if self.is_spent or taken >= effort.max_samples:
            return taken >= _MIN_SAMPLES
        if timing.samples < effort.min_samples:
            return False
        return bool(timing.spread <= effort.precision * timing.median * timing.samples**0.5)

    def timing(self) -> Timing:
        """Return the statistics of the undisturbed samples."""
        samples = np.concatenate(self.undisturbed)
        low, middle, high = (float(x) for x in np.percentile(samples, [25, 50, 75]))
        return Timing(middle, high - low, len(samples))


def measure(run: TimedRun, effort: Effort = DEFAULT_EFFORT) -> Timing:
    """Measure the execution time of one function, warm."""
    sampler = _Sampler(effort)
    sampler.visit(run, effort.max_samples)
    return sampler.timing()


def measure_in_visits(
    factories: Sequence[Callable[[], TimedRun]], effort: Effort = DEFAULT_EFFORT
) -> Iterator[tuple[int, Timing | None]]:
    """Measure several functions, each by itself and warm, in several visits. `factories` set the functions up.

    In a visit, one function runs on its own, first without being timed, so that caches hold its data as in a process
    that runs nothing else. The visits of a function are spread over the whole time. Samples taken while something else
    slowed the machine down do not count. A function is visited until its median is precise and VISITS of its visits
    have samples that count, but at most MAX_VISITS times, and not again once its time (`max_ns`) is spent. Yields the
    index of a function after each of its first visits, with None, and after its last visit, with its timing.
    """
    samplers = {position: _Sampler(effort) for position in range(len(factories))}
    kept = [factory() for factory in factories] if len(factories) <= MAX_RESIDENT else None
    share = -(-effort.min_samples // VISITS)
    for visit in range(1, MAX_VISITS + 1):
        for position, sampler in [*samplers.items()]:
            timed = factories[position]() if kept is None else kept[position]
            sampler.visit(timed, share if visit < VISITS else effort.min_samples)
            visited = sampler.is_spent or len(sampler.undisturbed) >= min(VISITS, visit)
            if visit == MAX_VISITS or (sampler.is_done and visited):
                yield position, samplers.pop(position).timing()
            elif visit < VISITS:
                yield position, None

"""Measured latency, throughput and memory of networks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from archir.utils.frames import Tabular
from archir.utils.student import t_quantile

PERCENTILES = (50, 95, 99)
"""Latency percentiles that are reported."""
TOLERANCE = 0.05
"""Part of the shortest median by which a median may be longer with fewer threads, which are then recommended."""
NOISE_THRESHOLD = 0.2
"""Interquartile range, relative to the median, above which a latency is reported as noisy."""
MIN_OUTSIDE = 1
"""Minimum number of runs of a round that a percentile leaves out, for an interval of this percentile."""


@dataclass(frozen=True)
class Subject:
    """What is measured: a network on a target (key of `archir.backends.speed.subjects.TARGETS`) with a batch size and
    a number of CPU threads."""

    name: str
    on: str
    batch: int
    threads: int

    def __str__(self) -> str:
        return f"`{self.name}` on {self.on}, batch {self.batch}, {count_threads(self.threads)}"


def count_threads(threads: int) -> str:
    """Return a number of threads for a message, such as `2 threads`."""
    return f"{threads} thread{'s' * (threads > 1)}"


@dataclass(frozen=True)
class Latency:
    """Durations of single runs in nanoseconds, in the rounds in which they were measured."""

    rounds: tuple[NDArray[np.int64], ...]

    @staticmethod
    def of(*rounds: Sequence[int]) -> Latency:
        """Create a latency from the durations of each round in nanoseconds."""
        return Latency(tuple(np.array(times, np.int64) for times in rounds))

    @cached_property
    def times(self) -> NDArray[np.int64]:
        """Durations of all runs in nanoseconds."""
        return np.concatenate(self.rounds)

    def percentile(self, percent: float) -> float:
        """Return a percentile of the durations in nanoseconds, interpolated linearly."""
        return float(np.percentile(self.times, percent))

    def margin(self, percent: float) -> float | None:
        """Return half the width of the 95% interval of a percentile in nanoseconds.

        The interval is that of the mean over the rounds (Student's t), because runs of one round resemble each other.
        None if there are fewer than three rounds, or too few runs in a round to tell the percentile.
        """
        count = len(self.rounds)
        if count < 3 or min(map(len, self.rounds)) * (1 - percent / 100) < MIN_OUTSIDE:
            return None
        each = [float(np.percentile(times, percent)) for times in self.rounds]
        return t_quantile(0.95, count - 1) * float(np.std(each, ddof=1)) / sqrt(count)

    @property
    def mean(self) -> float:
        """Mean duration in nanoseconds."""
        return float(self.times.mean())

    @property
    def least(self) -> int:
        """Duration of the fastest run in nanoseconds."""
        return int(self.times.min())

    @property
    def spread(self) -> float:
        """Interquartile range in nanoseconds."""
        return self.percentile(75) - self.percentile(25)

    @property
    def is_noisy(self) -> bool:
        """True if the durations vary so much that the machine may be busy."""
        return self.spread > NOISE_THRESHOLD * self.percentile(50)


@dataclass(frozen=True)
class Speed:
    """Measurements for one subject."""

    subject: Subject
    latency: Latency
    memory: int | None
    """Peak memory in bytes. On a CPU: in excess of the process's memory before loading the network. On a GPU: device
    memory. None if unknown."""
    first: int
    """Duration of the first run in nanoseconds; it includes compilation and is not part of `latency`."""

    @property
    def throughput(self) -> float:
        """Throughput in samples per second."""
        return self.subject.batch * 1e9 / self.latency.mean

    def as_json(self) -> dict[str, Any]:
        """Return the measurements as JSON data, in nanoseconds, bytes, and samples per second."""
        latency = self.latency
        percentiles: dict[str, float | None] = {f"p{percent}": latency.percentile(percent) for percent in PERCENTILES}
        percentiles |= {f"p{percent} margin": latency.margin(percent) for percent in PERCENTILES}
        percentiles |= {"mean": latency.mean, "min": latency.least, "iqr": latency.spread}
        return {
            "network": self.subject.name, "on": self.subject.on, "batch": self.subject.batch,
            "threads": self.subject.threads,
            "latency": percentiles, "runs": len(latency.times), "throughput": self.throughput, "memory": self.memory,
            "first": self.first,
        }  # fmt: skip


@dataclass(frozen=True)
class LeftOut:
    """Subject that was not measured, with the reason."""

    subject: Subject
    reason: str


@dataclass(frozen=True)
class Speeds(Tabular):
    """All measurements, in the requested order, with a description of the machine."""

    measurements: tuple[Speed, ...]
    left_out: tuple[LeftOut, ...]
    machine: Mapping[str, str]

    def __repr__(self) -> str:
        left_out = f", {len(self.left_out):,} left out" if self.left_out else ""
        return f"<Speeds: {len(self.measurements):,} measured{left_out}>"

    @property
    def recommended_threads(self) -> dict[tuple[str, str, int], Speed]:
        """The fewest threads with almost the shortest median, for each network, target and batch size.

        Left out is what was measured with one number of threads.
        """
        groups: dict[tuple[str, str, int], list[Speed]] = {}
        for speed in self.measurements:
            groups.setdefault((speed.subject.name, speed.subject.on, speed.subject.batch), []).append(speed)
        result = {}
        for key, speeds in groups.items():
            if len(speeds) > 1:
                enough = (1 + TOLERANCE) * min(speed.latency.percentile(50) for speed in speeds)
                fast = [speed for speed in speeds if speed.latency.percentile(50) <= enough]
                result[key] = min(fast, key=lambda speed: speed.subject.threads)
        return result

    def columns(self) -> dict[str, list[Any]]:
        """Return the measurements as columns, in nanoseconds, bytes, and samples per second."""
        rows = [speed.as_json() for speed in self.measurements]
        rows = [{**row, **{f"latency.{name}": time for name, time in row.pop("latency").items()}} for row in rows]
        return {name: [row[name] for row in rows] for name in (rows[0] if rows else ())}

    def as_json(self) -> dict[str, Any]:
        """Return the JSON data that `archir bench --json` prints."""
        return {
            "machine": dict(self.machine),
            "measured": [item.as_json() for item in self.measurements],
            "left_out": [
                {
                    "network": item.subject.name,
                    "on": item.subject.on,
                    "batch": item.subject.batch,
                    "threads": item.subject.threads,
                    "reason": item.reason,
                }
                for item in self.left_out
            ],
        }

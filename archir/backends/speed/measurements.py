"""Measured latency, throughput and memory of networks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from archir.utils.frames import Tabular

PERCENTILES = (50, 90, 99)
"""Latency percentiles that are reported."""


@dataclass(frozen=True)
class Subject:
    """What is measured: a network on a target (key of `archir.backends.speed.subjects.TARGETS`) with a batch size."""

    name: str
    on: str
    batch: int

    def __str__(self) -> str:
        return f"`{self.name}` on {self.on}, batch {self.batch}"


@dataclass(frozen=True)
class Latency:
    """Durations of single runs in nanoseconds."""

    times: NDArray[np.int64]

    @staticmethod
    def of(times: Sequence[int]) -> Latency:
        """Create a latency from durations in nanoseconds."""
        return Latency(np.array(times, np.int64))

    def percentile(self, percent: float) -> float:
        """Return a percentile of the durations in nanoseconds, interpolated linearly."""
        return float(np.percentile(self.times, percent))

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


@dataclass(frozen=True)
class Speed:
    """Measurements for one subject."""

    subject: Subject
    threads: int
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
        percentiles = {f"p{percent}": latency.percentile(percent) for percent in PERCENTILES}
        percentiles |= {"mean": latency.mean, "min": latency.least, "iqr": latency.spread}
        return {
            "network": self.subject.name, "on": self.subject.on, "batch": self.subject.batch, "threads": self.threads,
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
                    "reason": item.reason,
                }
                for item in self.left_out
            ],
        }

"""What was found of subjects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from archir.utils.frames import Framed

PERCENTILES = (50, 90, 99)


@dataclass(frozen=True)
class Subject:
    """A network on something (a key of `archir.backends.speed.subjects.ON`), so many samples at once."""

    name: str
    on: str
    batch: int

    def __str__(self) -> str:
        return f"`{self.name}` on {self.on}, batch {self.batch}"


@dataclass(frozen=True)
class Latency:
    """Nanoseconds of single runs."""

    times: NDArray[np.int64]

    @staticmethod
    def of(times: Sequence[int]) -> Latency:
        """From a list."""
        return Latency(np.array(times, np.int64))

    def percentile(self, percent: float) -> float:
        """The time that so many percent of the runs kept within, linear between two of them."""
        return float(np.percentile(self.times, percent))

    @property
    def mean(self) -> float:
        """The mean of all runs."""
        return float(self.times.mean())

    @property
    def least(self) -> int:
        """The fastest run."""
        return int(self.times.min())

    @property
    def spread(self) -> float:
        """The interquartile range."""
        return self.percentile(75) - self.percentile(25)


@dataclass(frozen=True)
class Speed:
    """What was measured of a subject."""

    subject: Subject
    threads: int
    latency: Latency
    memory: int | None
    """Bytes at the peak, over those of the process before it had the network; of a GPU, where that can be known."""
    first: int
    """Nanoseconds of the first run, which is no part of the others: what is compiled is compiled then."""

    @property
    def throughput(self) -> float:
        """Samples a second."""
        return self.subject.batch * 1e9 / self.latency.mean

    def as_json(self) -> dict[str, Any]:
        """Nanoseconds, bytes, and samples a second."""
        latency = self.latency
        found = {f"p{percent}": latency.percentile(percent) for percent in PERCENTILES}
        found |= {"mean": latency.mean, "min": latency.least, "iqr": latency.spread}
        return {
            "network": self.subject.name, "on": self.subject.on, "batch": self.subject.batch, "threads": self.threads,
            "latency": found, "runs": len(latency.times), "throughput": self.throughput, "memory": self.memory,
            "first": self.first,
        }  # fmt: skip


@dataclass(frozen=True)
class LeftOut:
    """A subject that could not be measured, and why."""

    subject: Subject
    reason: str


@dataclass(frozen=True)
class Speeds(Framed):
    """All that was measured, in the order in which it was asked for, and on what machine."""

    found: tuple[Speed, ...]
    left_out: tuple[LeftOut, ...]
    machine: Mapping[str, str]

    def __repr__(self) -> str:
        left_out = f", {len(self.left_out):,} left out" if self.left_out else ""
        return f"<Speeds: {len(self.found):,} measured{left_out}>"

    def columns(self) -> dict[str, list[Any]]:
        """What was measured, in nanoseconds, bytes and samples a second."""
        rows = [one.as_json() for one in self.found]
        rows = [{**row, **{f"latency.{name}": time for name, time in row.pop("latency").items()}} for row in rows]
        return {name: [row[name] for row in rows] for name in (rows[0] if rows else ())}

    def as_json(self) -> dict[str, Any]:
        """As `archir bench --json` prints it."""
        return {
            "machine": dict(self.machine),
            "measured": [one.as_json() for one in self.found],
            "left_out": [
                {"network": one.subject.name, "on": one.subject.on, "batch": one.subject.batch, "reason": one.reason}
                for one in self.left_out
            ],
        }

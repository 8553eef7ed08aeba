"""Tables of latencies: what each operation of a space takes on a device, from which any architecture's is added up.

A table is a JSON file. All times are nanoseconds for a whole batch:

    {"schema_version": 1, "device": "cpu", "batch": 1, "threads": 1, "machine": {"processor": "...", "torch": "..."},
     "overhead": {"median": 1500.0, "spread": 10.0, "samples": 11}, "correction": null,
     "entries": {"relu(f32[8])": {"median": 2100.0, "spread": 20.0, "samples": 11}}}

`overhead` is what a call takes before it computes anything; entries are without it. The correction, made by
calibration, maps the sum of a network's times to what its run takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from archir.costs.latencies.workloads import parts, steps, workloads
from archir.diagnostics.errors import fail, listed
from archir.ir.graph import Graph
from archir.ir.op import Op
from archir.ir.types import TensorType
from archir.utils.files import write_atomic
from archir.utils.frames import Framed

Device = Literal["cpu", "cuda", "onnxruntime-cpu", "onnxruntime-cuda"]

MOST_BYTES = 2**28
_MOST = 10**15
"""Nanoseconds of one entry (11 days): sums of very many of them still fit in 64 bits."""

Nanoseconds = Annotated[float, Field(ge=0, le=_MOST)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class Entry(_Part):
    """Nanoseconds: the median, and the interquartile range of so many samples."""

    median: Nanoseconds
    spread: Nanoseconds
    samples: int = Field(ge=1)


class Correction(_Part):
    """What a network takes, as `scale * sum + offset` nanoseconds; both are at least 0, fitted to so many networks."""

    scale: float = Field(gt=0, le=10**6)
    offset: Nanoseconds
    networks: int = Field(ge=2)


class LatencyTable(_Part, Framed):
    """What operations take on one device at one batch size, by the keys of their workloads."""

    schema_version: Literal[1]
    device: Device
    batch: int = Field(ge=1, le=2**20)
    threads: int = Field(ge=1, le=2**16)
    machine: dict[str, str]
    overhead: Entry
    correction: Correction | None = None
    entries: dict[str, Entry] = Field(default_factory=dict)

    def __repr__(self) -> str:
        on = f"{self.device}, batch {self.batch:,}, {self.threads:,} thread{'s' * (self.threads > 1)}"
        return f"<LatencyTable of {len(self.entries):,} operations: {on}>"

    def columns(self) -> dict[str, list[Any]]:
        """The operations, and nanoseconds of each."""
        found: dict[str, list[Any]] = {"operation": list(self.entries)}
        return found | {name: [getattr(one, name) for one in self.entries.values()] for name in Entry.model_fields}

    def write(self, path: str | Path) -> None:
        """Write the file: whole, or not at all."""
        write_atomic(Path(path), (self.model_dump_json(indent=1) + "\n").encode())

    def need(self, keys: Iterable[str]) -> None:
        """Raise ArchError (A1502), which names them, if operations are missing."""
        missing = sorted(set(keys) - self.entries.keys())
        if missing:
            hint = "measure what is missing: archir bench --table TABLE.json FILE --resume"
            raise fail("A1502", f"the latency table lacks {listed(missing, 3)}", None, hint)

    def covers(self, graph: Graph) -> None:
        """Raise ArchError (A1502) unless the table knows every architecture of a space."""
        self.need(workloads(graph))

    def of(self, op: Op, types: Iterable[TensorType]) -> float:
        """Measured nanoseconds of an operation on operands of these types. Raises ArchError (A1502)."""
        keys = [one.key for one in parts(op, tuple(types))]
        self.need(keys)
        return sum(self.entries[key].median for key in keys)

    def total(self, graph: Graph) -> float:
        """The sum over a network without choices, with the overhead of the call, not corrected."""
        keys = [one.key for one in steps(graph)]
        self.need(keys)
        return self.overhead.median + sum(self.entries[key].median for key in keys)

    @property
    def base(self) -> int:
        """Nanoseconds of a network before its first operation, corrected."""
        scale, offset = self._line
        return round(scale * self.overhead.median + offset)

    def estimate(self, graph: Graph) -> int:
        """Nanoseconds of a network without choices, corrected: `base`, and `latency_rule` summed over its nodes.

        Raises ArchError (A1502) that names the operations that are missing.
        """
        rule, todo = latency_rule(self), list(steps(graph))
        self.need(one.key for one in todo)
        return self.base + sum(rule(one.op, *one.types) for one in todo)

    @property
    def _line(self) -> tuple[float, float]:
        return (self.correction.scale, self.correction.offset) if self.correction else (1.0, 0.0)


def latency_rule(table: LatencyTable) -> Callable[..., int]:
    """A function of an operation and its operands' types: nanoseconds, corrected, rounded per operation that is run."""
    scale, _ = table._line
    known = {key: round(scale * entry.median) for key, entry in table.entries.items()}

    def rule(op: Op, *types: TensorType) -> int:
        keys = [one.key for one in parts(op, types)]
        table.need(keys)
        return sum(known[key] for key in keys)

    return rule

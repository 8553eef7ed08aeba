"""Latency table: the measured time of each operation of a space on a device.

A network's latency is a sum of entries. The table is a JSON file; all times are nanoseconds for a whole batch:

    {"schema_version": 1, "device": "cpu", "batch": 1, "threads": 1, "machine": {"processor": "...", "torch": "..."},
     "overhead": {"mean": 1500.0, "spread": 10.0, "samples": 11}, "correction": null,
     "entries": {"relu(f32[8])": {"mean": 2100.0, "spread": 20.0, "samples": 11}}}

`overhead` is the time that a call takes before it computes anything; it is subtracted from the entries. `correction`,
which calibration fits, maps the sum of a network's entries to the measured time of the whole network.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from archir.costs.latencies.workloads import expand_op, network_workloads, space_workloads
from archir.costs.symbolic import Rule
from archir.diagnostics.errors import fail, join_names
from archir.ir.graph import Graph
from archir.ir.op import Op
from archir.ir.types import TensorType
from archir.utils.files import write_atomic
from archir.utils.frames import Tabular

Device = Literal["cpu", "cuda", "onnxruntime-cpu", "onnxruntime-cuda"]
"""Devices that a table can be measured on."""

MAX_NANOSECONDS = 10**15
"""Maximum number of nanoseconds in one entry (11 days), so that sums of very many entries fit in 64 bits."""

Nanoseconds = Annotated[float, Field(ge=0, le=MAX_NANOSECONDS)]


class StrictModel(BaseModel):
    """Base of latency files and their parts: unknown fields, type conversions and infinite numbers are errors."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class Entry(StrictModel):
    """Latency of one operation in nanoseconds: mean and interquartile range (`spread`) of `samples` samples."""

    mean: Nanoseconds
    spread: Nanoseconds
    samples: int = Field(ge=1)


class Correction(StrictModel):
    """Affine correction: a network takes `scale * sum + offset` nanoseconds, where scale and offset are at least 0.

    `networks` is the number of measured networks that the line was fitted to.
    """

    scale: float = Field(gt=0, le=10**6)
    offset: Nanoseconds
    networks: int = Field(ge=2)


class Conditions(StrictModel):
    """What latencies depend on besides the network: the device, the batch size, the number of threads, and the machine.

    `machine` names the processor, the clock and the versions of the software.
    """

    device: Device
    batch: int = Field(ge=1, le=2**20)
    threads: int = Field(ge=1, le=2**16)
    machine: dict[str, str]
    simplified: bool = False
    """Whether networks are simplified before they run (see `execution_conditions`), as ONNX models are."""

    def differences(self, other: Conditions) -> list[str]:
        """Return in what others differ from these conditions, for a message: `threads 1, here 2`."""
        ours, theirs = (
            {"device": side.device, "batch": str(side.batch), "threads": str(side.threads), **side.machine}
            for side in (self, other)
        )
        return [
            f"{name} {ours.get(name, '-')}, here {theirs.get(name, '-')}"
            for name in dict.fromkeys([*ours, *theirs])
            if ours.get(name) != theirs.get(name)
        ]


class LatencyPredictor(StrictModel, ABC):
    """Latencies of operations by the keys of their workloads, whose sum predicts the latency of a network."""

    HOW_TO_ADD: ClassVar[str]
    """Hint that says how to get the latencies of more operations."""

    def write(self, path: str | Path) -> None:
        """Write the JSON file atomically."""
        write_atomic(Path(path), (self.model_dump_json(indent=1) + "\n").encode())

    @property
    @abstractmethod
    def latencies(self) -> Mapping[str, int]:
        """Nanoseconds that each operation adds to a network, by key."""

    @property
    @abstractmethod
    def base(self) -> int:
        """Nanoseconds that a network takes in addition to the time of its operations."""

    @property
    @abstractmethod
    def measures_simplified(self) -> bool:
        """Whether the measured networks were simplified before they ran."""

    def rule(self) -> Rule:
        """Return the cost rule of the predicted latency in nanoseconds."""
        latencies = self.latencies

        def op_cost(op: Op, *types: TensorType) -> int:
            keys = [workload.key for workload in expand_op(op, types)]
            if not latencies.keys() >= {*keys}:
                self.check_keys(keys)
            return sum(latencies[key] for key in keys)

        return Rule(op_cost, self.base, simplified=self.measures_simplified)

    def estimate(self, graph: Graph) -> int:
        """Return the predicted latency in nanoseconds of a network without choices.

        The latency is `base` plus the `latencies` of its operations. Raises ArchError (A1502) if some are missing; the
        error names them.
        """
        latencies, keys = self.latencies, self._keys(graph)
        return self.base + sum(latencies[key] for key in keys)

    def _keys(self, graph: Graph) -> list[str]:
        """Return the keys of the operations that a network executes. Raises ArchError (A1502)."""
        keys = [workload.key for workload in network_workloads(graph, self.measures_simplified)]
        self.check_keys(keys)
        return keys

    def anchors_of(self, specialize: Callable[[Mapping[str, Any]], Graph]) -> list[tuple[Graph, float]]:
        """Return a few networks that were measured for the predictions, and their nanoseconds then.

        `specialize` returns the network of an architecture of the space. Tables have no such networks.
        """
        return []

    def check_keys(self, keys: Iterable[str]) -> None:
        """Raise ArchError (A1502) if some of these operations are missing; the error names them."""
        if missing := sorted(set(keys) - self.latencies.keys()):
            what = type(self).__name__.removeprefix("Latency").lower()
            raise fail("A1502", f"the latency {what} lacks {join_names(missing, 3)}", None, self.HOW_TO_ADD)

    def check_covers(self, graph: Graph) -> None:
        """Raise ArchError (A1502) unless there is a latency of every operation that a space's networks execute."""
        self.check_keys(space_workloads(graph, self.measures_simplified))


class LatencyTable(LatencyPredictor, Conditions, Tabular):
    """Measured latencies of operations on one device at one batch size, by the keys of their workloads.

    Examples:
        >>> table = archir.measure_operations(space, "cpu.json", threads=1)
        >>> table.estimate(network) > 0  # nanoseconds
        True
    """

    HOW_TO_ADD = "measure what is missing: archir latency table FILE -o TABLE.json --resume"

    schema_version: Literal[1]
    overhead: Entry
    correction: Correction | None = None
    entries: dict[str, Entry] = Field(default_factory=dict)

    def __repr__(self) -> str:
        on = f"{self.device}, batch {self.batch:,}, {self.threads:,} thread{'s' * (self.threads > 1)}"
        return f"<LatencyTable of {len(self.entries):,} operations: {on}>"

    def columns(self) -> dict[str, list[Any]]:
        """Return the operations and their latencies in nanoseconds, as columns."""
        names: dict[str, list[Any]] = {"operation": list(self.entries)}
        return names | {name: [getattr(entry, name) for entry in self.entries.values()] for name in Entry.model_fields}

    @property
    def latencies(self) -> Mapping[str, int]:
        """Corrected nanoseconds of each operation, by key."""
        scale, _ = self._line
        return {key: round(scale * entry.mean) for key, entry in self.entries.items()}

    @property
    def base(self) -> int:
        """Corrected nanoseconds that a network takes in addition to the time of its operations."""
        scale, offset = self._line
        return round(scale * self.overhead.mean + offset)

    @property
    def measures_simplified(self) -> bool:
        """Whether the measured networks were simplified before they ran."""
        return self.simplified

    @property
    def _line(self) -> tuple[float, float]:
        """Scale and offset of the correction; 1 and 0 if there is none."""
        return (self.correction.scale, self.correction.offset) if self.correction else (1.0, 0.0)

    def total(self, graph: Graph) -> float:
        """Return the sum of entries for a network without choices, plus the overhead of the call, uncorrected."""
        return self.overhead.mean + sum(self.entries[key].mean for key in self._keys(graph))

"""A model of latencies: what each operation adds to a network, fitted to measured networks, and how wrong it is.

A JSON file, all times in nanoseconds for a whole batch:

    {"schema_version": 1, "model": "operations", "device": "my phone", "networks": 30,
     "error": 61000.0, "rank_correlation": 0.97, "tried": {"costs": 82000.0, "operations": 61000.0},
     "offset": 1200000, "entries": {"relu(f32[8])": 2100}}

The latency of a network is the offset and an entry for each operation that it runs, so that it is a cost that adds up.
What an operation adds need not be what it takes alone; none of these numbers is negative. `error` is the root of the
mean square of what the model, fitted to all other networks, is off by.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite, sqrt
from pathlib import Path
from statistics import NormalDist
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from archir.costs.latencies.workloads import parts, steps, workloads
from archir.costs.symbolic import Rule
from archir.diagnostics.errors import fail, listed
from archir.diagnostics.visible import one_line
from archir.ir.graph import Graph
from archir.ir.op import Op
from archir.ir.types import TensorType
from archir.utils.files import write_atomic

MOST = 10**15
"""Nanoseconds of one entry (11 days): sums of very many of them still fit in 64 bits."""
FEWEST = 5
"""Measured networks that a model is fitted to."""
_FITTED = 2
"""Degrees of freedom that choosing a model and fitting it take: of few networks, errors of the others are too small."""

Nanoseconds = Annotated[int, Field(ge=0, le=MOST)]
Kind = Literal["costs", "operations", "table", "table and operations"]


class LatencyModel(BaseModel):
    """What operations add to a network's latency, by the keys of their workloads, and how wrong sums of it are."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    schema_version: Literal[1]
    model: Kind
    device: str = Field(max_length=200)
    networks: int = Field(ge=FEWEST)
    error: float = Field(ge=0, le=MOST)
    rank_correlation: float | None = Field(ge=-1, le=1)
    tried: dict[Kind, Annotated[float, Field(ge=0, le=MOST)]]
    offset: Nanoseconds
    entries: dict[str, Nanoseconds]

    def __repr__(self) -> str:
        on = f" on {self.device}" if self.device else ""
        return one_line(f"<LatencyModel of {self.model}{on}: {self.networks:,} networks, error {self.error:,.0f} ns>")

    def write(self, path: str | Path) -> None:
        """Write the file: whole, or not at all."""
        write_atomic(Path(path), (self.model_dump_json(indent=1) + "\n").encode())

    def margin(self, confidence: float = 0.95) -> float:
        """Half the width, in nanoseconds, of the interval that has a new network's latency with this probability.

        Errors are taken to be alike for all networks, and normal (Student's t). Raises ArchError (A1509).
        """
        return self._quantile((1 + _probability(confidence)) / 2) * self._spread

    def reserve(self, confidence: float) -> int:
        """Nanoseconds to add so that a new network takes no longer with this probability. Raises ArchError (A1509)."""
        return round(self._quantile(_probability(confidence)) * self._spread)

    @property
    def _spread(self) -> float:
        """The error of one more network, whose model is fitted to all that were measured."""
        return self.error * sqrt(self.networks / (self.networks - _FITTED)) * sqrt(1 + 1 / self.networks)

    def _quantile(self, probability: float) -> float:
        return _student(probability, self.networks - _FITTED)

    def need(self, keys: Iterable[str]) -> None:
        """Raise ArchError (A1502), which names them, if operations are missing."""
        missing = sorted(set(keys) - self.entries.keys())
        if missing:
            hint = "it was fitted to another space, or with other parameters: archir bench --fit MODEL.json FILE"
            raise fail("A1502", f"the latency model lacks {listed(missing, 3)}", None, hint)

    def covers(self, graph: Graph) -> None:
        """Raise ArchError (A1502) unless the model knows every architecture of a space."""
        self.need(workloads(graph))

    def estimate(self, graph: Graph) -> int:
        """Nanoseconds of a network without choices. Raises ArchError (A1502) that names operations that are missing."""
        keys = [one.key for one in steps(graph)]
        self.need(keys)
        return self.offset + sum(self.entries[key] for key in keys)

    def rule(self, confidence: float | None = None) -> Rule:
        """The cost of a space: the latency, or with a confidence, what it does not exceed with that probability."""

        def of(op: Op, *types: TensorType) -> int:
            keys = [one.key for one in parts(op, types)]
            self.need(keys)
            return sum(self.entries[key] for key in keys)

        return Rule(of, self.offset + (0 if confidence is None else self.reserve(confidence)))


def _probability(confidence: float) -> float:
    if not isfinite(confidence) or not 0.5 <= confidence <= 0.999:
        hint = "such as 0.95: of a hundred new networks, five may be slower"
        raise fail("A1509", f"a confidence is from 0.5 to 0.999, not {confidence:g}", None, hint)
    return confidence


def _student(probability: float, freedom: int) -> float:
    """The quantile of Student's t, by the expansion of Abramowitz and Stegun (1964), 26.7.5."""
    z = NormalDist().inv_cdf(probability)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    total: float = z + sum(term / float(freedom ** (i + 1)) for i, term in enumerate(terms))
    return total

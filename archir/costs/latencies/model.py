"""Latency model: what each operation adds to a network's latency, fitted to measured networks.

The model includes an estimate of its error. It is a JSON file; all times are nanoseconds for a whole batch:

    {"schema_version": 1, "model": "operations", "device": "my phone", "networks": 30,
     "error": 61000.0, "rank_correlation": 0.97, "tried": {"costs": 82000.0, "operations": 61000.0},
     "held_out": {"networks": 30, "inside": 29, "rank_correlation": 0.9},
     "offset": 1200000, "entries": {"relu(f32[8])": 2100}}

The latency of a network is the offset plus one entry for each operation that it executes, so it is an additive cost. An
entry may differ from the time of the operation on its own; no entry is negative. `error` is the root mean square of the
leave-one-out errors: each network is predicted by a model fitted to all others. `held_out` says how models fitted to a
part of the networks predicted the others.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite, sqrt
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from archir.costs.latencies.table import Conditions
from archir.costs.latencies.workloads import expand_op, network_workloads, space_workloads
from archir.costs.symbolic import Rule
from archir.diagnostics.errors import fail, join_names
from archir.diagnostics.escaping import escape_to_line
from archir.ir.graph import Graph
from archir.ir.op import Op
from archir.ir.types import TensorType
from archir.utils.files import write_atomic
from archir.utils.student import t_quantile

MAX_NANOSECONDS = 10**15
"""Maximum number of nanoseconds of one entry (11 days), so that sums of very many entries fit in 64 bits."""
MIN_NETWORKS = 5
"""Minimum number of measured networks that a model is fitted to."""
MIN_INSIDE, MIN_RANK_CORRELATION = 0.9, 0.8
"""Predictions are fit for bounds if this fraction of held-out networks is inside the 95% interval, and if Kendall's tau
is at least this."""
_USED_DEGREES = 2
"""Degrees of freedom that choosing and fitting a model uses up.

They are subtracted because, with few networks, leave-one-out errors underestimate the error.
"""

Nanoseconds = Annotated[int, Field(ge=0, le=MAX_NANOSECONDS)]
Kind = Literal["costs", "operations", "table", "table and operations"]


class HeldOut(BaseModel):
    """How well latencies of networks were predicted that the prediction was not fitted to.

    `inside` of the `networks` were within the 95% interval of their prediction. `rank_correlation` is Kendall's tau-b
    of predictions and measurements; None if all predictions or all measurements are equal.
    """

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    networks: int = Field(ge=1)
    inside: int = Field(ge=0)
    rank_correlation: float | None = Field(ge=-1, le=1)

    @property
    def weaknesses(self) -> list[str]:
        """Return why predictions are not fit for bounds on latencies; [] if they are."""
        reasons = []
        if self.inside < MIN_INSIDE * self.networks:
            reasons.append(f"only {self.inside} of {self.networks} held-out networks are inside their 95% interval")
        if self.rank_correlation is None or self.rank_correlation < MIN_RANK_CORRELATION:
            tau = "undefined" if self.rank_correlation is None else f"{self.rank_correlation:.2f}"
            reasons.append(f"the rank correlation is {tau}, below {MIN_RANK_CORRELATION:g}")
        return reasons


class LatencyModel(BaseModel):
    """What each operation adds to a network's latency, by workload key, and the prediction error of the sums.

    Examples:
        >>> architectures, nanoseconds, _ = archir.measured_latency(space, 12, threads=1)
        >>> model = archir.fit_latency(space, architectures, nanoseconds)
        >>> model.estimate(network) > 0, model.margin(0.95) >= 0  # nanoseconds
        (True, True)
    """

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    schema_version: Literal[1]
    model: Kind
    device: str = Field(max_length=200)
    networks: int = Field(ge=MIN_NETWORKS)
    error: float = Field(ge=0, le=MAX_NANOSECONDS)
    rank_correlation: float | None = Field(ge=-1, le=1)
    tried: dict[Kind, Annotated[float, Field(ge=0, le=MAX_NANOSECONDS)]]
    held_out: HeldOut | None = None
    conditions: Conditions | None = None
    """Conditions of the measurements, if archir made them."""
    offset: Nanoseconds
    entries: dict[str, Nanoseconds]

    def __repr__(self) -> str:
        on = f" on {self.device}" if self.device else ""
        return escape_to_line(
            f"<LatencyModel of {self.model}{on}: {self.networks:,} networks, error {self.error:,.0f} ns>"
        )

    def write(self, path: str | Path) -> None:
        """Write the JSON file atomically."""
        write_atomic(Path(path), (self.model_dump_json(indent=1) + "\n").encode())

    @property
    def _skips_dead(self) -> bool:
        """Whether the measured networks ran without their dead nodes."""
        return self.conditions is not None and self.conditions.skips_dead

    def margin(self, confidence: float = 0.95) -> float:
        """Return half the width, in ns, of the prediction interval of a new network's latency at this confidence.

        Errors are assumed to be normal with the same variance for all networks (Student's t). Raises ArchError (A1509).
        """
        return t_quantile(_check_confidence(confidence), self._freedom) * self._prediction_error

    def reserve(self, confidence: float) -> int:
        """Return the ns to add to a predicted latency as a safety margin.

        The sum is exceeded only with probability 1 - `confidence`.

        Raises ArchError (A1509).
        """
        return round(t_quantile(2 * _check_confidence(confidence) - 1, self._freedom) * self._prediction_error)

    @property
    def _prediction_error(self) -> float:
        """Standard error of the prediction for a new network."""
        return self.error * sqrt(self.networks / self._freedom) * sqrt(1 + 1 / self.networks)

    @property
    def _freedom(self) -> int:
        """Degrees of freedom of the error."""
        return self.networks - _USED_DEGREES

    def check_keys(self, keys: Iterable[str]) -> None:
        """Raise ArchError (A1502) if the model lacks some of these operations; the error names them."""
        missing = sorted(set(keys) - self.entries.keys())
        if missing:
            hint = "the model is of another space or other parameters; fit one: archir latency fit FILE -o MODEL.json"
            raise fail("A1502", f"the latency model lacks {join_names(missing, 3)}", None, hint)

    def check_covers(self, graph: Graph) -> None:
        """Raise ArchError (A1502) unless the model has an entry for every operation that a space's networks execute."""
        self.check_keys(space_workloads(graph, skips_dead=self._skips_dead))

    def estimate(self, graph: Graph) -> int:
        """Return the predicted latency in nanoseconds of a network without choices.

        Raises ArchError (A1502) if the model lacks some of its operations; the error names them.
        """
        keys = [workload.key for workload in network_workloads(graph, self._skips_dead)]
        self.check_keys(keys)
        return self.offset + sum(self.entries[key] for key in keys)

    def rule(self, confidence: float | None = None) -> Rule:
        """Return the cost rule of the predicted latency.

        With a confidence, the cost is the latency that a network does not exceed with this probability.
        """

        def op_latency(op: Op, *types: TensorType) -> int:
            keys = [workload.key for workload in expand_op(op, types)]
            self.check_keys(keys)
            return sum(self.entries[key] for key in keys)

        base = self.offset + (0 if confidence is None else self.reserve(confidence))
        return Rule(op_latency, base, skips_dead=self._skips_dead)


def _check_confidence(confidence: float) -> float:
    """Return the confidence unchanged. Raises ArchError (A1509) unless it is from 0.5 to 0.999."""
    if not isfinite(confidence) or not 0.5 <= confidence <= 0.999:
        hint = "for example, 0.95: five of a hundred new networks may be slower"
        raise fail("A1509", f"a confidence must be from 0.5 to 0.999, not {confidence:g}", None, hint)
    return confidence

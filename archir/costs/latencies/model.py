"""Latency model: what each operation adds to a network's latency, fitted to measured networks.

The model includes an estimate of its error. It is a JSON file; all times are nanoseconds for a whole batch:

    {"schema_version": 1, "model": "operations", "device": "my phone", "networks": 30,
     "error": 61000.0, "rank_correlation": 0.97, "tried": {"costs": 82000.0, "operations": 61000.0},
     "held_out": {"networks": 30, "inside": 29, "rank_correlation": 0.9},
     "offset": 1200000, "entries": {"relu(f32[8])": 2100},
     "anchors": [{"choices": {"op": "conv"}, "nanoseconds": 1500000.0}]}

The latency of a network is the offset plus one entry for each operation that it executes, so it is an additive cost. An
entry may differ from the time of the operation on its own; no entry is negative. `error` is the root mean square of the
errors of predictions for networks that were held out: each part of the networks is predicted by a model fitted to the
others, and `held_out` says how well. With too few networks for this, there is no `held_out`, and `error` is that of
leave-one-out predictions, as are `tried` and `rank_correlation`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import isfinite, sqrt
from typing import Annotated, Any, Literal

from pydantic import Field

from archir.costs.latencies.table import MAX_NANOSECONDS, Conditions, LatencyPredictor, StrictModel
from archir.costs.symbolic import Rule
from archir.diagnostics.errors import ArchError, fail
from archir.diagnostics.escaping import escape_to_line
from archir.ir.graph import Graph
from archir.utils.student import t_quantile

MIN_NETWORKS, MAX_NETWORKS = 5, 2_000
"""Minimum and maximum number of measured networks that a model is fitted to; the work grows with the cube of it."""
MAX_ANCHORS = 20
"""Maximum number of measured networks in a model's file."""
MIN_INSIDE, MIN_RANK_CORRELATION = 0.9, 0.8
"""Predictions are fit for bounds if this fraction of held-out networks is inside the 95% interval, and if Kendall's tau
is at least this."""
_USED_DEGREES = 2
"""Degrees of freedom that choosing and fitting a model uses up.

They are subtracted because, with few networks, measured errors underestimate the error.
"""

Nanoseconds = Annotated[int, Field(ge=0, le=MAX_NANOSECONDS)]
Kind = Literal["costs", "operations", "table", "table and operations"]


class HeldOut(StrictModel):
    """How well latencies of networks were predicted that the prediction was not fitted to.

    `inside` of the `networks` were within the 95% interval of their prediction. `rank_correlation` is Kendall's tau-b
    of predictions and measurements; None if all predictions or all measurements are equal.
    """

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


class Anchor(StrictModel):
    """A measured network, as the labels of its choices, and its latency in nanoseconds."""

    choices: dict[str, Any]
    nanoseconds: float = Field(gt=0, le=MAX_NANOSECONDS)


class LatencyModel(LatencyPredictor):
    """What each operation adds to a network's latency, by workload key, and the prediction error of the sums.

    Examples:
        >>> architectures, nanoseconds, _ = archir.measured_latency(space, 12, threads=1)
        >>> model = archir.fit_latency(space, architectures, nanoseconds)
        >>> model.estimate(network) > 0, model.margin(0.95) >= 0  # nanoseconds
        (True, True)
    """

    HOW_TO_ADD = "the model is of another space or other parameters; fit one: archir latency fit FILE -o MODEL.json"

    schema_version: Literal[1]
    model: Kind
    device: str = Field(max_length=200)
    networks: int = Field(ge=MIN_NETWORKS, le=MAX_NETWORKS)
    error: float = Field(ge=0, le=MAX_NANOSECONDS)
    rank_correlation: float | None = Field(ge=-1, le=1)
    tried: dict[Kind, Annotated[float, Field(ge=0, le=MAX_NANOSECONDS)]]
    held_out: HeldOut | None = None
    conditions: Conditions | None = None
    """Conditions of the measurements, if archir made them."""
    anchors: tuple[Anchor, ...] = Field(default=(), max_length=MAX_ANCHORS)
    """A few of the measured networks, if archir measured them; measured again, they give the machine's speed."""
    offset: Nanoseconds
    entries: dict[str, Nanoseconds]

    def __repr__(self) -> str:
        on = f" on {self.device}" if self.device else ""
        return escape_to_line(
            f"<LatencyModel of {self.model}{on}: {self.networks:,} networks, error {self.error:,.0f} ns>"
        )

    @property
    def measures_simplified(self) -> bool:
        """Whether the measured networks were simplified before they ran."""
        return self.conditions is not None and self.conditions.simplified

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

    @property
    def latencies(self) -> Mapping[str, int]:
        """Nanoseconds that each operation adds to a network, by key."""
        return self.entries

    @property
    def base(self) -> int:
        """The offset."""
        return self.offset

    def anchors_of(self, specialize: Callable[[Mapping[str, Any]], Graph]) -> list[tuple[Graph, float]]:
        """Return the networks of the anchors and their nanoseconds; [] if they are of another space."""
        try:
            return [(specialize(anchor.choices), anchor.nanoseconds) for anchor in self.anchors]
        except ArchError:
            return []

    def rule(self, confidence: float | None = None) -> Rule:
        """Return the cost rule of the predicted latency in nanoseconds.

        With a confidence, the cost is the latency that a network does not exceed with this probability.
        """
        rule = super().rule()
        return rule if confidence is None else replace(rule, base=rule.base + self.reserve(confidence))


def _check_confidence(confidence: float) -> float:
    """Return the confidence unchanged. Raises ArchError (A1509) unless it is from 0.5 to 0.999."""
    if not isfinite(confidence) or not 0.5 <= confidence <= 0.999:
        hint = "for example, 0.95: five of a hundred new networks may be slower"
        raise fail("A1509", f"a confidence must be from 0.5 to 0.999, not {confidence:g}", None, hint)
    return confidence

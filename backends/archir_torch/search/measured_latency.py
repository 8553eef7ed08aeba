"""Measurement of the best candidates of a search whose latency was bounded by a prediction.

A search prefers candidates whose latency is predicted too low, so the best ones exceed a bound more often than random
ones. If archir made the measurements behind the prediction under the conditions of this machine, the best candidates
are measured, and the first that is within the bounds is chosen, allowing for the uncertainty of the measurement.

A machine that shares its cores or its heat with others may be slower or faster than during the fit of a model, by a
quarter or more. Therefore the anchors of the model are measured in turns with the candidates, whose latencies are
converted to the machine's speed during the fit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from archir.backends.latency_benches import open_bench
from archir.costs.latencies.files import read_latency_file
from archir.costs.latencies.measurement import check_same_machine, conditions_of, measure_with_anchors
from archir.costs.latencies.model import LatencyModel
from archir.costs.latencies.table import LatencyTable
from archir.costs.latencies.timing import Effort
from archir.diagnostics.errors import ArchError
from archir.ir.graph import Constraint, Graph
from archir.language.elaboration.cost_names import latency_file
from archir.spaces.architecture import Architecture
from archir.spaces.space import Space

GROUP = 5
"""Number of candidates that are measured together; the next ones are measured if none of them is within the bounds."""
EFFORT = Effort(visits=100)
"""How long to measure candidates and anchors."""
MAX_MEASURED = 20
"""Maximum number of candidates that are measured."""
STANDARD_ERRORS = 2
"""By how many standard errors of its measurement a candidate may be slower and still be within a bound."""


def latency_bounds(space: Space) -> list[Constraint]:
    """Return the upper bounds on latencies that hold for all architectures of a space."""
    return [
        bound
        for bound in space.graph.constraints
        if bound.cost is not None
        and latency_file(bound.cost) is not None
        and bound.relation in ("<", "<=")
        and bound.condition is True
        and isinstance(bound.limit, int)
    ]


def measure_finalists(
    space: Space, candidates: Sequence[Architecture], bounds: Sequence[Constraint]
) -> Mapping[str, Any]:
    """Measure candidates of the space, best first, until one is within all bounds.

    Returns JSON data: for each bound its `bound`, `limit` and, for each measured candidate, nanoseconds `predicted`,
    `measured` and `uncertainty` (STANDARD_ERRORS of the measurement), and the `speed` of the machine relative to that
    during the fit, or the reason why nothing was measured, `not_measured`; `architectures`, the measured candidates;
    and `chosen`, the number of the first candidate that is within the bounds even if it is slower than measured by the
    uncertainty, or None.
    """
    checked = [_Bound(bound, space) for bound in bounds]
    measurable = [bound for bound in checked if not bound.problem]
    chosen, count = None, 0
    while measurable and chosen is None and count < min(MAX_MEASURED, len(candidates)):
        group = candidates[count : count + GROUP]
        graphs = [space.specialize(candidate) for candidate in group]
        for bound in measurable:
            bound.measure(graphs)
        within = [all(bound.holds(count + i) for bound in measurable) for i in range(len(group))]
        chosen = count + within.index(True) if True in within else None
        count += len(group)
    return {
        "bounds": [bound.report() for bound in checked],
        "architectures": [dict(candidate) for candidate in candidates[:count]],
        "chosen": chosen,
    }


class _Finalist(NamedTuple):
    """Predicted and measured nanoseconds of a candidate, and the machine's speed; see `measure_finalists`."""

    predicted: float
    measured: float
    uncertainty: float
    speed: float


class _Bound:
    """Upper bound on a latency, with the measurements of candidates; `problem` says why nothing can be measured."""

    def __init__(self, bound: Constraint, space: Space) -> None:
        self._bound = bound
        self._finalists: list[_Finalist] = []
        self.problem = ""
        try:
            self._predictor: LatencyTable | LatencyModel = read_latency_file(
                bound.table or Path(latency_file(bound.cost or "") or "")
            )
            self._conditions = conditions_of(self._predictor)
            with open_bench(self._conditions.device, self._conditions.batch, self._conditions.threads) as bench:
                check_same_machine(self._conditions, self._conditions.device, bench)
            self._anchors = self._predictor.anchors_of(space.unbounded.specialize)
        except ArchError as error:
            self.problem = error.diagnostics[0].message

    def measure(self, graphs: Sequence[Graph]) -> None:
        """Add the predicted and measured latencies of networks."""
        with open_bench(self._conditions.device, self._conditions.batch, self._conditions.threads) as bench:
            timings, speed = measure_with_anchors(graphs, self._anchors, bench, effort=EFFORT)
        self._finalists += [
            _Finalist(self._predictor.estimate(graph), timing.mean, STANDARD_ERRORS * timing.error, speed)
            for graph, timing in zip(graphs, timings, strict=True)
        ]

    def holds(self, number: int) -> bool:
        """Return whether a measured candidate is within the bound, even if it is slower by the uncertainty."""
        finalist, limit = self._finalists[number], self._bound.limit
        slowest = finalist.measured + finalist.uncertainty
        return bool(slowest < limit if self._bound.relation == "<" else slowest <= limit)

    def report(self) -> dict[str, Any]:
        """Return the bound and its measurements as JSON data."""
        if self.problem:
            return {"bound": self._bound.text, "not_measured": self.problem}
        conditions = self._conditions.model_dump()
        columns = {name: [getattr(finalist, name) for finalist in self._finalists] for name in _Finalist._fields}
        return {"bound": self._bound.text, "limit": self._bound.limit, "conditions": conditions, **columns}

"""The strongest architecture within bounds on costs, for derivation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import isfinite

from archir.diagnostics.errors import ArchError
from archir.spaces.architecture import Architecture
from archir.spaces.optimal.answers import Answer, optimize
from archir.spaces.optimal.problem import Objective
from archir.spaces.scores import Scores, Term
from archir.spaces.space import Space

LOG_DECIMALS = 9
"""Decimals to which logarithms of strengths are rounded."""
TIME_LIMIT, FEASIBILITY_TIME_LIMIT = 600.0, 10.0
"""Time limits in seconds: of `strongest`, which then returns the best architecture so far, and of
`require_feasible`, which then leaves feasibility undecided."""
UNSUPPORTED_CODES = ("A1601", "A1602", "A3302")
"""Codes of the errors for bounds that are not sums of costs or that exceed the decision-diagram size limit."""


def strongest(space: Space, strengths: Mapping[str, Sequence[float]]) -> Architecture | None:
    """Return the architecture within all bounds with the largest sum of strengths (logarithms by path and outcome).

    The result is proved to be the best unless the limit of ten minutes is reached. Returns None if the bounds are not
    sums of costs, if they exceed the decision-diagram size limit, or if no architecture was found in time. Raises
    ArchError (A3301) if no architecture is within the bounds.
    """
    answer = _try_optimize(space, Objective(log_scores(space, strengths), True), TIME_LIMIT)
    return None if answer is None or not (answer.architectures or answer.proved) else answer.best


def require_feasible(space: Space) -> None:
    """Raise ArchError (A1603, A3301) if it is proved that no architecture is within the bounds."""
    space.check_bounds()
    answer = _try_optimize(space, Objective("params"), FEASIBILITY_TIME_LIMIT)
    if answer is not None and answer.proved and not answer.architectures:
        raise answer.infeasible_error()


def log_scores(space: Space, strengths: Mapping[str, Sequence[float]]) -> Scores:
    """Return logarithms as scores: exact fractions of their rounded decimals. Infinite ones are left out; these are
    excluded by constraints."""
    terms = [
        Term(
            (path,),
            {(i,): Fraction(f"{strength:.{LOG_DECIMALS}f}") for i, strength in enumerate(row) if isfinite(strength)},
        )
        for path, row in strengths.items()
    ]
    return Scores(space.name, tuple(terms), made={"by": "logits"})


def _try_optimize(space: Space, objective: Objective, seconds: float) -> Answer | None:
    """Optimise; None if the bounds do not allow exact optimisation."""
    try:
        return optimize(space, objective, seconds=seconds)
    except ArchError as error:
        if error.diagnostics[0].code in UNSUPPORTED_CODES:
            return None
        raise

"""The strongest architecture within bounds on costs, as derivation needs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import isfinite

from archir.diagnostics.errors import LimitError
from archir.spaces.architecture import Architecture
from archir.spaces.optimal.answers import Answer, optimize
from archir.spaces.optimal.problem import Objective
from archir.spaces.scores import AdditiveScores, Term
from archir.spaces.space import Space

LOG_DECIMALS = 9
"""Number of decimals to which the logarithms of strengths are rounded."""
TIME_LIMIT, FEASIBILITY_TIME_LIMIT = 600.0, 10.0
"""Time limits in seconds of `strongest` and of `require_feasible`.

When it is reached, `strongest` returns the best architecture found, and `require_feasible` does not raise.
"""


def strongest(space: Space, strengths: Mapping[str, Sequence[float]]) -> Architecture | None:
    """Return the architecture within all bounds with the largest sum of strengths (logarithms, by path and outcome).

    The result is proved to be the best unless the time limit of ten minutes is reached. Returns None if the bounds are
    not on sums of costs, if a size limit is exceeded, or if no architecture was found in time. Raises ArchError (A3301)
    if no architecture is within the bounds.
    """
    answer = _try_optimize(space, Objective(log_scores(space, strengths), True), TIME_LIMIT)
    return None if answer is None or not (answer.architectures or answer.proved) else answer.best


def require_feasible(space: Space) -> None:
    """Raise ArchError (A1603, A3301) if it can be proved that no architecture is within the bounds."""
    space.check_bounds()
    answer = _try_optimize(space, Objective("params"), FEASIBILITY_TIME_LIMIT)
    if answer is not None and answer.proved and not answer.architectures:
        raise answer.infeasible_error()


def log_scores(space: Space, strengths: Mapping[str, Sequence[float]]) -> AdditiveScores:
    """Return logarithms as scores: rounded to LOG_DECIMALS decimals, as exact fractions.

    Infinite ones are left out, since constraints exclude their outcomes.
    """
    terms = [
        Term(
            (path,),
            {(i,): Fraction(f"{strength:.{LOG_DECIMALS}f}") for i, strength in enumerate(row) if isfinite(strength)},
        )
        for path, row in strengths.items()
    ]
    return AdditiveScores(space.name, tuple(terms), made={"by": "logits"})


def _try_optimize(space: Space, objective: Objective, seconds: float) -> Answer | None:
    """Return the result of exact optimisation; None if the bounds do not allow it."""
    try:
        return optimize(space, objective, seconds=seconds)
    except LimitError:
        return None

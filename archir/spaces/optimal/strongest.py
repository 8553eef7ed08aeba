"""The strongest architecture within bounds on costs: what is derived, where the strongest alternatives break them."""

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

DIGITS = 9
"""Decimals of a logarithm that count."""
SECONDS, FEW_SECONDS = 600.0, 10.0
"""After this the best that was found is taken; after a few it is left open whether there is anything."""
NO_CHAIN = ("A1601", "A1602", "A3302")
"""What is refused is no sum, or too entangled."""


def strongest(space: Space, strengths: Mapping[str, Sequence[float]]) -> Architecture | None:
    """The architecture within all bounds whose strengths, logarithms by path and outcome, have the greatest sum;
    proved, unless ten minutes do not do. None where the bounds are no sums, or choices are too entangled.

    Raises ArchError (A3301): nothing is within the bounds.
    """
    answer = _answer(space, Objective(scores_of(space, strengths), True), SECONDS)
    return None if answer is None or not (answer.architectures or answer.settled) else answer.best


def check_some(space: Space) -> None:
    """Raise ArchError (A1603, A3301) if it is known that nothing is within the bounds."""
    space.prove()
    answer = _answer(space, Objective("params"), FEW_SECONDS)
    if answer is not None and answer.settled and not answer.architectures:
        raise answer.none()


def scores_of(space: Space, strengths: Mapping[str, Sequence[float]]) -> Scores:
    """Logarithms as scores: exact fractions of their decimals. What is infinite is for constraints, and is not here."""
    terms = [
        Term((path,), {(i,): Fraction(f"{one:.{DIGITS}f}") for i, one in enumerate(row) if isfinite(one)})
        for path, row in strengths.items()
    ]
    return Scores(space.name, tuple(terms), made={"by": "logits"})


def _answer(space: Space, objective: Objective, seconds: float) -> Answer | None:
    try:
        return optimize(space, objective, seconds=seconds)
    except ArchError as error:
        if error.diagnostics[0].code in NO_CHAIN:
            return None
        raise

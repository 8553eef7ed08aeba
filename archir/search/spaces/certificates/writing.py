"""Certificates of answers: an answer, with multipliers that make its proof short. What is written was proved again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from archir import __version__
from archir.base.files import write_atomic
from archir.costs.optimal.optimum import optimum
from archir.ir.graph import Constraint
from archir.search.spaces.certificates.certificate import Claim, bounds_of, check, parse, to_bytes
from archir.search.spaces.optimal.answers import Answer
from archir.search.spaces.optimal.problem import Objective, compiled
from archir.search.spaces.space import Space


def write(path: Path, space: Space, answer: Answer, fixed: Mapping[str, int]) -> None:
    """Write the certificate of an answer for a space and its bounds.

    Raises ArchError: A3304 (nothing was found in time), A3312 (its proof takes too long to be checked).
    """
    content = to_bytes(claim_of(space, answer, fixed), __version__)
    check(parse(content))
    write_atomic(path, content)


def claim_of(space: Space, answer: Answer, fixed: Mapping[str, int]) -> Claim:
    """What an answer says. Raises ArchError (A3304) if it says nothing."""
    bounds = bounds_of(space)
    if answer.settled and not answer.architectures:
        conflict = [one.bound for one in answer.conflict]
        needed = tuple(i for i, one in enumerate(bounds) if any(one is other for other in conflict))
        proved = _against([bounds[i] for i in needed], space, fixed)
        return Claim(space, answer.objective, fixed, None, None, None, needed, proved)
    proved = tuple(int(one) for one in answer.proof.get("multipliers", ()))
    every = tuple(range(len(bounds)))
    return Claim(space, answer.objective, fixed, answer.best, answer.values[0], answer.bound, every, proved)


def _against(bounds: Sequence[Constraint], space: Space, fixed: Mapping[str, int]) -> tuple[int, ...]:
    """Multipliers that rule out most of what breaks bounds that contradict each other."""
    problem = compiled(space.unbounded, Objective("params"), bounds, fixed)
    if problem.network is None:
        return ()
    return tuple(int(one) for one in optimum(problem.network, problem.limits).proof.weights)

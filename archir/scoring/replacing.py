"""Scores of alternatives one by one: each is put alone into a reference, and what that changes is its score.

So Puzzle scores blocks (Bercovich et al. 2024, section 3): as many evaluations as there are alternatives. A choice that
the reference does not have is seen where an architecture that was already scored has it, and compared with that one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from archir.spaces.architecture import Architecture
from archir.spaces.scores import Scores, Term
from archir.spaces.space import Space


@dataclass(frozen=True)
class Replacement:
    """An outcome of one choice, the architecture that has it, and the one that it is compared with."""

    path: str
    outcome: int
    architecture: Architecture
    reference: Architecture


def replacements(space: Space, reference: Architecture) -> list[Replacement]:
    """Each outcome of each choice that can be seen, but those of the reference, with nothing else changed.

    Bounds on costs count nothing here: they are for what is chosen by the scores.
    """
    free = space.unbounded
    found: list[Replacement] = []
    seen: set[str] = set()
    queue = [free.decode(reference.codes)]
    while queue:
        base = queue.pop(0)
        wanted = set(base.outcomes) - seen
        seen |= wanted
        if wanted:
            new = [one for one in _around(free, base) if one.path in wanted]
            found += new
            queue += [one.architecture for one in new]
    return found


def _around(space: Space, base: Architecture) -> Iterator[Replacement]:
    paths = [choice.path for choice in base.choices]
    for other in space.neighbors(base):
        position = next(i for i, pair in enumerate(zip(base.codes, other.codes, strict=True)) if pair[0] != pair[1])
        yield Replacement(paths[position], other.codes[position], other, base)


def replaced(
    space: Space,
    reference: Architecture,
    score: Callable[[Sequence[Architecture]], Sequence[float]],
    made: Mapping[str, Any] | None = None,
) -> Scores:
    """Scores that are differences from a reference, by a function that scores architectures; more is better."""
    several = replacements(space, reference)
    bases = dict.fromkeys(one.reference.codes for one in several)
    each = {one.architecture.codes: one.architecture for one in several}
    each |= {one.reference.codes: one.reference for one in several} | {reference.codes: reference}
    known = dict(zip(each, map(_exactly, score(list(each.values()))), strict=True))
    values: dict[str, dict[tuple[int, ...], Fraction]] = {}
    for one in several:
        own = values.setdefault(one.path, {(one.reference.outcomes[one.path],): Fraction(0)})
        own[(one.outcome,)] = known[one.architecture.codes] - known[one.reference.codes]
    terms = tuple([Term((path,), own) for path, own in values.items()])
    facts = {"by": "replace-one", "evaluated": len(each), "references": max(len(bases), 1), **(made or {})}
    return Scores(space.name, terms, known[reference.codes], facts)


def _exactly(score: float) -> Fraction:
    """Nine digits of it, or all of a whole number: sums of scores are exact, and fit into 64 bits."""
    return Fraction(int(score)) if float(score).is_integer() else Fraction(f"{score:.9g}")

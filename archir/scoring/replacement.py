"""Scores obtained by replacing one outcome at a time in a reference architecture.

The score of an outcome is the difference that its substitution makes. Puzzle scores blocks in this way (Bercovich et
al. 2024, section 3), with one evaluation for each alternative. If a choice is inactive in the reference, its outcomes
are substituted into an already scored architecture in which the choice is active; this architecture then serves as
the reference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from archir.scoring.fitting import check_finite
from archir.spaces.architecture import Architecture
from archir.spaces.scores import AdditiveScores, Term
from archir.spaces.space import Space


@dataclass(frozen=True)
class Replacement:
    """A replaced outcome of a choice, the architecture with it, and the reference architecture it is compared with."""

    path: str
    outcome: int
    architecture: Architecture
    reference: Architecture


def replacements(space: Space, reference: Architecture) -> list[Replacement]:
    """Return a replacement for each reachable outcome of each choice, except the outcomes of the reference itself.

    Each replacement differs from its reference in this choice only. Bounds on costs are ignored: they only restrict the
    architectures that are later chosen by the scores.
    """
    free = space.unbounded
    result: list[Replacement] = []
    scored_paths: set[str] = set()
    queue = [free.decode(reference.codes)]
    while queue:
        base = queue.pop(0)
        new_paths = set(base.outcomes) - scored_paths
        scored_paths |= new_paths
        if new_paths:
            new = [replacement for replacement in _neighbours(free, base) if replacement.path in new_paths]
            result += new
            queue += [replacement.architecture for replacement in new]
    return result


def _neighbours(space: Space, base: Architecture) -> Iterator[Replacement]:
    paths = [choice.path for choice in base.choices]
    for other in space.neighbors(base):
        position = next(i for i, pair in enumerate(zip(base.codes, other.codes, strict=True)) if pair[0] != pair[1])
        yield Replacement(paths[position], other.codes[position], other, base)


def replacement_scores(
    space: Space,
    reference: Architecture,
    score: Callable[[Sequence[Architecture]], Sequence[float]],
    provenance: Mapping[str, Any] | None = None,
) -> AdditiveScores:
    """Return scores that are differences from a reference architecture.

    `score` evaluates architectures, and greater values are better. `provenance` is added to `made`, the provenance
    record of the result. Raises ArchError (A3323) if a score is not finite.
    """
    all_replacements = replacements(space, reference)
    bases = dict.fromkeys(replacement.reference.codes for replacement in all_replacements)
    architectures = {change.architecture.codes: change.architecture for change in all_replacements}
    architectures |= {change.reference.codes: change.reference for change in all_replacements}
    architectures |= {reference.codes: reference}
    numbers = score(list(architectures.values()))
    check_finite(architectures.values(), numbers)
    score_of = dict(zip(architectures, map(_to_fraction, numbers), strict=True))
    values: dict[str, dict[tuple[int, ...], Fraction]] = {}
    for change in all_replacements:
        path_values = values.setdefault(change.path, {(change.reference.outcomes[change.path],): Fraction(0)})
        difference = score_of[change.architecture.codes] - score_of[change.reference.codes]
        path_values[(change.outcome,)] = difference
    terms = tuple([Term((path,), path_values) for path, path_values in values.items()])
    metadata = {
        "by": "replace-one",
        "evaluated": len(architectures),
        "references": max(len(bases), 1),
        **(provenance or {}),
    }
    return AdditiveScores(space.name, terms, score_of[reference.codes], metadata)


def _to_fraction(score: float) -> Fraction:
    """Return a score as an exact fraction: whole numbers unchanged, others rounded to nine significant digits.

    Sums of scores are then exact, and fit in 64 bits.
    """
    return Fraction(int(score)) if float(score).is_integer() else Fraction(f"{score:.9g}")

"""Minimal sets of contradictory constraints, found to explain why a space has no architecture."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from archir.diagnostics.errors import Diagnostic, Note
from archir.diagrams.conditions import conjoin_assumptions
from archir.ir.graph import Constraint

IsEmpty = Callable[[Sequence[Constraint]], bool]
"""Function that returns whether no architecture satisfies all of the given constraints."""


def minimal_conflict(constraints: Sequence[Constraint], is_empty: IsEmpty) -> list[Constraint]:
    """Return a minimal unsatisfiable subset of `constraints`: removing any of them makes it satisfiable.

    All constraints together must be unsatisfiable. The search is a bisection, so it is fast if only a few of many
    constraints are in conflict.
    """
    needed: list[Constraint] = []
    candidates = list(constraints)
    while not is_empty(needed):
        low, high = (
            0,
            len(candidates),
        )  # invariant: `needed` with the first `high` is unsatisfiable, with the first `low` not
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if is_empty([*needed, *candidates[:middle]]) else (middle, high)
        needed.append(candidates[high - 1])
        candidates = candidates[: high - 1]
    return needed


def is_contradictory(constraints: Sequence[Constraint]) -> bool:
    """Return whether the constraints on choices contradict each other; constraints on costs are ignored.

    A result of True is always correct. A result of False may be wrong if a diagram exceeds the size limit.
    """
    return (
        conjoin_assumptions(True, [constraint.condition for constraint in constraints if constraint.cost is None])
        is False
    )


def contradiction(constraints: Sequence[Constraint], is_empty: IsEmpty) -> Diagnostic:
    """Return the diagnostic (A0510) that no architecture satisfies the constraints.

    The diagnostic names a minimal subset of contradictory constraints.
    """
    conflict = sorted(minimal_conflict(constraints, is_empty), key=lambda constraint: constraint.span.start)
    if len(conflict) == 1:
        return Diagnostic("A0510", "no architecture satisfies this", conflict[0].span)
    *others, last = conflict
    notes = tuple(Note(f"`{constraint.keyword} {constraint.text}`", constraint.span) for constraint in others)
    return Diagnostic(
        "A0510", f"no architecture satisfies `{last.keyword} {last.text}` and these:", last.span, None, notes
    )

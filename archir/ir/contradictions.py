"""Constraints that no architecture satisfies together."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from archir.diagnostics.errors import Diagnostic, Note
from archir.diagrams.conditions import narrowed
from archir.ir.graph import Constraint

Empty = Callable[[Sequence[Constraint]], bool]
"""Whether no architecture satisfies these."""


def smallest(constraints: Sequence[Constraint], empty: Empty) -> list[Constraint]:
    """Some of these that no architecture satisfies, though one satisfies any fewer of them.

    What is given must be empty. Halves are left out before single constraints, so that few of many are found fast.
    """
    needed: list[Constraint] = []
    left = list(constraints)
    while not empty(needed):
        low, high = 0, len(left)  # the first `high` together with `needed` are too many, the first `low` are not
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if empty([*needed, *left[:middle]]) else (middle, high)
        needed.append(left[high - 1])
        left = left[: high - 1]
    return needed


def together(constraints: Sequence[Constraint]) -> bool:
    """Whether the conjunction of conditions on choices is never true: exact, and of a size that may be exponential."""
    return narrowed(True, [one.condition for one in constraints if one.cost is None]) is False


def contradiction(constraints: Sequence[Constraint], empty: Empty) -> Diagnostic:
    """What to say of constraints that no architecture satisfies: a diagnostic that names as few of them as will do."""
    found = sorted(smallest(constraints, empty), key=lambda one: one.span.start)
    if len(found) == 1:
        return Diagnostic("A0510", "no architecture satisfies this", found[0].span)
    *others, last = found
    notes = tuple(Note(f"`{one.word} {one.text}`", one.span) for one in others)
    return Diagnostic(
        "A0510", f"no architecture satisfies `{last.word} {last.text}` and these:", last.span, None, notes
    )

"""Many architectures at once: rows of outcomes in the order of choices, -1 for choices that are not active."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from typing import Any, Literal, TypeAlias

from archir.costs.tables import dense
from archir.diagnostics.errors import fail
from archir.diagrams.cases import Value, leaves, support, varies
from archir.ir.graph import Constraint, Decision
from archir.utils.arrays import NDArray, np

Codes: TypeAlias = "NDArray[np.int16]"
Policy = Literal["architectures", "choices"]

MOST_REFUSED = 1_000_000
"""Draws that may be refused in a row."""
MOST_AT_ONCE = 8_192
"""Architectures that are drawn, or listed, at once where hardly any keeps the bounds on costs."""
MOST_CELLS = 4_096
"""Of a table of a condition."""
PATIENCE = 16
"""Draws in a row of which none was of use, before more are made at once."""


class Rows:
    """Draws rows for decisions, which come after those that they are conditional on, and looks values up in rows."""

    def __init__(self, order: Sequence[Decision]) -> None:
        self.order = order
        self.index = {decision.choice.path: i for i, decision in enumerate(order)}
        """The column of each choice."""
        self._tables: dict[Value, tuple[list[int], NDArray[np.bool_]] | None] = {}

    def drawn(self, distributions: Mapping[str, Value], n: int, rng: np.random.Generator, policy: Policy) -> Codes:
        """`n` rows, each outcome drawn from the distribution of its choice."""
        codes = np.full((n, len(self.order)), -1, dtype=np.int16)
        everything = np.arange(n)
        known: dict[Value, NDArray[np.int64]] = {True: everything}
        for position, decision in enumerate(self.order):
            active = known.get(decision.active)
            if active is None:
                active = known[decision.active] = np.flatnonzero(self._held(decision.active, codes))
            for rows, distribution in self._split(distributions[decision.choice.path], codes, active):
                if policy == "choices":
                    found = np.array(distribution.possible, dtype=np.int16)
                    codes[rows, position] = found[rng.integers(len(found), size=len(rows))]
                else:
                    codes[rows, position] = distribution.draws(len(rows), rng)
        return codes

    def _split(self, value: Value, codes: Codes, rows: NDArray[np.int64]) -> Iterator[tuple[NDArray[np.int64], Any]]:
        """Rows grouped by the plain value they lead to."""
        if len(rows) == 0:
            return
        if not varies(value):
            yield rows, value
            return
        column = np.maximum(codes[rows, self.index[value.choice.path]], 0)
        for outcome in np.flatnonzero(np.bincount(column)).tolist():
            yield from self._split(value.branches[outcome], codes, rows[column == outcome])

    def _held(self, condition: Value, codes: Codes) -> NDArray[np.bool_]:
        """Of which rows a condition holds."""
        if condition not in self._tables:
            choices = support(condition)
            few = prod(choice.outcomes for choice in choices) <= MOST_CELLS
            places = [self.index[choice.path] for choice in choices]
            self._tables[condition] = (places, dense(condition, choices).astype(bool)) if few else None
        known = self._tables[condition]
        if known is None:
            return self.values(condition, codes, np.arange(len(codes))).astype(bool)
        places, table = known
        found: NDArray[np.bool_] = table[tuple([np.maximum(codes[:, place], 0) for place in places])]
        return found

    def values(self, value: Value, codes: Codes, rows: NDArray[np.int64]) -> NDArray[Any]:
        """A value that depends on choices, of these rows of `codes`."""
        if not varies(value):
            return np.full(len(rows), value)
        result = np.empty(len(codes), dtype=np.array(next(leaves(value))).dtype)
        for part, leaf in self._split(value, codes, rows):
            result[part] = leaf
        return result[rows]


def kept(
    n: int,
    width: int,
    drawing: Callable[[int, np.random.Generator], Codes],
    keeping: Callable[[Codes], NDArray[np.bool_]],
    rng: np.random.Generator,
    bound: Constraint,
) -> Codes:
    """`n` rows of `width` choices: of those drawn the ones that are kept, as they come. `keeping` says which are.

    Raises ArchError (A1005) at `bound` if too many in a row are refused.
    """
    found = [np.empty((0, width), np.int16)]
    enough = refused = empty = 0
    while enough < n:
        count = max(n - enough, min(n, 256))
        if empty > PATIENCE:  # so many at once cost hardly more than a few
            count = max(count, MOST_AT_ONCE)
        codes = drawing(count, rng)
        fine = codes[keeping(codes)]
        if len(fine):
            found.append(fine)
            enough, refused, empty = enough + len(fine), 0, 0
            continue
        refused, empty = refused + count, empty + 1
        if refused > MOST_REFUSED:
            raise fail("A1005", f"{refused:,} architectures in a row broke the bounds on costs", bound.span)
    return np.concatenate(found)[:n]

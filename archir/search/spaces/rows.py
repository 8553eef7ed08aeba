"""Many architectures at once: rows of outcomes in the order of choices, -1 for choices that are not active."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from archir.ir.choices.cases import Value, leaves, varies
from archir.ir.graph import Decision

Codes = NDArray[np.int16]
Policy = Literal["architectures", "choices"]


class Rows:
    """Draws rows for decisions, which come after those that they are conditional on, and looks values up in rows."""

    def __init__(self, order: Sequence[Decision]) -> None:
        self.order = order
        self.index = {decision.choice.path: i for i, decision in enumerate(order)}
        """The column of each choice."""

    def drawn(self, distributions: Mapping[str, Value], n: int, rng: np.random.Generator, policy: Policy) -> Codes:
        """`n` rows, each outcome drawn from the distribution of its choice."""
        codes = np.full((n, len(self.order)), -1, dtype=np.int16)
        everything = np.arange(n)
        for position, decision in enumerate(self.order):
            active = everything[self.values(decision.active, codes, everything).astype(bool)]
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
        for outcome in np.unique(column):
            yield from self._split(value.branches[outcome], codes, rows[column == outcome])

    def values(self, value: Value, codes: Codes, rows: NDArray[np.int64]) -> NDArray[Any]:
        """A value that depends on choices, of these rows of `codes`."""
        if not varies(value):
            return np.full(len(rows), value)
        result = np.empty(len(codes), dtype=np.array(next(leaves(value))).dtype)
        for part, leaf in self._split(value, codes, rows):
            result[part] = leaf
        return result[rows]

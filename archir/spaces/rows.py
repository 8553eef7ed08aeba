"""Arrays of architectures: rows of outcomes in the order of the choices, with -1 for inactive choices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from archir.costs.tables import Codes, dense_table
from archir.diagnostics.errors import fail
from archir.diagrams.diagram import Value, leaves, support, varies
from archir.ir.graph import Constraint, Decision

Policy = Literal["architectures", "choices"]
"""Distribution to sample from: uniform over architectures, or uniform over the outcomes of each choice."""

MAX_REJECTIONS = 1_000_000
"""Maximum number of consecutive samples that may be rejected."""
MAX_BATCH = 8_192
"""Maximum number of architectures sampled or enumerated together if few satisfy the bounds on costs."""
MAX_TABLE_CELLS = 4_096
"""Maximum number of cells of the table in which a condition is looked up."""
MAX_EMPTY_BATCHES = 16
"""Number of consecutive batches without an accepted sample after which the batch size is increased."""


class RowSampler:
    """Sampler of rows for choices in sampling order; also evaluates diagrams for rows."""

    def __init__(self, order: Sequence[Decision]) -> None:
        self.order = order
        self.index = {decision.choice.path: i for i, decision in enumerate(order)}
        """Column index of each choice, by path."""
        self._tables: dict[Value, tuple[list[int], NDArray[np.bool_]] | None] = {}

    def sample(self, distributions: Mapping[str, Value], n: int, rng: np.random.Generator, policy: Policy) -> Codes:
        """Sample `n` rows, each outcome from the distribution of its choice."""
        codes = np.full((n, len(self.order)), -1, dtype=np.int16)
        all_rows = np.arange(n)
        active_rows: dict[Value, NDArray[np.int64]] = {True: all_rows}
        for position, decision in enumerate(self.order):
            active = active_rows.get(decision.active)
            if active is None:
                active = active_rows[decision.active] = np.flatnonzero(self._mask(decision.active, codes))
            for rows, distribution in self._split(distributions[decision.choice.path], codes, active):
                if policy == "choices":
                    possible = np.array(distribution.possible, dtype=np.int16)
                    codes[rows, position] = possible[rng.integers(len(possible), size=len(rows))]
                else:
                    codes[rows, position] = distribution.sample_many(len(rows), rng)
        return codes

    def _split(self, value: Value, codes: Codes, rows: NDArray[np.int64]) -> Iterator[tuple[NDArray[np.int64], Any]]:
        """Yield groups of rows that lead to the same leaf of a diagram, with the leaf."""
        if len(rows) == 0:
            return
        if not varies(value):
            yield rows, value
            return
        column = np.maximum(codes[rows, self.index[value.choice.path]], 0)
        for outcome in np.flatnonzero(np.bincount(column)).tolist():
            yield from self._split(value.branches[outcome], codes, rows[column == outcome])

    def _mask(self, condition: Value, codes: Codes) -> NDArray[np.bool_]:
        """Return a mask of the rows for which a condition holds."""
        if condition not in self._tables:
            choices = support(condition)
            is_small = prod(choice.outcome_count for choice in choices) <= MAX_TABLE_CELLS
            places = [self.index[choice.path] for choice in choices]
            self._tables[condition] = (places, dense_table(condition, choices).astype(bool)) if is_small else None
        entry = self._tables[condition]
        if entry is None:
            return self.evaluate(condition, codes, np.arange(len(codes))).astype(bool)
        places, table = entry
        mask: NDArray[np.bool_] = table[tuple([np.maximum(codes[:, place], 0) for place in places])]
        return mask

    def evaluate(self, value: Value, codes: Codes, rows: NDArray[np.int64]) -> NDArray[Any]:
        """Return the value of a diagram for each of the rows of `codes` with indices `rows`."""
        if not varies(value):
            return np.full(len(rows), value)
        result = np.empty(len(codes), dtype=np.array(next(leaves(value))).dtype)
        for part, leaf in self._split(value, codes, rows):
            result[part] = leaf
        return result[rows]


def rejection_sample(
    n: int,
    width: int,
    sample: Callable[[int, np.random.Generator], Codes],
    mask: Callable[[Codes], NDArray[np.bool_]],
    rng: np.random.Generator,
    bound: Constraint,
) -> Codes:
    """Return `n` rows of `width` choices by rejection sampling.

    `sample` returns a batch of rows, and `mask` says which of its rows are accepted. Raises ArchError (A1005), located
    at the constraint `bound`, if too many consecutive samples are rejected.
    """
    batches = [np.empty((0, width), np.int16)]
    total = rejected = empty_batches = 0
    while total < n:
        count = max(n - total, min(n, 256))
        if empty_batches > MAX_EMPTY_BATCHES:  # a large batch costs hardly more than a small one
            count = max(count, MAX_BATCH)
        codes = sample(count, rng)
        accepted = codes[mask(codes)]
        if len(accepted):
            batches.append(accepted)
            total, rejected, empty_batches = total + len(accepted), 0, 0
            continue
        rejected, empty_batches = rejected + count, empty_batches + 1
        if rejected > MAX_REJECTIONS:
            raise fail("A1005", f"{rejected:,} architectures in a row broke the bounds on costs", bound.span)
    return np.concatenate(batches)[:n]

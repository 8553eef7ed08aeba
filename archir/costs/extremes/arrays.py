"""Minimum and maximum total of a chain by variable elimination on arrays.

This is exact, and fast if choices have many outcomes. Choices are eliminated from the last to the first: all tables
that depend on the choice are added, and the minimum over its outcomes becomes a new table.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from archir.costs.chain import Chain
from archir.costs.extremes.elimination import activity_conditions
from archir.costs.extremes.witnesses import Extreme
from archir.costs.tables import PRODUCTS_PER_UNIT, Numbers, check_cells, dense_table, expand_axes
from archir.diagnostics.work import spend
from archir.diagrams.diagram import Choice, support, value_at, varies


class _Table(NamedTuple):
    """Costs over some choices, and which of the cells the conditions allow."""

    choices: tuple[Choice, ...]
    costs: Numbers
    allowed: NDArray[np.bool_]


def extreme(chain: Chain, cost: int, sign: int) -> Extreme | None:
    """Return what `archir.costs.extremes.witnesses.extreme` returns, computed on arrays.

    Raises ArchError (A1601) if arrays would be too large.
    """
    position = {decision.choice: i for i, decision in enumerate(chain.order)}
    buckets: list[list[_Table]] = [[] for _ in chain.order]
    for table in [*_cost_tables(chain, cost, sign), *_condition_tables(chain, position)]:
        buckets[position[table.choices[-1]]].append(table)
    empty = _Table((), np.zeros((), np.int64), np.array(True))
    eliminated: list[_Table] = []
    for tables in reversed(buckets):
        eliminated.append(reduce(lambda left, right: _add(left, right, position), tables, empty))
        remainder = _minimize_last(eliminated[-1])
        if remainder.choices:
            buckets[position[remainder.choices[-1]]].append(remainder)
    codes = _optimal_outcomes(chain, eliminated[::-1], sign)
    if codes is None:
        return None
    outcome_of = {choice: max(codes[i], 0) for choice, i in position.items()}
    value = sum(
        int(table[tuple([outcome_of[choice] for choice in choices])][cost]) for choices, table in chain.groups.items()
    )
    return Extreme(value + chain.constant[cost], codes)


def _cost_tables(chain: Chain, cost: int, sign: int) -> Iterator[_Table]:
    """Yield the tables of a cost, with values multiplied by `sign`."""
    for choices, table in chain.groups.items():
        yield _Table(choices, table[..., cost] * sign, np.ones(table.shape[:-1], bool))


def _condition_tables(chain: Chain, place: dict[Choice, int]) -> Iterator[_Table]:
    """Yield each condition as a table that has cost 0 and allows the cells where the condition holds."""
    for condition in activity_conditions(chain.conditions, chain.order):
        if varies(condition):
            choices = tuple(sorted(support(condition), key=place.__getitem__))
            table = dense_table(condition, choices)
            yield _Table(choices, np.zeros_like(table), table.astype(bool))


def _add(left: _Table, right: _Table, place: dict[Choice, int]) -> _Table:
    """Return the sum of two tables over the union of their choices; a cell is allowed if both tables allow it."""
    union = tuple(sorted({*left.choices, *right.choices}, key=place.__getitem__))
    check_cells(union)
    spend(prod(choice.outcome_count for choice in union) / PRODUCTS_PER_UNIT)
    numbers = expand_axes(left.costs, left.choices, union) + expand_axes(right.costs, right.choices, union)
    return _Table(
        union,
        numbers,
        expand_axes(left.allowed, left.choices, union) & expand_axes(right.allowed, right.choices, union),
    )


def _minimize_last(table: _Table) -> _Table:
    """Return the minimum of a table over the outcomes of its last choice."""
    if not table.choices:
        return table
    allowed: NDArray[np.bool_] = np.logical_or.reduce(table.allowed, axis=-1)
    least = np.where(table.allowed, table.costs, np.iinfo(np.int64).max).min(-1)
    return _Table(table.choices[:-1], np.where(allowed, least, 0), allowed)


def _optimal_outcomes(chain: Chain, eliminated: list[_Table], sign: int) -> tuple[int, ...] | None:
    """Return the outcomes of the choices that attain the minimum; None if no combination is allowed.

    If several combinations attain it, the first outcomes are returned, or with `sign` -1 the last ones.
    """
    outcome_of: dict[Choice, int] = {}
    outcomes: dict[str, int] = {}
    codes: list[int] = []
    for decision, table in zip(chain.order, eliminated, strict=True):
        active = value_at(decision.active, outcomes) is True
        candidates = np.arange(decision.choice.outcome_count if active else 1)
        if table.choices:
            index = tuple([outcome_of[choice] for choice in table.choices[:-1]])
            candidates = candidates[table.allowed[index][: len(candidates)]]
            if not len(candidates):
                return None
            numbers = table.costs[index][candidates]
            candidates = candidates[numbers == numbers.min()]
        outcome = int(candidates[0 if sign == 1 else -1])
        outcome_of[decision.choice] = outcomes[decision.choice.path] = outcome
        codes.append(outcome if active else -1)
    return tuple(codes)

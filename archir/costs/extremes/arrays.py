"""The least and the greatest total of a chain by arrays: exact, and quick where choices have many outcomes.

The choices are eliminated from the last to the first. The tables of one are added up, and the least over its outcomes
goes on.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from math import prod
from typing import NamedTuple

from archir.costs.dynamic import Chain
from archir.costs.extremes.elimination import allowed
from archir.costs.extremes.witnesses import Extreme
from archir.costs.tables import MULTIPLIED, Numbers, axes, check_cells, dense
from archir.diagnostics.work import spend
from archir.diagrams.cases import Choice, at, support, varies
from archir.utils.arrays import NDArray, np


class _Table(NamedTuple):
    """What is to be added over some choices, and where they are allowed."""

    choices: tuple[Choice, ...]
    numbers: Numbers
    allowed: NDArray[np.bool_]


def extreme(chain: Chain, cost: int, sign: int) -> Extreme | None:
    """What `archir.costs.extremes.witnesses.extreme` says. Raises ArchError (A1601) if arrays would be too large."""
    place = {decision.choice: i for i, decision in enumerate(chain.order)}
    waiting: list[list[_Table]] = [[] for _ in chain.order]
    for table in [*_costs(chain, cost, sign), *_conditions(chain, place)]:
        waiting[place[table.choices[-1]]].append(table)
    nothing = _Table((), np.zeros((), np.int64), np.array(True))
    settled: list[_Table] = []
    for tables in reversed(waiting):
        settled.append(reduce(lambda one, other: _sum(one, other, place), tables, nothing))
        after = _least(settled[-1])
        if after.choices:
            waiting[place[after.choices[-1]]].append(after)
    codes = _led(chain, settled[::-1], sign)
    if codes is None:
        return None
    known = {choice: max(codes[i], 0) for choice, i in place.items()}
    value = sum(
        int(table[tuple([known[choice] for choice in choices])][cost]) for choices, table in chain.groups.items()
    )
    return Extreme(value + chain.constant[cost], codes)


def _costs(chain: Chain, cost: int, sign: int) -> Iterator[_Table]:
    for choices, table in chain.groups.items():
        yield _Table(choices, table[..., cost] * sign, np.ones(table.shape[:-1], bool))


def _conditions(chain: Chain, place: dict[Choice, int]) -> Iterator[_Table]:
    for condition in allowed(chain.conditions, chain.order):
        if varies(condition):
            choices = tuple(sorted(support(condition), key=place.__getitem__))
            table = dense(condition, choices)
            yield _Table(choices, np.zeros_like(table), table.astype(bool))


def _sum(one: _Table, other: _Table, place: dict[Choice, int]) -> _Table:
    union = tuple(sorted({*one.choices, *other.choices}, key=place.__getitem__))
    check_cells(union)
    spend(prod(choice.outcomes for choice in union) / MULTIPLIED)
    numbers = axes(one.numbers, one.choices, union) + axes(other.numbers, other.choices, union)
    return _Table(union, numbers, axes(one.allowed, one.choices, union) & axes(other.allowed, other.choices, union))


def _least(table: _Table) -> _Table:
    """The least over the outcomes of the last choice."""
    if not table.choices:
        return table
    allowed: NDArray[np.bool_] = np.logical_or.reduce(table.allowed, axis=-1)
    least = np.where(table.allowed, table.numbers, np.iinfo(np.int64).max).min(-1)
    return _Table(table.choices[:-1], np.where(allowed, least, 0), allowed)


def _led(chain: Chain, settled: list[_Table], sign: int) -> tuple[int, ...] | None:
    """The outcomes that lead to the least; of several the first ones, or with sign -1 the last."""
    known: dict[Choice, int] = {}
    outcomes: dict[str, int] = {}
    codes: list[int] = []
    for decision, table in zip(chain.order, settled, strict=True):
        active = at(decision.active, outcomes) is True
        found = np.arange(decision.choice.outcomes if active else 1)
        if table.choices:
            index = tuple([known[choice] for choice in table.choices[:-1]])
            found = found[table.allowed[index][: len(found)]]
            if not len(found):
                return None
            numbers = table.numbers[index][found]
            found = found[numbers == numbers.min()]
        outcome = int(found[0 if sign == 1 else -1])
        known[decision.choice] = outcomes[decision.choice.path] = outcome
        codes.append(outcome if active else -1)
    return tuple(codes)

"""Values that depend on choices as tables of numbers: what an array of architectures costs is a few gathers.

A factor is a table over the few choices that matter to it; an inactive choice counts as its first outcome, since no
value depends on it. Factors are merged where one knows all choices of the other, or both together stay small.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from archir.cases import Choice, Value, support, varies
from archir.errors import fail

Codes = NDArray[np.int16]
Numbers = NDArray[np.int64]

MOST_CELLS = 65_536
"""Cells up to which factors of different choices are merged."""
MOST_TABLE = 10_000_000
"""Cells of one table."""
MOST_SUM = 2**62
ROWS = 8_192
"""Architectures at a time: what is worked on stays in the cache."""


@dataclass(frozen=True, eq=False)
class Factor:
    """A table with an axis per choice, and one for the costs. `positions` are those of the choices in the space."""

    positions: tuple[int, ...]
    table: Numbers

    def at(self, columns: Mapping[int, NDArray[np.int32]]) -> Numbers:
        """The cells of an array of architectures, given as a column of outcomes for each choice."""
        first, *others = self.positions
        index = columns[first]
        for position, size in zip(others, self.table.shape[1:-1], strict=True):
            index = index * np.int32(size) + columns[position]
        found: Numbers = self.table.reshape(-1, self.table.shape[-1])[index]
        return found


@dataclass(frozen=True, eq=False)
class Table:
    """Costs that are sums (or maxima) of a constant and factors."""

    names: tuple[str, ...]
    constant: Numbers
    factors: tuple[Factor, ...]
    join: np.ufunc = np.add

    def at(self, codes: Codes) -> Numbers:
        """The costs of each row of outcomes, a column each; exact."""
        total = np.repeat(self.constant[None], len(codes), axis=0)
        used = sorted({position for factor in self.factors for position in factor.positions})
        for start in range(0, len(codes), ROWS):
            part, rows = total[start : start + ROWS], codes[start : start + ROWS]
            columns = {position: np.maximum(rows[:, position], 0).astype(np.int32) for position in used}
            for factor in self.factors:
                self.join(part, factor.at(columns), out=part)
        return total


def grouped(terms: Mapping[str, Mapping[Value, int]], order: Mapping[str, int]) -> tuple[Numbers, Groups]:
    """Sums of values, each as often as it counts: what is constant, and tables by the choices they depend on.

    `order` has the position of each choice. Raises ArchError (A1601) for sums beyond 64 bits, and values that depend on
    too many choices.
    """
    names = tuple(terms)
    constant, most = np.zeros((2, len(names)), object)
    groups: Groups = {}
    for column, name in enumerate(names):
        for value, count in terms[name].items():
            if varies(value):
                choices, table = _table(value, order)
                most[column] += max(0, int(table.max())) * count
                found = groups.setdefault(choices, np.zeros((*table.shape, len(names)), np.int64))
                found[..., column] += table * count
            else:
                constant[column] += value * count
    if max(abs(constant) + most, default=0) >= MOST_SUM:
        raise fail("A1601", "a cost of this space does not fit into 64 bits")
    return constant.astype(np.int64), groups


def sums(names: tuple[str, ...], constant: Numbers, groups: Groups, order: Mapping[str, int]) -> Table:
    """A table of costs that are sums."""
    return Table(names, constant, _factors(groups, order, np.add))


def maxima(name: str, values: Iterable[Value], order: Mapping[str, int]) -> Table:
    """A table of one cost that is the maximum of values. Raises ArchError (A1601)."""
    distinct = list(dict.fromkeys(values))
    constant = max((value for value in distinct if not varies(value)), default=0)
    groups: Groups = {}
    for value in distinct:
        if varies(value):
            choices, table = _table(value, order)
            if table.max() > constant:
                table = table[..., None]
                groups[choices] = np.maximum(groups[choices], table) if choices in groups else table
    return Table((name,), np.array([constant], np.int64), _factors(groups, order, np.maximum), np.maximum)


Groups = dict[tuple[Choice, ...], Numbers]


def _table(value: Value, order: Mapping[str, int]) -> tuple[tuple[Choice, ...], Numbers]:
    choices = tuple(sorted(support(value), key=lambda choice: order[choice.path]))
    return choices, dense(value, choices)


def _factors(groups: Groups, order: Mapping[str, int], join: np.ufunc) -> tuple[Factor, ...]:
    """Few tables: those of most choices first take in what they can."""
    made: list[tuple[tuple[Choice, ...], Numbers]] = []
    for choices, table in sorted(groups.items(), key=lambda item: (-len(item[0]), [order[c.path] for c in item[0]])):
        for i, (known, other) in enumerate(made):
            union = tuple(sorted({*known, *choices}, key=lambda choice: order[choice.path]))
            shared = not set(known).isdisjoint(choices)
            if len(union) == len(known) or prod(choice.outcomes for choice in union) <= (
                MOST_CELLS if shared else MOST_CELLS // 16
            ):
                made[i] = union, join(_spread(other, known, union), _spread(table, choices, union))
                break
        else:
            made.append((choices, table))
    return tuple(Factor(tuple(order[c.path] for c in cs), np.ascontiguousarray(table)) for cs, table in made)


def _spread(table: Numbers, choices: Sequence[Choice], union: Sequence[Choice]) -> Numbers:
    """A table with axes for more choices."""
    shape = [choice.outcomes if choice in choices else 1 for choice in union]
    full = [choice.outcomes for choice in union]
    spread: Numbers = np.broadcast_to(table.reshape(*shape, -1), (*full, table.shape[-1]))
    return spread


def dense(value: Value, choices: Sequence[Choice]) -> Numbers:
    """The table of a value over choices, which it depends on no others than, in the diagrams' order or any."""
    cells = prod(choice.outcomes for choice in choices)
    if cells > MOST_TABLE:
        raise fail("A1601", f"a cost depends on {len(choices)} choices at once, which is a table of {cells:,} cells")
    ordered = sorted(choices, key=lambda choice: choice.order)
    known: dict[tuple[int, int], Numbers] = {}

    def fill(value: Value, level: int) -> Numbers:
        question = (id(value), level)
        if question not in known:
            if level == len(ordered) and abs(value) >= MOST_SUM:
                raise fail("A1601", "a cost of this space does not fit into 64 bits")
            if level == len(ordered):
                known[question] = np.array(value, np.int64)
            else:
                choice = ordered[level]
                tested = varies(value) and value.choice is choice
                branches = [
                    fill(value.branches[outcome] if tested else value, level + 1)
                    for outcome in range(choice.outcomes if tested else 1)
                ]
                table = np.stack(branches)
                known[question] = table if tested else np.broadcast_to(table, (choice.outcomes, *table.shape[1:]))
        return known[question]

    table = fill(value, 0)
    found: Numbers = np.ascontiguousarray(np.transpose(table, [ordered.index(choice) for choice in choices]))
    return found

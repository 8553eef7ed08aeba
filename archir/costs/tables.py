"""Values that depend on choices as tables of numbers: what an array of architectures costs is a few gathers.

A factor is a table over the few choices that matter to it; an inactive choice counts as its first outcome, since no
value depends on it. Factors are merged where one knows all choices of the other, or both together stay small.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from math import prod
from typing import TypeAlias, TypeVar

from archir.costs.sums import Product, Term, depends, factors, greatest
from archir.diagnostics.errors import fail
from archir.diagnostics.work import afford, spend
from archir.diagrams.cases import Choice, Value, leaves, support, varies
from archir.utils.arrays import NDArray, np

Codes: TypeAlias = "NDArray[np.int16]"
Numbers: TypeAlias = "NDArray[np.int64]"
T = TypeVar("T", bound="np.generic")

MOST_CELLS = 65_536
"""Cells up to which factors of different choices are merged."""
MOST_TABLE = 10_000_000
"""Cells of one table."""
MOST_TABLES = 20_000_000
"""Cells of all tables together."""
CELLS, MULTIPLIED = 16, 128
"""Cells that are filled in for a unit of work, and those that arrays are multiplied or added to."""
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
        found: Numbers = self.table.reshape(prod(self.table.shape[:-1]), self.table.shape[-1])[index]
        return found


@dataclass(frozen=True, eq=False)
class Table:
    """Costs that are sums (or maxima) of a constant and factors."""

    names: tuple[str, ...]
    constant: Numbers
    factors: tuple[Factor, ...]
    join: np.ufunc = field(default_factory=lambda: np.add)

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


def grouped(terms: Mapping[str, Mapping[Term, int]], order: Mapping[str, int]) -> tuple[Numbers, Groups]:
    """Sums of terms, each as often as it counts: what is constant, and tables by the choices they depend on.

    `order` has the position of each choice. Raises ArchError (A1601) for sums beyond 64 bits, and terms that depend on
    too many choices.
    """
    names = tuple(terms)
    constant, most = np.zeros((2, len(names)), object)
    groups: Groups = {}
    about = {term: _choices(term, order) for one in terms.values() for term in one if depends(term)}
    cells = {choices: prod(choice.outcomes for choice in choices) for choices in about.values()}
    if sum(cells.values()) > MOST_TABLES:
        raise fail("A1601", f"costs of this space are tables of more than {MOST_TABLES:,} cells")
    afford(sum(cells[choices] for choices in about.values()) / CELLS)
    for column, name in enumerate(names):
        for term, count in terms[name].items():
            if depends(term):
                choices, table = _table(term, order)
                most[column] += int(abs(table).max()) * abs(count)
                found = groups.setdefault(choices, np.zeros((*table.shape, len(names)), np.int64))
                found[..., column] += table * count
            else:
                constant[column] += term * count
    if max(abs(constant) + most, default=0) >= MOST_SUM:
        raise fail("A1601", "a cost of this space does not fit into 64 bits")
    return constant.astype(np.int64), groups


def sums(names: tuple[str, ...], constant: Numbers, groups: Groups, order: Mapping[str, int]) -> Table:
    """A table of costs that are sums."""
    return Table(names, constant, _factors(groups, order, np.add))


def maxima(name: str, sums: Iterable[Mapping[Value, int]], order: Mapping[str, int]) -> Table:
    """A table of one cost: the greatest of sums of values, each as often as it counts.

    Only those are tabulated that are ever more than all architectures have anyway. Raises ArchError (A1601) where too
    many choices matter at once.
    """
    ends: dict[Value, tuple[int, int]] = {}
    bounded: list[tuple[frozenset[tuple[Value, int]], int, int]] = []
    for terms in dict.fromkeys(frozenset(terms.items()) for terms in sums):
        for value, _ in terms:
            if value not in ends:
                known = list(leaves(value))
                ends[value] = min(known), max(known)
        least, most = (sum(ends[value][i] * times for value, times in terms) for i in (0, 1))
        bounded.append((terms, least, most))
    constant = max((least for _, least, _ in bounded), default=0)
    groups: Groups = {}
    tables: dict[Value, tuple[tuple[Choice, ...], Numbers]] = {}
    for terms, _, most in bounded:
        if most > constant:
            for value, _ in terms:
                if value not in tables:
                    tables[value] = _table(value, order) if varies(value) else ((), np.array(value, np.int64))
            choices, table = _total([(*tables[value], times) for value, times in terms], order)
            groups[choices] = np.maximum(groups[choices], table) if choices in groups else table
    mattering = {choices: table[..., None] for choices, table in groups.items() if table.max() > constant}
    return Table((name,), np.array([constant], np.int64), _factors(mattering, order, np.maximum), np.maximum)


def _total(
    terms: Iterable[tuple[tuple[Choice, ...], Numbers, int]], order: Mapping[str, int]
) -> tuple[tuple[Choice, ...], Numbers]:
    """The sum of tables, each as often as it counts. Those of few choices are added up first."""
    choices: tuple[Choice, ...] = ()
    total: Numbers = np.array(0, np.int64)
    for more, table, times in sorted(terms, key=lambda term: len(term[0])):
        union = tuple(sorted({*choices, *more}, key=lambda choice: order[choice.path]))
        check_cells(union)
        total = axes(total, choices, union) + axes(table, more, union) * times
        choices = union
    return choices, total


def axes(table: NDArray[T], choices: Sequence[Choice], union: Sequence[Choice]) -> NDArray[T]:
    """A table with axes of one cell for more choices."""
    return table.reshape([choice.outcomes if choice in choices else 1 for choice in union])


Groups = dict[tuple[Choice, ...], Numbers]


def _table(term: Term, order: Mapping[str, int]) -> tuple[tuple[Choice, ...], Numbers]:
    union = _choices(term, order)
    if type(term) is not Product:
        return union, dense(term, union)
    check_cells(union)
    spend(prod(choice.outcomes for choice in union) / MULTIPLIED)
    if greatest(term) >= MOST_SUM:
        raise fail("A1601", "a cost of this space does not fit into 64 bits")
    known = [(_choices(factor, order), factor) for factor in term.factors]
    return union, reduce(np.multiply, [axes(dense(factor, choices), choices, union) for choices, factor in known])


def _choices(term: Term, order: Mapping[str, int]) -> tuple[Choice, ...]:
    return tuple(sorted(support(*factors(term)), key=lambda choice: order[choice.path]))


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


def check_cells(choices: Sequence[Choice]) -> None:
    """Raise ArchError (A1601) if a table over choices would be too large."""
    cells = prod(choice.outcomes for choice in choices)
    if cells > MOST_TABLE:
        raise fail("A1601", f"a cost depends on {len(choices)} choices at once, which is a table of {cells:,} cells")


def dense(value: Value, choices: Sequence[Choice]) -> Numbers:
    """The table of a value over choices, which it depends on no others than, in the diagrams' order or any."""
    check_cells(choices)
    spend(prod(choice.outcomes for choice in choices) / CELLS)
    ordered = sorted(choices, key=lambda choice: choice.order)
    known: dict[tuple[int, int], Numbers] = {}

    def fill(value: Value, level: int) -> Numbers:
        question = (id(value), level)
        if question not in known:
            leaves = value.branches if varies(value) else (value,)
            if any(not varies(leaf) and abs(leaf) >= MOST_SUM for leaf in leaves):
                raise fail("A1601", "a cost of this space does not fit into 64 bits")
            if not varies(value):
                known[question] = np.full([choice.outcomes for choice in ordered[level:]], value, np.int64)
            elif not any(map(varies, value.branches)) and value.choice is ordered[-1] and level == len(ordered) - 1:
                known[question] = np.array(value.branches, np.int64)
            else:
                choice = ordered[level]
                tested = value.choice is choice
                branches = [
                    fill(value.branches[outcome] if tested else value, level + 1)
                    for outcome in range(choice.outcomes if tested else 1)
                ]
                table = np.stack(branches)
                known[question] = table if tested else np.broadcast_to(table, (choice.outcomes, *table.shape[1:]))
        return known[question]

    table = fill(value, 0)
    known.clear()  # which `fill` holds, and `fill` itself
    found: Numbers = np.ascontiguousarray(np.transpose(table, [ordered.index(choice) for choice in choices]))
    return found

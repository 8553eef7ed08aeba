"""Values that depend on choices as dense tables: costs of many architectures take only a few gathers.

A factor is a table over the few choices that a value depends on. For an inactive choice, the first outcome is used,
which is correct because no value depends on an inactive choice. Two factors are merged if one depends on all choices of
the other, or if the merged table is small.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from math import prod
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from archir.costs.sums import Product, Term, factors, is_varying, max_magnitude
from archir.diagnostics.errors import ArchError, exceeds
from archir.diagnostics.work import require_work, spend
from archir.diagrams.diagram import Choice, Value, leaves, support, varies

Codes: TypeAlias = NDArray[np.int16]
"""Architectures as rows of outcomes [n, choices], or one architecture [choices]; -1 if a choice is inactive."""
Numbers: TypeAlias = NDArray[np.int64]
"""Exact 64-bit integers."""
T = TypeVar("T", bound="np.generic")

MAX_MERGED_CELLS = 65_536
"""Maximum number of cells of a table that results from merging factors of different choices."""
MAX_TABLE_CELLS = 10_000_000
"""Maximum number of cells of one table."""
MAX_TOTAL_CELLS = 20_000_000
"""Maximum number of cells of all tables together."""
CELLS_PER_UNIT, PRODUCTS_PER_UNIT = 16, 128
"""Number of cells that one work unit pays for: cells filled, and cells added or multiplied as arrays."""
MAX_SUM = 2**62
"""Exclusive upper bound of a sum's absolute value, such that two sums can be added in 64 bits.

Also used as infinity.
"""
BLOCK_ROWS = 8_192
"""Number of architectures that are evaluated together, so that intermediate arrays fit in the CPU cache."""


def too_large_cost() -> ArchError:
    """Return the error (A1601) that a cost may reach MAX_SUM."""
    return exceeds("A1601", "a cost of this space does not fit into 64 bits")


@dataclass(frozen=True, eq=False)
class Factor:
    """Table with one axis per choice, and a last axis for the costs.

    `positions` are the positions of these choices in the space's order.
    """

    positions: tuple[int, ...]
    table: Numbers

    def at(self, columns: Mapping[int, NDArray[np.int32]]) -> Numbers:
        """Return the cells [n, costs] of an array of architectures; `columns` has the outcomes [n] of each choice."""
        first, *others = self.positions
        index = columns[first]
        for position, size in zip(others, self.table.shape[1:-1], strict=True):
            index = index * np.int32(size) + columns[position]
        cells: Numbers = self.table.reshape(prod(self.table.shape[:-1]), self.table.shape[-1])[index]
        return cells


@dataclass(frozen=True, eq=False)
class Table:
    """Costs that are the sum, or the maximum, of a constant and several factors."""

    names: tuple[str, ...]
    constant: Numbers
    factors: tuple[Factor, ...]
    combine: np.ufunc = field(default_factory=lambda: np.add)
    """Operation that combines the constant and the factors: `np.add` or `np.maximum`."""

    def at(self, codes: Codes) -> Numbers:
        """Return the exact costs [n, costs] of an array of architectures."""
        total = np.repeat(self.constant[None], len(codes), axis=0)
        used = sorted({position for factor in self.factors for position in factor.positions})
        for start in range(0, len(codes), BLOCK_ROWS):
            part, rows = total[start : start + BLOCK_ROWS], codes[start : start + BLOCK_ROWS]
            columns = {position: np.maximum(rows[:, position], 0).astype(np.int32) for position in used}
            for factor in self.factors:
                self.combine(part, factor.at(columns), out=part)
        return total


def group_terms(terms: Mapping[str, Mapping[Term, int]], order: Mapping[str, int]) -> tuple[Numbers, Groups]:
    """Convert sums of terms to a constant per sum and a table [*outcomes, sums] for each set of choices.

    `terms` has the terms of each sum with their multiplicities, `order` the position of each choice. Raises ArchError
    (A1601) for sums beyond 64 bits, and for terms that depend on too many choices.
    """
    names = tuple(terms)
    constant, magnitudes = np.zeros((2, len(names)), object)
    groups: Groups = {}
    choices_by_term = {
        term: _term_choices(term, order) for cost_terms in terms.values() for term in cost_terms if is_varying(term)
    }
    cells = {choices: prod(choice.outcome_count for choice in choices) for choices in choices_by_term.values()}
    if sum(cells.values()) > MAX_TOTAL_CELLS:
        raise exceeds("A1601", f"the cost tables of this space would have more than {MAX_TOTAL_CELLS:,} cells together")
    require_work(sum(cells[choices] for choices in choices_by_term.values()) / CELLS_PER_UNIT)
    for column, name in enumerate(names):
        for term, count in terms[name].items():
            if is_varying(term):
                choices, table = _term_table(term, order)
                magnitudes[column] += int(abs(table).max()) * abs(count)
                group = groups.setdefault(choices, np.zeros((*table.shape, len(names)), np.int64))
                group[..., column] += table * count
            else:
                constant[column] += term * count
    if max(abs(constant) + magnitudes, default=0) >= MAX_SUM:
        raise too_large_cost()
    return constant.astype(np.int64), groups


def sum_table(names: tuple[str, ...], constant: Numbers, groups: Groups, order: Mapping[str, int]) -> Table:
    """Return the table of costs that are sums."""
    return Table(names, constant, _merge_factors(groups, order, np.add))


def max_table(name: str, candidates: Iterable[Mapping[Value, int]], order: Mapping[str, int]) -> Table:
    """Return the table of a cost that is the maximum of several sums of values.

    Values are given with multiplicities. Sums that never exceed the greatest minimum of any sum are left out, since
    every architecture reaches it. Raises ArchError (A1601) if a sum depends on too many choices at once.
    """
    ranges: dict[Value, tuple[int, int]] = {}
    bounded: list[tuple[frozenset[tuple[Value, int]], int, int]] = []
    for terms in dict.fromkeys(frozenset(terms.items()) for terms in candidates):
        for value, _ in terms:
            if value not in ranges:
                leaf_values = list(leaves(value))
                ranges[value] = min(leaf_values), max(leaf_values)
        low, high = (sum(ranges[value][i] * times for value, times in terms) for i in (0, 1))
        bounded.append((terms, low, high))
    constant = max((low for _, low, _ in bounded), default=0)
    groups: Groups = {}
    tables: dict[Value, tuple[tuple[Choice, ...], Numbers]] = {}
    for terms, _, high in bounded:
        if high > constant:
            for value, _ in terms:
                if value not in tables:
                    tables[value] = _term_table(value, order) if varies(value) else ((), np.array(value, np.int64))
            choices, table = _add_tables([(*tables[value], times) for value, times in terms], order)
            groups[choices] = np.maximum(groups[choices], table) if choices in groups else table
    relevant = {choices: table[..., None] for choices, table in groups.items() if table.max() > constant}
    return Table((name,), np.array([constant], np.int64), _merge_factors(relevant, order, np.maximum), np.maximum)


def _add_tables(
    terms: Iterable[tuple[tuple[Choice, ...], Numbers, int]], order: Mapping[str, int]
) -> tuple[tuple[Choice, ...], Numbers]:
    """Return the sum of tables over different choices, each multiplied by a number.

    Tables of few choices are added first.
    """
    choices: tuple[Choice, ...] = ()
    total: Numbers = np.array(0, np.int64)
    for own_choices, table, times in sorted(terms, key=lambda term: len(term[0])):
        union = tuple(sorted({*choices, *own_choices}, key=lambda choice: order[choice.path]))
        check_cells(union)
        total = expand_axes(total, choices, union) + expand_axes(table, own_choices, union) * times
        choices = union
    return choices, total


def expand_axes(table: NDArray[T], choices: Sequence[Choice], union: Sequence[Choice]) -> NDArray[T]:
    """Return a table with an axis for every choice in `union`; axes of choices it does not depend on have size 1."""
    return table.reshape([choice.outcome_count if choice in choices else 1 for choice in union])


Groups = dict[tuple[Choice, ...], Numbers]
"""Tables by the tuple of choices that they depend on."""


def _term_table(term: Term, order: Mapping[str, int]) -> tuple[tuple[Choice, ...], Numbers]:
    """Return a term as a table, and the choices of its axes, in the space's order.

    Raises ArchError (A1601) if the table would be too large.
    """
    union = _term_choices(term, order)
    if type(term) is not Product:
        return union, dense_table(term, union)
    check_cells(union)
    spend(prod(choice.outcome_count for choice in union) / PRODUCTS_PER_UNIT)
    if max_magnitude(term) >= MAX_SUM:
        raise too_large_cost()
    factor_choices = [(_term_choices(factor, order), factor) for factor in term.factors]
    return union, reduce(
        np.multiply, [expand_axes(dense_table(factor, choices), choices, union) for choices, factor in factor_choices]
    )


def _term_choices(term: Term, order: Mapping[str, int]) -> tuple[Choice, ...]:
    """Return the choices that a term depends on, in the space's order."""
    return tuple(sorted(support(*factors(term)), key=lambda choice: order[choice.path]))


def _merge_factors(groups: Groups, order: Mapping[str, int], join: np.ufunc) -> tuple[Factor, ...]:
    """Merge tables into few factors.

    Each table is added to the first larger table that has all of its choices, or that stays small after adding them.
    """
    merged: list[tuple[tuple[Choice, ...], Numbers]] = []
    for choices, table in sorted(groups.items(), key=lambda item: (-len(item[0]), [order[c.path] for c in item[0]])):
        for i, (merged_choices, merged_table) in enumerate(merged):
            union = tuple(sorted({*merged_choices, *choices}, key=lambda choice: order[choice.path]))
            overlaps = not set(merged_choices).isdisjoint(choices)
            if len(union) == len(merged_choices) or prod(choice.outcome_count for choice in union) <= (
                MAX_MERGED_CELLS if overlaps else MAX_MERGED_CELLS // 16
            ):
                merged[i] = (
                    union,
                    join(_broadcast(merged_table, merged_choices, union), _broadcast(table, choices, union)),
                )
                break
        else:
            merged.append((choices, table))
    return tuple(Factor(tuple(order[c.path] for c in cs), np.ascontiguousarray(table)) for cs, table in merged)


def _broadcast(table: Numbers, choices: Sequence[Choice], union: Sequence[Choice]) -> Numbers:
    """Return a table broadcast to all outcomes of all choices in `union`."""
    shape = [choice.outcome_count if choice in choices else 1 for choice in union]
    full = [choice.outcome_count for choice in union]
    spread: Numbers = np.broadcast_to(table.reshape(*shape, -1), (*full, table.shape[-1]))
    return spread


def check_cells(choices: Sequence[Choice]) -> None:
    """Raise ArchError (A1601) if a table over these choices would have more than MAX_TABLE_CELLS cells."""
    cells = prod(choice.outcome_count for choice in choices)
    if cells > MAX_TABLE_CELLS:
        text = f"a cost depends on {len(choices)} choices at once: its table would have {cells:,} cells"
        raise exceeds("A1601", f"{text}, and the limit is {MAX_TABLE_CELLS:,}")


def dense_table(value: Value, choices: Sequence[Choice]) -> Numbers:
    """Return the table of a value over `choices`, which must include all choices it depends on, in any order."""
    check_cells(choices)
    spend(prod(choice.outcome_count for choice in choices) / CELLS_PER_UNIT)
    ordered = sorted(choices, key=lambda choice: choice.order)
    memo: dict[tuple[int, int], Numbers] = {}

    def fill(value: Value, level: int) -> Numbers:
        key = (id(value), level)
        if key not in memo:
            leaves = value.branches if varies(value) else (value,)
            if any(not varies(leaf) and abs(leaf) >= MAX_SUM for leaf in leaves):
                raise too_large_cost()
            if not varies(value):
                memo[key] = np.full([choice.outcome_count for choice in ordered[level:]], value, np.int64)
            elif not any(map(varies, value.branches)) and value.choice is ordered[-1] and level == len(ordered) - 1:
                memo[key] = np.array(value.branches, np.int64)
            else:
                choice = ordered[level]
                tests_choice = value.choice is choice
                branches = [
                    fill(value.branches[outcome] if tests_choice else value, level + 1)
                    for outcome in range(choice.outcome_count if tests_choice else 1)
                ]
                table = np.stack(branches)
                memo[key] = table if tests_choice else np.broadcast_to(table, (choice.outcome_count, *table.shape[1:]))
        return memo[key]

    table = fill(value, 0)
    memo.clear()  # breaks the reference cycle: the closure `fill` holds the memo and itself
    result: Numbers = np.ascontiguousarray(np.transpose(table, [ordered.index(choice) for choice in choices]))
    return result

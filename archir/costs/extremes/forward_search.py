"""Minimum total of diagrams by forward search: partial architectures are extended choice by choice.

Among partial architectures that no condition and no later term distinguishes, only the cheapest is kept. The result is
exact; the search is fast if few partial architectures must be kept. Partial architectures are rows of arrays, for which
terms are evaluated by walking the terms' diagrams, so a term may depend on any number of choices.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from archir.costs.evaluators import FlatDiagram
from archir.costs.extremes.elimination import LowerBound, activity_conditions
from archir.costs.tables import MAX_SUM, Codes, Numbers
from archir.diagnostics.work import WorkError, current_budget, spend
from archir.diagrams.conditions import conjoin
from archir.diagrams.diagram import Choice, DiagramSizeError, Value, choice_order, leaves, support, varies
from archir.ir.graph import Decision

MAX_ROWS = 100_000
"""Maximum number of partial architectures that are kept at the same time."""
WORK_PER_TERM, ROWS_PER_UNIT = 20, 32
"""Work units for evaluating a term, and number of rows that cost one additional unit."""


def minimize(terms: Sequence[Value], conditions: Sequence[Value], order: Sequence[Decision]) -> LowerBound | None:
    """Return the minimum of the sum of terms over architectures that satisfy all conditions; None if none does.

    Raises DiagramSizeError if too many partial architectures must be kept, and WorkError if the work budget is
    exhausted.
    """
    tested, varying_terms = support(*terms, *conditions), sum(map(varies, terms))
    min_rows = sum(choice.outcome_count for choice in tested)  # if there were one state before each choice
    if _work(min_rows, len(order)) + WORK_PER_TERM * varying_terms > current_budget().left:
        raise WorkError
    return _ForwardSearch(terms, conditions, order).result()


class _ForwardSearch:
    """State of one search: partial architectures as rows, their totals, and their diagram nodes in conditions."""

    def __init__(self, terms: Sequence[Value], conditions: Sequence[Value], order: Sequence[Decision]) -> None:
        """Store each term with the last choice that it tests. Raises DiagramSizeError if sums may exceed 64 bits."""
        self.choices = sorted((decision.choice for decision in order), key=choice_order)
        self.index = {choice.path: i for i, choice in enumerate(self.choices)}
        if sum(max(map(abs, leaves(term))) for term in terms) >= MAX_SUM:
            raise DiagramSizeError
        self.constant = sum(int(term) for term in terms if not varies(term))
        self.terms_by_last_choice: list[list[FlatDiagram]] = [
            [] for _ in self.choices
        ]  # terms by the last choice that they test
        self.last_use = [0] * len(self.choices)  # for each choice, the last choice that occurs in a term with it
        self.live_positions: list[int] = []  # positions of the choices made so far that later terms test
        for term in terms:
            if varies(term):
                self._add_term(term)
        self.conditions = [
            FlatDiagram(joined, self.index) for joined in _conjoin(activity_conditions(conditions, order))
        ]
        self.codes: Codes = np.zeros((1, len(self.choices)), np.int16)
        self.totals: Numbers = np.zeros(1, np.int64)
        self.nodes: list[Numbers] = [np.full(1, condition.root, np.int64) for condition in self.conditions]
        self._drop_infeasible()

    def _add_term(self, term: Value) -> None:
        """Store a term with the last choice that it tests."""
        positions = [self.index[choice.path] for choice in support(term)]
        self.terms_by_last_choice[positions[-1]].append(FlatDiagram(term, self.index))
        for position in positions:
            self.last_use[position] = max(self.last_use[position], positions[-1])

    def result(self) -> LowerBound | None:
        """Extend the partial architectures by every choice that matters, and return the cheapest one."""
        tested = {position for condition in self.conditions for position in condition.levels}
        for position, choice in enumerate(self.choices):
            if position in tested or self.last_use[position] or self.terms_by_last_choice[position]:
                self._extend(position, choice)
                self._merge_states(position)
        if not len(self.codes):
            return None
        row = self.codes[0].tolist()
        outcomes = {choice.path: outcome for choice, outcome in zip(self.choices, row, strict=True)}
        return LowerBound(int(self.totals[0]) + self.constant, True, outcomes)

    def _extend(self, position: int, choice: Choice) -> None:
        """Extend every partial architecture by all outcomes of a choice that the conditions allow."""
        row_count = len(self.codes)
        if row_count * choice.outcome_count > MAX_ROWS:
            raise DiagramSizeError
        spend(_work(row_count * choice.outcome_count, len(self.choices)))
        outcomes = np.tile(np.arange(choice.outcome_count, dtype=np.int16), row_count)
        self._select_rows(np.repeat(np.arange(row_count), choice.outcome_count))
        self.codes[:, position] = outcomes
        for condition, nodes in zip(self.conditions, self.nodes, strict=True):
            condition.advance(nodes, position, outcomes)
        self._drop_infeasible()
        for term in self.terms_by_last_choice[position]:
            spend(WORK_PER_TERM + len(self.codes) / ROWS_PER_UNIT)
            self.totals += term.at(self.codes)

    def _drop_infeasible(self) -> None:
        """Drop the partial architectures that violate a condition."""
        feasible = np.ones(len(self.codes), bool)
        for condition, nodes in zip(self.conditions, self.nodes, strict=True):
            feasible &= (nodes >= 0) | (condition.leaves[-1 - np.minimum(nodes, -1)] == 1)
        self._select_rows(np.flatnonzero(feasible))

    def _merge_states(self, position: int) -> None:
        """Of partial architectures that no condition and no later term distinguishes, keep only the cheapest."""
        self.live_positions = [i for i in (*self.live_positions, position) if self.last_use[i] > position]
        groups = _group_ids([*(self.codes[:, i] for i in self.live_positions), *self.nodes], len(self.codes))
        order = np.lexsort((self.totals, groups))
        first = np.ones(len(order), bool)
        first[1:] = groups[order][1:] != groups[order][:-1]
        self._select_rows(order[first])

    def _select_rows(self, rows: NDArray[np.intp]) -> None:
        """Keep only these rows in all arrays."""
        self.codes, self.totals = self.codes[rows], self.totals[rows]
        self.nodes = [nodes[rows] for nodes in self.nodes]


def _work(rows: int, choices: int) -> float:
    """Return the work units for extending `rows` partial architectures."""
    return rows * (1 + choices / 16) / ROWS_PER_UNIT


def _conjoin(conditions: Iterable[Value]) -> list[Value]:
    """Return the conditions, conjoined into as few diagrams as the size limit allows."""
    joined: Value = True
    separate: list[Value] = []
    for condition in conditions:
        try:
            joined = conjoin(joined, condition)
        except DiagramSizeError:
            separate.append(condition)
    return [joined, *separate]


def _group_ids(columns: Sequence[Numbers | NDArray[np.int16]], count: int) -> Numbers:
    """Return, for each row, a number that is equal for rows whose columns are equal."""
    ids, size = np.zeros(count, np.int64), 1
    for column in columns if count else ():
        low = int(column.min())
        span = int(column.max()) - low + 1
        if size * span >= MAX_SUM:
            distinct, ids = np.unique(ids, return_inverse=True)
            size = len(distinct)
        ids = ids * span + (column.astype(np.int64) - low)
        size *= span
    return ids

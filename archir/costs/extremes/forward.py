"""The least total of diagrams, with architectures made choice by choice: exact, where few are worth going on with.

Of those that no condition and no later term tells apart after a choice, the cheapest goes on. They are rows of arrays,
and values are followed along their diagrams, so that a term may depend on any number of choices.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from archir.costs.extremes.elimination import Least, allowed
from archir.costs.rows import Followed
from archir.costs.tables import MOST_SUM, Codes, Numbers
from archir.diagnostics.work import WorkError, current, spend
from archir.diagrams.cases import Choice, EntangledError, Value, leaves, order_of, support, varies
from archir.diagrams.conditions import both
from archir.ir.graph import Decision
from archir.utils.arrays import NDArray, np

MOST_ROWS = 100_000
"""Architectures that are begun at once."""
A_TERM, ROWS_A_UNIT = 20, 32
"""Units of work that following a term takes, and rows for which it takes one more."""


def least(terms: Sequence[Value], conditions: Sequence[Value], order: Sequence[Decision]) -> Least | None:
    """The least sum of terms where all conditions hold; None if they never do. Raises EntangledError, WorkError."""
    tested, depending = support(*terms, *conditions), sum(map(varies, terms))
    fewest = sum(choice.outcomes for choice in tested)  # if there were one state before each choice
    if _work(fewest, len(order)) + A_TERM * depending > current().left:
        raise WorkError
    return _Forward(terms, conditions, order).result()


class _Forward:
    def __init__(self, terms: Sequence[Value], conditions: Sequence[Value], order: Sequence[Decision]) -> None:
        self.choices = sorted((decision.choice for decision in order), key=order_of)
        self.index = {choice.path: i for i, choice in enumerate(self.choices)}
        if sum(max(map(abs, leaves(term))) for term in terms) >= MOST_SUM:
            raise EntangledError
        self.constant = sum(int(term) for term in terms if not varies(term))
        self.settled: list[list[Followed]] = [[] for _ in self.choices]  # terms, by the last choice that they test
        self.needed = [0] * len(self.choices)  # the last choice that is tested together with each one
        self.open: list[int] = []  # the choices made that later terms test, too
        for term in terms:
            if varies(term):
                self._file(term)
        self.conditions = [Followed(one, self.index) for one in _joined(allowed(conditions, order))]
        self.codes: Codes = np.zeros((1, len(self.choices)), np.int16)
        self.totals: Numbers = np.zeros(1, np.int64)
        self.nodes: list[Numbers] = [np.full(1, condition.first, np.int64) for condition in self.conditions]
        self._allow()

    def _file(self, term: Value) -> None:
        positions = [self.index[choice.path] for choice in support(term)]
        self.settled[positions[-1]].append(Followed(term, self.index))
        for position in positions:
            self.needed[position] = max(self.needed[position], positions[-1])

    def result(self) -> Least | None:
        tested = {position for condition in self.conditions for position in condition.levels}
        for position, choice in enumerate(self.choices):
            if position in tested or self.needed[position] or self.settled[position]:
                self._choose(position, choice)
                self._merge(position)
        if not len(self.codes):
            return None
        row = self.codes[0].tolist()
        outcomes = {choice.path: outcome for choice, outcome in zip(self.choices, row, strict=True)}
        return Least(int(self.totals[0]) + self.constant, True, outcomes)

    def _choose(self, position: int, choice: Choice) -> None:
        """Every state with every outcome of a choice that conditions leave."""
        before = len(self.codes)
        if before * choice.outcomes > MOST_ROWS:
            raise EntangledError
        spend(_work(before * choice.outcomes, len(self.choices)))
        outcomes = np.tile(np.arange(choice.outcomes, dtype=np.int16), before)
        self._keep(np.repeat(np.arange(before), choice.outcomes))
        self.codes[:, position] = outcomes
        for condition, nodes in zip(self.conditions, self.nodes, strict=True):
            condition.step(nodes, position, outcomes)
        self._allow()
        for term in self.settled[position]:
            spend(A_TERM + len(self.codes) / ROWS_A_UNIT)
            self.totals += term.at(self.codes)

    def _allow(self) -> None:
        """The states that no condition rules out."""
        fine = np.ones(len(self.codes), bool)
        for condition, nodes in zip(self.conditions, self.nodes, strict=True):
            fine &= (nodes >= 0) | (condition.leaves[-1 - np.minimum(nodes, -1)] == 1)
        self._keep(np.flatnonzero(fine))

    def _merge(self, position: int) -> None:
        """Of the states that nothing tells apart after a choice, the cheapest is kept."""
        self.open = [i for i in (*self.open, position) if self.needed[i] > position]
        names = _names([*(self.codes[:, i] for i in self.open), *self.nodes], len(self.codes))
        order = np.lexsort((self.totals, names))
        first = np.ones(len(order), bool)
        first[1:] = names[order][1:] != names[order][:-1]
        self._keep(order[first])

    def _keep(self, rows: NDArray[np.intp]) -> None:
        self.codes, self.totals = self.codes[rows], self.totals[rows]
        self.nodes = [nodes[rows] for nodes in self.nodes]


def _work(rows: int, choices: int) -> float:
    """What it takes to begin so many architectures."""
    return rows * (1 + choices / 16) / ROWS_A_UNIT


def _joined(conditions: Iterable[Value]) -> list[Value]:
    """Conditions in as few as can be told."""
    joined: Value = True
    apart: list[Value] = []
    for condition in conditions:
        try:
            joined = both(joined, condition)
        except EntangledError:
            apart.append(condition)
    return [joined, *apart]


def _names(columns: Sequence[Numbers | NDArray[np.int16]], count: int) -> Numbers:
    """Numbers that are equal where rows of columns are."""
    names, size = np.zeros(count, np.int64), 1
    for column in columns if count else ():
        low = int(column.min())
        spread = int(column.max()) - low + 1
        if size * spread >= MOST_SUM:
            known, names = np.unique(names, return_inverse=True)
            size = len(known)
        names = names * spread + (column.astype(np.int64) - low)
        size *= spread
    return names

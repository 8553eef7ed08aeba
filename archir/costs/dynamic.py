"""A space as a chain: choices are made one after another, and what is remembered of them is what still matters.

A state is the outcomes of the earlier choices that later costs, conditions or activities depend on. Whatever is asked
of all architectures at once (the cheapest, how many at each cost, a uniform draw) is a recursion over the states, exact
and in proportion to their number, not to that of the architectures: dynamic programming along a path decomposition of
the graph of which choices matter together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import NamedTuple

from archir.costs.tables import Groups, Numbers
from archir.diagnostics.errors import ArchError, fail
from archir.diagnostics.work import spend
from archir.diagrams.cases import Value, at, support, varies
from archir.ir.graph import Decision
from archir.utils.arrays import np

State = tuple[int, ...]

MOST_STATES, MOST_STEPS = 200_000, 2_000_000
A_STEP = 3
"""Units of work of a step between two states."""


class Step(NamedTuple):
    """An outcome (-1: the choice is inactive), what it adds to each cost, and the state after it."""

    outcome: int
    costs: tuple[int, ...]
    after: State


@dataclass(frozen=True)
class _Factor:
    """What is settled by the last of the choices it depends on: a condition, or numbers that are added."""

    positions: tuple[int, ...]
    condition: Value = True
    table: Numbers | None = None


class Chain:
    """States and steps of a space, choice by choice."""

    def __init__(
        self, order: Sequence[Decision], conditions: Sequence[Value], groups: Groups, constant: Sequence[int]
    ) -> None:
        """`groups` are tables of costs by choices, `constant` what every architecture costs."""
        self.order, self.conditions, self.groups = order, conditions, groups
        self.constant = tuple(int(number) for number in constant)
        self._paths = [decision.choice.path for decision in order]
        index = {path: i for i, path in enumerate(self._paths)}
        self._factors: list[list[_Factor]] = [[] for _ in order]
        for condition in conditions:
            if varies(condition):
                self._file(_Factor(tuple(index[c.path] for c in support(condition)), condition))
        for choices, table in groups.items():
            self._file(_Factor(tuple(index[choice.path] for choice in choices), table=table))
        self._active = [tuple(index[c.path] for c in support(decision.active)) for decision in order]
        self._kept = self._frontiers()

    @cached_property
    def levels(self) -> list[dict[State, list[Step]]]:
        """The steps of every state before each choice.

        Raises ArchError (A1602) if choices are so entangled that there are too many states.
        """
        return self._explore(MOST_STEPS)

    def followed(self, most: int) -> list[dict[State, list[Step]]]:
        """The same. Raises ArchError (A1602) if there are more than so many steps, too."""
        if "levels" not in self.__dict__:
            self.levels = self._explore(most)
        elif sum(len(steps) for level in self.levels for steps in level.values()) > most:
            raise _entangled(most)
        return self.levels

    @property
    def most(self) -> int:
        """No more states than this are before any choice."""
        return max(prod(self.order[p].choice.outcomes for p in kept) for kept in self._kept)

    @property
    def steps(self) -> int:
        """No more steps than this are taken."""
        return sum(
            prod([decision.choice.outcomes, *(self.order[p].choice.outcomes for p in kept)])
            for decision, kept in zip(self.order, self._kept, strict=False)
        )

    def _file(self, factor: _Factor) -> None:
        self._factors[max(factor.positions)].append(factor)

    def _frontiers(self) -> list[tuple[int, ...]]:
        """For each number of choices made, the positions of those that still matter."""
        last: dict[int, int] = {}
        for i in range(len(self.order)):
            used = [*self._active[i], *(p for factor in self._factors[i] for p in factor.positions)]
            last.update(dict.fromkeys(used, i))
        return [
            tuple(position for position in range(i) if last.get(position, -1) >= i) for i in range(len(self.order) + 1)
        ]

    def _explore(self, most: int) -> list[dict[State, list[Step]]]:
        levels: list[dict[State, list[Step]]] = []
        states: dict[State, None] = {(): None}
        total = steps = 0
        for i, decision in enumerate(self.order):
            total += len(states)
            steps += len(states) * decision.choice.outcomes
            if total > MOST_STATES or steps > most:
                raise _entangled(most)
            spend(A_STEP * len(states) * decision.choice.outcomes)
            level = {state: list(self._steps(i, state)) for state in states}
            levels.append(level)
            states = {step.after: None for found in level.values() for step in found}
        return levels

    def _steps(self, i: int, state: State) -> Iterator[Step]:
        known = dict(zip(self._kept[i], state, strict=True))
        outcomes = {self._paths[position]: outcome for position, outcome in known.items()}
        decision = self.order[i]
        active = at(decision.active, outcomes) is True
        for outcome in range(decision.choice.outcomes if active else 1):
            known[i] = outcomes[self._paths[i]] = outcome
            costs = np.zeros(len(self.constant), np.int64)
            for factor in self._factors[i]:
                if factor.table is None:
                    if at(factor.condition, outcomes) is not True:
                        break
                else:
                    costs = costs + factor.table[tuple(known[position] for position in factor.positions)]
            else:
                after = tuple(known[position] for position in self._kept[i + 1])
                yield Step(outcome if active else -1, tuple(costs.tolist()), after)


def _entangled(steps: int) -> ArchError:
    return fail("A1602", f"choices are too entangled: more than {MOST_STATES:,} states of them, or {steps:,} steps")

"""A space as a chain: choices are made in order, and a state holds the earlier outcomes that still matter.

An outcome still matters if later costs, conditions or activities depend on it. Queries about all architectures (the
cheapest one, the number at each cost, uniform sampling) are recursions over the states. They are exact, and their time
is proportional to the number of states instead of the number of architectures. This is dynamic programming along a path
decomposition of the graph that connects choices which occur in the same cost or condition.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import NamedTuple

import numpy as np

from archir.costs.tables import Groups, Numbers
from archir.diagnostics.errors import ArchError, exceeds
from archir.diagnostics.work import spend
from archir.diagrams.diagram import Value, support, value_at, varies
from archir.ir.graph import Decision

State = tuple[int, ...]

MAX_STATES, MAX_STEPS = 200_000, 2_000_000
"""Maximum numbers of states and of steps in a chain."""
WORK_PER_STEP = 3
"""Work units that one step between two states costs."""


class Step(NamedTuple):
    """Transition of a chain: a choice's outcome (-1: inactive), what it adds to each cost, and the next state."""

    outcome: int
    costs: tuple[int, ...]
    after: State


@dataclass(frozen=True)
class _Factor:
    """Condition or cost table; it is evaluated once the last choice that it depends on is made."""

    positions: tuple[int, ...]
    condition: Value = True
    table: Numbers | None = None


class Chain:
    """A space as a chain: the states before each choice, and the steps from each state."""

    def __init__(
        self, order: Sequence[Decision], conditions: Sequence[Value], groups: Groups, constant: Sequence[int]
    ) -> None:
        """Initialize the chain.

        `groups` maps each tuple of choices to the cost tables that depend on these choices. `constant` is added to the
        costs of every architecture.
        """
        self.order, self.conditions, self.groups = order, conditions, groups
        self.constant = tuple(int(number) for number in constant)
        self._paths = [decision.choice.path for decision in order]
        index = {path: i for i, path in enumerate(self._paths)}
        self._factors: list[list[_Factor]] = [[] for _ in order]
        for condition in conditions:
            if varies(condition):
                self._add_factor(_Factor(tuple(index[c.path] for c in support(condition)), condition))
        for choices, table in groups.items():
            self._add_factor(_Factor(tuple(index[choice.path] for choice in choices), table=table))
        self._active = [tuple(index[c.path] for c in support(decision.active)) for decision in order]
        self._live_positions = self._frontiers()

    @cached_property
    def levels(self) -> list[dict[State, list[Step]]]:
        """Steps from every state before each choice, computed on first access.

        Raises ArchError (A1602) if choices interact so much that there are too many states.
        """
        return self._explore(MAX_STEPS)

    def levels_within(self, max_steps: int) -> list[dict[State, list[Step]]]:
        """Return `levels`. Raises ArchError (A1602) if there are too many states or more than `max_steps` steps."""
        if "levels" not in self.__dict__:
            self.levels = self._explore(max_steps)
        elif sum(len(steps) for level in self.levels for steps in level.values()) > max_steps:
            raise _too_many_states(max_steps)
        return self.levels

    @property
    def max_states(self) -> int:
        """Upper bound of the number of states before a single choice."""
        return max(prod(self.order[p].choice.outcome_count for p in live) for live in self._live_positions)

    @property
    def max_steps(self) -> int:
        """Upper bound of the number of steps."""
        return sum(
            prod([decision.choice.outcome_count, *(self.order[p].choice.outcome_count for p in live)])
            for decision, live in zip(self.order, self._live_positions, strict=False)
        )

    def _add_factor(self, factor: _Factor) -> None:
        """Store a factor with the last choice that it depends on."""
        self._factors[max(factor.positions)].append(factor)

    def _frontiers(self) -> list[tuple[int, ...]]:
        """Return, for each number of choices made so far, the positions of those whose outcomes still matter."""
        last_use: dict[int, int] = {}
        for i in range(len(self.order)):
            used = [*self._active[i], *(p for factor in self._factors[i] for p in factor.positions)]
            last_use.update(dict.fromkeys(used, i))
        return [
            tuple(position for position in range(i) if last_use.get(position, -1) >= i)
            for i in range(len(self.order) + 1)
        ]

    def _explore(self, max_steps: int) -> list[dict[State, list[Step]]]:
        """Compute the steps of all reachable states.

        Raises ArchError (A1602) if there are more than MAX_STATES states or more than `max_steps` steps.
        """
        levels: list[dict[State, list[Step]]] = []
        states: dict[State, None] = {(): None}
        total = steps = 0
        for i, decision in enumerate(self.order):
            total += len(states)
            steps += len(states) * decision.choice.outcome_count
            if total > MAX_STATES or steps > max_steps:
                raise _too_many_states(max_steps)
            spend(WORK_PER_STEP * len(states) * decision.choice.outcome_count)
            level = {state: list(self._steps(i, state)) for state in states}
            levels.append(level)
            states = {step.after: None for state_steps in level.values() for step in state_steps}
        return levels

    def _steps(self, i: int, state: State) -> Iterator[Step]:
        """Yield the steps from a state before choice `i` that violate no condition."""
        outcome_at = dict(zip(self._live_positions[i], state, strict=True))
        outcomes = {self._paths[position]: outcome for position, outcome in outcome_at.items()}
        decision = self.order[i]
        active = value_at(decision.active, outcomes) is True
        for outcome in range(decision.choice.outcome_count if active else 1):
            outcome_at[i] = outcomes[self._paths[i]] = outcome
            costs = np.zeros(len(self.constant), np.int64)
            for factor in self._factors[i]:
                if factor.table is None:
                    if value_at(factor.condition, outcomes) is not True:
                        break
                else:
                    costs = costs + factor.table[tuple(outcome_at[position] for position in factor.positions)]
            else:
                after = tuple(outcome_at[position] for position in self._live_positions[i + 1])
                yield Step(outcome if active else -1, tuple(costs.tolist()), after)


def _too_many_states(steps: int) -> ArchError:
    """Return the error (A1602) that there are too many states or steps."""
    text = f"more than {MAX_STATES:,} states or {steps:,} steps are needed to follow them one by one"
    return exceeds("A1602", f"too many choices of this space depend on each other: {text}")

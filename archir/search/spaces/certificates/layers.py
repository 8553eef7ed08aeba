"""A space as layers of steps, in Python's integers: what can be chosen after what, and what it adds to each column."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from archir.base.errors import ArchError, fail
from archir.ir.choices.cases import Value, at, support, varies
from archir.search.spaces.certificates.columns import Column, Part
from archir.search.spaces.space import Space

MOST_STEPS = 1_000_000
"""Steps of all layers together."""

State = tuple[int, ...]
Costs = tuple[int, ...]


@dataclass(frozen=True)
class Step:
    """What a step adds to each column, and the state after it: outcomes that still matter, 0 for what is not there."""

    costs: Costs
    after: State


Layer = Mapping[State, Sequence[Step]]


def too_long(most: int) -> ArchError:
    """That a proof takes more than so many steps."""
    text = f"the proof takes more than {most:,} steps to be checked"
    return fail("A3312", text, None, "bounds that are not so near to each other, or fewer of them, make it shorter")


def layers(space: Space, conditions: Sequence[Value], columns: Sequence[Column]) -> list[Layer]:
    """The steps of each choice, of architectures that satisfy conditions. Raises ArchError (A3312)."""
    return _Following(space, conditions, columns).found()


class _Following:
    def __init__(self, space: Space, conditions: Sequence[Value], columns: Sequence[Column]) -> None:
        self.order, self.count = space.order, len(columns)
        self.paths = [decision.choice.path for decision in space.order]
        self.index = {path: i for i, path in enumerate(self.paths)}
        self.conditions: list[list[Value]] = [[] for _ in self.paths]
        self.parts: list[dict[tuple[str, ...], list[tuple[int, Part]]]] = [{} for _ in self.paths]
        self.known: dict[tuple[tuple[str, ...], State], Costs] = {}
        used = [[choice.path for choice in support(decision.active)] for decision in space.order]
        for condition in filter(varies, conditions):
            about = [choice.path for choice in support(condition)]
            self.conditions[self._last(about)].append(condition)
            used[self._last(about)] += about
        for number, column in enumerate(columns):
            for part in column.parts:
                self.parts[self._last(part.paths)].setdefault(part.paths, []).append((number, part))
                used[self._last(part.paths)] += part.paths
        last: dict[str, int] = {}
        for i, about in enumerate(used):
            last.update(dict.fromkeys(about, i))
        self.kept = [[path for path in self.paths[:i] if last.get(path, -1) >= i] for i in range(len(self.paths) + 1)]

    def _last(self, paths: Sequence[str]) -> int:
        return max(self.index[path] for path in paths)

    def found(self) -> list[Layer]:
        states: dict[State, None] = {(): None}
        found: list[Layer] = []
        steps = 0
        for i in range(len(self.paths)):
            layer: dict[State, list[Step]] = {}
            for state in states:
                layer[state] = list(self._steps(i, state))
                steps += len(layer[state])
                if steps > MOST_STEPS:
                    raise too_long(MOST_STEPS)
            found.append(layer)
            states = {step.after: None for several in layer.values() for step in several}
        return found

    def _steps(self, i: int, state: State) -> Iterator[Step]:
        outcomes = dict(zip(self.kept[i], state, strict=True))
        decision = self.order[i]
        there = at(decision.active, outcomes) is True
        for outcome in range(decision.choice.outcomes if there else 1):
            outcomes[decision.choice.path] = outcome
            if all(at(condition, outcomes) is True for condition in self.conditions[i]):
                costs = [0] * self.count
                for paths, parts in self.parts[i].items():
                    for column, number in enumerate(self._numbers(paths, parts, outcomes)):
                        costs[column] += number
                yield Step(tuple(costs), tuple(outcomes[path] for path in self.kept[i + 1]))

    def _numbers(self, paths: tuple[str, ...], parts: list[tuple[int, Part]], outcomes: dict[str, int]) -> Costs:
        """What parts that depend on the same choices add to each column."""
        key = paths, tuple(outcomes[path] for path in paths)
        if key not in self.known:
            costs = [0] * self.count
            for column, part in parts:
                costs[column] += part.number(outcomes)
            self.known[key] = tuple(costs)
        return self.known[key]

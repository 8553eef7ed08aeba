"""Where channels lie that are those of other nodes (`archir.passes.joins`), for each architecture."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np

from archir.diagrams.cases import Choice, at, support
from archir.ir.graph import NodeId
from archir.ir.structure import Select
from archir.passes.joins import Class, Join, Joins
from archir.passes.positions import Positions

Outcomes = Mapping[str, int]


@dataclass(frozen=True)
class Plain:
    """Where channels lie that are no others': how many positions they need in the widest architecture, which ones an
    architecture has, and the choices that this depends on."""

    end: Callable[[NodeId], int]
    places: Callable[[NodeId, Outcomes], Positions]
    about: Callable[[NodeId], Iterable[Choice]]


class Places:
    """Where the channels of nodes lie."""

    def __init__(self, joins: Joins, plain: Plain) -> None:
        self.joins, self._plain = joins, plain
        self._ends: dict[Class, int] = {}
        self._about: dict[Class, frozenset[Choice]] = {}
        self._seen: tuple[dict[str, int], dict[tuple[Class, int], Positions | None]] = ({}, {})

    def end(self, number: NodeId) -> int:
        """Positions of a node's channels in the widest architecture."""
        joins = self.joins.joined(number)
        if not joins:
            return self._plain.end(number)
        place = self.joins.class_of(number)
        if place not in self._ends:
            self._ends[place] = _end(joins[0], self._offsets(joins)[-1])
        return self._ends[place]

    def _offsets(self, joins: list[Join]) -> list[int]:
        """Where each part begins, and the last one ends."""
        if joins[0].kind == "select":
            columns = [[number for join in joins for number in join.operands if number in self.joins.types]]
        else:
            columns = [list(column) for column in zip(*(join.operands for join in joins), strict=True)]
        return [0, *accumulate(max(self.end(number) for number in column) for column in columns)]

    def places(self, number: NodeId, outcomes: Outcomes, size: int | None = None) -> Positions | None:
        """The positions that an architecture has of a node's channels [C], or of so many that lie as they do; None if
        they are no others'."""
        joins = self.joins.joined(number)
        if self._seen[0] != outcomes:
            self._seen = dict(outcomes), {}
        size = at(self.joins.channels(number), outcomes) if size is None else size
        key = self.joins.class_of(number), size
        seen = self._seen[1]
        if key not in seen:
            seen[key] = self._found(joins, size, outcomes)
        return seen[key]

    def _found(self, joins: list[Join], size: int, outcomes: Outcomes) -> Positions | None:
        for join in joins:
            if (
                not at(self.joins.needed[join.result], outcomes)
                or at(self.joins.channels(join.result), outcomes) != size
            ):
                continue
            if join.kind == "select":
                op = self.joins.graph[join.result].op
                assert isinstance(op, Select)
                return self._lie(join.operands[op.cases[outcomes.get(op.choice, 0)]], outcomes)
            parts = [self._lie(number, outcomes) for number in join.operands]
            offsets = self._offsets(joins)
            if any(len(part) and part.max() >= b - a for part, (a, b) in zip(parts, pairwise(offsets), strict=True)):
                return None
            placed = np.concatenate([part + offset for part, offset in zip(parts, offsets, strict=False)])
            return _moved(join, placed, offsets[-1])
        return None

    def _lie(self, number: NodeId, outcomes: Outcomes) -> Positions:
        found = self.places(number, outcomes)
        return self._plain.places(number, outcomes) if found is None else found

    def about(self, number: NodeId) -> frozenset[Choice]:
        """The choices that the places of a node's channels depend on."""
        joins, place = self.joins.joined(number), self.joins.class_of(number)
        if not joins:
            return frozenset(self._plain.about(number))
        if place not in self._about:
            found: set[Choice] = set()
            for join in joins:
                found.update(support(self.joins.channels(join.result), self.joins.needed[join.result]))
                op = self.joins.graph[join.result].op
                if isinstance(op, Select):
                    found.add(self.joins.graph.decisions[op.choice].choice)
                for operand in join.operands:
                    if operand in self.joins.types:
                        found.update(self.about(operand))
            self._about[place] = frozenset(found)
        return self._about[place]


def _end(join: Join, end: int) -> int:
    """Positions of a join's result, of so many of all its operands."""
    match join.kind:
        case "spread":
            return end * join.times
        case "gathered":
            return -(-end // join.times)
        case _:
            return end


def _moved(join: Join, placed: Positions, end: int) -> Positions | None:
    """Where the result's channels lie, of those of its operands, which lie here among so many; None where they have no
    places of their own: of channels that are gathered, one is there and another is not, or groups are parted."""
    times = join.times
    match join.kind:
        case "spread":
            return (placed[:, None] * times + np.arange(times)).reshape(-1)
        case "gathered":
            rows = placed.reshape(-1, times)
            return rows[:, 0] // times if (rows == rows[:, :1] // times * times + np.arange(times)).all() else None
        case "dealt":
            turns, size = placed.reshape(times, -1).T.reshape(-1), end // times
            return None if end % times else turns % size * times + turns // size
        case _:
            return placed

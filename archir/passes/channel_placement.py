"""Channel positions in joins: where each channel of a narrower architecture lies among those of the widest one.

A join is a node whose channels come from those of other nodes (`archir.passes.joins`), such as a concatenation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np

from archir.diagrams.diagram import Choice, support, value_at
from archir.ir.graph import NodeId
from archir.ir.structure import Select
from archir.passes.joins import ChannelClass, Join, Joins
from archir.passes.weight_slices import Positions

Outcomes = Mapping[str, int]
"""An architecture, as outcomes by the paths of its choices."""


@dataclass(frozen=True)
class OwnChannels:
    """Functions that give the channel positions of nodes that are not joins.

    `end` returns the number of positions that a node's channels need in the widest architecture. `positions` returns
    the positions that the channels have in a given architecture. `choices` returns the choices on which these positions
    depend.
    """

    end: Callable[[NodeId], int]
    positions: Callable[[NodeId, Outcomes], Positions]
    choices: Callable[[NodeId], Iterable[Choice]]


class ChannelPlacement:
    """Positions of the channels of all nodes, joins or not, among the channels of the widest architecture."""

    def __init__(self, joins: Joins, plain: OwnChannels) -> None:
        self.joins, self._own = joins, plain
        self._end_cache: dict[ChannelClass, int] = {}
        self._choice_cache: dict[ChannelClass, frozenset[Choice]] = {}
        self._position_cache: tuple[dict[str, int], dict[tuple[ChannelClass, int], Positions | None]] = ({}, {})

    def end(self, number: NodeId) -> int:
        """Return the number of positions that a node's channels need in the widest architecture."""
        joins = self.joins.joins_of(number)
        if not joins:
            return self._own.end(number)
        channel_class = self.joins.class_of(number)
        if channel_class not in self._end_cache:
            self._end_cache[channel_class] = _result_end(joins[0], self._offsets(joins)[-1])
        return self._end_cache[channel_class]

    def _offsets(self, joins: list[Join]) -> list[int]:
        """Return the positions at which the operands of a join begin in the widest architecture, and the end."""
        if joins[0].kind == "select":
            columns = [[number for join in joins for number in join.operands if number in self.joins.types]]
        else:
            columns = [list(column) for column in zip(*(join.operands for join in joins), strict=True)]
        return [0, *accumulate(max(self.end(number) for number in column) for column in columns)]

    def positions(self, number: NodeId, outcomes: Outcomes, size: int | None = None) -> Positions | None:
        """Return the positions [C] of a node's channels in an architecture; None if the node is not a join.

        Also returns None if the channels of the join cannot be placed. With `size`, returns the positions that this
        number of channels has in a node of the same class.
        """
        joins = self.joins.joins_of(number)
        if self._position_cache[0] != outcomes:
            self._position_cache = dict(outcomes), {}
        size = value_at(self.joins.channels(number), outcomes) if size is None else size
        key = self.joins.class_of(number), size
        cached = self._position_cache[1]
        if key not in cached:
            cached[key] = self._join_positions(joins, size, outcomes)
        return cached[key]

    def _join_positions(self, joins: list[Join], size: int, outcomes: Outcomes) -> Positions | None:
        """Return the positions of `size` channels in the first join that is reachable and has that size, or None."""
        for join in joins:
            if (
                not value_at(self.joins.needed[join.result], outcomes)
                or value_at(self.joins.channels(join.result), outcomes) != size
            ):
                continue
            if join.kind == "select":
                op = self.joins.graph[join.result].op
                assert isinstance(op, Select)
                return self._part_positions(join.operands[op.cases[outcomes.get(op.choice, 0)]], outcomes)
            parts = [self._part_positions(number, outcomes) for number in join.operands]
            offsets = self._offsets(joins)
            if any(len(part) and part.max() >= b - a for part, (a, b) in zip(parts, pairwise(offsets), strict=True)):
                return None
            placed = np.concatenate([part + offset for part, offset in zip(parts, offsets, strict=False)])
            return _result_positions(join, placed, offsets[-1])
        return None

    def _part_positions(self, number: NodeId, outcomes: Outcomes) -> Positions:
        """Return the positions of the channels of a join's operand, which may be a join itself."""
        placed = self.positions(number, outcomes)
        return self._own.positions(number, outcomes) if placed is None else placed

    def choices(self, number: NodeId) -> frozenset[Choice]:
        """Return the choices on which the positions of a node's channels depend."""
        joins, channel_class = self.joins.joins_of(number), self.joins.class_of(number)
        if not joins:
            return frozenset(self._own.choices(number))
        if channel_class not in self._choice_cache:
            dependencies: set[Choice] = set()
            for join in joins:
                dependencies.update(support(self.joins.channels(join.result), self.joins.needed[join.result]))
                op = self.joins.graph[join.result].op
                if isinstance(op, Select):
                    dependencies.add(self.joins.graph.decisions[op.choice].choice)
                for operand in join.operands:
                    if operand in self.joins.types:
                        dependencies.update(self.choices(operand))
            self._choice_cache[channel_class] = frozenset(dependencies)
        return self._choice_cache[channel_class]


def _result_end(join: Join, end: int) -> int:
    """Return the number of positions that a join's result needs if all operands together need `end` positions."""
    match join.kind:
        case "repeat":
            return end * join.times
        case "group":
            return -(-end // join.times)
        case _:
            return end


def _result_positions(join: Join, placed: Positions, end: int) -> Positions | None:
    """Return the channel positions of a join's result, given the positions `placed` of its operands' channels.

    The operands' positions are below `end`. Returns None if the result's channels cannot be placed: if only some
    channels of a group are used, or if the number of positions of a shuffle is not divisible by the shuffle's number of
    groups.
    """
    times = join.times
    match join.kind:
        case "repeat":
            return (placed[:, None] * times + np.arange(times)).reshape(-1)
        case "group":
            rows = placed.reshape(-1, times)
            return rows[:, 0] // times if (rows == rows[:, :1] // times * times + np.arange(times)).all() else None
        case "shuffle":
            turns, size = placed.reshape(times, -1).T.reshape(-1), end // times
            return None if end % times else turns % size * times + turns // size
        case _:
            return placed

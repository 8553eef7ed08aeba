"""Channels that are those of other nodes: side by side behind a concatenation, spread where a map is flattened,
gathered where pixels are made of them, or dealt where they are shuffled.

A narrower network has the first channels of each part, and each part begins where it begins in the widest network.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeVar

import networkx as nx

from archir.diagnostics.errors import RuleError
from archir.diagrams.cases import Value, same, varies
from archir.diagrams.lifting import lift
from archir.ir.graph import Graph, NodeId
from archir.ir.structure import Select
from archir.ir.types import TensorType

if TYPE_CHECKING:
    from networkx.utils import UnionFind

MOST_NESTED = 150
"""Joins within joins; channels of more are the first ones."""
_ROUNDS = 20

_T = TypeVar("_T", bound=Hashable)
Class = tuple[bool, NodeId]
"""Nodes whose channels lie alike: a stream, or (True) a part of one whose nodes are not chosen among."""


@dataclass(frozen=True)
class Join:
    """Where channels of `result` come from: operands side by side; one of which each channel is `times`, or which has
    `times` channels for each, or as many groups that are dealt in turn; or one of several, which is chosen."""

    kind: Literal["beside", "spread", "gathered", "dealt", "select"]
    result: NodeId
    operands: tuple[NodeId, ...]
    times: int = 1

    @property
    def form(self) -> tuple[str, int, int]:
        """What joins have in common that can be one."""
        return self.kind, len(self.operands), self.times


@dataclass
class Joins:
    """The joins of a graph. `streams` and `tied` are nodes whose channels lie alike, with and without those that are
    chosen among."""

    graph: Graph
    types: Mapping[NodeId, TensorType]
    needed: Mapping[NodeId, Value]
    streams: UnionFind[NodeId]
    tied: UnionFind[NodeId]
    found: list[Join] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.of: dict[Class, list[Join]] = {}
        self._apart: set[NodeId] = set()
        self.parted: list[tuple[Value, ...]] = []
        """Of joins whose heads or pieces would part those of operands, what this depends on."""

    def channels(self, number: NodeId) -> Value:
        """How many channels a node has."""
        x = self.types[number]
        return x.dims[x.channel_axis] if x.rank else 1

    def class_of(self, number: NodeId) -> Class:
        """The nodes whose channels lie as those of this one."""
        stream = self.streams[number]
        return (True, self.tied[number]) if stream in self._apart else (False, stream)

    # what is joined

    def unite(self) -> None:
        """Parts that stand at the same places of one stream are one stream, too: `concat(a, b) + concat(c, d)`."""
        for _ in range(_ROUNDS):
            by_stream: dict[NodeId, list[Join]] = defaultdict(list)
            for join in self.found:
                by_stream[self.streams[join.result]].append(join)
            rings = _rings(
                {stream: [self.streams[n] for j in joins for n in j.operands] for stream, joins in by_stream.items()}
            )
            changed = False
            for stream, joins in by_stream.items():
                if stream in rings or len({join.form for join in joins}) > 1:
                    continue
                for column in zip(*(join.operands for join in joins), strict=True):
                    alike = all(same(self.channels(one), self.channels(column[0])) for one in column)
                    if alike and len({self.streams[one] for one in column}) > 1:
                        self.streams.union(*column)
                        changed = True
            if not changed:
                return

    def settle(
        self,
        pieces: Mapping[NodeId, tuple[int, NodeId]],
        heads: Callable[[NodeId], Value],
        ask: Callable[[NodeId, Value, Value], None],
    ) -> None:
        """Decide which streams are joins. `heads` are those of a stream, and `ask` demands some of a node's, under a
        condition: of what is split into heads, each part has its share."""
        by_stream: dict[NodeId, list[Join]] = defaultdict(list)
        for join in self.found:
            by_stream[self.streams[join.result]].append(join)
        below = {stream: [self.streams[n] for j in joins for n in j.operands] for stream, joins in by_stream.items()}
        rings = _rings(below)
        for stream, joins in by_stream.items():
            if stream in pieces:
                self.parted += [self._about(join) for join in joins if not self._halved(join, pieces[stream][0])]
                continue
            columns = zip(*(join.operands for join in joins), strict=False)
            alike = len({join.form for join in joins}) == 1 and all(
                len({self.streams[n] for n in c}) == 1 for c in columns
            )
            if alike and stream not in rings:
                self.of[False, stream] = joins
            else:
                self._apart.add(stream)
        self._settle_apart()
        self._without_rings()
        self._share_heads(heads, ask)

    def _halved(self, join: Join, pieces: int) -> bool:
        """Whether equal pieces of a join are its operands."""
        widths = [self.channels(number) for number in join.operands]
        return join.kind == "beside" and len(widths) == pieces and all(same(width, widths[0]) for width in widths)

    def _about(self, join: Join) -> tuple[Value, ...]:
        return tuple(self.channels(number) for number in (join.result, *join.operands))

    def _settle_apart(self) -> None:
        """Streams that hold joins of several forms: each part of them that is not chosen among is on its own."""
        if not self._apart:
            return
        by_class: dict[Class, list[Join]] = defaultdict(list)
        chosen: dict[Class, list[Join]] = defaultdict(list)
        for join in self.found:
            if self.streams[join.result] in self._apart:
                by_class[self.class_of(join.result)].append(join)
        for number in self.types:
            if isinstance(self.graph[number].op, Select) and self.streams[number] in self._apart:
                operands = tuple(self.graph.operands(number))
                chosen[self.class_of(number)].append(Join("select", number, operands))
        for place, joins in by_class.items():
            if len({join.form for join in joins}) == 1:
                self.of[place] = joins
        for place, joins in chosen.items():
            self.of.setdefault(place, joins)

    def _without_rings(self) -> None:
        below = {place: [self.class_of(n) for join in joins for n in join.operands] for place, joins in self.of.items()}
        for place in _rings(below):
            self.of.pop(place, None)
        flow: nx.DiGraph[Class] = nx.DiGraph(
            (place, part) for place, parts in below.items() for part in parts if place in self.of
        )
        self._order = list(nx.topological_sort(flow))
        depths: dict[Class, int] = {}
        for place in reversed(self._order):
            if place in self.of:
                depths[place] = 1 + max((depths.get(part, 0) for part in below[place]), default=0)
                if depths[place] > MOST_NESTED:
                    del self.of[place]

    def _share_heads(self, heads: Callable[[NodeId], Value], ask: Callable[[NodeId, Value, Value], None]) -> None:
        for place in self._order:
            if place not in self.of:
                continue
            joins = self.of[place]
            first = next(iter(joins))  # all are of one stream and one form
            split = heads(self.streams[first.result])
            if split == 1:
                continue
            if varies(split):  # groups of several parts: what comes of them has the first ones
                self.parted += [(split, *self._about(join)) for join in joins]
            shares = None if place[0] or first.kind not in ("beside", "dealt") else self._shares(joins, split)
            if shares is None:
                self.parted += [(split, *self._about(join)) for join in joins]
                del self.of[place]
                continue
            for number, share in shares:
                ask(number, self.needed[number], share)

    def _shares(self, joins: Sequence[Join], heads: Value) -> list[tuple[NodeId, Value]] | None:
        """Of so many heads of joins, those of each operand; None where a head would be parted."""
        found = []
        try:
            for join in joins:
                whole = self.channels(join.result)
                if join.kind == "dealt":  # each group of the operand is split as the result is
                    share = lift(_dealt, heads, join.times, whole, under=self.needed[join.result])
                    found.append((join.operands[0], share))
                    continue
                for number in join.operands:
                    found.append(
                        (number, lift(_share, heads, self.channels(number), whole, under=self.needed[join.result]))
                    )
        except RuleError:
            return None
        return found

    def moved(self) -> list[Join]:
        """The joins that put channels into another order, or several into one."""
        return [join for joins in self.of.values() for join in joins if join.kind in ("gathered", "dealt")]

    def joined(self, number: NodeId) -> list[Join]:
        """Where the channels of a node come from; nothing if they are no others'."""
        return self.of.get(self.class_of(number), [])


def _share(heads: int, part: int, whole: int) -> int:
    if heads * part % whole or part * heads < whole:
        raise RuleError(f"{part} of {whole} channels have no whole number of {heads} heads")
    return heads * part // whole


def _dealt(heads: int, groups: int, channels: int) -> int:
    if channels % (heads * groups):
        raise RuleError(f"{channels} channels do not divide into {heads} heads in each of {groups} groups")
    return heads * groups


def _rings(below: Mapping[_T, Sequence[_T]]) -> set[_T]:
    """What is below itself."""
    flow: nx.DiGraph[_T] = nx.DiGraph((one, part) for one, parts in below.items() for part in parts)
    rings = {one for group in nx.strongly_connected_components(flow) if len(group) > 1 for one in group}
    return rings | {one for one, parts in below.items() if one in parts}

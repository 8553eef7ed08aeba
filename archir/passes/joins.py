"""Joins: nodes whose channels come from those of other nodes, their operands or parts.

The operands' channels are concatenated, repeated (a map is flattened), grouped (channels become pixels) or shuffled. In
a narrower network, each part keeps the first of its channels, and begins at the same position as in the widest network.
A stream is a set of nodes whose channels have the same positions, as in `archir.passes.sharing`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeVar

import networkx as nx

from archir.diagnostics.errors import RuleError
from archir.diagrams.diagram import Value, same, varies
from archir.diagrams.lifting import lift
from archir.ir.graph import Graph, NodeId
from archir.ir.structure import Select
from archir.ir.types import TensorType

if TYPE_CHECKING:
    from networkx.utils import UnionFind

MAX_JOIN_DEPTH = 150
"""Maximum nesting of joins.

A join that is nested deeper is treated like other nodes: it uses its first channels.
"""
_MAX_ROUNDS = 20
"""Maximum number of iterations of `Joins.unite_parts`, each of which unites streams of corresponding parts."""

_T = TypeVar("_T", bound=Hashable)
ChannelClass = tuple[bool, NodeId]
"""Class of nodes whose channels have the same positions.

(False, node) is the whole stream that the node identifies. (True, node) is a subset of a stream: the nodes that have
the same channels as this node without a `select` in between.
"""


@dataclass(frozen=True)
class Join:
    """How the channels of `result` come from the channels of its operands.

    `concat`: the operands' channels, one operand after another. `repeat`: each channel becomes `times` consecutive
    channels. `group`: `times` consecutive channels become one. `shuffle`: channels are taken from `times` groups in
    turn. `select`: a choice selects one operand.
    """

    kind: Literal["concat", "repeat", "group", "shuffle", "select"]
    result: NodeId
    operands: tuple[NodeId, ...]
    times: int = 1

    @property
    def key(self) -> tuple[str, int, int]:
        """Kind, number of operands and `times`; joins in one stream must agree in these to be treated alike."""
        return self.kind, len(self.operands), self.times


@dataclass
class Joins:
    """The joins of a graph.

    `streams` unites nodes whose channels have the same positions. `aliases` does the same, but does not unite a
    `select` with its operands.
    """

    graph: Graph
    types: Mapping[NodeId, TensorType]
    needed: Mapping[NodeId, Value]
    streams: UnionFind[NodeId]
    aliases: UnionFind[NodeId]
    entries: list[Join] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.by_class: dict[ChannelClass, list[Join]] = {}
        self._mixed_streams: set[NodeId] = set()
        self.conflicts: list[tuple[Value, ...]] = []
        """The values that conflicts depend on.

        A conflict is a head or piece that contains channels of several operands of a join.
        """

    def channels(self, number: NodeId) -> Value:
        """Return the number of channels of a node."""
        return channel_count(self.types[number])

    def class_of(self, number: NodeId) -> ChannelClass:
        """Return the class of a node: the nodes whose channels have the same positions as the node's channels."""
        stream = self.streams[number]
        return (True, self.aliases[number]) if stream in self._mixed_streams else (False, stream)

    # which nodes are joins

    def unite_parts(self) -> None:
        """Unite the streams of corresponding operands of equal joins whose results are in one stream.

        In `concat(a, b) + concat(c, d)`, a and c correspond, and so do b and d.
        """
        for _ in range(_MAX_ROUNDS):
            by_stream: dict[NodeId, list[Join]] = defaultdict(list)
            for join in self.entries:
                by_stream[self.streams[join.result]].append(join)
            cyclic = _cyclic(
                {stream: [self.streams[n] for j in joins for n in j.operands] for stream, joins in by_stream.items()}
            )
            changed = False
            for stream, joins in by_stream.items():
                if stream in cyclic or len({join.key for join in joins}) > 1:
                    continue
                for column in zip(*(join.operands for join in joins), strict=True):
                    equal = all(same(self.channels(number), self.channels(column[0])) for number in column)
                    if equal and len({self.streams[number] for number in column}) > 1:
                        self.streams.union(*column)
                        changed = True
            if not changed:
                return

    def resolve(
        self,
        pieces: Mapping[NodeId, tuple[int, NodeId]],
        heads: Callable[[NodeId], Value],
        request_heads: Callable[[NodeId, Value, Value], None],
    ) -> None:
        """Decide which streams are joins, and split the heads of each join's result among its operands.

        `pieces` are the streams that are split into equal pieces. `heads` returns the number of heads of a stream;
        `request_heads` requests a number of heads for a node under a condition.
        """
        by_stream: dict[NodeId, list[Join]] = defaultdict(list)
        for join in self.entries:
            by_stream[self.streams[join.result]].append(join)
        part_streams = {
            stream: [self.streams[n] for j in joins for n in j.operands] for stream, joins in by_stream.items()
        }
        cyclic = _cyclic(part_streams)
        for stream, joins in by_stream.items():
            if stream in pieces:
                self.conflicts += [
                    self._channel_counts(join)
                    for join in joins
                    if not self._splits_into_operands(join, pieces[stream][0])
                ]
                continue
            columns = zip(*(join.operands for join in joins), strict=False)
            uniform = len({join.key for join in joins}) == 1 and all(
                len({self.streams[n] for n in c}) == 1 for c in columns
            )
            if uniform and stream not in cyclic:
                self.by_class[False, stream] = joins
            else:
                self._mixed_streams.add(stream)
        self._resolve_mixed_streams()
        self._drop_cycles()
        self._distribute_heads(heads, request_heads)

    def _splits_into_operands(self, join: Join, pieces: int) -> bool:
        """Return whether a join is a concatenation whose operands are exactly these `pieces` equal pieces."""
        widths = [self.channels(number) for number in join.operands]
        return join.kind == "concat" and len(widths) == pieces and all(same(width, widths[0]) for width in widths)

    def _channel_counts(self, join: Join) -> tuple[Value, ...]:
        """Return the numbers of channels of a join's result and of each operand."""
        return tuple(self.channels(number) for number in (join.result, *join.operands))

    def _resolve_mixed_streams(self) -> None:
        """Decide separately, for each class within a stream of unequal joins, whether it is a join.

        Such a class contains the nodes that have the same channels without a `select` in between.
        """
        if not self._mixed_streams:
            return
        by_class: dict[ChannelClass, list[Join]] = defaultdict(list)
        selects: dict[ChannelClass, list[Join]] = defaultdict(list)
        for join in self.entries:
            if self.streams[join.result] in self._mixed_streams:
                by_class[self.class_of(join.result)].append(join)
        for number in self.types:
            if isinstance(self.graph[number].op, Select) and self.streams[number] in self._mixed_streams:
                operands = tuple(self.graph.operands(number))
                selects[self.class_of(number)].append(Join("select", number, operands))
        for channel_class, joins in by_class.items():
            if len({join.key for join in joins}) == 1:
                self.by_class[channel_class] = joins
        for channel_class, joins in selects.items():
            self.by_class.setdefault(channel_class, joins)

    def _drop_cycles(self) -> None:
        """Drop joins that contain themselves or are nested too deeply; sort classes so that results come first."""
        part_classes = {
            channel_class: [self.class_of(n) for join in joins for n in join.operands]
            for channel_class, joins in self.by_class.items()
        }
        for channel_class in _cyclic(part_classes):
            self.by_class.pop(channel_class, None)
        flow: nx.DiGraph[ChannelClass] = nx.DiGraph(
            (channel_class, part)
            for channel_class, parts in part_classes.items()
            for part in parts
            if channel_class in self.by_class
        )
        self._order = list(nx.topological_sort(flow))
        depths: dict[ChannelClass, int] = {}
        for channel_class in reversed(self._order):
            if channel_class in self.by_class:
                depths[channel_class] = 1 + max(
                    (depths.get(part, 0) for part in part_classes[channel_class]), default=0
                )
                if depths[channel_class] > MAX_JOIN_DEPTH:
                    del self.by_class[channel_class]

    def _distribute_heads(
        self, heads: Callable[[NodeId], Value], request_heads: Callable[[NodeId, Value, Value], None]
    ) -> None:
        """Request heads for the operands of each join whose result is split into heads.

        If the heads cannot be distributed among the operands, the join is dropped.
        """
        for channel_class in self._order:
            if channel_class not in self.by_class:
                continue
            joins = self.by_class[channel_class]
            first = next(iter(joins))  # all joins have one stream and one form
            split_heads = heads(self.streams[first.result])
            if split_heads == 1:
                continue
            if varies(split_heads):  # the number of groups of several parts varies: the result uses its first channels
                self.conflicts += [(split_heads, *self._channel_counts(join)) for join in joins]
            shares = (
                None
                if channel_class[0] or first.kind not in ("concat", "shuffle")
                else self._head_shares(joins, split_heads)
            )
            if shares is None:
                self.conflicts += [(split_heads, *self._channel_counts(join)) for join in joins]
                del self.by_class[channel_class]
                continue
            for number, share in shares:
                request_heads(number, self.needed[number], share)

    def _head_shares(self, joins: Sequence[Join], heads: Value) -> list[tuple[NodeId, Value]] | None:
        """Return the number of the result's heads that each operand contains; None if a head would span two
        operands."""
        shares = []
        try:
            for join in joins:
                total = self.channels(join.result)
                if join.kind == "shuffle":  # each group of the operand is split like the result
                    share = lift(_shuffled_heads, heads, join.times, total, under=self.needed[join.result])
                    shares.append((join.operands[0], share))
                    continue
                for number in join.operands:
                    shares.append(
                        (number, lift(_head_share, heads, self.channels(number), total, under=self.needed[join.result]))
                    )
        except RuleError:
            return None
        return shares

    def permuting(self) -> list[Join]:
        """Return the joins that reorder or merge channels: groups and shuffles."""
        return [join for joins in self.by_class.values() for join in joins if join.kind in ("group", "shuffle")]

    def joins_of(self, number: NodeId) -> list[Join]:
        """Return the joins of a node's class; empty if the node is not a join."""
        return self.by_class.get(self.class_of(number), [])


def _head_share(heads: int, part: int, total: int) -> int:
    """Return how many heads `part` of the `total` channels contain, if all channels together have `heads` heads.

    Raises RuleError if this is not a whole number.
    """
    if heads * part % total or part * heads < total:
        raise RuleError(f"{part} of {total} channels do not hold a whole number of {heads} heads")
    return heads * part // total


def _shuffled_heads(heads: int, groups: int, channels: int) -> int:
    """Return the number of heads of a shuffle's operand, each of whose groups is split into `heads` heads.

    Raises RuleError if the number of channels is not divisible by the number of heads.
    """
    if channels % (heads * groups):
        raise RuleError(f"{channels} channels do not divide into {heads} heads in each of {groups} groups")
    return heads * groups


def _cyclic(below: Mapping[_T, Sequence[_T]]) -> set[_T]:
    """Return the keys that are among their own parts, directly or through parts of parts."""
    flow: nx.DiGraph[_T] = nx.DiGraph((key, part) for key, parts in below.items() for part in parts)
    cycles = {key for group in nx.strongly_connected_components(flow) if len(group) > 1 for key in group}
    return cycles | {key for key, parts in below.items() if key in parts}


def channel_count(x: TensorType) -> Value:
    """Return the number of channels of a tensor; 1 for a scalar."""
    return x.dims[x.channel_axis] if x.rank else 1

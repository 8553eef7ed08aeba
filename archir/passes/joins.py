"""Joins: nodes whose channels come from several channels of other nodes.

Channels are concatenated, repeated where a map is flattened, grouped where pixels are made from them, or shuffled. A
narrower network uses the first channels of each part, and each part begins where it begins in the widest network.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeVar

import networkx as nx

from archir.diagnostics.errors import RuleError
from archir.diagrams.lifting import lift
from archir.diagrams.mdd import Value, same, varies
from archir.ir.graph import Graph, NodeId
from archir.ir.structure import Select
from archir.ir.types import TensorType

if TYPE_CHECKING:
    from networkx.utils import UnionFind

MAX_JOIN_DEPTH = 150
"""Maximum nesting depth of joins; the result of a deeper join uses its first channels instead."""
_MAX_ROUNDS = 20
"""Maximum number of rounds in which the streams of corresponding parts are united."""

_T = TypeVar("_T", bound=Hashable)
ChannelClass = tuple[bool, NodeId]
"""Nodes whose channels have the same positions: (False, a stream), or (True, the nodes of a stream that are equal
without choosing)."""


@dataclass(frozen=True)
class Join:
    """How the channels of `result` come from those of its operands.

    `concat`: one operand after another. `repeat`: each channel becomes `times` channels. `group`: `times` consecutive
    channels become one. `shuffle`: channels are taken from `times` groups in turn. `select`: a choice picks one
    operand.
    """

    kind: Literal["concat", "repeat", "group", "shuffle", "select"]
    result: NodeId
    operands: tuple[NodeId, ...]
    times: int = 1

    @property
    def key(self) -> tuple[str, int, int]:
        """The key that joins must share to be treated as one: kind, number of operands and `times`."""
        return self.kind, len(self.operands), self.times


@dataclass
class Joins:
    """The joins of a graph.

    `streams` unites nodes whose channels have the same positions; `aliases` does so too, but not across choices
    (`select`).
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
        """For each join whose heads or pieces would cut through those of its operands, the values that this depends
        on."""

    def channels(self, number: NodeId) -> Value:
        """Return the number of channels of a node."""
        x = self.types[number]
        return x.dims[x.channel_axis] if x.rank else 1

    def class_of(self, number: NodeId) -> ChannelClass:
        """Return the class of nodes whose channels have the same positions as those of this node."""
        stream = self.streams[number]
        return (True, self.aliases[number]) if stream in self._mixed_streams else (False, stream)

    # which nodes are joins

    def unite_parts(self) -> None:
        """Unite the streams of corresponding parts of equal joins in one stream, as in `concat(a, b) + concat(c,
        d)`."""
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
        """Decide which streams are joins, and distribute the heads of a join over its operands.

        `heads` returns the number of heads of a stream; `request_heads` requests heads of a node under a condition.
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
        """Return whether the equal pieces of a concatenation are exactly its operands."""
        widths = [self.channels(number) for number in join.operands]
        return join.kind == "concat" and len(widths) == pieces and all(same(width, widths[0]) for width in widths)

    def _channel_counts(self, join: Join) -> tuple[Value, ...]:
        """Return the channel counts of a join's result and of its operands."""
        return tuple(self.channels(number) for number in (join.result, *join.operands))

    def _resolve_mixed_streams(self) -> None:
        """Resolve streams that contain different joins: each class of nodes that is equal without choosing is treated
        separately."""
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
        """Drop joins that contain themselves or are nested too deeply, and store the classes with results before
        operands."""
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
        """Request heads for the operands of joins whose result is split into heads; drop joins for which that is
        impossible."""
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
        """Return how many of the result's heads each operand has, or None if a head would contain channels of two
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
        """Return the joins that reorder channels or merge several into one."""
        return [join for joins in self.by_class.values() for join in joins if join.kind in ("group", "shuffle")]

    def joins_of(self, number: NodeId) -> list[Join]:
        """Return the joins that the channels of a node come from; empty if the node is no join."""
        return self.by_class.get(self.class_of(number), [])


def _head_share(heads: int, part: int, total: int) -> int:
    """Return how many of the `heads` heads of `total` channels lie in `part` of the channels.

    Raises RuleError if that is not a whole number.
    """
    if heads * part % total or part * heads < total:
        raise RuleError(f"{part} of {total} channels do not hold a whole number of {heads} heads")
    return heads * part // total


def _shuffled_heads(heads: int, groups: int, channels: int) -> int:
    """Return the number of heads of a shuffle's operand, whose groups each have `heads` heads.

    Raises RuleError if the channels do not divide into that many.
    """
    if channels % (heads * groups):
        raise RuleError(f"{channels} channels do not divide into {heads} heads in each of {groups} groups")
    return heads * groups


def _cyclic(below: Mapping[_T, Sequence[_T]]) -> set[_T]:
    """Return the keys that contain themselves, directly or through the parts of their parts."""
    flow: nx.DiGraph[_T] = nx.DiGraph((key, part) for key, parts in below.items() for part in parts)
    cycles = {key for group in nx.strongly_connected_components(flow) if len(group) > 1 for key in group}
    return cycles | {key for key, parts in below.items() if key in parts}

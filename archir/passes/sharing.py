"""Weight sharing: which slice of each shared weight each architecture uses.

A shared weight is as large as the largest one of the space. Nodes whose channels are added, normalised or alternatives
of a choice have the same channels; they form a *stream*. An architecture uses the first channels of a stream. If an
attention splits a stream into heads, the channels are ordered by head, so that a channel belongs to the same head at
every width (Pi et al. 2021, TrioNet, section 3.5: Multi-Head Sharing). A join is a node whose channels come from
several streams, such as a concatenation (`archir.passes.joins`). A stream may also be split into equal pieces.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from math import prod
from typing import Any

import numpy as np

from archir.diagnostics.errors import RuleError
from archir.diagrams.conditions import if_else
from archir.diagrams.diagram import Choice, Value, leaves, same, support, value_at, varies
from archir.diagrams.lifting import lift
from archir.ir.graph import Graph, NodeId
from archir.ir.op import AliasMap, ChannelMap, ConcatMap, GroupMap, Op, RepeatMap, Role, ShuffleMap, SplitMap, Weight
from archir.ir.reachability import reachability_conditions
from archir.ir.structure import Select
from archir.ir.types import TensorType
from archir.ir.typing import infer, lift_rule
from archir.ops.shape import Slice
from archir.passes.channel_placement import ChannelPlacement, Outcomes, OwnChannels
from archir.passes.joins import Join, Joins, channel_count
from archir.passes.weight_slices import (
    Levels,
    ListedIndices,
    Positions,
    StridedIndices,
    WeightSlice,
    as_indices,
    centred_indices,
    merge_levels,
)

MAX_ARCHITECTURES = 512
"""Maximum number of combinations of outcomes that are enumerated to check that a join's channels can be placed."""
_WeightSpecs = tuple[tuple[str, Weight, tuple[Role, ...]], ...]
"""The weights of one node in one architecture: for each, its name, the weight, and the roles of its axes."""


@dataclass(frozen=True)
class _WeightedNode:
    """A node with weights.

    `specs` has the `_WeightSpecs` of the node for each architecture, and `needed` is the condition under which the node
    is needed. `result` and `operand` are the nodes whose channels are those of the result and of the first operand.
    """

    scope: str
    specs: Value
    result: NodeId
    operand: NodeId | None
    needed: Value

    @cached_property
    def has_mixed_grouping(self) -> bool:
        """True if the operation is grouped in only some architectures, so that the roles of axes differ.

        A grouped operation uses the first input channels of each group. In mixed cases, all architectures use the first
        input channels overall, so that the shared weight is no larger than the largest weight of any architecture.
        """
        forms = {tuple((name, roles) for name, _, roles in leaf) for leaf in leaves(self.specs)}
        return len(forms) > 1

    def channels(self, axis: Role) -> NodeId | None:
        """Return the node whose channels lie along an axis with this role; None if the axis holds something else."""
        return {"result": self.result, "operand": None if self.has_mixed_grouping else self.operand}.get(axis)


class Sharing:
    """The shared weights of a space, and the slices of them that each architecture uses.

    With `by_head=False`, heads are ignored: every architecture uses the first channels of each stream.
    """

    def __init__(self, graph: Graph, by_head: bool = True) -> None:
        from networkx.utils import UnionFind

        self.graph = graph
        self.types = infer(graph)
        self._needed = reachability_conditions(graph)
        self._assumptions = graph.assumptions
        self._streams: UnionFind[NodeId] = UnionFind()
        self._aliases: UnionFind[NodeId] = UnionFind()
        self._joins = Joins(graph, self.types, self._needed, self._streams, self._aliases)
        self._head_requests: dict[NodeId, list[tuple[Value, Value]]] = defaultdict(list)
        self._splits: list[tuple[NodeId, NodeId, int]] = []
        self._weighted: dict[NodeId, _WeightedNode] = {}
        self._irregular: list[NodeId] = []
        """Operations treated as having no channel maps, because their channel maps differ between architectures."""
        self._slices: list[tuple[NodeId, Value]] = []
        """Slices of channels that are not one of several equal pieces, each with its first channel."""
        for number in self.types:
            self._add_channel_maps(number)
            self._add_weights(number)
        self._unite_shared()
        self._joins.unite_parts()
        self._pieces = self._resolve_pieces()
        requests = self._group_by_stream(self._head_requests) if by_head else defaultdict(list)
        self._joins.resolve(
            self._pieces,
            lambda stream: _combined_heads(requests[stream]),
            lambda number, *request: requests[self._streams[number]].append(request),
        )
        self._heads = {self._streams[number]: _combined_heads(requests[self._streams[number]]) for number in self.types}
        self._conflicts = self._find_conflicts(requests)
        self._head_widths = self._measure_heads()
        self._placement = ChannelPlacement(
            self._joins, OwnChannels(self._own_end, self._own_positions, self._own_choices)
        )
        self.largest: dict[str, dict[str, Weight]] = {}
        """The shared weights, by scope and name; each is large enough to contain the weight of every architecture."""
        for node in self._weighted.values():
            self._extend_largest(node)

    # streams: which nodes have the same channels

    def _operand_types(self, number: NodeId) -> list[TensorType]:
        """Return the types of the operands of a node."""
        return [self.types[operand] for operand in self.graph.operands(number)]

    def _add_channel_maps(self, number: NodeId) -> None:
        """Record how the channels of a node's result follow from those of its operands: equal, joined, split, or
        sliced."""
        op, operands = self.graph[number].op, self.graph.operands(number)
        if isinstance(op, Select):
            alternatives = [operand for operand in operands if operand in self.types]
            self._streams.union(number, *alternatives)
            return
        channel_maps = lift_rule(
            _channel_maps, op, self._operand_types(number), self._needed[number], self._assumptions
        )
        distinct = {tuple(_without_heads(channel_map) for channel_map in leaf) for leaf in leaves(channel_maps)}
        if isinstance(op, Slice) and (len(distinct) > 1 or () in distinct):
            start = lift_rule(_channel_start, op, self._operand_types(number), self._needed[number], self._assumptions)
            self._slices.append((number, start))
            return
        if len(distinct) > 1:
            if distinct <= _CONV_MAPS and "groups" in op.attributes():
                heads = {**op.attributes(), **op.varying_attributes}["groups"]
                self._head_requests[operands[0]].append((self._needed[number], heads))
                self._head_requests[number].append((self._needed[number], heads))
            else:
                self._irregular.append(number)
            return
        for position, channel_map in enumerate(next(iter(distinct))):
            match channel_map:
                case ConcatMap(members):
                    self._joins.entries.append(Join("concat", number, tuple(operands[member] for member in members)))
                case RepeatMap(operand, times):
                    self._joins.entries.append(Join("repeat", number, (operands[operand],), times))
                case GroupMap(operand, times):
                    self._joins.entries.append(Join("group", number, (operands[operand],), times))
                case ShuffleMap(operand, groups):
                    self._joins.entries.append(Join("shuffle", number, (operands[operand],), groups))
                case SplitMap(source, piece, parts):
                    self._splits.append((self._member(number, source), self._member(number, piece), parts))
                case AliasMap(members):
                    heads = lift(lambda leaf, i=position: leaf[i].heads, channel_maps)
                    self._unite([self._member(number, member) for member in members], self._needed[number], heads)

    def _unite(self, members: list[NodeId], needed: Value, heads: Value) -> None:
        """Unite nodes into one stream, if they have as many channels as the last of them.

        If `heads` is not 1, this number of heads is requested for the stream under the condition `needed`.
        """
        equal = [
            member
            for member in members
            if same(channel_count(self.types[member]), channel_count(self.types[members[-1]]))
        ]
        self._streams.union(*equal)
        self._aliases.union(*equal)
        if heads != 1:
            self._head_requests[members[-1]].append((needed, heads))

    def _member(self, number: NodeId, member: int | None) -> NodeId:
        """Return the node of a port: the operand at this position or, for None, the node itself."""
        return number if member is None else self.graph.operands(number)[member]

    def _add_weights(self, number: NodeId) -> None:
        """Record the weights of a node, if it has any."""
        node, operands = self.graph[number], self.graph.operands(number)
        specs = lift_rule(_weights, node.op, self._operand_types(number), self._needed[number], self._assumptions)
        if specs != ():
            first = operands[0] if operands else None
            self._weighted[number] = _WeightedNode(node.scope, specs, number, first, self._needed[number])

    def _unite_shared(self) -> None:
        """Unite the streams along each axis of a weight that several nodes share, whatever their roles."""
        leaders: dict[tuple[str, str, int], NodeId] = {}
        for node in self._weighted.values():
            for name, _, roles in next(leaves(node.specs)):
                for axis, role in enumerate(roles):
                    member = node.channels(role)
                    if member is not None:
                        leader = leaders.setdefault((node.scope, name, axis), member)
                        self._streams.union(leader, member)
                        self._aliases.union(leader, member)

    def _resolve_pieces(self) -> dict[NodeId, tuple[int, NodeId]]:
        """Return, for each stream that is split into equal pieces, the number of pieces and the stream of all pieces.

        Streams that are split into different numbers of pieces are left out.
        """
        piece_counts: dict[NodeId, set[int]] = defaultdict(set)
        pieces: dict[NodeId, list[NodeId]] = defaultdict(list)
        for source, piece, count in self._splits:
            piece_counts[self._streams[source]].add(count)
            pieces[self._streams[source]].append(piece)
        unambiguous = {source: next(iter(counts)) for source, counts in piece_counts.items() if len(counts) == 1}
        for source in unambiguous:
            self._streams.union(*pieces[source])
        resolved: dict[NodeId, tuple[int, NodeId]] = {}
        for source, count in unambiguous.items():
            piece_stream = self._streams[pieces[source][0]]
            if self._streams[source] not in (piece_stream, *_nested_pieces(resolved, piece_stream)):
                resolved[self._streams[source]] = count, piece_stream
        return resolved

    def _group_by_stream(
        self, by_node: Mapping[NodeId, list[tuple[Value, Value]]]
    ) -> dict[NodeId, list[tuple[Value, Value]]]:
        """Return the concatenated lists of the nodes of each stream, by stream, from lists by node."""
        by_stream: dict[NodeId, list[tuple[Value, Value]]] = defaultdict(list)
        for number, items in by_node.items():
            by_stream[self._streams[number]] += items
        return by_stream

    @cached_property
    def misaligned(self) -> list[tuple[Value, ...]]:
        """The values that channel positions depend on, wherever channels are not aligned with the widest network.

        These values are numbers of heads or groups, numbers of channels that are split or moved, and starts of slices.
        """
        unplaceable = (self._unplaceable_channels(join) for join in self._joins.permuting())
        return [*self._conflicts, *self._find_resized_heads(), *filter(None, unplaceable)]

    def _find_conflicts(self, requests: Mapping[NodeId, list[tuple[Value, Value]]]) -> list[tuple[Value, ...]]:
        """Return, for each conflict, the values that it depends on.

        Conflicts are different numbers of heads requested for one stream, and slices that cut through heads or joins.
        """
        conflicts = list(self._joins.conflicts)
        for stream, stream_requests in requests.items():
            heads = [requested for _, requested in stream_requests]
            if any(not same(requested, heads[0]) for requested in heads):
                conflicts.append((*heads, channel_count(self.types[stream])))
        for number in self._irregular:
            members = [node for node in (number, *self.graph.operands(number)) if node in self.types]
            if any(self._joins.joins_of(node) or requests[self._streams[node]] for node in members):
                widths = [channel_count(self.types[node]) for node in members]
                conflicts.append((*self.graph[number].op.varying_attributes.values(), *widths))
        for number, start in self._slices:
            source = self.graph.operands(number)[0]
            if varies(start):
                conflicts.append((start,))
            elif self._joins.joins_of(source) or requests[self._streams[source]]:
                conflicts.append((channel_count(self.types[source]),))
        for source, (count, _) in self._pieces.items():
            if any(not same(heads, count) for _, heads in requests[source]):
                conflicts.append((channel_count(self.types[source]),))
        unresolved = [source for source, _, _ in self._splits if self._streams[source] not in self._pieces]
        return [*conflicts, *((channel_count(self.types[source]),) for source in unresolved)]

    def _find_resized_heads(self) -> list[tuple[Value, ...]]:
        """Return number of heads and channels of streams whose head width varies with the number of heads.

        A narrower head would then begin in the middle of another head.
        """
        dependencies = []
        for number, type_ in self.types.items():
            widths = self._head_widths.get(self._streams[number], {})
            if len({width for heads, width in widths.items() if heads > 1}) > 1:
                dependencies.append((self._heads[self._streams[number]], channel_count(type_)))
        return dependencies

    def _unplaceable_channels(self, join: Join) -> tuple[Value, ...]:
        """Return the channel counts of a join's operands if some architecture's channels cannot be placed, else ().

        The counts are also returned if there are too many combinations of outcomes to check (MAX_ARCHITECTURES).
        """
        choices = sorted(self._placement.choices(join.result), key=lambda choice: choice.order)
        cases = product(*(range(choice.outcome_count) for choice in choices))
        is_enumerable = prod(choice.outcome_count for choice in choices) <= MAX_ARCHITECTURES
        paths = [choice.path for choice in choices]
        if is_enumerable and all(
            self._is_placeable(join.result, dict(zip(paths, case, strict=True))) for case in cases
        ):
            return ()
        return tuple(channel_count(self.types[operand]) for operand in join.operands)

    def _is_placeable(self, number: NodeId, outcomes: Outcomes) -> bool:
        """Return whether a node's channels have positions in an architecture, or the node is not needed in it."""
        needed = value_at(self._needed[number], outcomes)
        return not needed or self._placement.positions(number, outcomes) is not None

    # widths of streams and heads

    def _measure_heads(self) -> dict[NodeId, dict[int, int]]:
        """Return, for each stream and number of heads, the width of the widest head."""
        head_widths: dict[NodeId, dict[int, int]] = defaultdict(dict)
        for number, type_ in self.types.items():
            stream = self._streams[number]
            if stream in self._pieces:
                continue
            pairs = lift(lambda c, h: (c, h), channel_count(type_), self._heads[stream], under=self._needed[number])
            widths = head_widths[stream]
            for count, heads in leaves(pairs):
                split = heads if count % heads == 0 else 1
                widths[split] = max(widths.get(split, 0), count // split)
        return head_widths

    def _extent(self, stream: NodeId) -> int:
        """Return the number of channels of a stream in the widest architecture."""
        if stream in self._pieces:
            count, piece = self._pieces[stream]
            return count * self._extent(piece)
        return max(heads * width for heads, width in self._head_widths[stream].items())

    def _levels(self, stream: NodeId, count: int, heads: int) -> Levels:
        """Return the positions, as nested loops, of `count` channels of a stream that is split into `heads` heads."""
        if stream in self._pieces:
            pieces, piece = self._pieces[stream]
            return merge_levels(((pieces, self._extent(piece)), *self._levels(piece, count // pieces, heads)))
        split = heads if count % heads == 0 else 1
        return merge_levels(((split, self._head_widths[stream][split]), (count // split, 1)))

    def _heads_of(self, number: NodeId | None) -> Value:
        """Return the number of heads of a node's channels; if these are split into pieces, that of the pieces."""
        if number is None:
            return 1
        stream = self._streams[number]
        while stream in self._pieces:
            stream = self._pieces[stream][1]
        return self._heads[stream]

    # positions of channels

    def _is_split_join(self, number: NodeId) -> bool:
        """Return whether the channels of a node are split into equal pieces that are joins."""
        stream = self._streams[number]
        while stream in self._pieces:
            stream = self._pieces[stream][1]
            if self._joins.joins_of(stream) and not self._joins.class_of(stream)[0]:
                return True
        return False

    def _own_end(self, number: NodeId) -> int:
        """Return the number of positions that the channels of a node that is not a join need in the widest
        architecture."""
        stream = self._streams[number]
        if self._is_split_join(number):
            pieces, piece = self._pieces[stream]
            return pieces * self._placement.end(piece)
        channels, heads = channel_count(self.types[number]), self._heads_of(number)
        sizes = lift(lambda *pair: pair, channels, heads, under=self._needed[number])
        return max(StridedIndices(0, self._levels(stream, *leaf)).end for leaf in leaves(sizes))

    def _own_positions(self, number: NodeId, outcomes: Outcomes) -> Positions:
        """Return the positions [C] of the channels of a node that is not a join, in an architecture."""
        return self._positions_of_size(number, value_at(channel_count(self.types[number]), outcomes), outcomes)

    def _positions_of_size(self, number: NodeId, size: int, outcomes: Outcomes) -> Positions:
        """Return the positions [size] that `size` channels of a node that is not a join have in an architecture."""
        stream = self._streams[number]
        if self._is_split_join(number):
            pieces, piece = self._pieces[stream]
            positions = self._placement.positions(piece, outcomes, size // pieces)
            if positions is None:
                positions = self._positions_of_size(piece, size // pieces, outcomes)
            return (np.arange(pieces)[:, None] * self._placement.end(piece) + positions).ravel()
        heads = value_at(self._heads_of(number), outcomes)
        return np.array(StridedIndices(0, self._levels(stream, size, heads)).positions())

    def _own_choices(self, number: NodeId) -> list[Choice]:
        """Return the choices on which the channel positions of a node that is not a join depend."""
        piece_choices = (
            self._placement.choices(self._pieces[self._streams[number]][1]) if self._is_split_join(number) else ()
        )
        return [*support(channel_count(self.types[number]), self._heads_of(number)), *piece_choices]

    def _joined_indices(
        self, number: NodeId | None, size: int, outcomes: Outcomes
    ) -> StridedIndices | ListedIndices | None:
        """Return the positions of `size` channels of a join.

        Returns None if the node is not a join or the channels cannot be placed.
        """
        if number is None or not (self._joins.joins_of(number) or self._is_split_join(number)):
            return None
        positions = self._placement.positions(number, outcomes, size)
        if positions is None and self._is_split_join(number):
            positions = self._positions_of_size(number, size, outcomes)
        return None if positions is None else as_indices(positions)

    # slices of weights

    def _weight_slices(
        self, node: _WeightedNode, leaf: tuple[_WeightSpecs, int, int]
    ) -> dict[str, tuple[Weight, WeightSlice]]:
        """Return a node's weights in one architecture, with their slices of the shared weights.

        Kernel axes are not centred yet in these slices.
        """
        specs, result, operand = leaf
        slices = {}
        for name, weight, axes in specs:
            indices: list[StridedIndices | ListedIndices] = []
            for size, axis in zip(weight.shape, axes, strict=True):
                levels: Levels = ((size, 1),)
                if axis == "result":
                    levels = self._levels(self._streams[node.result], size, result)
                elif axis == "operand" and node.operand is not None:
                    levels = self._levels(self._streams[node.operand], size, operand)
                indices.append(StridedIndices(0, levels))
            slices[name] = weight, tuple(indices)
        return slices

    def _specs_and_heads(self, node: _WeightedNode) -> Value:
        """Return, as a diagram, the weights of a node and the numbers of heads of its result and of its first
        operand."""
        heads = self._heads_of(node.result), self._heads_of(node.operand)
        return lift(lambda *parts: parts, node.specs, *heads, under=node.needed)

    def _extend_largest(self, node: _WeightedNode) -> None:
        """Enlarge the shared weights so that they contain the weights of a node in every architecture."""
        shared = self.largest.setdefault(node.scope, {})
        for leaf in leaves(self._specs_and_heads(node)):
            for name, (weight, part) in self._weight_slices(node, leaf).items():
                axes = next(roles for spec_name, _, roles in leaf[0] if spec_name == name)
                sizes = [self._axis_end(node, axis, indices.end) for axis, indices in zip(axes, part, strict=True)]
                if name in shared:
                    sizes = [max(pair) for pair in zip(sizes, shared[name].shape, strict=True)]
                fan_in = max(weight.fan_in, shared[name].fan_in if name in shared else 1)
                shared[name] = replace(shared.get(name, weight), shape=tuple(sizes), fan_in=fan_in)

    def _axis_end(self, node: _WeightedNode, axis: Role, end: int) -> int:
        """Return the size that an axis of a shared weight needs: `end`, or more for the channels of a join."""
        number = node.channels(axis)
        if number is None or not (self._joins.joins_of(number) or self._is_split_join(number)):
            return end
        return max(end, self._placement.end(number))

    def depends_on(self, number: NodeId) -> list[Choice]:
        """Return the choices on which a node's operation, operand types and weight slices depend, in program order."""
        parts = [part for x in self._operand_types(number) for part in (x.kind, *x.dims)]
        values = [*self.graph[number].op.varying_attributes.values(), *parts]
        if number in self._weighted:
            node = self._weighted[number]
            values.append(self._specs_and_heads(node))
            members = [member for member in (node.result, node.operand) if member is not None]
            choices = set(support(*values)).union(*(self._placement.choices(member) for member in members))
            return sorted(choices, key=lambda choice: choice.order)
        return support(*values)

    def slices(self, number: NodeId, outcomes: Mapping[str, int]) -> dict[str, WeightSlice]:
        """Return the slices of the shared weights that a node uses in an architecture, by the weight's name."""
        if number not in self._weighted:
            return {}
        node = self._weighted[number]
        heads = self._heads_of(node.result), self._heads_of(node.operand)
        leaf = tuple(value_at(value, outcomes) for value in (node.specs, *heads))
        axes = {name: roles for name, _, roles in leaf[0]}
        parts: dict[str, WeightSlice] = {}
        for name, (weight, part) in self._weight_slices(node, leaf).items():
            shape = self.largest[node.scope][name].shape
            parts[name] = tuple(
                centred_indices(indices, length)
                if axis == "centred"
                else self._joined_indices(node.channels(axis), size, outcomes) or indices
                for indices, axis, size, length in zip(part, axes[name], weight.shape, shape, strict=True)
            )
        return parts

    @property
    def shapes(self) -> dict[str, dict[str, tuple[int, ...]]]:
        """The shapes of the shared weights, by scope and name."""
        return {
            scope: {name: weight.shape for name, weight in weights.items()} for scope, weights in self.largest.items()
        }

    @cached_property
    def elements(self) -> int:
        """Total number of elements of the shared weights, not counting buffers."""
        return sum(w.elements for weights in self.largest.values() for w in weights.values() if not w.buffer)


def _channel_maps(op: Op, *operands: Any) -> tuple[ChannelMap, ...]:
    """Return the channel maps of an operation."""
    return op.ties(*operands)


def _weights(op: Op, *operands: Any) -> _WeightSpecs:
    """Return the weights of an operation with the roles of their axes."""
    weights = op.weights(*operands)
    axes = op.roles(*operands) if weights else {}
    return tuple((name, weight, axes[name]) for name, weight in weights.items())


def _channel_start(op: Slice, x: TensorType) -> int:
    """Return the first channel that a slice contains; 0 if the slice is along another axis."""
    axis, start, _ = op.bounds(x)
    return start if axis == x.channel_axis else 0


_CONV_MAPS = {(), (AliasMap((0, None)),), (AliasMap((0,)), AliasMap((None,)))}
"""Channel maps of convolutions, without heads: with one group, depthwise, and with any other number of groups."""


def _without_heads(channel_map: ChannelMap) -> ChannelMap:
    """Return a channel map without its number of heads."""
    return AliasMap(channel_map.tensors) if isinstance(channel_map, AliasMap) else channel_map


def _combined_heads(requests: Iterable[tuple[Value, Value]]) -> Value:
    """Return the number of heads in each architecture, from pairs of a condition and a requested number.

    The number is 1 where no heads are requested, and 1 everywhere if it would depend on too many choices.
    """
    heads: Value = 1
    try:
        for condition, requested in requests:
            heads = if_else(condition, requested, heads)
    except RuleError:
        return 1
    return heads


def _nested_pieces(pieces: Mapping[NodeId, tuple[int, NodeId]], stream: NodeId) -> list[NodeId]:
    """Return the stream of a stream's pieces, the stream of the pieces of those pieces, and so on."""
    nested = []
    while stream in pieces:
        stream = pieces[stream][1]
        nested.append(stream)
    return nested

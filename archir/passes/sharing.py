"""Where the weights of each architecture lie inside those that all architectures of a space share.

Channels that are added, normalised or chosen among are the same ones: they form a *stream*. An architecture has the
first channels of a stream; those of a stream that an attention splits into heads lie head by head, so that a channel
belongs to the same head whatever the width (Pi et al. 2021, TrioNet, section 3.5: Multi-Head Sharing).
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
from archir.diagrams.cases import Choice, Value, at, leaves, same, support, varies
from archir.diagrams.conditions import if_else
from archir.diagrams.lifting import lift
from archir.ir.graph import Graph, NodeId
from archir.ir.needs import needs
from archir.ir.op import Beside, Dealt, Gathered, Op, Piece, Role, Spread, Tie, Tied, Weight
from archir.ir.structure import Select
from archir.ir.types import TensorType
from archir.ir.typing import infer, lifted
from archir.ops.shape import Slice
from archir.passes.joins import Join, Joins
from archir.passes.places import Outcomes, Places, Plain
from archir.passes.positions import Along, Levels, Listed, Part, Positions, along, centred, merged

MAX_ARCHITECTURES = 512
"""Of those that places of channels depend on, that are tried one by one."""
_Known = tuple[tuple[str, Weight, tuple[Role, ...]], ...]
"""The weights of one node, plain: name, weight, what its axes are."""


@dataclass(frozen=True)
class _Weighed:
    """A node with weights: what it has (of `_Known` leaves), and the streams of its result and first operand."""

    scope: str
    known: Value
    result: NodeId
    operand: NodeId | None
    under: Value

    @cached_property
    def grouped(self) -> bool:
        """Whether some architectures have groups there, whose weights have each group's first channels, and others
        none: then all have the first ones, so that a weight is as large as the largest of them."""
        forms = {tuple((name, roles) for name, _, roles in leaf) for leaf in leaves(self.known)}
        return len(forms) > 1

    def channels(self, axis: Role) -> NodeId | None:
        """Whose channels an axis of a weight is."""
        return {"result": self.result, "operand": None if self.grouped else self.operand}.get(axis)


class Sharing:
    """The largest weights of a space, and where those of each architecture lie in them.

    `by_head=False` gives up on heads: every stream has its first channels.
    """

    def __init__(self, graph: Graph, by_head: bool = True) -> None:
        from networkx.utils import UnionFind

        self.graph = graph
        self.types = infer(graph)
        self._needed = needs(graph)
        self._given = graph.given
        self._streams: UnionFind[NodeId] = UnionFind()
        self._tied: UnionFind[NodeId] = UnionFind()
        self._joins = Joins(graph, self.types, self._needed, self._streams, self._tied)
        self._demands: dict[NodeId, list[tuple[Value, Value]]] = defaultdict(list)
        self._cuts: list[tuple[NodeId, NodeId, int]] = []
        self._nodes: dict[NodeId, _Weighed] = {}
        self._unlike: list[NodeId] = []
        """Operations that tie nothing, since what they tie differs between architectures."""
        self._slices: list[tuple[NodeId, Value]] = []
        """Slices of channels that are not equal pieces, and where they begin."""
        for number in self.types:
            self._tie(number)
            self._weigh(number)
        self._join_shared()
        self._joins.unite()
        self._pieces = self._settled_pieces()
        demands = self._joined(self._demands) if by_head else defaultdict(list)
        self._joins.settle(
            self._pieces,
            lambda stream: _folded(demands[stream]),
            lambda number, *demand: demands[self._streams[number]].append(demand),
        )
        self._heads = {self._streams[number]: _folded(demands[self._streams[number]]) for number in self.types}
        self._clashes = self._clashing(demands)
        self._widths = self._measured()
        self._places = Places(self._joins, Plain(self._end, self._plain, self._about))
        self.largest: dict[str, dict[str, Weight]] = {}
        """By scope, the weights of all architectures together."""
        for node in self._nodes.values():
            self._enlarge(node)

    # what belongs together

    def _operands(self, number: NodeId) -> list[TensorType]:
        return [self.types[operand] for operand in self.graph.operands(number)]

    def _tie(self, number: NodeId) -> None:
        op, operands = self.graph[number].op, self.graph.operands(number)
        if isinstance(op, Select):
            reached = [operand for operand in operands if operand in self.types]
            self._streams.union(number, *reached)
            return
        found = lifted(_ties, op, self._operands(number), self._needed[number], self._given)
        forms = {tuple(_form(tie) for tie in leaf) for leaf in leaves(found)}
        if isinstance(op, Slice) and (len(forms) > 1 or () in forms):
            start = lifted(_start, op, self._operands(number), self._needed[number], self._given)
            self._slices.append((number, start))
            return
        if len(forms) > 1:
            if forms <= _GROUPED and "groups" in op.attributes():
                heads = {**op.attributes(), **op.varied}["groups"]
                self._demands[operands[0]].append((self._needed[number], heads))
                self._demands[number].append((self._needed[number], heads))
            else:
                self._unlike.append(number)
            return
        for position, tie in enumerate(next(iter(forms))):
            match tie:
                case Beside(members):
                    self._joins.found.append(Join("beside", number, tuple(operands[member] for member in members)))
                case Spread(operand, times):
                    self._joins.found.append(Join("spread", number, (operands[operand],), times))
                case Gathered(operand, times):
                    self._joins.found.append(Join("gathered", number, (operands[operand],), times))
                case Dealt(operand, groups):
                    self._joins.found.append(Join("dealt", number, (operands[operand],), groups))
                case Piece(whole, piece, parts):
                    self._cuts.append((self._member(number, whole), self._member(number, piece), parts))
                case Tied(members):
                    heads = lift(lambda leaf, i=position: leaf[i].heads, found)
                    self._alike([self._member(number, member) for member in members], self._needed[number], heads)

    def _alike(self, members: list[NodeId], needed: Value, heads: Value) -> None:
        alike = [one for one in members if same(_channels(self.types[one]), _channels(self.types[members[-1]]))]
        self._streams.union(*alike)
        self._tied.union(*alike)
        if heads != 1:
            self._demands[members[-1]].append((needed, heads))

    def _member(self, number: NodeId, member: int | None) -> NodeId:
        return number if member is None else self.graph.operands(number)[member]

    def _weigh(self, number: NodeId) -> None:
        node, operands = self.graph[number], self.graph.operands(number)
        known = lifted(_weights, node.op, self._operands(number), self._needed[number], self._given)
        if known != ():
            first = operands[0] if operands else None
            self._nodes[number] = _Weighed(node.scope, known, number, first, self._needed[number])

    def _join_shared(self) -> None:
        """Axes of weights that several nodes share are of one stream, whatever each of them uses it for."""
        first: dict[tuple[str, str, int], NodeId] = {}
        for node in self._nodes.values():
            for name, _, roles in next(leaves(node.known)):
                for axis, role in enumerate(roles):
                    member = node.channels(role)
                    if member is not None:
                        one = first.setdefault((node.scope, name, axis), member)
                        self._streams.union(one, member)
                        self._tied.union(one, member)

    def _settled_pieces(self) -> dict[NodeId, tuple[int, NodeId]]:
        """By stream, how many equal pieces it has, and the stream of these: they are all alike."""
        cuts: dict[NodeId, set[int]] = defaultdict(set)
        pieces: dict[NodeId, list[NodeId]] = defaultdict(list)
        for whole, piece, count in self._cuts:
            cuts[self._streams[whole]].add(count)
            pieces[self._streams[whole]].append(piece)
        clear = {whole: next(iter(counts)) for whole, counts in cuts.items() if len(counts) == 1}
        for whole in clear:
            self._streams.union(*pieces[whole])
        found: dict[NodeId, tuple[int, NodeId]] = {}
        for whole, count in clear.items():
            below = self._streams[pieces[whole][0]]
            if self._streams[whole] not in (below, *_below(found, below)):
                found[self._streams[whole]] = count, below
        return found

    def _joined(self, things: Mapping[NodeId, list[tuple[Value, Value]]]) -> dict[NodeId, list[tuple[Value, Value]]]:
        found: dict[NodeId, list[tuple[Value, Value]]] = defaultdict(list)
        for number, items in things.items():
            found[self._streams[number]] += items
        return found

    @cached_property
    def parted(self) -> list[tuple[Value, ...]]:
        """What each depends on of the places where channels lie otherwise than in the widest network: numbers of heads
        and groups, of channels that are split into them or moved, and where slices begin."""
        scattered = (self._scattered(join) for join in self._joins.moved())
        return [*self._clashes, *self._resized(), *filter(None, scattered)]

    def _clashing(self, demands: Mapping[NodeId, list[tuple[Value, Value]]]) -> list[tuple[Value, ...]]:
        """Heads that a join, or others who split the same channels, know otherwise; slices of other channels."""
        found = list(self._joins.parted)
        for stream, asked in demands.items():
            heads = [wanted for _, wanted in asked]
            if any(not same(wanted, heads[0]) for wanted in heads):
                found.append((*heads, _channels(self.types[stream])))
        for number in self._unlike:
            members = [one for one in (number, *self.graph.operands(number)) if one in self.types]
            if any(self._joins.joined(one) or demands[self._streams[one]] for one in members):
                widths = [_channels(self.types[one]) for one in members]
                found.append((*self.graph[number].op.varied.values(), *widths))
        for number, start in self._slices:
            whole = self.graph.operands(number)[0]
            if varies(start):
                found.append((start,))
            elif self._joins.joined(whole) or demands[self._streams[whole]]:
                found.append((_channels(self.types[whole]),))
        for whole, (count, _) in self._pieces.items():
            if any(not same(heads, count) for _, heads in demands[whole]):
                found.append((_channels(self.types[whole]),))
        loose = [whole for whole, _, _ in self._cuts if self._streams[whole] not in self._pieces]
        return [*found, *((_channels(self.types[whole]),) for whole in loose)]

    def _resized(self) -> list[tuple[Value, ...]]:
        """Streams whose heads are fewer and narrower at once: a head would begin inside of another one."""
        found = []
        for number, type_ in self.types.items():
            widths = self._widths.get(self._streams[number], {})
            if len({width for heads, width in widths.items() if heads > 1}) > 1:
                found.append((self._heads[self._streams[number]], _channels(type_)))
        return found

    def _scattered(self, join: Join) -> tuple[Value, ...]:
        """The channels of operands of a join that moves them, if the result's have no places in some architecture."""
        choices = sorted(self._places.about(join.result), key=lambda choice: choice.order)
        cases = product(*(range(choice.outcomes) for choice in choices))
        few = prod(choice.outcomes for choice in choices) <= MAX_ARCHITECTURES
        paths = [choice.path for choice in choices]
        if few and all(self._has_places(join.result, dict(zip(paths, case, strict=True))) for case in cases):
            return ()
        return tuple(_channels(self.types[operand]) for operand in join.operands)

    def _has_places(self, number: NodeId, outcomes: Outcomes) -> bool:
        needed = at(self._needed[number], outcomes)
        return not needed or self._places.places(number, outcomes) is not None

    # how wide it is

    def _measured(self) -> dict[NodeId, dict[int, int]]:
        """By stream and number of heads, the width of the widest head."""
        found: dict[NodeId, dict[int, int]] = defaultdict(dict)
        for number, type_ in self.types.items():
            stream = self._streams[number]
            if stream in self._pieces:
                continue
            pairs = lift(lambda c, h: (c, h), _channels(type_), self._heads[stream], under=self._needed[number])
            widths = found[stream]
            for count, heads in leaves(pairs):
                split = heads if count % heads == 0 else 1
                widths[split] = max(widths.get(split, 0), count // split)
        return found

    def _extent(self, stream: NodeId) -> int:
        """Positions of a stream in the widest architecture."""
        if stream in self._pieces:
            count, piece = self._pieces[stream]
            return count * self._extent(piece)
        return max(heads * width for heads, width in self._widths[stream].items())

    def _levels(self, stream: NodeId, count: int, heads: int) -> Levels:
        """Where so many channels of a stream lie."""
        if stream in self._pieces:
            pieces, piece = self._pieces[stream]
            return merged(((pieces, self._extent(piece)), *self._levels(piece, count // pieces, heads)))
        split = heads if count % heads == 0 else 1
        return merged(((split, self._widths[stream][split]), (count // split, 1)))

    def _heads_of(self, number: NodeId | None) -> Value:
        if number is None:
            return 1
        stream = self._streams[number]
        while stream in self._pieces:
            stream = self._pieces[stream][1]
        return self._heads[stream]

    # where channels are

    def _held(self, number: NodeId) -> bool:
        """Whether channels are pieces that are joined of others."""
        stream = self._streams[number]
        while stream in self._pieces:
            stream = self._pieces[stream][1]
            if self._joins.joined(stream) and not self._joins.class_of(stream)[0]:
                return True
        return False

    def _end(self, number: NodeId) -> int:
        """Positions that a node's channels need, if they are no others'."""
        stream = self._streams[number]
        if self._held(number):
            pieces, piece = self._pieces[stream]
            return pieces * self._places.end(piece)
        channels, heads = _channels(self.types[number]), self._heads_of(number)
        sizes = lift(lambda *pair: pair, channels, heads, under=self._needed[number])
        return max(Along(0, self._levels(stream, *leaf)).end for leaf in leaves(sizes))

    def _plain(self, number: NodeId, outcomes: Outcomes) -> Positions:
        """Where a node's channels lie, if they are no others' [C]."""
        return self._sized(number, at(_channels(self.types[number]), outcomes), outcomes)

    def _sized(self, number: NodeId, size: int, outcomes: Outcomes) -> Positions:
        stream = self._streams[number]
        if self._held(number):
            pieces, piece = self._pieces[stream]
            found = self._places.places(piece, outcomes, size // pieces)
            if found is None:
                found = self._sized(piece, size // pieces, outcomes)
            return (np.arange(pieces)[:, None] * self._places.end(piece) + found).ravel()
        heads = at(self._heads_of(number), outcomes)
        return np.array(Along(0, self._levels(stream, size, heads)).positions())

    def _about(self, number: NodeId) -> list[Choice]:
        """The choices that the places of a node's channels depend on, if they are no others'."""
        held = self._places.about(self._pieces[self._streams[number]][1]) if self._held(number) else ()
        return [*support(_channels(self.types[number]), self._heads_of(number)), *held]

    def _joined_axis(self, number: NodeId | None, size: int, outcomes: Outcomes) -> Along | Listed | None:
        """Where so many channels lie that are others'; None if they are not, or lie as any others."""
        if number is None or not (self._joins.joined(number) or self._held(number)):
            return None
        found = self._places.places(number, outcomes, size)
        if found is None and self._held(number):
            found = self._sized(number, size, outcomes)
        return None if found is None else along(found)

    # weights

    def _placed(self, node: _Weighed, leaf: tuple[_Known, int, int]) -> dict[str, tuple[Weight, Part]]:
        """The weights of a node, and where they lie, but for what is centred."""
        known, result, operand = leaf
        found = {}
        for name, weight, axes in known:
            part: list[Along | Listed] = []
            for size, axis in zip(weight.shape, axes, strict=True):
                levels: Levels = ((size, 1),)
                if axis == "result":
                    levels = self._levels(self._streams[node.result], size, result)
                elif axis == "operand" and node.operand is not None:
                    levels = self._levels(self._streams[node.operand], size, operand)
                part.append(Along(0, levels))
            found[name] = weight, tuple(part)
        return found

    def _leaf(self, node: _Weighed) -> Value:
        heads = self._heads_of(node.result), self._heads_of(node.operand)
        return lift(lambda *parts: parts, node.known, *heads, under=node.under)

    def _enlarge(self, node: _Weighed) -> None:
        held = self.largest.setdefault(node.scope, {})
        for leaf in leaves(self._leaf(node)):
            for name, (weight, part) in self._placed(node, leaf).items():
                axes = next(kinds for known, _, kinds in leaf[0] if known == name)
                ends = [self._ended(node, axis, one.end) for axis, one in zip(axes, part, strict=True)]
                if name in held:
                    ends = [max(pair) for pair in zip(ends, held[name].shape, strict=True)]
                fan_in = max(weight.fan_in, held[name].fan_in if name in held else 1)
                held[name] = replace(held.get(name, weight), shape=tuple(ends), fan_in=fan_in)

    def _ended(self, node: _Weighed, axis: Role, end: int) -> int:
        number = node.channels(axis)
        if number is None or not (self._joins.joined(number) or self._held(number)):
            return end
        return max(end, self._places.end(number))

    def depends_on(self, number: NodeId) -> list[Choice]:
        """The choices that a node's operation, its types and its parts depend on."""
        parts = [part for x in self._operands(number) for part in (x.kind, *x.dims)]
        values = [*self.graph[number].op.varied.values(), *parts]
        if number in self._nodes:
            node = self._nodes[number]
            values.append(self._leaf(node))
            others = [one for one in (node.result, node.operand) if one is not None]
            found = set(support(*values)).union(*(self._places.about(one) for one in others))
            return sorted(found, key=lambda choice: choice.order)
        return support(*values)

    def parts(self, number: NodeId, outcomes: Mapping[str, int]) -> dict[str, Part]:
        """Where the weights of a node lie in those of its scope, for an architecture."""
        if number not in self._nodes:
            return {}
        node = self._nodes[number]
        heads = self._heads_of(node.result), self._heads_of(node.operand)
        leaf = tuple(at(value, outcomes) for value in (node.known, *heads))
        axes = {name: kinds for name, _, kinds in leaf[0]}
        found = {}
        for name, (weight, part) in self._placed(node, leaf).items():
            whole = self.largest[node.scope][name].shape
            found[name] = tuple(
                centred(one, length)
                if axis == "centred"
                else self._joined_axis(node.channels(axis), size, outcomes) or one
                for one, axis, size, length in zip(part, axes[name], weight.shape, whole, strict=True)
            )
        return found

    @property
    def shapes(self) -> dict[str, dict[str, tuple[int, ...]]]:
        """By scope and name, the shapes of the largest weights."""
        return {scope: {name: one.shape for name, one in held.items()} for scope, held in self.largest.items()}

    @cached_property
    def elements(self) -> int:
        """Numbers of all weights, buffers left out."""
        return sum(w.elements for weights in self.largest.values() for w in weights.values() if not w.buffer)


def _ties(op: Op, *operands: Any) -> tuple[Tie, ...]:
    return op.ties(*operands)


def _weights(op: Op, *operands: Any) -> _Known:
    weights = op.weights(*operands)
    axes = op.roles(*operands) if weights else {}
    return tuple((name, weight, axes[name]) for name, weight in weights.items())


def _start(op: Slice, x: TensorType) -> int:
    axis, start, _ = op.bounds(x)
    return start if axis == x.channel_axis else 0


_GROUPED = {(), (Tied((0, None)),), (Tied((0,)), Tied((None,)))}
"""What convolutions of one group, of as many as channels, and of others tie."""


def _form(tie: Tie) -> Tie:
    return Tied(tie.members) if isinstance(tie, Tied) else tie


def _channels(x: TensorType) -> Value:
    return x.dims[x.channel_axis] if x.rank else 1


def _folded(demands: Iterable[tuple[Value, Value]]) -> Value:
    """The heads that are asked for; where nobody asks, or too many choices would matter, there is one."""
    heads: Value = 1
    try:
        for condition, wanted in demands:
            heads = if_else(condition, wanted, heads)
    except RuleError:
        return 1
    return heads


def _below(pieces: Mapping[NodeId, tuple[int, NodeId]], stream: NodeId) -> list[NodeId]:
    found = []
    while stream in pieces:
        stream = pieces[stream][1]
        found.append(stream)
    return found

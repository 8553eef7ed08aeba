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
from math import prod
from typing import Any, NamedTuple

from archir.base.errors import RuleError
from archir.ir.choices.cases import Choice, Value, at, leaves, same, support
from archir.ir.choices.conditions import if_else
from archir.ir.choices.lifting import lift
from archir.ir.graph import Graph, NodeId
from archir.ir.needs import needs
from archir.ir.op import Op, Piece, Role, Tied, Weight
from archir.ir.structure import Select
from archir.ir.types import TensorType
from archir.ir.typing import infer, lifted

Levels = tuple[tuple[int, int], ...]
"""Positions on an axis, as those of nested loops: (count, stride) from the outermost to the innermost."""


class Along(NamedTuple):
    """What of an axis a smaller weight has: the positions of loops, after so many others."""

    start: int
    levels: Levels

    @property
    def size(self) -> int:
        """How many positions."""
        return prod(count for count, _ in self.levels)

    @property
    def end(self) -> int:
        """One after the last position."""
        return self.start + 1 + sum((count - 1) * stride for count, stride in self.levels)

    def positions(self) -> list[int]:
        """All of them, in the order in which the smaller weight has them."""
        found = [self.start]
        for count, stride in self.levels:
            found = [position + i * stride for position in found for i in range(count)]
        return found


Part = tuple[Along, ...]
"""What of each axis of a weight a smaller one has."""

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
        self._demands: dict[NodeId, list[tuple[Value, Value]]] = defaultdict(list)
        self._cuts: list[tuple[NodeId, NodeId, int]] = []
        self._nodes: dict[NodeId, _Weighed] = {}
        for number in self.types:
            self._tie(number)
            self._weigh(number)
        self._join_shared()
        self._pieces = self._settled_pieces()
        self._heads = {self._streams[number]: 1 for number in self.types}
        if by_head:
            for number, demands in self._joined(self._demands).items():
                self._heads[number] = _folded(demands)
        self._widths = self._measured()
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
        if len(forms) > 1:
            return
        for position, tie in enumerate(next(iter(forms))):
            if isinstance(tie, Piece):
                whole, piece = (self._member(number, member) for member in (tie.whole, tie.piece))
                self._cuts.append((whole, piece, tie.parts))
                continue
            members = [self._member(number, member) for member in tie.members]
            alike = [one for one in members if same(_channels(self.types[one]), _channels(self.types[members[-1]]))]
            self._streams.union(*alike)
            heads = lift(lambda leaf, i=position: leaf[i].heads, found)
            if heads != 1:
                self._demands[members[-1]].append((self._needed[number], heads))

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
                    member = {"result": node.result, "operand": node.operand}.get(role)
                    if member is not None:
                        self._streams.union(first.setdefault((node.scope, name, axis), member), member)

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
            return _merged(((pieces, self._extent(piece)), *self._levels(piece, count // pieces, heads)))
        split = heads if count % heads == 0 else 1
        return _merged(((split, self._widths[stream][split]), (count // split, 1)))

    def _heads_of(self, number: NodeId | None) -> Value:
        if number is None:
            return 1
        stream = self._streams[number]
        while stream in self._pieces:
            stream = self._pieces[stream][1]
        return self._heads[stream]

    # weights

    def _placed(self, node: _Weighed, leaf: tuple[_Known, int, int]) -> dict[str, tuple[Weight, Part]]:
        """The weights of a node, and where they lie, but for what is centred."""
        known, result, operand = leaf
        found = {}
        for name, weight, axes in known:
            part = []
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
                ends = [along.end for along in part]
                if name in held:
                    ends = [max(pair) for pair in zip(ends, held[name].shape, strict=True)]
                fan_in = max(weight.fan_in, held[name].fan_in if name in held else 1)
                held[name] = replace(held.get(name, weight), shape=tuple(ends), fan_in=fan_in)

    def depends_on(self, number: NodeId) -> list[Choice]:
        """The choices that a node's operation, its types and its parts depend on."""
        parts = [part for x in self._operands(number) for part in (x.kind, *x.dims)]
        values = [*self.graph[number].op.varied.values(), *parts]
        if number in self._nodes:
            values.append(self._leaf(self._nodes[number]))
        return support(*values)

    def parts(self, number: NodeId, outcomes: Mapping[str, int]) -> dict[str, Part]:
        """Where the weights of a node lie in those of its scope, for an architecture."""
        if number not in self._nodes:
            return {}
        node = self._nodes[number]
        heads = self._heads_of(node.result), self._heads_of(node.operand)
        leaf = tuple(at(value, outcomes) for value in (node.known, *heads))
        axes = {name: kinds for name, _, kinds in leaf[0]}
        return {
            name: tuple(
                _centred(along, whole) if axis == "centred" else along
                for along, axis, whole in zip(part, axes[name], self.largest[node.scope][name].shape, strict=True)
            )
            for name, (_, part) in self._placed(node, leaf).items()
        }

    @cached_property
    def elements(self) -> int:
        """Numbers of all weights, buffers left out."""
        return sum(w.elements for weights in self.largest.values() for w in weights.values() if not w.buffer)


def _ties(op: Op, *operands: Any) -> tuple[Tied | Piece, ...]:
    return op.ties(*operands)


def _weights(op: Op, *operands: Any) -> _Known:
    weights = op.weights(*operands)
    axes = op.roles(*operands) if weights else {}
    return tuple((name, weight, axes[name]) for name, weight in weights.items())


def _form(tie: Tied | Piece) -> Tied | Piece:
    return tie if isinstance(tie, Piece) else Tied(tie.members)


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


def _merged(levels: Levels) -> Levels:
    """The same positions by as few loops as possible."""
    found: list[tuple[int, int]] = []
    for count, stride in levels:
        if found and found[-1][1] == count * stride:
            found[-1] = found[-1][0] * count, stride
        elif count > 1 or not found:
            found.append((count, stride))
    if len(found) > 1 and found[0][0] == 1:
        found = found[1:]
    return tuple(found)


def _centred(along: Along, whole: int) -> Along:
    return Along((whole - along.size) // 2, along.levels)

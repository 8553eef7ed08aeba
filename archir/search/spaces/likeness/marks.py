"""Marks: numbers that are the same for architectures that compute the same, looked up in a few tables.

A canonical hash takes milliseconds, and most architectures that a search meets differ from all before in what can be
counted. A mark is a sum over the operations with weights, and the attentions, that an architecture needs: of numbers
that stand for what each is, for the types of what it reads, and for how many come before it. No law of canonical forms
makes or merges such operations, so it is a sum over the canonical form, too, except for those that a law makes vanish.
What reads nothing but zeros does, and is left out here as well. Other laws need zeros in products, terms of a sum that
cancel, or slices of what was put side by side: an architecture with the first is marked by its canonical form, and a
space where the others could happen has no marks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial, reduce
from hashlib import sha256
from operator import add

from archir.base.errors import ArchError
from archir.costs.sums import Terms
from archir.costs.tables import Table, grouped, sums
from archir.ir.choices.cases import Value, support, varies
from archir.ir.choices.conditions import both, if_else, negate, switch
from archir.ir.choices.lifting import lift
from archir.ir.graph import Graph, NodeId
from archir.ir.op import Op
from archir.ir.structure import Select
from archir.ir.types import TensorType
from archir.ir.typing import lifted
from archir.ops.activation import Identity, Scale, Shift
from archir.ops.arithmetic import Add, Concat, Mul, Sub
from archir.ops.attention import Attention, AxialAttention, LocalAttention
from archir.ops.conv import Biased
from archir.ops.random import Dropout, DropPath
from archir.ops.shape import ChannelShuffle, Flatten, Pad, Reshape, Slice, ToMap, ToTokens, Transpose, Upsample
from archir.passes.equivalence.algebra import label
from archir.passes.equivalence.canonical import Canonical
from archir.passes.equivalence.movement import POINTWISE
from archir.search.spaces.architecture import Architecture
from archir.search.spaces.likeness.liveness import Needs, upstream
from archir.search.spaces.likeness.steps import total

BYTES = 5
LARGEST = 1 << 8 * BYTES
"""Of the number of one operation: sums of a million are below 2^62."""

MOST_SUPPORT = 4
"""Choices that may matter to how many operations there are before one."""
ATTENDING = (Attention, LocalAttention, AxialAttention)
"""Operations without weights that no law moves: they count, too, where none can be merged."""
_IN_PLACE = (*POINTWISE, Identity, Scale, Shift, Add, Mul, Select, Slice, Dropout, DropPath)
"""What laws look through, and which leaves each axis where it is."""
_ELSEWHERE = (ChannelShuffle, Flatten, Pad, Reshape, ToMap, ToTokens, Transpose, Upsample)


class Marks:
    """The marks of a space's architectures."""

    def __init__(self, table: Table, canonical: Canonical, also: tuple[type[Op], ...], ranked: bool) -> None:
        self._canonical, self._also, self._ranked = canonical, also, ranked
        parts = [(factor.positions, factor.table) for factor in table.factors]
        self._mark = total(int(table.constant[0]), [(places, one[..., 0]) for places, one in parts])
        doubts = [(places, one[..., 1]) for places, one in parts if one[..., 1].any()]
        self._doubt = total(int(table.constant[1]), doubts) if doubts or table.constant[1] else None

    def of(self, architecture: Architecture) -> int:
        """The mark of an architecture."""
        if self._doubt is not None and self._doubt(architecture.codes):
            return self.counted(architecture.outcomes)
        return self._mark(architecture.codes)

    def counted(self, outcomes: Mapping[str, int]) -> int:
        """The mark of the canonical form of the architecture with these outcomes by path."""
        operations = self._canonical.weighing(outcomes, self._also)
        return sum(_ranked(_number(op, *types), rank if self._ranked else 0) for op, types, rank in operations)


def marks(needs: Needs, canonical: Canonical) -> Marks | None:
    """The marks of a space's architectures; None where a law might make operations vanish. Raises ArchError where
    choices are too entangled to tell which operations there are."""
    graph = needs.graph
    if any(_vanishing(graph, needs.types)):
        return None
    also = ATTENDING if _apart(graph) else ()
    ranks = _ranks(needs)
    if ranks is not None:
        try:
            return Marks(_table(needs, also, ranks), canonical, also, True)
        except ArchError:
            pass
    return Marks(_table(needs, also, None), canonical, also, False)


def _table(needs: Needs, also: tuple[type[Op], ...], ranks: Mapping[NodeId, Value] | None) -> Table:
    return sums(("mark", "doubt"), *grouped(_terms(needs, also, ranks), needs.index), needs.index)


def _apart(graph: Graph) -> bool:
    """Whether no two attentions read what the same operation with weights has made, so that none are merged."""
    sources: dict[NodeId, NodeId] = {}
    for number in graph:
        stack = [*graph.operands(number)] if isinstance(graph[number].op, ATTENDING) else []
        seen: set[NodeId] = set()
        while stack:
            one = stack.pop()
            if one in seen:
                continue
            seen.add(one)
            if type(graph[one].op).weights is not Op.weights:
                if sources.setdefault(one, number) != number:
                    return False
            elif not graph.operands(one):
                return False
            else:
                stack.extend(graph.operands(one))
    return True


def _terms(needs: Needs, also: tuple[type[Op], ...], ranks: Mapping[NodeId, Value] | None) -> dict[str, Terms]:
    """What marks are the sums of, and conditions under which they are not to be believed."""
    graph, types = needs.graph, needs.types
    alive = needs.alive if needs.zeros else needs.needed
    found: dict[str, Terms] = {"mark": Counter(), "doubt": Counter()}
    for number in needs.needed:
        op, here = graph[number].op, alive.get(number, False)
        if number in needs.doubts:
            found["doubt"][if_else(both(here, needs.doubts[number]), 1, 0)] += 1
        if type(op).weights is not Op.weights or isinstance(op, also):
            known = tuple([types[one] for one in graph.operands(number)])
            value = lifted(_number, op, known, needs.needed[number], graph.given)
            value = lift(_ranked, value, ranks[number] if ranks else 0)
            found["mark"][if_else(both(here, negate(needs.zero[number])), value, 0)] += 1
    return found


def _ranks(needs: Needs) -> dict[NodeId, Value] | None:
    """How many operations with weights are behind each other before each node, at most; None if that depends on many
    choices somewhere."""
    graph, found, onward = needs.graph, dict[NodeId, Value](), dict[NodeId, Value]()
    for number in graph:
        op, operands = graph[number].op, graph.operands(number)
        if isinstance(op, Select):
            rank = switch(graph.decisions[op.choice].choice, [onward.get(operands[place], 0) for place in op.cases])
        else:
            rank = reduce(partial(lift, max), [onward.get(one, 0) for one in operands], 0)
        if len(support(rank)) > MOST_SUPPORT:
            return None
        found[number] = onward[number] = rank
        if type(op).weights is not Op.weights and number in needs.needed:
            known = tuple([needs.types[one] for one in operands])
            weighs = lifted(_weighs, op, known, needs.needed[number], graph.given)
            onward[number] = lift(add, rank, weighs)
        onward[number] = if_else(needs.zero[number], 0, onward[number])
    return found


def _number(op: Op, *types: TensorType) -> int:
    """A number that stands for an operation. A bias before a batch norm has no effect: none is counted."""
    if not op.weights(*types) and not isinstance(op, ATTENDING):
        return 0
    text = label(op, types, op.infer(*types))
    if isinstance(op, Biased):
        text = text.replace("bias=True", "bias=False")
    return int.from_bytes(sha256(f"{text} {types}".encode()).digest()[:BYTES])


def _weighs(op: Op, *types: TensorType) -> int:
    return int(bool(op.weights(*types)))


def _ranked(number: int, rank: int) -> int:
    """Another number for each rank."""
    return number * (2 * rank + 1) % LARGEST


def _vanishing(graph: Graph, types: Mapping[NodeId, TensorType]) -> Iterator[bool]:
    """Whether something might vanish at a node, whose operands might not be needed then; or be merged with another."""
    scopes: set[str] = set()
    for number in graph:
        node = graph[number]
        match node.op:
            case Sub():
                yield True
            case Scale(factor=factor):
                yield varies(factor) or factor <= 0
            case Slice():
                yield _sliced(graph, types, number)
        if node.scope and type(node.op).weights is not Op.weights:
            yield node.scope in scopes
            scopes.add(node.scope)


def _sliced(graph: Graph, types: Mapping[NodeId, TensorType], number: NodeId) -> bool:
    """Whether a slice may leave out a part of what was put side by side."""
    axis = _axis(graph[number].op, types[number])

    def parted(one: NodeId) -> bool:
        other = graph[one].op
        return isinstance(other, _ELSEWHERE) or (isinstance(other, Concat) and _axis(other, types[one]) == axis)

    return any(parted(one) for one in upstream(graph, number, lambda op: isinstance(op, (*_IN_PLACE, Concat))))


def _axis(op: Op, type_: TensorType) -> int:
    assert isinstance(op, Slice | Concat)
    return type_.channel_axis if op.axis is None else op.axis % type_.rank

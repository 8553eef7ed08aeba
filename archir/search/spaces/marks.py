"""Marks: numbers that are the same for architectures that compute the same, looked up in a few tables.

A canonical hash takes milliseconds, and most architectures that a search meets differ from all before in what can be
counted. A mark is a sum over the operations with weights that an architecture needs: of numbers that stand for what
each is, and for the types of what it reads. No law of canonical forms makes or merges such operations, so it is a sum
over the canonical form, too, except for those that a law makes vanish. What reads nothing but zeros does, and is left
out here as well. Other laws need zeros in products, terms of a sum that cancel, or slices of what was put side by side:
an architecture with the first is marked by its canonical form, and a space where the others could happen has no marks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from archir.base.errors import ArchError
from archir.base.work import afford
from archir.costs.sums import Terms
from archir.costs.symbolic import Symbolic
from archir.costs.tables import Table, grouped, sums
from archir.ir.choices.cases import EntangledError, Value, varies, when
from archir.ir.choices.conditions import both, either, if_else, negate, switch
from archir.ir.graph import Decision, Graph, NodeId
from archir.ir.op import Op
from archir.ir.structure import Select
from archir.ir.types import TensorType
from archir.ir.typing import lifted
from archir.ops.activation import Identity, Scale, Shift, Zero
from archir.ops.arithmetic import Add, Concat, Matmul, Mul, Sub
from archir.ops.attention import Attention, AxialAttention, LocalAttention
from archir.ops.conv import Biased
from archir.ops.random import Dropout, DropPath
from archir.ops.shape import ChannelShuffle, Flatten, Pad, Reshape, Slice, ToMap, ToTokens, Transpose, Upsample
from archir.passes.equivalence.algebra import keeps_zero, label
from archir.passes.equivalence.canonical import Canonical
from archir.passes.equivalence.movement import POINTWISE

BYTES = 5
"""Of the number of one operation: sums of a million are below 2^62."""

_IN_PLACE = (*POINTWISE, Identity, Scale, Shift, Add, Mul, Select, Slice, Dropout, DropPath)
"""What laws look through, and which leaves each axis where it is."""
_ELSEWHERE = (ChannelShuffle, Flatten, Pad, Reshape, ToMap, ToTokens, Transpose, Upsample)


class Marks:
    """The marks of a space's architectures."""

    def __init__(self, table: Table, canonical: Canonical) -> None:
        self._canonical = canonical
        self._constant, self._doubt = (int(one) for one in table.constant)
        self._factors = [_flat(factor.positions, factor.table) for factor in table.factors]

    def of(self, codes: Sequence[int], outcomes: Any) -> int:
        """The mark of an architecture: of its codes, and, called where that is in doubt, its outcomes by path."""
        mark, doubt = self._constant, self._doubt
        for places, marks, doubts in self._factors:
            index = 0
            for position, size in places:
                code = codes[position]
                index = index * size + (code if code > 0 else 0)
            mark += marks[index]
            if doubts is not None:
                doubt += doubts[index]
        return mark if not doubt else counted(self._canonical.weighing(outcomes()))


def counted(operations: Iterable[tuple[Op, tuple[TensorType, ...]]]) -> int:
    """The mark of a network with these operations, on operands of these types."""
    return sum(_number(op, *types) for op, types in operations)


def marks(graph: Graph, order: Sequence[Decision], canonical: Canonical) -> Marks | None:
    """The marks of a graph's architectures; None where a law might make operations vanish, or choices are too entangled
    to tell which operations there are."""
    try:
        symbolic = Symbolic(graph)
        if symbolic.loose or any(_vanishing(graph, symbolic.types)):
            return None
        index = {decision.choice.path: i for i, decision in enumerate(order)}
        return Marks(sums(("mark", "doubt"), *grouped(_terms(symbolic), index), index), canonical)
    except (ArchError, EntangledError):
        return None


def _terms(symbolic: Symbolic) -> dict[str, Terms]:
    """What marks are the sums of, and conditions under which they are not to be believed."""
    graph, types = symbolic.graph, symbolic.types
    zero, doubts = _zeros(graph)
    alive = _alive(graph, zero) if any(one is not False for one in zero.values()) else symbolic.needed
    found: dict[str, Terms] = {"mark": Counter(), "doubt": Counter()}
    for number in symbolic.needed:
        op, here = graph[number].op, alive.get(number, False)
        if number in doubts:
            found["doubt"][if_else(both(here, doubts[number]), 1, 0)] += 1
        if type(op).weights is not Op.weights:
            known = tuple([types[one] for one in graph.operands(number)])
            value = lifted(_number, op, known, symbolic.needed[number], graph.given)
            found["mark"][if_else(both(here, negate(zero[number])), value, 0)] += 1
    return found


def _alive(graph: Graph, zero: Mapping[NodeId, Value]) -> dict[NodeId, Value]:
    """When something that is not zero depends on each node."""
    found: dict[NodeId, Value] = dict.fromkeys(graph.outputs.values(), True)
    for number in reversed(list(graph)):
        op = graph[number].op
        here = both(found.get(number, False), negate(zero[number]))
        for place, operand in enumerate(graph.operands(number)):
            there = here
            if isinstance(op, Select):
                outcomes = [outcome for outcome, case in enumerate(op.cases) if case == place]
                there = both(here, when(graph.decisions[op.choice].choice, outcomes))
            found[operand] = either(found.get(operand, False), there)
    return found


def _zeros(graph: Graph) -> tuple[dict[NodeId, Value], dict[NodeId, Value]]:
    """When each node is zero; and when what one reads has no effect for another reason than being zero."""
    zero: dict[NodeId, Value] = {}
    doubts: dict[NodeId, Value] = {}
    for number in graph:
        op, zeros = graph[number].op, [zero[one] for one in graph.operands(number)]
        if isinstance(op, Select):
            zero[number] = switch(graph.decisions[op.choice].choice, [zeros[place] for place in op.cases])
        else:
            zero[number], doubt = _zero(op, zeros)
            if doubt is not False:
                doubts[number] = doubt
    return zero, doubts


def _zero(op: Op, zeros: Sequence[Value]) -> tuple[Value, Value]:
    """When the result of an operation is zero, and when what it reads has no effect for this."""
    match op:
        case Zero():
            return True, False
        case Mul() | Matmul() | Attention() | LocalAttention() | AxialAttention():
            some = reduce(either, zeros)
            return some, some
    every = reduce(both, zeros) if zeros else False
    if every is False or isinstance(op, Identity):
        return every, False
    return (False, every) if op.varied else (every if keeps_zero(op) else False, False)


def _number(op: Op, *types: TensorType) -> int:
    """A number that stands for an operation with weights. A bias before a batch norm has no effect: none is counted."""
    if not op.weights(*types):
        return 0
    text = label(op, types, op.infer(*types))
    if isinstance(op, Biased):
        text = text.replace("bias=True", "bias=False")
    return int.from_bytes(sha256(f"{text} {types}".encode()).digest()[:BYTES])


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
    stack, seen = [*graph.operands(number)], set[NodeId]()
    while stack:
        one = stack.pop()
        if one in seen:
            continue
        seen.add(one)
        other = graph[one].op
        if isinstance(other, _ELSEWHERE) or (isinstance(other, Concat) and _axis(other, types[one]) == axis):
            return True
        if isinstance(other, (*_IN_PLACE, Concat)):
            stack.extend(graph.operands(one))
    return False


def _axis(op: Op, type_: TensorType) -> int:
    assert isinstance(op, Slice | Concat)
    return type_.channel_axis if op.axis is None else op.axis % type_.rank


def _flat(
    positions: tuple[int, ...], table: NDArray[np.int64]
) -> tuple[list[tuple[int, int]], list[int], list[int] | None]:
    """A table as lists, with the position and the number of outcomes of each of its choices."""
    sizes = table.shape[:-1]
    afford(table.size)
    found, doubts = (table[..., column].reshape(-1).tolist() for column in (0, 1))
    return list(zip(positions, sizes, strict=True)), found, doubts if any(doubts) else None

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
from collections.abc import Iterator, Mapping, Sequence
from functools import partial, reduce
from hashlib import sha256
from operator import add
from typing import Any

from archir.base.errors import ArchError
from archir.base.names.arrays import NDArray, np
from archir.base.work import afford
from archir.costs.sums import Terms
from archir.costs.symbolic import Symbolic
from archir.costs.tables import Table, grouped, sums
from archir.ir.choices.cases import EntangledError, Value, support, varies, when
from archir.ir.choices.conditions import both, either, if_else, negate, switch
from archir.ir.choices.lifting import lift
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
        return mark if not doubt else self.counted(outcomes())

    def counted(self, outcomes: Mapping[str, int]) -> int:
        """The mark of the canonical form of the architecture with these outcomes by path."""
        operations = self._canonical.weighing(outcomes, self._also)
        return sum(_ranked(_number(op, *types), rank if self._ranked else 0) for op, types, rank in operations)


def marks(graph: Graph, order: Sequence[Decision], canonical: Canonical) -> Marks | None:
    """The marks of a graph's architectures; None where a law might make operations vanish, or choices are too entangled
    to tell which operations there are."""
    try:
        symbolic = Symbolic(graph)
        if symbolic.loose or any(_vanishing(graph, symbolic.types)):
            return None
        index = {decision.choice.path: i for i, decision in enumerate(order)}
        also = ATTENDING if _apart(graph) else ()
        zero, doubts = _zeros(graph)
        ranks = _ranks(symbolic, zero)
        for known in (ranks, None) if ranks else (None,):
            terms = _terms(symbolic, zero, doubts, also, known)
            try:
                table = sums(("mark", "doubt"), *grouped(terms, index), index)
            except ArchError:
                continue
            return Marks(table, canonical, also, known is not None)
    except (ArchError, EntangledError):
        pass
    return None


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


def _terms(
    symbolic: Symbolic, zero: Mapping[NodeId, Value], doubts: Mapping[NodeId, Value], also: tuple[type[Op], ...],
    ranks: Mapping[NodeId, Value] | None,
) -> dict[str, Terms]:  # fmt: skip
    """What marks are the sums of, and conditions under which they are not to be believed."""
    graph, types = symbolic.graph, symbolic.types
    alive = _alive(graph, zero) if any(one is not False for one in zero.values()) else symbolic.needed
    found: dict[str, Terms] = {"mark": Counter(), "doubt": Counter()}
    for number in symbolic.needed:
        op, here = graph[number].op, alive.get(number, False)
        if number in doubts:
            found["doubt"][if_else(both(here, doubts[number]), 1, 0)] += 1
        if type(op).weights is not Op.weights or isinstance(op, also):
            known = tuple([types[one] for one in graph.operands(number)])
            value = lifted(_number, op, known, symbolic.needed[number], graph.given)
            value = lift(_ranked, value, ranks[number] if ranks else 0)
            found["mark"][if_else(both(here, negate(zero[number])), value, 0)] += 1
    return found


def _ranks(symbolic: Symbolic, zero: Mapping[NodeId, Value]) -> dict[NodeId, Value] | None:
    """How many operations with weights are behind each other before each node, at most; None if that depends on many
    choices somewhere."""
    graph, found, onward = symbolic.graph, dict[NodeId, Value](), dict[NodeId, Value]()
    for number in graph:
        op, operands = graph[number].op, graph.operands(number)
        if isinstance(op, Select):
            rank = switch(graph.decisions[op.choice].choice, [onward.get(operands[place], 0) for place in op.cases])
        else:
            rank = reduce(partial(lift, max), [onward.get(one, 0) for one in operands], 0)
        if len(support(rank)) > MOST_SUPPORT:
            return None
        found[number] = onward[number] = rank
        if type(op).weights is not Op.weights and number in symbolic.needed:
            known = tuple([symbolic.types[one] for one in operands])
            weighs = lifted(_weighs, op, known, symbolic.needed[number], graph.given)
            onward[number] = lift(add, rank, weighs)
        onward[number] = if_else(zero[number], 0, onward[number])
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

"""When nodes are needed, when they are zero, and when something that is not zero depends on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

from archir.costs.symbolic import Symbolic
from archir.ir.choices.cases import EntangledError, Value, support, when
from archir.ir.choices.conditions import both, either, negate, switch
from archir.ir.graph import Decision, Graph, NodeId
from archir.ir.op import Op
from archir.ir.structure import Select
from archir.ir.types import TensorType
from archir.ops.activation import Identity, Zero
from archir.ops.arithmetic import Matmul, Mul
from archir.ops.attention import Attention, AxialAttention, LocalAttention
from archir.passes.equivalence.algebra import keeps_zero


@dataclass(frozen=True)
class Needs:
    """What architectures need of a graph, as conditions on choices."""

    graph: Graph
    order: Sequence[Decision]
    types: Mapping[NodeId, TensorType]
    needed: Mapping[NodeId, Value]
    """When the outputs depend on each node."""
    zero: Mapping[NodeId, Value]
    """When each is zero."""
    doubts: Mapping[NodeId, Value]
    """When what a node reads has no effect for another reason than being zero; nodes of which that is never so are left
    out."""

    @cached_property
    def index(self) -> dict[str, int]:
        """The position of each choice among codes."""
        return {decision.choice.path: i for i, decision in enumerate(self.order)}

    @cached_property
    def zeros(self) -> bool:
        """Whether any node is ever zero."""
        return any(one is not False for one in self.zero.values())

    @cached_property
    def alive(self) -> Mapping[NodeId, Value]:
        """When something that is not zero depends on each node, leaving doubts aside."""
        return _alive(self.graph, self.zero)

    def mattering(self) -> list[Value]:
        """For each choice, when something that matters depends on it; at least, always where that is hard to tell."""
        alive = self.needed if self.doubts else self.alive
        found: dict[str, Value] = {decision.choice.path: False for decision in self.order}
        for number in self.graph:
            op, here = self.graph[number].op, alive.get(number, False)
            choices = [op.choice] if isinstance(op, Select) else [one.path for one in support(*op.varied.values())]
            for path in choices:
                try:
                    found[path] = either(found[path], here)
                except EntangledError:
                    found[path] = True
        return list(found.values())


def needs(graph: Graph, order: Sequence[Decision]) -> Needs | None:
    """What architectures need; None where that is only known roughly. Raises ArchError where choices are too entangled
    to tell."""
    symbolic = Symbolic(graph)
    if symbolic.loose:
        return None
    zero, doubts = _zeros(graph)
    return Needs(graph, order, symbolic.types, symbolic.needed, zero, doubts)


def upstream(graph: Graph, number: NodeId, through: Callable[[Op], bool]) -> Iterator[NodeId]:
    """What a node reads, and what is read by what it reads, once each; further only through some operations."""
    stack, seen = [*graph.operands(number)], set[NodeId]()
    while stack:
        one = stack.pop()
        if one not in seen:
            seen.add(one)
            yield one
            if through(graph[one].op):
                stack.extend(graph.operands(one))


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

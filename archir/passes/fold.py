"""Folding: removes operations without effect, and merges chains of operations into one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from archir.diagnostics.work import WorkError, budget_share
from archir.diagrams.conditions import conjoin, disjoin, negate, switch
from archir.diagrams.diagram import DiagramSizeError, Value, diagram_size, varies
from archir.ir.graph import Graph, Node, NodeId, rebuild
from archir.ir.op import Op
from archir.ir.reachability import (
    MAX_EXACT_SIZE,
    WORK_FRACTION,
    Reachability,
    conditions_of_reads,
    has_constants,
    reachability_conditions,
)
from archir.ir.structure import Select
from archir.ir.types import TensorType
from archir.ir.verify import checked_types
from archir.ops.activation import Exp, HardSigmoid, Identity, Relu, Relu6, Scale, Shift, Sigmoid, Softmax, Zero
from archir.ops.arithmetic import Add, Concat, Sub
from archir.ops.pool import AdaptiveAvgPool, AdaptiveMaxPool, AvgPool, MaxPool
from archir.ops.resize import PixelShuffle, PixelUnshuffle, Resize
from archir.ops.shape import Flatten, Pad, Reshape, Slice, ToMap, ToTokens, Transpose, Upsample
from archir.passes.prune import prune


def fold(graph: Graph) -> Graph:
    """Remove operations without effect, and merge chains of operations that are equivalent to a single one.

    `%1 = identity(%0); %2 = relu(%1); %3 = relu(%2)` -> `%1 = relu(%0)`.
    """
    graph = prune(graph)
    node_types = iter(checked_types(graph).values())  # in the order in which `rebuild` visits the nodes
    types: dict[NodeId, TensorType] = {}

    def step(out: Graph, node: Node, operands: tuple[NodeId, ...]) -> NodeId:
        type_ = next(node_types)
        folded = FoldSite(out, types, operands, type_).add_folded(node)
        types.setdefault(folded, type_)
        return folded

    return prune(rebuild(graph, step))


FOLDING = {
    Identity, Scale, Shift, Reshape, Flatten, Slice, Pad, Upsample, MaxPool, AvgPool, Concat, Add, Sub, Zero, Relu,
    Relu6, ToMap, ToTokens, Transpose, Select, Resize, AdaptiveAvgPool, AdaptiveMaxPool,
    PixelShuffle, PixelUnshuffle,
}  # fmt: skip
"""Operations that `FoldSite.add_folded` may simplify; nodes of all other operations are added unchanged."""


_SHAPING = Reshape | Flatten | Slice | Pad | Upsample | Resize | AdaptiveAvgPool | PixelShuffle | PixelUnshuffle
"""Operations that have no effect if the result has the type of the operand."""


def execution_conditions(graph: Graph) -> Reachability:
    """Return the conditions under which a device executes each node of a graph that was simplified for it.

    A simplified graph has no dead nodes, which only constant operations read, such as `zero`, and no additions of
    `zero`. An addition that broadcasts zeros to a larger tensor does not count as executed either.
    """
    if not has_constants(graph):
        return reachability_conditions(graph)
    try:
        with budget_share(WORK_FRACTION):
            reads, idle = _zero_conditions(graph)
            executed = conditions_of_reads(graph, reads)
            for number, condition in idle.items():
                if number in executed and (remaining := conjoin(executed[number], negate(condition))) is not False:
                    executed[number] = remaining
                else:
                    executed.pop(number, None)
    except (DiagramSizeError, WorkError):
        executed = Reachability()
        executed |= reachability_conditions(graph)
        executed.overapproximated = set(graph)
    return executed


def _zero_conditions(graph: Graph) -> tuple[dict[tuple[NodeId, int], Value], dict[NodeId, Value]]:
    """Return where nodes read an operand, by node and position, and where nodes leave an operand as it is.

    Nodes that always read an operand or never leave one as it is are missing. Raises DiagramSizeError if the conditions
    have more than MAX_EXACT_SIZE diagram nodes in total.
    """
    zero: dict[NodeId, Value] = {}
    reads: dict[tuple[NodeId, int], Value] = {}
    idle: dict[NodeId, Value] = {}
    counted: set[Value] = set()
    size_left = MAX_EXACT_SIZE
    for number in graph:
        op, operands = graph[number].op, graph.operands(number)
        match op, [zero[operand] for operand in operands]:
            case Zero(), _:
                zero[number] = True
            case Select(), zeros:
                zero[number] = switch(graph.decisions[op.choice].choice, [zeros[position] for position in op.cases])
            case Add(), [left, right] if left is not False or right is not False:
                zero[number], idle[number] = conjoin(left, right), disjoin(left, right)
                reads[number, 0], reads[number, 1] = disjoin(negate(left), right), negate(right)
            case Identity() | Relu() | Relu6(), [operand] if operand is not False:
                zero[number] = idle[number] = operand
            case _:
                zero[number] = False
        if zero[number] not in counted:
            counted.add(zero[number])
            size_left -= diagram_size(zero[number])
            if size_left < 0:
                raise DiagramSizeError
        if op.constant:
            reads |= {(number, position): False for position in range(len(operands))}
    return reads, idle


class GraphLike(Protocol):
    """Interface of containers of nodes: a graph, or the terms of a canonical form."""

    def __getitem__(self, number: NodeId) -> Node: ...

    def operands(self, number: NodeId) -> tuple[NodeId, ...]:
        """Return the operands of a node."""

    def add(self, node: Node, *operands: NodeId) -> NodeId:
        """Append a node with these operands and return its number."""


@dataclass(frozen=True, slots=True)
class FoldSite:
    """Context in which a node is added: the graph so far with its types, and the new node's operands and type."""

    out: GraphLike
    types: Mapping[NodeId, TensorType]
    operands: tuple[NodeId, ...]
    type: TensorType

    def add_folded(self, node: Node) -> NodeId:
        """Return the simplest equivalent of `node` that the folding rules find: an existing node, or a new one."""
        operands = self.operands
        match node.op, [self.out[operand].op for operand in operands]:
            case Identity() | Scale(factor=1) | Shift(amount=0), _:
                return operands[0]
            case op, _ if isinstance(op, _SHAPING) and self._same_type(0):
                return operands[0]  # these operations change nothing exactly if they keep the type
            case MaxPool(kernel=1, stride=1) | AvgPool(kernel=1, stride=1), _ if self._same_type(0):
                return operands[0]
            case Concat(), [_]:
                return operands[0]
            case Add() | Sub(), [_, Zero()] if self._same_type(0):
                return operands[0]
            case Add(), [Zero(), _] if self._same_type(1):
                return operands[1]
            case op, [inner] if _is_noop_after(op, inner):
                return operands[0]
            case Relu6(), [Relu()]:
                return self._skip_operand(node)
            case Reshape() | Flatten(), [Reshape() | Flatten()]:
                return self._reshaped(node)
            case (ToMap(), [ToTokens()]) | (ToTokens(), [ToMap()]) if self.type == self._type_before():
                return self.out.operands(operands[0])[0]
            case Transpose() as op, [inner]:
                return self._transposed(node, op, inner)
            case Select() as op, _:
                return self._selected(node, op)
        return self.out.add(node, *operands)

    def _same_type(self, position: int) -> bool:
        """Return whether the operand at `position` has the same type as the result."""
        return self.types[self.operands[position]] == self.type

    def _type_before(self) -> TensorType:
        """Return the type of the operand's operand."""
        return self.types[self.out.operands(self.operands[0])[0]]

    def _skip_operand(self, node: Node) -> NodeId:
        """Add the node such that it reads its operand's operands, which skips the operation in between."""
        return self.out.add(node, *self.out.operands(self.operands[0]))

    def _reshaped(self, node: Node) -> NodeId:
        """Return the replacement of two consecutive reshapes: one reshape, or none if the original shape is
        restored."""
        return self.out.operands(self.operands[0])[0] if self.type == self._type_before() else self._skip_operand(node)

    def _transposed(self, node: Node, op: Transpose, inner: Op) -> NodeId:
        """Return the replacement of a transposition.

        The transposition is merged with one before it, and dropped if the result is the identity.
        """
        if varies(op.axes) or (isinstance(inner, Transpose) and varies(inner.axes)):
            return self.out.add(node, *self.operands)
        order = op.order(self.type.rank)
        source = self.operands[0]
        if isinstance(inner, Transpose):
            first_order = inner.order(self.type.rank)
            order = tuple(first_order[axis] for axis in order)
            source = self.out.operands(source)[0]
        if list(order) == sorted(order):
            return source
        if source == self.operands[0]:
            return self.out.add(node, source)
        return self.out.add(Node(Transpose(order), node.span, node.scope), source)

    def _selected(self, node: Node, op: Select) -> NodeId:
        """Return the replacement of a `select`, without duplicate or unused operands.

        If one operand is left, this operand itself is returned.
        """
        chosen = [self.operands[position] for position in op.cases]
        distinct = list(dict.fromkeys(chosen))
        if len(distinct) == 1:
            return distinct[0]
        cases = tuple(distinct.index(operand) for operand in chosen)
        return self.out.add(Node(Select(op.choice, cases), node.span, node.scope), *distinct)


def _is_noop_after(op: Op, inner: Op) -> bool:
    """Return whether an operation has no effect on any result of the operation `inner`."""
    match op:
        case Zero():
            return isinstance(inner, Zero)
        case Relu():
            return isinstance(inner, Relu | Relu6 | Sigmoid | HardSigmoid | Exp | Zero) or type(inner) is Softmax
        case Relu6():
            return isinstance(inner, Relu6 | Sigmoid | HardSigmoid | Zero) or type(inner) is Softmax
    return False

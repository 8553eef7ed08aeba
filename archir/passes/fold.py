"""Operations that do nothing, and chains of operations that one does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from archir.diagrams.cases import varies
from archir.ir.graph import Graph, Node, NodeId, rebuild
from archir.ir.op import Op
from archir.ir.structure import Select
from archir.ir.types import TensorType
from archir.ir.verify import typed
from archir.ops.activation import Exp, HardSigmoid, Identity, Relu, Relu6, Scale, Shift, Sigmoid, Softmax, Zero
from archir.ops.arithmetic import Add, Concat, Sub
from archir.ops.pool import AdaptiveAvgPool, AdaptiveMaxPool, AvgPool, MaxPool
from archir.ops.resize import PixelShuffle, PixelUnshuffle, Resize
from archir.ops.shape import Flatten, Pad, Reshape, Slice, ToMap, ToTokens, Transpose, Upsample
from archir.passes.prune import prune


def fold(graph: Graph) -> Graph:
    """Drop what does nothing, and join what one operation can do.

    `%1 = identity(%0); %2 = relu(%1); %3 = relu(%2)` -> `%1 = relu(%0)`.
    """
    graph = prune(graph)
    known = iter(typed(graph).values())  # in the order in which `rebuild` goes through the nodes
    types: dict[NodeId, TensorType] = {}

    def step(out: Graph, node: Node, operands: tuple[NodeId, ...]) -> NodeId:
        type_ = next(known)
        made = Site(out, types, operands, type_).folded(node)
        types.setdefault(made, type_)
        return made

    return prune(rebuild(graph, step))


FOLDING = {
    Identity, Scale, Shift, Reshape, Flatten, Slice, Pad, Upsample, MaxPool, AvgPool, Concat, Add, Sub, Zero, Relu,
    Relu6, ToMap, ToTokens, Transpose, Select, Resize, AdaptiveAvgPool, AdaptiveMaxPool,
    PixelShuffle, PixelUnshuffle,
}  # fmt: skip
"""The operations that `Site.folded` may do something about."""


_SHAPING = Reshape | Flatten | Slice | Pad | Upsample | Resize | AdaptiveAvgPool | PixelShuffle | PixelUnshuffle


class Growing(Protocol):
    """What nodes can be added to: a graph, or terms of one."""

    def __getitem__(self, number: NodeId) -> Node: ...

    def operands(self, number: NodeId) -> tuple[NodeId, ...]:
        """What a node reads."""

    def add(self, node: Node, *operands: NodeId) -> NodeId:
        """Add a node that reads these."""


@dataclass(frozen=True, slots=True)
class Site:
    """Where a node goes: what there is so far with its types, the node's operands and its type."""

    out: Growing
    types: Mapping[NodeId, TensorType]
    operands: tuple[NodeId, ...]
    type: TensorType

    def folded(self, node: Node) -> NodeId:
        """The node that does what `node` does, new or not."""
        operands = self.operands
        match node.op, [self.out[operand].op for operand in operands]:
            case Identity() | Scale(factor=1) | Shift(amount=0), _:
                return operands[0]
            case op, _ if isinstance(op, _SHAPING) and self._same_type(0):
                return operands[0]  # these do nothing if and only if they keep the type
            case MaxPool(kernel=1, stride=1) | AvgPool(kernel=1, stride=1), _ if self._same_type(0):
                return operands[0]
            case Concat(), [_]:
                return operands[0]
            case Add() | Sub(), [_, Zero()] if self._same_type(0):
                return operands[0]
            case Add(), [Zero(), _] if self._same_type(1):
                return operands[1]
            case op, [inner] if _settles(op, inner):
                return operands[0]
            case Relu6(), [Relu()]:
                return self._past(node)
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
        return self.types[self.operands[position]] == self.type

    def _type_before(self) -> TensorType:
        return self.types[self.out.operands(self.operands[0])[0]]

    def _past(self, node: Node) -> NodeId:
        """The node, reading what its operand reads."""
        return self.out.add(node, *self.out.operands(self.operands[0]))

    def _reshaped(self, node: Node) -> NodeId:
        return self.out.operands(self.operands[0])[0] if self.type == self._type_before() else self._past(node)

    def _transposed(self, node: Node, op: Transpose, inner: Op) -> NodeId:
        if varies(op.axes) or (isinstance(inner, Transpose) and varies(inner.axes)):
            return self.out.add(node, *self.operands)
        order = op.order(self.type.rank)
        source = self.operands[0]
        if isinstance(inner, Transpose):
            before = inner.order(self.type.rank)
            order = tuple(before[axis] for axis in order)
            source = self.out.operands(source)[0]
        if list(order) == sorted(order):
            return source
        if source == self.operands[0]:
            return self.out.add(node, source)
        return self.out.add(Node(Transpose(order), node.span, node.scope), source)

    def _selected(self, node: Node, op: Select) -> NodeId:
        """A choice among equal operands is none; an operand that is never chosen, or there twice, is there once."""
        chosen = [self.operands[position] for position in op.cases]
        distinct = list(dict.fromkeys(chosen))
        if len(distinct) == 1:
            return distinct[0]
        cases = tuple(distinct.index(operand) for operand in chosen)
        return self.out.add(Node(Select(op.choice, cases), node.span, node.scope), *distinct)


def _settles(op: Op, inner: Op) -> bool:
    """Whether an operation leaves every result of another one as it is."""
    match op:
        case Zero():
            return isinstance(inner, Zero)
        case Relu():
            return isinstance(inner, Relu | Relu6 | Sigmoid | HardSigmoid | Exp | Zero) or type(inner) is Softmax
        case Relu6():
            return isinstance(inner, Relu6 | Sigmoid | HardSigmoid | Zero) or type(inner) is Softmax
    return False

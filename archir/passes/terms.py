"""Networks as terms: each expression once, and what is equal by the laws of sums, products and zeros written alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from itertools import count

from archir.ir.graph import Node, NodeId
from archir.ir.op import Op, attribute_types
from archir.ops import activation
from archir.ops.activation import Scale, Softmax, Zero
from archir.ops.arithmetic import Add, Concat, Matmul, Mul, Sub
from archir.ops.attention import Attention, LocalAttention
from archir.ops.conv import Conv, Conv1d, Linear
from archir.ops.norm import GroupNorm, LayerNorm, RmsNorm
from archir.ops.pool import AvgPool, GlobalMaxPool, MaxPool
from archir.ops.random import Dropout, DropPath
from archir.ops.shape import Flatten, Reshape, Slice, ToMap, Transpose
from archir.passes.fold import FOLDING, Site
from archir.passes.labelling import Vertex, canonical_text, reachable
from archir.types import TensorType, broadcast

MOST_PARTS = 256
"""Parts of a sum or product that a larger one takes over: what has more stays in brackets."""

Counts = dict[NodeId, int]
"""How often each part is in a sum or product; in a sum, below 0 where it is subtracted."""


@dataclass(frozen=True, slots=True)
class Fact:
    """What is true of an operation on operands of given types: the result's type, its text, whether it has weights."""

    type: TensorType
    label: bytes
    weighs: bool


class Facts:
    """Facts, found once each."""

    def __init__(self) -> None:
        self._known: dict[tuple[Op, tuple[TensorType, ...]], Fact] = {}

    def of(self, op: Op, types: tuple[TensorType, ...]) -> Fact:
        """The fact of an operation on operands of these types."""
        known = self._known.get((op, types))
        if known is None:
            result = op.infer(*types)
            known = Fact(result, _label(op, types, result).encode(), bool(op.weights(*types)))
            self._known[op, types] = known
        return known


class Terms:
    """Terms under construction; like a graph to whoever adds nodes, but equal nodes get one number."""

    def __init__(self, facts: Facts) -> None:
        self.vertices: list[Vertex] = []
        self.types: dict[NodeId, TensorType] = {}
        self._facts = facts
        self._scopes: dict[NodeId, str] = {}  # of the terms that have weights
        self._nodes: list[Node] = []
        self._known: dict[object, NodeId] = {}
        self._counts: dict[NodeId, Counts] = {}
        self._zeros: dict[TensorType, NodeId] = {}
        self._places = count()

    def __getitem__(self, number: NodeId) -> Node:
        return self._nodes[number]

    def operands(self, number: NodeId) -> tuple[NodeId, ...]:
        """What a term that is neither a sum nor a product reads."""
        return self.vertices[number].ordered

    def put(self, node: Node, *operands: NodeId) -> NodeId:
        """The term that does what a node does that reads these terms."""
        if type(node.op) not in FOLDING or isinstance(node.op, Add | Sub | Zero):
            return self.add(node, *operands)
        type_ = self._facts.of(node.op, tuple([self.types[operand] for operand in operands])).type
        return Site(self, self.types, operands, type_).folded(node)

    def add(self, node: Node, *operands: NodeId) -> NodeId:
        """The term of a node that cannot be folded."""
        op = node.op
        fact = self._facts.of(op, tuple([self.types[operand] for operand in operands]))
        if isinstance(op, Add | Sub):
            sign = -1 if isinstance(op, Sub) else 1
            return self._chain(_ADD, fact.type, ((operands[0], 1), (operands[1], sign)))
        if self._vanishes(op, operands):
            return self._zero(fact.type)
        if isinstance(op, Mul):
            return self._chain(_MUL, fact.type, ((operands[0], 1), (operands[1], 1)))
        place: object = None
        if fact.weighs:
            place = node.scope
        elif op.random:
            place = node.scope or next(self._places)
        return self._term(node, Vertex(fact.label, operands), fact.type, place, fact.weighs)

    def _term(
        self, node: Node, vertex: Vertex, type_: TensorType, place: object = None, weighs: bool = False
    ) -> NodeId:
        key = (vertex.label, vertex.ordered, vertex.counted, place)
        number = self._known.get(key)
        if number is None:
            number = self._known[key] = len(self.vertices)
            self.vertices.append(vertex)
            self._nodes.append(node)
            self.types[number] = type_
            if weighs:
                self._scopes[number] = node.scope
        return number

    def _zero(self, type_: TensorType) -> NodeId:
        if type_ not in self._zeros:
            self._zeros[type_] = self._term(_ZERO, Vertex(f"zero {type_}".encode()), type_)
        return self._zeros[type_]

    def _vanishes(self, op: Op, operands: tuple[NodeId, ...]) -> bool:
        """Whether the result is zero, whatever the weights."""
        if isinstance(op, Zero) or (isinstance(op, Scale) and op.factor == 0):
            return True
        zeros = [isinstance(self._nodes[operand].op, Zero) for operand in operands]
        if isinstance(op, Mul | Matmul):
            return any(zeros)
        if isinstance(op, Attention | LocalAttention):
            return zeros[2]
        return bool(zeros) and all(zeros) and _keeps_zero(op)

    def _chain(self, of: Node, type_: TensorType, parts: tuple[tuple[NodeId, int], ...]) -> NodeId:
        """A sum or product of parts, themselves taken apart; parts that cancel and zeros are gone."""
        counts: Counts = {}
        for part, times in parts:
            for one, often in self._inner(of, part).items():
                counts[one] = counts.get(one, 0) + often * times
        left = {one: often for one, often in counts.items() if often and not isinstance(self._nodes[one].op, Zero)}
        if not left:
            return self._zero(type_)
        if len(left) == 1 and next(iter(left.values())) == 1 and self.types[one := next(iter(left))] == type_:
            return one
        if len(left) < len(counts) and self._stretched(left) != type_:  # what is gone had stretched the rest
            left[self._zero(type_)] = 1
        number = self._term(of, Vertex(of.op.name.encode(), (), tuple(sorted(left.items()))), type_)
        self._counts[number] = left
        return number

    def _inner(self, of: Node, number: NodeId) -> Counts:
        if self._nodes[number] is of and sum(map(abs, self._counts[number].values())) <= MOST_PARTS:
            return self._counts[number]
        return {number: 1}

    def _stretched(self, counts: Counts) -> TensorType:
        return reduce(broadcast, {self.types[one] for one in counts})

    def text(self, roots: Mapping[str, NodeId]) -> str:
        """The canonical text of what the roots need."""
        live = reachable(self.vertices, roots.values())
        uses = Counter(self._scopes[number] for number in live if number in self._scopes)
        shared = [scope for scope, times in uses.items() if times > 1]
        if not shared:
            return canonical_text(self.vertices, roots)
        moved = self._with_weights({scope: i for i, scope in enumerate(shared)})
        return canonical_text(moved, {name: number + len(shared) for name, number in roots.items()})

    def _with_weights(self, shared: Mapping[str, int]) -> list[Vertex]:
        """The vertices, after one for each scope whose weights several of them share, which these read last."""
        moved = [Vertex(b"weights")] * len(shared)
        for number, vertex in enumerate(self.vertices):
            ordered = tuple([one + len(shared) for one in vertex.ordered])
            if self._scopes.get(number, "") in shared:
                ordered += (shared[self._scopes[number]],)
            moved.append(Vertex(vertex.label, ordered, tuple((one + len(shared), k) for one, k in vertex.counted)))
        return moved


_ADD, _MUL, _ZERO = Node(Add()), Node(Mul()), Node(Zero())

_FIX_ZERO = (
    activation.Relu, activation.Relu6, activation.LeakyRelu, activation.Elu, activation.Gelu, activation.Silu,
    activation.Mish, activation.HardSwish, activation.Tanh, MaxPool, GlobalMaxPool, Dropout, DropPath,
)  # fmt: skip
"""Operations that are not linear, but zero at zero."""


def _keeps_zero(op: Op) -> bool:
    """Whether the result is zero where all operands are. Not of a batch norm, whose statistics are learned."""
    if isinstance(op, Conv | Conv1d | Linear):
        return not op.bias
    if isinstance(op, LayerNorm | GroupNorm):
        return isinstance(op, RmsNorm) or not op.affine
    return op.linear or isinstance(op, _FIX_ZERO)


def _label(op: Op, types: tuple[TensorType, ...], result: TensorType) -> str:
    """An operation's name and attributes, the same for attributes that mean the same."""
    if isinstance(op, Reshape | Flatten):
        return f"reshape {result}"
    kinds = attribute_types(type(op))
    values = {name: float(v) if kinds[name] is float else v for name, v in op.attributes().items()}
    values |= _explicit(op, types, result)
    return f"{op.name} {' '.join(f'{name}={values[name]!r}' for name in sorted(values))}"


def _explicit(op: Op, types: tuple[TensorType, ...], result: TensorType) -> Mapping[str, object]:
    """What attributes that follow from others or from the types come to."""
    match op:
        case Conv() | Conv1d() | MaxPool():
            return {"padding": op.pads}
        case AvgPool():
            return {"padding": op.pads, "count_padding": op.count_padding and any(op.pads)}
        case Slice():
            axis, start, stop = op.bounds(types[0])
            return {"axis": axis, "start": start, "stop": stop}
        case Transpose():
            return {"axes": op.order(types[0].rank)}
        case Concat():
            return {"axis": (result.channel_axis if op.axis is None else op.axis) % result.rank}
        case Softmax():
            return {"axis": op.axis % result.rank}
        case ToMap():
            return {"height": result.shape[1]}
        case Attention():
            return {"scale": op.scale if op.scale is not None else (types[0].channels / op.heads) ** -0.5}
    return {}

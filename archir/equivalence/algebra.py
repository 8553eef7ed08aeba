"""Networks as terms: each expression once, and what is equal by the laws of sums, products and zeros written alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from itertools import count
from math import isfinite

from archir.equivalence.isomorphism import Vertex, canonical_text, reachable
from archir.equivalence.movement import POINTWISE, lawful
from archir.ir.graph import Node, NodeId
from archir.ir.op import Op, attribute_types
from archir.ir.types import TensorType, broadcast
from archir.ops import activation
from archir.ops.activation import Cumsum, Identity, Scale, Shift, Softmax, Zero
from archir.ops.arithmetic import Add, Concat, Matmul, Mul, Sub
from archir.ops.attention import Attention, AxialAttention, LocalAttention
from archir.ops.constant import Constant
from archir.ops.conv import Biased, Convolution, ConvTranspose
from archir.ops.norm import GroupNorm, InstanceNorm, LayerNorm, Normalize, RmsNorm
from archir.ops.pool import (
    AdaptiveAvgPool,
    AdaptiveMaxPool,
    AvgPool,
    GlobalMaxPool,
    MaxOver,
    MaxPool,
    MeanOver,
    SumOver,
)
from archir.ops.random import Dropout, DropPath
from archir.ops.resize import Resize
from archir.ops.shape import Flatten, Pad, Reshape, Slice, ToMap, Transpose
from archir.ops.windows import alike
from archir.passes.fold import FOLDING, Site

MOST_PARTS = 256
"""Different parts of a sum or product that a larger one takes over: what has more stays in brackets."""

LARGEST = 2**64
"""What is more often, or more seldom than one time in so many, in a sum stays in brackets, too."""
DEEPEST = 32
"""Operations in a row that compute number by number, past which what moves data is taken."""

Times = int | Fraction
Counts = dict[NodeId, Times]
"""How often each part is in a sum or product. In a sum that is below 0 where it is subtracted, and its factor.

Factors are exact, as they are written in decimals: 0.1 and 0.2 are 0.3.
"""


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
            known = Fact(result, label(op, types, result).encode(), bool(op.weights(*types)))
            self._known[op, types] = known
        return known


class Terms:
    """Terms under construction; like a graph to whoever adds nodes, but equal nodes get one number."""

    def __init__(self, facts: Facts, shared_norms: Collection[str] = ()) -> None:
        self.vertices: list[Vertex] = []
        self.types: dict[NodeId, TensorType] = {}
        self.shared_norms = shared_norms
        """Scopes of batch norms that are called several times: the statistics depend on the operands of all calls."""
        self._facts = facts
        self._scopes: dict[NodeId, str] = {}  # of the terms that have weights
        self._nodes: list[Node] = []
        self._known: dict[object, NodeId] = {}
        self._counts: dict[NodeId, Counts] = {}
        self._depths: dict[NodeId, int] = {}
        self._zeros: dict[TensorType, NodeId] = {}
        self._ones: set[NodeId] = set()
        self._lawful: dict[tuple[bytes, tuple[NodeId, ...]], NodeId | None] = {}
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
        if isinstance(op, Scale) and isfinite(op.factor):
            return self._chain(_ADD, fact.type, ((operands[0], _exact(op.factor)),))
        if isinstance(op, Shift) and isfinite(op.amount):
            return self._chain(_ADD, fact.type, ((operands[0], 1), (self._one(fact.type), _exact(op.amount))))
        if isinstance(op, Mul):
            return self._product(fact.type, operands)
        key = fact.label, operands
        if fact.weighs or op.random or key not in self._lawful:
            found = lawful(self, node, operands, fact.type)
            if not (fact.weighs or op.random):
                self._lawful[key] = found
        else:
            found = self._lawful[key]
        if found is not None:
            return found
        place: object = None
        if fact.weighs:
            place = node.scope
        elif op.random:  # each call draws its own numbers, also where calls of a block share their scopes
            place = next(self._places)
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
            if isinstance(node.op, POINTWISE):
                self._depths[number] = 1 + self._depths.get(vertex.ordered[0], 0)
        return number

    def _one(self, type_: TensorType) -> NodeId:
        """The number 1, which stretches to the type."""
        narrow = type_.with_dims(*[1] * type_.rank)
        number = self._term(_ONE, Vertex(f"one {narrow}".encode()), narrow)
        self._ones.add(number)
        return number

    def _product(self, type_: TensorType, operands: tuple[NodeId, ...]) -> NodeId:
        """A product; factors that are numbers come before it."""
        factor: Times = 1
        bare = []
        for operand in operands:
            counts = self._counts.get(operand, {}) if self._nodes[operand] is _ADD else {}
            alone = next(iter(counts)) if len(counts) == 1 else operand
            if alone != operand and self.types[alone] == self.types[operand] and self._inline(operand):
                factor *= counts[alone]
                operand = alone
            bare.append((operand, 1))
        made = self._chain(_MUL, type_, bare)
        return made if factor == 1 else self._chain(_ADD, type_, ((made, factor),))

    # what laws ask

    def parted(self, number: NodeId) -> Mapping[NodeId, object] | None:
        """The parts of a sum or product that all have its type, but for constants; None of anything else."""
        counts = self._counts.get(number)
        if counts is None or any(self.types[one] != self.types[number] and one not in self._ones for one in counts):
            return None
        return counts

    def assembled(self, number: NodeId, moved: Mapping[NodeId, NodeId], type_: TensorType) -> NodeId:
        """A sum or product like this one, of other parts."""
        parts = [(moved.get(one, self._one(type_)), times) for one, times in self._counts[number].items()]
        return self._chain(self._nodes[number], type_, parts)

    def centred(self, number: NodeId) -> NodeId:
        """A sum without its constant."""
        counts = self._counts.get(number, {})
        if self._nodes[number] is not _ADD or self._ones.isdisjoint(counts):
            return number
        left = [(one, times) for one, times in counts.items() if one not in self._ones]
        return self._chain(_ADD, self.types[number], [*left, (self._zero(self.types[number]), 1)])

    def shallow(self, number: NodeId) -> bool:
        """Whether few operations in a row compute number by number up to here."""
        return self._depths.get(number, 0) <= DEEPEST

    def _zero(self, type_: TensorType) -> NodeId:
        if type_ not in self._zeros:
            self._zeros[type_] = self._term(_ZERO, Vertex(f"zero {type_}".encode()), type_)
        return self._zeros[type_]

    def _vanishes(self, op: Op, operands: tuple[NodeId, ...]) -> bool:
        """Whether the result is zero, whatever the weights."""
        if isinstance(op, Zero) or (isinstance(op, Scale) and op.factor == 0):
            return True
        if isinstance(op, Constant):
            return op.dtype == "f32" and not any(op.values)
        zeros = [isinstance(self._nodes[operand].op, Zero) for operand in operands]
        if isinstance(op, Mul | Matmul):
            return any(zeros)
        if isinstance(op, Attention | LocalAttention | AxialAttention):
            return zeros[2]
        return bool(zeros) and all(zeros) and keeps_zero(op)

    def _chain(self, of: Node, type_: TensorType, parts: Iterable[tuple[NodeId, Times]]) -> NodeId:
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
        self._depths[number] = 1 + max(self._depths.get(one, 0) for one in left)
        return number

    def _inner(self, of: Node, number: NodeId) -> Counts:
        return self._counts[number] if self._nodes[number] is of and self._inline(number) else {number: 1}

    def _inline(self, number: NodeId) -> bool:
        """Whether a larger sum or product takes over the parts of one."""
        counts = self._counts[number]
        return len(counts) <= MOST_PARTS and all(
            abs(times.numerator) <= LARGEST and times.denominator <= LARGEST for times in counts.values()
        )

    def _stretched(self, counts: Counts) -> TensorType:
        return reduce(broadcast, {self.types[one] for one in counts})

    def calls(self, norms: Mapping[NodeId, int]) -> NodeId:
        """A term that reads calls of norms with shared statistics, and how often each is made."""
        self.vertices.append(Vertex(b"calls", (), tuple(sorted(norms.items()))))
        self._nodes.append(_CALLS)
        return len(self.vertices) - 1

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


_ADD, _MUL, _ZERO, _ONE, _CALLS = Node(Add()), Node(Mul()), Node(Zero()), Node(Shift(1.0)), Node(Identity())


def _exact(number: float) -> Times:
    """A number as it is written."""
    exact = Fraction(repr(float(number)))
    return exact.numerator if exact.denominator == 1 else exact


_FIX_ZERO = (
    activation.Relu, activation.Relu6, activation.LeakyRelu, activation.Elu, activation.Gelu, activation.Silu,
    activation.Mish, activation.HardSwish, activation.Tanh, MaxPool, AdaptiveMaxPool, GlobalMaxPool, MaxOver, Dropout,
    DropPath, activation.Sqrt, activation.Abs, activation.Sin, activation.Prelu, Normalize,
)  # fmt: skip
"""Operations that are not linear, but zero at zero."""


def keeps_zero(op: Op) -> bool:
    """Whether the result is zero where all operands are. Not of a batch norm, whose statistics are learned."""
    if isinstance(op, Biased):
        return not op.bias
    if isinstance(op, LayerNorm | GroupNorm | InstanceNorm):
        return isinstance(op, RmsNorm) or not op.affine
    if isinstance(op, activation.Clamp):
        return (op.low is None or op.low <= 0) and (op.high is None or op.high >= 0)
    return op.linear or isinstance(op, _FIX_ZERO)


def label(op: Op, types: tuple[TensorType, ...], result: TensorType) -> str:
    """An operation's name and attributes, the same for attributes that mean the same."""
    if isinstance(op, Reshape | Flatten):
        return f"reshape {result}"
    kinds = attribute_types(type(op))
    values = {name: float(v) if kinds[name] is float else v for name, v in op.kept_attributes().items()}
    values |= _explicit(op, types, result)
    return f"{op.name} {' '.join(f'{name}={values[name]!r}' for name in sorted(values))}"


def _plain(op: Convolution | MaxPool | AvgPool) -> Mapping[str, object]:
    """What slides, in as few numbers as say it. A kernel of one position has no dilation."""
    found: dict[str, object] = {"kernel": alike(op.kernel), "stride": alike(op.stride), "padding": op.pads}
    if isinstance(op, Convolution):
        found["dilation"] = alike(tuple(window.dilation if window.kernel > 1 else 1 for window in op.windows))
    if isinstance(op, ConvTranspose):
        found |= {"padding": op.cut, "output_padding": op.more}
    if isinstance(op, AvgPool):
        found["count_padding"] = op.count_padding and any(op.pads)
    return {name: value for name, value in found.items() if name not in op.later or value != 1}


def _explicit(op: Op, types: tuple[TensorType, ...], result: TensorType) -> Mapping[str, object]:
    """What attributes that follow from others or from the types come to."""
    match op:
        case Convolution() | MaxPool() | AvgPool():
            return _plain(op)
        case AdaptiveAvgPool():
            return {"size": op.sizes}
        case Resize():
            return {"size": result.spatial, "factor": None}
        case Pad():
            return {"amount": op.pads(types[0].rank - 1)}
        case Slice():
            axis, start, stop = op.bounds(types[0])
            return {"axis": axis, "start": start, "stop": stop}
        case Transpose():
            return {"axes": op.order(types[0].rank)}
        case Concat():
            return {"axis": (result.channel_axis if op.axis is None else op.axis) % result.rank}
        case Softmax() | Cumsum() | MeanOver() | SumOver() | MaxOver():
            return {"axis": op.axis % result.rank}
        case Normalize():
            return {"axis": op.along(result)}
        case ToMap():
            return {"height": result.shape[1]}
        case Attention():
            return {"scale": op.scale if op.scale is not None else (types[0].channels / op.heads) ** -0.5}
    return {}

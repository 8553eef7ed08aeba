"""Networks as hash-consed terms, simplified by the algebraic laws of sums, products and zeros.

Hash-consing stores equal expressions once. A sum or product consists of parts (subterms), each with a coefficient. The
coefficient is the part's factor in a sum, and its exponent in a product.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from itertools import count
from math import isfinite

from archir.equivalence.isomorphism import Vertex, canonical_text, reachable
from archir.equivalence.movement import POINTWISE, rewrite
from archir.ir.graph import Node, NodeId
from archir.ir.op import Op, attribute_types
from archir.ir.types import TensorType, broadcast
from archir.ops import activation
from archir.ops.activation import Cumsum, Identity, Scale, Shift, Softmax, Zero
from archir.ops.arithmetic import Add, Concat, Matmul, Mul, Sub
from archir.ops.attention import Attention, AxialAttention, LocalAttention
from archir.ops.constant import Constant
from archir.ops.conv import AffineOp, Convolution, ConvTranspose
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
from archir.ops.windows import collapse_sizes
from archir.passes.fold import FOLDING, FoldSite

MAX_PARTS = 256
"""Maximum number of different parts up to which a nested sum or product is flattened into the enclosing one."""

MAX_COEFFICIENT = 2**64
"""Maximum numerator and denominator of the coefficients up to which a nested sum or product is flattened."""
MAX_DEPTH = 32
"""Maximum length of a chain of element-wise operations up to which data movement is moved before the chain."""

Coefficient = int | Fraction
"""Coefficient of a part of a sum (its factor) or of a product (its exponent)."""
Coefficients = dict[NodeId, Coefficient]
"""Coefficients of a sum or product, by part; subtracted parts have negative ones.

Coefficients are exact fractions of the decimal numbers in the program, so 0.1 and 0.2 add up to exactly 0.3.
"""


@dataclass(frozen=True, slots=True)
class Fact:
    """What is known about an operation on operands of given types: result type, label, whether it has weights.

    The label is the canonical text of the operation's name and attributes.
    """

    type: TensorType
    label: bytes
    has_parameters: bool


class FactTable:
    """Cache of `Fact` objects, each computed once per operation and operand types."""

    def __init__(self) -> None:
        self._facts: dict[tuple[Op, tuple[TensorType, ...]], Fact] = {}

    def lookup(self, op: Op, types: tuple[TensorType, ...]) -> Fact:
        """Return the facts about an operation on operands of these types."""
        fact = self._facts.get((op, types))
        if fact is None:
            result = op.infer(*types)
            fact = Fact(result, label(op, types, result).encode(), bool(op.weights(*types)))
            self._facts[op, types] = fact
        return fact


class Terms:
    """Hash-consing table of terms: nodes are added as to a graph, but equal nodes get the same number."""

    def __init__(self, facts: FactTable, shared_norms: Collection[str] = ()) -> None:
        self.vertices: list[Vertex] = []
        self.types: dict[NodeId, TensorType] = {}
        self.shared_norms = shared_norms
        """Scopes of batch norms that are called several times; their statistics depend on the operands of all calls."""
        self._facts = facts
        self._scopes: dict[NodeId, str] = {}  # scopes of the terms with weights
        self._nodes: list[Node] = []
        self._numbers: dict[object, NodeId] = {}
        self._coefficients: dict[NodeId, Coefficients] = {}
        self._depths: dict[NodeId, int] = {}
        self._zeros: dict[TensorType, NodeId] = {}
        self._ones: set[NodeId] = set()
        self._rewrites: dict[tuple[bytes, tuple[NodeId, ...]], NodeId | None] = {}
        self._call_ids = count()

    def __getitem__(self, number: NodeId) -> Node:
        return self._nodes[number]

    def operands(self, number: NodeId) -> tuple[NodeId, ...]:
        """Return the operands of a term that is neither a sum nor a product."""
        return self.vertices[number].ordered

    def put(self, node: Node, *operands: NodeId) -> NodeId:
        """Return the term of a node with these operands, after folding (`archir.passes.fold`) if possible."""
        if type(node.op) not in FOLDING or isinstance(node.op, Add | Sub | Zero):
            return self.add(node, *operands)
        type_ = self._facts.lookup(node.op, tuple([self.types[operand] for operand in operands])).type
        return FoldSite(self, self.types, operands, type_).add_folded(node)

    def add(self, node: Node, *operands: NodeId) -> NodeId:
        """Return the term of a node, simplified by the algebraic laws and by the rewrite rules, but not folded."""
        op = node.op
        fact = self._facts.lookup(op, tuple([self.types[operand] for operand in operands]))
        if isinstance(op, Add | Sub):
            sign = -1 if isinstance(op, Sub) else 1
            return self._sum_or_product(_ADD, fact.type, ((operands[0], 1), (operands[1], sign)))
        if self._is_zero(op, operands):
            return self._zero(fact.type)
        if isinstance(op, Scale) and isfinite(op.factor):
            return self._sum_or_product(_ADD, fact.type, ((operands[0], _exact(op.factor)),))
        if isinstance(op, Shift) and isfinite(op.amount):
            return self._sum_or_product(_ADD, fact.type, ((operands[0], 1), (self._unit(fact.type), _exact(op.amount))))
        if isinstance(op, Mul):
            return self._product(fact.type, operands)
        key = fact.label, operands
        if fact.has_parameters or op.random or key not in self._rewrites:
            rewritten = rewrite(self, node, operands, fact.type)
            if not (fact.has_parameters or op.random):
                self._rewrites[key] = rewritten
        else:
            rewritten = self._rewrites[key]
        if rewritten is not None:
            return rewritten
        call_id: object = None
        if fact.has_parameters:
            call_id = node.scope
        elif op.random:  # each call samples its own numbers, even if calls of a block share their scopes
            call_id = next(self._call_ids)
        return self._term(node, Vertex(fact.label, operands), fact.type, call_id, fact.has_parameters)

    def _term(
        self, node: Node, vertex: Vertex, type_: TensorType, call_id: object = None, has_parameters: bool = False
    ) -> NodeId:
        """Return the number of the term for a vertex; add the term unless an equal one exists.

        Terms with different `call_id` are never equal.
        """
        key = (vertex.label, vertex.ordered, vertex.unordered, call_id)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.vertices)
            self.vertices.append(vertex)
            self._nodes.append(node)
            self.types[number] = type_
            if has_parameters:
                self._scopes[number] = node.scope
            if isinstance(node.op, POINTWISE):
                self._depths[number] = 1 + self._depths.get(vertex.ordered[0], 0)
        return number

    def _unit(self, type_: TensorType) -> NodeId:
        """Return the term of the constant 1, whose dimensions of 1 broadcast to `type_`."""
        narrow = type_.with_dims(*[1] * type_.rank)
        number = self._term(_UNIT, Vertex(f"one {narrow}".encode()), narrow)
        self._ones.add(number)
        return number

    def _product(self, type_: TensorType, operands: tuple[NodeId, ...]) -> NodeId:
        """Return the product of the operands, with the constant factors of all operands multiplied into one
        coefficient."""
        factor: Coefficient = 1
        factors = []
        for operand in operands:
            counts = self._coefficients.get(operand, {}) if self._nodes[operand] is _ADD else {}
            part = next(iter(counts)) if len(counts) == 1 else operand
            if part != operand and self.types[part] == self.types[operand] and self._can_flatten(operand):
                factor *= counts[part]
                operand = part
            factors.append((operand, 1))
        product = self._sum_or_product(_MUL, type_, factors)
        return product if factor == 1 else self._sum_or_product(_ADD, type_, ((product, factor),))

    # interface of the rewrite rules (`movement.TermBuilder`)

    def parts(self, number: NodeId) -> Mapping[NodeId, object] | None:
        """Return the parts of a sum or product; None if the term is neither.

        Also returns None if a part other than a constant must be broadcast because its type differs from the term's
        type.
        """
        counts = self._coefficients.get(number)
        if counts is None or any(self.types[part] != self.types[number] and part not in self._ones for part in counts):
            return None
        return counts

    def with_parts(self, number: NodeId, replacements: Mapping[NodeId, NodeId], type_: TensorType) -> NodeId:
        """Return a sum or product with the same coefficients, in which each part is replaced as `replacements` says.

        A part without a replacement is a constant; it gets the type `type_`.
        """
        parts = [
            (replacements.get(part, self._unit(type_)), times) for part, times in self._coefficients[number].items()
        ]
        return self._sum_or_product(self._nodes[number], type_, parts)

    def without_constant(self, number: NodeId) -> NodeId:
        """Return a sum without its constant summand; any other term unchanged."""
        counts = self._coefficients.get(number, {})
        if self._nodes[number] is not _ADD or self._ones.isdisjoint(counts):
            return number
        remaining = [(part, times) for part, times in counts.items() if part not in self._ones]
        return self._sum_or_product(_ADD, self.types[number], [*remaining, (self._zero(self.types[number]), 1)])

    def is_shallow(self, number: NodeId) -> bool:
        """Return whether the chain of element-wise operations that ends at this term has at most MAX_DEPTH
        operations."""
        return self._depths.get(number, 0) <= MAX_DEPTH

    def _zero(self, type_: TensorType) -> NodeId:
        """Return the zero tensor of a type."""
        if type_ not in self._zeros:
            self._zeros[type_] = self._term(_ZERO, Vertex(f"zero {type_}".encode()), type_)
        return self._zeros[type_]

    def _is_zero(self, op: Op, operands: tuple[NodeId, ...]) -> bool:
        """Return whether an operation's result is zero whatever its weights are."""
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

    def _sum_or_product(self, kind: Node, type_: TensorType, parts: Iterable[tuple[NodeId, Coefficient]]) -> NodeId:
        """Return the sum or product (`kind`) of parts.

        Nested sums or products are flattened; zeros, and parts whose coefficients cancel, are dropped.
        """
        counts: Coefficients = {}
        for part, times in parts:
            for term, coefficient in self._flattened(kind, part).items():
                counts[term] = counts.get(term, 0) + coefficient * times
        remaining = {
            term: coefficient
            for term, coefficient in counts.items()
            if coefficient and not isinstance(self._nodes[term].op, Zero)
        }
        if not remaining:
            return self._zero(type_)
        if (
            len(remaining) == 1
            and next(iter(remaining.values())) == 1
            and self.types[term := next(iter(remaining))] == type_
        ):
            return term
        if (
            len(remaining) < len(counts) and self._broadcast_type(remaining) != type_
        ):  # a dropped part had broadcast the others
            remaining[self._zero(type_)] = 1
        number = self._term(kind, Vertex(kind.op.name.encode(), (), tuple(sorted(remaining.items()))), type_)
        self._coefficients[number] = remaining
        self._depths[number] = 1 + max(self._depths.get(term, 0) for term in remaining)
        return number

    def _flattened(self, kind: Node, number: NodeId) -> Coefficients:
        """Return the coefficients of a nested sum or product if the term is of this kind and can be flattened.

        Otherwise, the term itself is the only part, with coefficient 1.
        """
        return self._coefficients[number] if self._nodes[number] is kind and self._can_flatten(number) else {number: 1}

    def _can_flatten(self, number: NodeId) -> bool:
        """Return whether a sum or product is small enough to be flattened into the enclosing one."""
        counts = self._coefficients[number]
        return len(counts) <= MAX_PARTS and all(
            abs(times.numerator) <= MAX_COEFFICIENT and times.denominator <= MAX_COEFFICIENT
            for times in counts.values()
        )

    def _broadcast_type(self, counts: Coefficients) -> TensorType:
        """Return the type to which the parts' types broadcast."""
        return reduce(broadcast, {self.types[part] for part in counts})

    def calls(self, norms: Mapping[NodeId, int]) -> NodeId:
        """Append a term that reads all calls of norms with shared statistics, and return it.

        Each call has its multiplicity.
        """
        self.vertices.append(Vertex(b"calls", (), tuple(sorted(norms.items()))))
        self._nodes.append(_CALLS)
        return len(self.vertices) - 1

    def text(self, roots: Mapping[str, NodeId]) -> str:
        """Return the canonical text of the terms that are reachable from the roots."""
        live = reachable(self.vertices, roots.values())
        uses = Counter(self._scopes[number] for number in live if number in self._scopes)
        shared = [scope for scope, times in uses.items() if times > 1]
        if not shared:
            return canonical_text(self.vertices, roots)
        vertices = self._with_weights({scope: i for i, scope in enumerate(shared)})
        return canonical_text(vertices, {name: number + len(shared) for name, number in roots.items()})

    def _with_weights(self, shared: Mapping[str, int]) -> list[Vertex]:
        """Return the vertices with sharing of weights made explicit.

        For each scope in `shared`, one vertex is added in front of all others. The terms of this scope read that vertex
        as their last operand.
        """
        vertices = [Vertex(b"weights")] * len(shared)
        for number, vertex in enumerate(self.vertices):
            ordered = tuple([operand + len(shared) for operand in vertex.ordered])
            if self._scopes.get(number, "") in shared:
                ordered += (shared[self._scopes[number]],)
            vertices.append(
                Vertex(vertex.label, ordered, tuple((operand + len(shared), k) for operand, k in vertex.unordered))
            )
        return vertices


_ADD, _MUL, _ZERO, _UNIT, _CALLS = Node(Add()), Node(Mul()), Node(Zero()), Node(Shift(1.0)), Node(Identity())
"""Placeholder nodes of terms without a graph node: sums, products, zeros, the constant 1, norm calls."""


def _exact(number: float) -> Coefficient:
    """Return a float as the exact fraction of its shortest decimal notation, or as an integer if it is whole."""
    exact = Fraction(repr(float(number)))
    return exact.numerator if exact.denominator == 1 else exact


_NONLINEAR_ZERO_PRESERVING = (
    activation.Relu, activation.Relu6, activation.LeakyRelu, activation.Elu, activation.Gelu, activation.Silu,
    activation.Mish, activation.HardSwish, activation.Tanh, MaxPool, AdaptiveMaxPool, GlobalMaxPool, MaxOver, Dropout,
    DropPath, activation.Sqrt, activation.Abs, activation.Sin, activation.Prelu, Normalize,
)  # fmt: skip
"""Operations that are not linear but map zeros to zeros."""


def keeps_zero(op: Op) -> bool:
    """Return whether an operation maps zeros to zeros.

    Returns False for a batch norm, because a batch norm subtracts learned statistics.
    """
    if isinstance(op, AffineOp):
        return not op.bias
    if isinstance(op, LayerNorm | GroupNorm | InstanceNorm):
        return isinstance(op, RmsNorm) or not op.affine
    if isinstance(op, activation.Clamp):
        return (op.low is None or op.low <= 0) and (op.high is None or op.high >= 0)
    return op.linear or isinstance(op, _NONLINEAR_ZERO_PRESERVING)


def label(op: Op, types: tuple[TensorType, ...], result: TensorType) -> str:
    """Return an operation's name and normalised attributes as text; attributes of equal meaning give equal texts."""
    if isinstance(op, Reshape | Flatten):
        return f"reshape {result}"
    kinds = attribute_types(type(op))
    values = {name: float(v) if kinds[name] is float else v for name, v in op.attributes().items()}
    values |= _resolved_attributes(op, types, result)
    return f"{op.name} {' '.join(f'{name}={values[name]!r}' for name in sorted(values))}"


def _window_attributes(op: Convolution | MaxPool | AvgPool) -> Mapping[str, object]:
    """Return the attributes of a sliding window in normal form; a kernel of size 1 has no dilation."""
    attributes: dict[str, object] = {
        "kernel": collapse_sizes(op.kernel),
        "stride": collapse_sizes(op.stride),
        "padding": op.pads,
    }
    if isinstance(op, Convolution):
        attributes["dilation"] = collapse_sizes(
            tuple(window.dilation if window.kernel > 1 else 1 for window in op.windows)
        )
    if isinstance(op, ConvTranspose):
        attributes |= {"padding": op.crop, "output_padding": op.extra}
    if isinstance(op, AvgPool):
        attributes["count_padding"] = op.count_padding and any(op.pads)
    return attributes


def _resolved_attributes(op: Op, types: tuple[TensorType, ...], result: TensorType) -> Mapping[str, object]:
    """Return the actual values of attributes that depend on other attributes or on the types, such as default axes."""
    match op:
        case Convolution() | MaxPool() | AvgPool():
            return _window_attributes(op)
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
            return {"axis": op.resolved_axis(result)}
        case ToMap():
            return {"height": result.shape[1]}
        case Attention():
            return {"scale": op.scale if op.scale is not None else (types[0].channels / op.heads) ** -0.5}
    return {}

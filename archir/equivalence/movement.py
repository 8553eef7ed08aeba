"""Rewrite rules that move data movement (reshape, transpose, slice, ...) before element-wise operations.

Consecutive movements are merged into as few steps as possible.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Protocol

from archir.ir.graph import Node, NodeId
from archir.ir.types import TensorType
from archir.ops import activation
from archir.ops.arithmetic import Concat
from archir.ops.conv import AffineOp
from archir.ops.norm import BatchNorm
from archir.ops.random import Dropout, DropPath
from archir.ops.shape import ChannelShuffle, Flatten, Reshape, Slice, ToMap, ToTokens, Transpose, Upsample

POINTWISE = (
    activation.Relu, activation.Relu6, activation.LeakyRelu, activation.Elu, activation.Gelu, activation.Silu,
    activation.Mish, activation.HardSwish, activation.HardSigmoid, activation.Sigmoid, activation.Tanh, activation.Exp,
    activation.Softplus, activation.Clamp, activation.Log, activation.Sqrt, activation.Abs, activation.Power,
    activation.Sin, activation.Cos,
)  # fmt: skip
"""Element-wise functions of one tensor."""

_MOVING = (Reshape, Flatten, Transpose, Slice, ToTokens, ToMap, ChannelShuffle, Upsample)
"""Operations that move all or some elements of one tensor to other positions."""
MAX_PARTS = 256
"""Maximum number of parts up to which a concatenation is flattened into the enclosing one.

The limit bounds the growth when a tensor is repeatedly concatenated with itself.
"""


class TermBuilder(Protocol):
    """Interface through which rewrite rules read and create terms; `archir.equivalence.algebra.Terms` implements it."""

    types: dict[NodeId, TensorType]
    shared_norms: Collection[str]

    def __getitem__(self, number: NodeId) -> Node: ...

    def operands(self, number: NodeId) -> tuple[NodeId, ...]:
        """Return the operands of a term that is neither a sum nor a product."""

    def put(self, node: Node, *operands: NodeId) -> NodeId:
        """Return the term of a node with these operands, simplified."""

    def parts(self, number: NodeId) -> Mapping[NodeId, object] | None:
        """Return the parts of a sum or product; None if the term is neither.

        Also returns None if a part other than a constant must be broadcast because its type differs from the term's
        type.
        """

    def with_parts(self, number: NodeId, replacements: Mapping[NodeId, NodeId], type_: TensorType) -> NodeId:
        """Return a sum or product with the same coefficients, in which each part is replaced as `replacements` says.

        A part without a replacement is a constant; it gets the type `type_`.
        """

    def without_constant(self, number: NodeId) -> NodeId:
        """Return a sum without its constant summand; any other term unchanged."""

    def is_shallow(self, number: NodeId) -> bool:
        """Return whether the chain of element-wise operations that ends at this term is short."""


def rewrite(terms: TermBuilder, node: Node, operands: tuple[NodeId, ...], type_: TensorType) -> NodeId | None:
    """Apply the first matching rewrite rule to a node with these operands.

    Returns the new term, or None if no rule matches.
    """
    match node.op, operands:
        case Dropout(rate=0) | DropPath(rate=0), (operand,):
            return operand
        case ChannelShuffle(groups=groups), (operand,) if groups in (1, type_.channels):
            return operand
        case BatchNorm(), (operand,):
            # calls of a shared norm are normalised by a common mean, so a bias removed from one call affects the others
            return None if node.scope in terms.shared_norms else _remove_bias(terms, node, operand)
        case Concat(axis=axis), _:
            return _rewrite_concat(terms, node, operands, axis if axis is not None else type_.channel_axis)
        case op, (operand,) if isinstance(op, _MOVING):
            return _move_before_pointwise(terms, node, operand, type_)
    return None


def _remove_bias(terms: TermBuilder, norm: Node, operand: NodeId) -> NodeId | None:
    """Drop a bias or constant before a batch norm, which subtracts each channel's mean anyway.

    Returns None if there is no bias or constant.
    """
    node = terms[operand]
    if isinstance(node.op, AffineOp) and node.op.bias:
        bare = Node(replace(node.op, bias=False), node.span, node.scope)
        return terms.put(norm, terms.put(bare, *terms.operands(operand)))
    bare_sum = terms.without_constant(operand)
    return terms.put(norm, bare_sum) if bare_sum != operand else None


def _move_before_pointwise(terms: TermBuilder, node: Node, operand: NodeId, type_: TensorType) -> NodeId | None:
    """Move a data movement before the element-wise operation, sum or product that it reads, or simplify a slice.

    Returns None if nothing applies.
    """
    inner = terms[operand]
    if isinstance(inner.op, POINTWISE) and terms.is_shallow(operand):
        return terms.put(inner, terms.put(node, *terms.operands(operand)))
    parts = terms.parts(operand)
    if parts is not None and terms.is_shallow(operand):
        operand_type = terms.types[operand]
        replacements = {part: terms.put(node, part) for part in parts if terms.types[part] == operand_type}
        return terms.with_parts(operand, replacements, type_)
    if isinstance(node.op, Slice):
        return _sliced(terms, node, node.op, operand)
    return None


def _sliced(terms: TermBuilder, node: Node, op: Slice, operand: NodeId) -> NodeId | None:
    """Merge a slice into the slice or concatenation that it reads, or sort slices of different axes by axis.

    Returns None if neither applies.
    """
    axis, start, stop = op.bounds(terms.types[operand])
    inner = terms[operand].op
    if isinstance(inner, Slice):
        (source,) = terms.operands(operand)
        inner_axis, inner_start, inner_stop = inner.bounds(terms.types[source])
        if inner_axis == axis:
            return terms.put(_slice(node, axis, inner_start + start, inner_start + stop), source)
        if axis < inner_axis:
            return terms.put(
                _slice(node, inner_axis, inner_start, inner_stop), terms.put(_slice(node, axis, start, stop), source)
            )
    if isinstance(inner, Concat):
        parts, offset = [], 0
        concat_axis = _concat_axis(inner, terms.types[operand])
        for part in terms.operands(operand):
            size = terms.types[part].shape[axis]
            low, high = (max(start - offset, 0), min(stop - offset, size)) if concat_axis == axis else (start, stop)
            if low < high:
                parts.append(terms.put(_slice(node, axis, low, high), part))
            offset += size
        return terms.put(Node(Concat(concat_axis), node.span), *parts)
    return None


def _slice(node: Node, axis: int, start: int, stop: int) -> Node:
    """Return a new node that slices an axis, with the span of `node`."""
    return Node(Slice(start, stop, axis), node.span)


def _concat_axis(op: Concat, type_: TensorType) -> int:
    """Return the axis of a concatenation as a non-negative index."""
    return (op.axis if op.axis is not None else type_.channel_axis) % type_.rank


def _rewrite_concat(terms: TermBuilder, node: Node, operands: tuple[NodeId, ...], axis: int) -> NodeId | None:
    """Flatten nested concatenations, and merge adjacent slices of one tensor; None if nothing changes."""
    axis %= terms.types[operands[0]].rank
    parts: list[NodeId] = []
    for part in [flat for operand in operands for flat in _flattened(terms, operand, axis)]:
        merged = _merge_slices(terms, parts[-1], part, axis) if parts else None
        if merged is None:
            parts.append(part)
        else:
            parts[-1] = merged
    op = terms[parts[0]].op
    if isinstance(op, POINTWISE) and all(terms[part].op == op for part in parts):
        return terms.put(terms[parts[0]], terms.put(node, *[terms.operands(part)[0] for part in parts]))
    return None if tuple(parts) == operands else terms.put(node, *parts)


def _flattened(terms: TermBuilder, operand: NodeId, axis: int) -> Iterator[NodeId]:
    """Yield the parts of an operand that is itself a concatenation along the axis; otherwise the operand."""
    node = terms[operand]
    if isinstance(node.op, Concat) and _concat_axis(node.op, terms.types[operand]) == axis:
        parts = terms.operands(operand)
        yield from parts if len(parts) <= MAX_PARTS else [operand]
    elif isinstance(node.op, POINTWISE) and terms.is_shallow(operand):
        yield from [terms.put(node, part) for part in _flattened(terms, terms.operands(operand)[0], axis)]
    else:
        yield operand


def _merge_slices(terms: TermBuilder, first_part: NodeId, second_part: NodeId, axis: int) -> NodeId | None:
    """Merge two adjacent slices of the same tensor, possibly with equal element-wise operations applied to both.

    Returns None if the parts are not such slices.
    """
    first, second = terms[first_part], terms[second_part]
    if isinstance(first.op, POINTWISE) and first.op == second.op and terms.is_shallow(first_part):
        source = _merge_slices(terms, terms.operands(first_part)[0], terms.operands(second_part)[0], axis)
        return terms.put(first, source) if source is not None else None
    if not (isinstance(first.op, Slice) and isinstance(second.op, Slice)):
        return None
    if terms.operands(first_part) != terms.operands(second_part):
        return None
    (source,) = terms.operands(first_part)
    slice_axis, start, middle = first.op.bounds(terms.types[source])
    if second.op.bounds(terms.types[source])[:2] != (slice_axis, middle) or slice_axis != axis:
        return None
    return terms.put(_slice(first, axis, start, second.op.bounds(terms.types[source])[2]), source)

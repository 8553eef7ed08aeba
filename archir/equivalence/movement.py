"""Rewrite rules for data movement: it moves before element-wise operations, and is merged into as few steps as
possible."""

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
"""Element-wise functions."""

_MOVING = (Reshape, Flatten, Transpose, Slice, ToTokens, ToMap, ChannelShuffle, Upsample)
"""Operations of one tensor whose result contains the operand's numbers, or some of them, in other places."""
MAX_PARTS = 256
"""Maximum number of parts of a concatenation that is flattened into another one. It bounds the growth of repeated
concatenations of a tensor with itself."""


class TermBuilder(Protocol):
    """Interface of terms that rewrite rules use."""

    types: dict[NodeId, TensorType]
    shared_norms: Collection[str]

    def __getitem__(self, number: NodeId) -> Node: ...

    def operands(self, number: NodeId) -> tuple[NodeId, ...]:
        """Return the operands of a term that is neither a sum nor a product."""

    def put(self, node: Node, *operands: NodeId) -> NodeId:
        """Return the term of a node with these operands."""

    def parts(self, number: NodeId) -> Mapping[NodeId, object] | None:
        """Return the parts of a sum or product; None if it is neither, or a part other than a constant has another
        type."""

    def with_parts(self, number: NodeId, replacements: Mapping[NodeId, NodeId], type_: TensorType) -> NodeId:
        """Return a sum or product with the same coefficients, and other parts where `replacements` has them."""

    def without_constant(self, number: NodeId) -> NodeId:
        """Return a sum without its constant."""

    def is_shallow(self, number: NodeId) -> bool:
        """Return whether the chain of element-wise operations that ends here is short."""


def rewrite(terms: TermBuilder, node: Node, operands: tuple[NodeId, ...], type_: TensorType) -> NodeId | None:
    """Apply the first rewrite rule that matches a node on these operands, and return the resulting term; None if none
    does."""
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
    """Drop a bias or constant before a batch norm, which subtracts the mean of each channel; None if there is none."""
    node = terms[operand]
    if isinstance(node.op, AffineOp) and node.op.bias:
        bare = Node(replace(node.op, bias=False), node.span, node.scope)
        return terms.put(norm, terms.put(bare, *terms.operands(operand)))
    bare_sum = terms.without_constant(operand)
    return terms.put(norm, bare_sum) if bare_sum != operand else None


def _move_before_pointwise(terms: TermBuilder, node: Node, operand: NodeId, type_: TensorType) -> NodeId | None:
    """Swap data movement with the element-wise operation, sum or product before it, or simplify a slice; None if
    neither applies."""
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
    """Merge a slice with a slice or concatenation before it, or sort slices of two axes by axis; None if neither
    applies."""
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
    """Return a slice node with the span of another node."""
    return Node(Slice(start, stop, axis), node.span)


def _concat_axis(op: Concat, type_: TensorType) -> int:
    """Return the non-negative axis of a concatenation."""
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
    """Yield the parts that an operand concatenates along the axis, or the operand itself."""
    node = terms[operand]
    if isinstance(node.op, Concat) and _concat_axis(node.op, terms.types[operand]) == axis:
        parts = terms.operands(operand)
        yield from parts if len(parts) <= MAX_PARTS else [operand]
    elif isinstance(node.op, POINTWISE) and terms.is_shallow(operand):
        yield from [terms.put(node, part) for part in _flattened(terms, terms.operands(operand)[0], axis)]
    else:
        yield operand


def _merge_slices(terms: TermBuilder, first_part: NodeId, second_part: NodeId, axis: int) -> NodeId | None:
    """Merge two adjacent slices of one tensor, under equal element-wise operations; None if they are no such slices."""
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

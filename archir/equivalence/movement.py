"""Laws of what moves data: it comes before what computes number by number, in as few steps as it takes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Protocol

from archir.ir.graph import Node, NodeId
from archir.ir.types import TensorType
from archir.ops import activation
from archir.ops.arithmetic import Concat
from archir.ops.conv import Biased
from archir.ops.norm import BatchNorm
from archir.ops.random import Dropout, DropPath
from archir.ops.shape import ChannelShuffle, Flatten, Reshape, Slice, ToMap, ToTokens, Transpose, Upsample

POINTWISE = (
    activation.Relu, activation.Relu6, activation.LeakyRelu, activation.Elu, activation.Gelu, activation.Silu,
    activation.Mish, activation.HardSwish, activation.HardSigmoid, activation.Sigmoid, activation.Tanh, activation.Exp,
    activation.Softplus, activation.Clamp, activation.Log, activation.Sqrt, activation.Abs, activation.Power,
    activation.Sin, activation.Cos,
)  # fmt: skip
"""Functions of each number by itself."""

_MOVING = (Reshape, Flatten, Transpose, Slice, ToTokens, ToMap, ChannelShuffle, Upsample)
"""Operations of one tensor whose result has its numbers in other places, or not all of them."""
MOST_PARTS = 256
"""How many tensors side by side are taken apart again: what is put beside itself time and again has no end of them."""


class Written(Protocol):
    """Terms, as laws see them."""

    types: dict[NodeId, TensorType]
    shared_norms: Collection[str]

    def __getitem__(self, number: NodeId) -> Node: ...

    def operands(self, number: NodeId) -> tuple[NodeId, ...]:
        """What a term that is neither a sum nor a product reads."""

    def put(self, node: Node, *operands: NodeId) -> NodeId:
        """The term of a node."""

    def parted(self, number: NodeId) -> Mapping[NodeId, object] | None:
        """The parts of a sum or product that all have its type, but for constants; None of anything else."""

    def assembled(self, number: NodeId, moved: Mapping[NodeId, NodeId], type_: TensorType) -> NodeId:
        """A sum or product like this one, of other parts."""

    def centred(self, number: NodeId) -> NodeId:
        """A sum without its constant."""

    def shallow(self, number: NodeId) -> bool:
        """Whether few operations in a row compute number by number up to here."""


def lawful(terms: Written, node: Node, operands: tuple[NodeId, ...], type_: TensorType) -> NodeId | None:
    """The term that a law has for a node on these operands; None where there is none."""
    match node.op, operands:
        case Dropout(rate=0) | DropPath(rate=0), (operand,):
            return operand
        case ChannelShuffle(groups=groups), (operand,) if groups in (1, type_.channels):
            return operand
        case BatchNorm(), (operand,):
            # other calls of a shared norm are normalised by the same mean, and would see what this one absorbs
            return None if node.scope in terms.shared_norms else _unbiased(terms, node, operand)
        case Concat(axis=axis), _:
            return _side_by_side(terms, node, operands, axis if axis is not None else type_.channel_axis)
        case op, (operand,) if isinstance(op, _MOVING):
            return _first(terms, node, operand, type_)
    return None


def _unbiased(terms: Written, norm: Node, operand: NodeId) -> NodeId | None:
    """A batch norm takes away what was added to all numbers of a channel."""
    node = terms[operand]
    if isinstance(node.op, Biased) and node.op.bias:
        bare = Node(replace(node.op, bias=False), node.span, node.scope)
        return terms.put(norm, terms.put(bare, *terms.operands(operand)))
    centred = terms.centred(operand)
    return terms.put(norm, centred) if centred != operand else None


def _first(terms: Written, node: Node, operand: NodeId, type_: TensorType) -> NodeId | None:
    """What moves data, before what computes number by number; slices, of as little as there is."""
    inner = terms[operand]
    if isinstance(inner.op, POINTWISE) and terms.shallow(operand):
        return terms.put(inner, terms.put(node, *terms.operands(operand)))
    parts = terms.parted(operand)
    if parts is not None and terms.shallow(operand):
        same = terms.types[operand]
        moved = {part: terms.put(node, part) for part in parts if terms.types[part] == same}
        return terms.assembled(operand, moved, type_)
    if isinstance(node.op, Slice):
        return _sliced(terms, node, node.op, operand)
    return None


def _sliced(terms: Written, node: Node, op: Slice, operand: NodeId) -> NodeId | None:
    axis, start, stop = op.bounds(terms.types[operand])
    inner = terms[operand].op
    if isinstance(inner, Slice):
        (source,) = terms.operands(operand)
        before, begin, end = inner.bounds(terms.types[source])
        if before == axis:
            return terms.put(_slice(node, axis, begin + start, begin + stop), source)
        if axis < before:
            return terms.put(_slice(node, before, begin, end), terms.put(_slice(node, axis, start, stop), source))
    if isinstance(inner, Concat):
        parts, place = [], 0
        along = _axis(inner, terms.types[operand])
        for part in terms.operands(operand):
            size = terms.types[part].shape[axis]
            low, high = (max(start - place, 0), min(stop - place, size)) if along == axis else (start, stop)
            if low < high:
                parts.append(terms.put(_slice(node, axis, low, high), part))
            place += size
        return terms.put(Node(Concat(along), node.span), *parts)
    return None


def _slice(node: Node, axis: int, start: int, stop: int) -> Node:
    return Node(Slice(start, stop, axis), node.span)


def _axis(op: Concat, type_: TensorType) -> int:
    return (op.axis if op.axis is not None else type_.channel_axis) % type_.rank


def _side_by_side(terms: Written, node: Node, operands: tuple[NodeId, ...], axis: int) -> NodeId | None:
    """Operands that are put side by side already are taken apart, and what was one tensor is one again."""
    axis %= terms.types[operands[0]].rank
    parts: list[NodeId] = []
    for part in [one for operand in operands for one in _strung(terms, operand, axis)]:
        together = _together(terms, parts[-1], part, axis) if parts else None
        if together is None:
            parts.append(part)
        else:
            parts[-1] = together
    op = terms[parts[0]].op
    if isinstance(op, POINTWISE) and all(terms[part].op == op for part in parts):
        return terms.put(terms[parts[0]], terms.put(node, *[terms.operands(part)[0] for part in parts]))
    return None if tuple(parts) == operands else terms.put(node, *parts)


def _strung(terms: Written, operand: NodeId, axis: int) -> Iterator[NodeId]:
    """What is side by side in an operand, along the axis."""
    node = terms[operand]
    if isinstance(node.op, Concat) and _axis(node.op, terms.types[operand]) == axis:
        parts = terms.operands(operand)
        yield from parts if len(parts) <= MOST_PARTS else [operand]
    elif isinstance(node.op, POINTWISE) and terms.shallow(operand):
        yield from [terms.put(node, part) for part in _strung(terms, terms.operands(operand)[0], axis)]
    else:
        yield operand


def _together(terms: Written, one: NodeId, other: NodeId, axis: int) -> NodeId | None:
    """Two neighbours that are slices of one tensor, end to end, as one; whatever was computed number by number."""
    first, second = terms[one], terms[other]
    if isinstance(first.op, POINTWISE) and first.op == second.op and terms.shallow(one):
        source = _together(terms, terms.operands(one)[0], terms.operands(other)[0], axis)
        return terms.put(first, source) if source is not None else None
    if not (isinstance(first.op, Slice) and isinstance(second.op, Slice)):
        return None
    if terms.operands(one) != terms.operands(other):
        return None
    (source,) = terms.operands(one)
    along, start, middle = first.op.bounds(terms.types[source])
    if second.op.bounds(terms.types[source])[:2] != (along, middle) or along != axis:
        return None
    return terms.put(_slice(first, axis, start, second.op.bounds(terms.types[source])[2]), source)

"""Import of operators with weights: convolutions, linear layers, norms and embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from archir.ops import conv as convolutions
from archir.ops import norm as norms
from archir.ops.constant import Constant as Numbers
from archir.ops.constant import Positions
from archir.ops.lookup import Embedding
from archir_torch.importing.builder import Builder
from archir_torch.importing.constants import Constant
from archir_torch.importing.layout import Atom, Unsupported, Value, base_without_batch, new_axes
from archir_torch.importing.operators.elementwise import add, single_sample
from archir_torch.importing.operators.windows import pad
from archir_torch.importing.rules import torch_operator

Sizes = int | tuple[int, ...]
"""Attribute of spatial axes: one number for all axes, or one per axis."""


def collapse_sizes(numbers: Sequence[int], count: int) -> Sizes:
    """Return one number if the sizes of all axes are equal, otherwise one number per axis."""
    per_axis = tuple(numbers) * (count // len(numbers))
    return per_axis[0] if len(set(per_axis)) == 1 else per_axis


def _padding(pads: Sequence[int], kernel: Sequence[int], dilation: Sequence[int]) -> Any:
    """Return padding in the form of archir's attributes: "same", "valid" or numbers."""
    spans = [d * (k - 1) for k, d in zip(kernel, dilation, strict=True)]
    if all(2 * p == span for p, span in zip(pads, spans, strict=True)):
        return "same"
    return "valid" if not any(pads) else collapse_sizes(pads, len(pads))


def _require_constant(x: Any, what: str) -> Constant:
    """Return an operand if it is a constant. Raises Unsupported if it depends on inputs; `what` describes it."""
    if not isinstance(x, Constant):
        raise Unsupported(f"{what} that depends on inputs")
    return x


def _given_weights(**weights: Constant | None) -> dict[str, Constant]:
    """Return the weights by role, without those that are None."""
    return {name: weight for name, weight in weights.items() if weight is not None}


def _convolve(
    b: Builder, x: Value, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int
) -> Value:
    """Import a convolution along one, two or three axes."""
    weight = _require_constant(weight, "a kernel")
    rank = weight.tensor.dim() - 2
    if len(x.axes) == rank + 2 and len(x.axes[0]) > 1 and x.axes[0][0] is b.batch:
        return _convolve_folded(b, x, weight, bias, stride, padding, dilation, groups)
    kernel = tuple(weight.tensor.shape[2:])
    strides, dilations = (_per_axis(v, rank) for v in (stride, dilation))
    spans = [d * (k - 1) for k, d in zip(kernel, dilations, strict=True)]
    if padding == "same" and any(span % 2 for span in spans):  # one more zero after than before
        x, padding = pad(b, x, [n for span in reversed(spans) for n in (span // 2, span - span // 2)]), "valid"
    if padding == "same":
        op_padding: Any = "same"
    elif padding == "valid":
        op_padding = "valid"
    else:
        op_padding = _padding(_per_axis(padding, rank), kernel, dilations)
    if (
        op_padding == "same"
        and any(d * (k - 1) % 2 for k, d in zip(kernel, dilations, strict=True))
        and padding != "same"
    ):
        op_padding = collapse_sizes(_per_axis(padding, rank), rank)
    if rank == 1:
        x = _conv1d_base(b, x)
        if isinstance(op_padding, tuple):
            op_padding = op_padding[0]
        op: Any = convolutions.Conv1d(
            weight.tensor.shape[0], kernel[0], op_padding, groups, bias is not None, strides[0], dilations[0]
        )
    else:
        x = b.as_map(x, rank)
        op_class = convolutions.Conv if rank == 2 else convolutions.Conv3d
        op = op_class(
            weight.tensor.shape[0], collapse_sizes(kernel, rank), collapse_sizes(strides, rank), op_padding,
            collapse_sizes(dilations, rank), groups, bias is not None,
        )  # fmt: skip
    node = b.add_layer(op, _given_weights(weight=weight, bias=bias), b.node(x))
    node_axes = new_axes(b.types[node].shape)
    axes = (node_axes[1], node_axes[0]) if rank == 1 else node_axes
    return Value(node, node_axes, ((b.batch,), *axes))


def _convolve_folded(
    b: Builder, x: Value, weight: Constant, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int
) -> Value:
    """Import a convolution of maps with further axes, such as video frames, folded into the batch axis.

    The folded axes become an additional spatial axis, along which the kernel has size 1.
    """
    rank = weight.tensor.dim() - 2
    if rank > 2:
        raise Unsupported("a convolution of volumes that are folded into the batch axis")
    channels, per_group, *kernel = weight.tensor.shape
    batch_axis, folded = (b.batch,), x.axes[0][1:]
    unfolded = replace(x, axes=(batch_axis, x.axes[1], folded, *x.axes[2:]))
    pads = padding if isinstance(padding, str) else (0, *_per_axis(padding, rank))
    result = _convolve(
        b, unfolded, weight.reshaped((channels, per_group, 1, *kernel)), bias, (1, *_per_axis(stride, rank)), pads,
        (1, *_per_axis(dilation, rank)), groups,
    )  # fmt: skip
    return replace(result, axes=(batch_axis + result.axes[2], result.axes[1], *result.axes[3:]))


def _per_axis(value: Any, rank: int) -> tuple[int, ...]:
    """Return a number, or a sequence of numbers, with one number per axis."""
    return (value,) * rank if isinstance(value, int) else tuple(value) * (rank // len(value))


def _conv1d_base(b: Builder, x: Value) -> Value:
    """Return the value of a torch tensor [B, D, N] with the base [N, D]."""
    if len(x.axes) != 3 or x.axes[0] != (b.batch,):
        raise Unsupported(f"a one-dimensional convolution or norm of the shape {list(x.shape)}")
    return b.with_base(x, (x.axes[2], x.axes[1]))


@torch_operator("conv1d", "conv2d", "conv3d")
def conv(
    b: Builder, x: Value, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int = 1,
) -> Value:  # fmt: skip
    return _convolve(b, x, weight, bias, stride, padding, dilation, groups)


@torch_operator("conv_transpose2d")
def conv_transpose2d(
    b: Builder, x: Value, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0,
    groups: int = 1, dilation: Any = 1,
) -> Value:  # fmt: skip
    weight = _require_constant(weight, "a kernel")
    x = b.as_map(x)
    kernel = tuple(weight.tensor.shape[2:])
    numbers = [collapse_sizes(_per_axis(v, 2), 2) for v in (kernel, stride, padding, output_padding, dilation)]
    op = convolutions.ConvTranspose(
        weight.tensor.shape[1] * groups, numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], groups,
        bias is not None,
    )  # fmt: skip
    node = b.add_layer(op, _given_weights(weight=weight, bias=bias), b.node(x))
    result_axes = new_axes(b.types[node].shape)
    return Value(node, result_axes, ((b.batch,), *result_axes))


@torch_operator("linear")
def linear(b: Builder, x: Value, weight: Any, bias: Any = None) -> Value:
    """Import a linear layer along the last axis."""
    weight = _require_constant(weight, "a matrix")
    if weight.tensor.dim() != 2:
        raise Unsupported("a product with a vector")
    x = b.as_tokens(x)
    weight_only = {"weight": weight}
    if bias is not None and b.has_layer(weight_only):  # a shared table, whose scope has no bias
        return add(b, linear(b, x, weight), bias)
    node = b.add_layer(
        convolutions.Linear(weight.tensor.shape[0], bias is not None),
        _given_weights(weight=weight, bias=bias),
        b.node(x),
    )
    features = (Atom(weight.tensor.shape[0]),) if weight.tensor.shape[0] > 1 else ()
    return Value(node, (*x.base[:-1], features), (*x.axes[:-1], features))


@torch_operator("addmm")
def addmm(b: Builder, bias: Any, x: Value, weight: Any, beta: float = 1, alpha: float = 1) -> Value:
    """Import bias + x weight, where x weight is a matrix product."""
    if (beta, alpha) != (1, 1):
        raise Unsupported("a product with other factors than 1")
    weight = _require_constant(weight, "a matrix")
    return linear(b, x, weight.permuted((1, 0)), bias)


@torch_operator("embedding")
def embedding(
    b: Builder, weight: Any, x: Value | Constant, padding_idx: int = -1, *_: Any, like: Value | None = None
) -> Value:
    """Import the lookup of a table's rows at integer indices.

    Constant indices become a node of their own, which is attached to the node of the value `like`.
    """
    table = _require_constant(weight, "a table")
    rows, channels = table.tensor.shape
    if isinstance(x, Constant):
        assert like is not None
        x = _integer_node(b, single_sample(b, x), like)
    if len(x.base) > 1:
        x = b.with_base(x, (tuple(atom for axis in x.base for atom in axis),))
    node = b.add_layer(Embedding(rows, channels), {"weight": table}, b.node(x))
    features = (Atom(channels),)
    return Value(node, (*x.base, features), (*x.axes, features))


MAX_LITERAL_POSITIONS = 1024
"""Maximum number of indices of a lookup that are emitted as literal numbers in the graph."""


def is_plain_lookup(x: Any) -> bool:
    """Return whether a lookup at these indices is imported as an embedding.

    A lookup is an embedding if its indices are computed, few, or the positions 0, 1, ... for every sample; otherwise,
    it is folded to a constant.
    """
    if not isinstance(x, Constant) or x.tensor.numel() <= MAX_LITERAL_POSITIONS:
        return True
    row = x.tensor.reshape(-1, x.tensor.shape[-1])[0]
    return torch.equal(row, torch.arange(row.numel())) and bool((x.tensor == row).all())


def _integer_node(b: Builder, numbers: Constant, like: Value) -> Value:
    """Emit compile-time integers as a constant node; `like` is the value from which it gets its place in the graph."""
    flat = numbers.tensor.reshape(-1)
    reference = b.node(like)
    type_ = b.types[reference]
    if type_.rank in (1, 2) and torch.equal(flat, torch.arange(flat.numel())) and flat.numel() == type_.shape[0]:
        node = b.add(Positions(), reference)
    else:
        node = b.add(Numbers(tuple(flat.tolist())), reference)
    axes = new_axes(numbers.tensor.shape)
    base = (tuple(atom for axis in axes for atom in axis),)
    return Value(node, base, axes, "i64")


@torch_operator("padded")
def padded(b: Builder, x: Value, padding: int) -> Value:
    """Import the position indices of tokens that are not padding."""
    (tokens,) = base_without_batch(x.axes, b.batch)
    x = b.with_base(x, (tokens,))
    return replace(x, node=b.add(Positions(padding), b.node(x)), dtype="i64")


# norms


@torch_operator("batch_norm", "_native_batch_norm_legit_no_training")
def batch_norm(
    b: Builder, x: Value, weight: Any, bias: Any, mean: Any, variance: Any, *numbers: Any,
) -> Value:  # fmt: skip
    """Import a batch norm by stored statistics; `numbers` contains momentum and epsilon, among boolean flags."""
    momentum, eps = [number for number in numbers if not isinstance(number, bool)][:2]
    if mean is None:
        raise Unsupported("a batch norm without statistics")
    x = _conv1d_base(b, x) if len(x.axes) == 3 else b.as_tokens(x) if len(x.axes) == 2 else b.as_map(x, len(x.axes) - 2)
    if (weight is None) != (bias is None):
        raise Unsupported("a batch norm with only one of scale and shift")
    weights = _given_weights(weight=weight, bias=bias, running_mean=mean, running_var=variance)
    op = norms.BatchNorm(weight is not None, float(eps), float(momentum))
    return replace(x, node=b.add_layer(op, weights, b.node(x)))


@torch_operator("layer_norm")
def layer_norm(
    b: Builder, x: Value, shape: Sequence[int], weight: Any = None, bias: Any = None, eps: float = 1e-5, *_: Any
) -> Value:
    """Import a layer norm over the last axes.

    If only one of scale and shift is present, the other one is added as ones or zeros.
    """
    axes = x.axes
    if len(shape) > 1:
        merged = tuple(atom for axis in axes[-len(shape) :] for atom in axis)
        x = replace(x, axes=(*axes[: -len(shape)], merged))
        weight, bias = (
            parameter if parameter is None else parameter.reshaped((parameter.tensor.numel(),))
            for parameter in (weight, bias)
        )
    x = b.as_tokens(x)
    if (weight is None) != (bias is None):
        existing = weight if weight is not None else bias
        fill = torch.zeros_like(existing.tensor) if bias is None else torch.ones_like(existing.tensor)
        added = Constant(fill, computed="what the norm has none of", trained=True)
        weight, bias = (parameter if parameter is not None else added for parameter in (weight, bias))
    node = b.add_layer(norms.LayerNorm(weight is not None, eps), _given_weights(weight=weight, bias=bias), b.node(x))
    return replace(x, node=node, axes=axes)


@torch_operator("rms_norm")
def rms_norm(b: Builder, x: Value, shape: Sequence[int], weight: Any = None, eps: float | None = None) -> Value:
    """Import an RMS norm over the last axis."""
    if len(shape) != 1:
        raise Unsupported("a norm over several axes")
    x = b.as_tokens(x)
    op = norms.RmsNorm(weight is not None, float(torch.finfo(torch.float32).eps) if eps is None else eps)
    return replace(x, node=b.add_layer(op, _given_weights(weight=weight), b.node(x)))


@torch_operator("group_norm")
def group_norm(
    b: Builder, x: Value, groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5, *_: Any
) -> Value:
    """Import a group norm; tokens [B, C, N] are treated as a map with one column."""
    axes = x.axes
    if len(axes) == 3:  # tokens [B, C, N] become a map of one column
        x = replace(x, axes=(*axes, ()))
    x = b.as_map(x, len(x.axes) - 2)
    op = norms.GroupNorm(groups, weight is not None, eps)
    return replace(x, node=b.add_layer(op, _given_weights(weight=weight, bias=bias), b.node(x)), axes=axes)


@torch_operator("instance_norm")
def instance_norm(
    b: Builder, x: Value, weight: Any, bias: Any, mean: Any, variance: Any, use_input_stats: bool, momentum: float,
    eps: float, *_: Any,
) -> Value:  # fmt: skip
    """Import an instance norm, or a batch norm if stored statistics are used."""
    if not use_input_stats:
        return batch_norm(b, x, weight, bias, mean, variance, momentum, eps)
    x = _conv1d_base(b, x) if len(x.axes) == 3 else b.as_map(x, len(x.axes) - 2)
    op = norms.InstanceNorm(weight is not None, eps)
    return replace(x, node=b.add_layer(op, _given_weights(weight=weight, bias=bias), b.node(x)))

"""Operators with weights: convolutions, linear maps, norms, tables."""

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
from archir_torch.importing.layout import Atom, Unsupported, Value, fresh, plain
from archir_torch.importing.operators.elementwise import add, for_one
from archir_torch.importing.operators.windows import pad
from archir_torch.importing.rules import understands

Sizes = int | tuple[int, ...]


def one_or_each(numbers: Sequence[int], count: int) -> Sizes:
    """One number for all axes where they are equal."""
    each = tuple(numbers) * (count // len(numbers))
    return each[0] if len(set(each)) == 1 else each


def _zeros(pads: Sequence[int], kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]) -> Any:
    """Padding as archir has it: "same" where that is what it is."""
    spans = [d * (k - 1) for k, d in zip(kernel, dilation, strict=True)]
    if all(2 * p == span for p, span in zip(pads, spans, strict=True)):
        return "same"
    return "valid" if not any(pads) else one_or_each(pads, len(pads))


def _constant(x: Any, what: str) -> Constant:
    if not isinstance(x, Constant):
        raise Unsupported(f"{what} that depends on inputs")
    return x


def _held(**weights: Constant | None) -> dict[str, Constant]:
    return {name: weight for name, weight in weights.items() if weight is not None}


def _convolved(
    b: Builder, x: Value, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int
) -> Value:
    weight = _constant(weight, "a kernel")
    rank = weight.tensor.dim() - 2
    if len(x.axes) == rank + 2 and len(x.axes[0]) > 1 and x.axes[0][0] is b.batch:
        return _beside(b, x, weight, bias, stride, padding, dilation, groups)
    kernel = tuple(weight.tensor.shape[2:])
    strides, dilations = (_all(v, rank) for v in (stride, dilation))
    spans = [d * (k - 1) for k, d in zip(kernel, dilations, strict=True)]
    if padding == "same" and any(span % 2 for span in spans):  # one more behind
        x, padding = pad(b, x, [n for span in reversed(spans) for n in (span // 2, span - span // 2)]), "valid"
    if padding == "same":
        zeros: Any = "same"
    elif padding == "valid":
        zeros = "valid"
    else:
        zeros = _zeros(_all(padding, rank), kernel, strides, dilations)
    if zeros == "same" and any(d * (k - 1) % 2 for k, d in zip(kernel, dilations, strict=True)) and padding != "same":
        zeros = one_or_each(_all(padding, rank), rank)
    if rank == 1:
        x = _conv1d_base(b, x)
        if isinstance(zeros, tuple):
            zeros = zeros[0]
        op: Any = convolutions.Conv1d(
            weight.tensor.shape[0], kernel[0], zeros, groups, bias is not None, strides[0], dilations[0]
        )
    else:
        x = b.map(x, rank)
        kind = convolutions.Conv if rank == 2 else convolutions.Conv3d
        op = kind(
            weight.tensor.shape[0], one_or_each(kernel, rank), one_or_each(strides, rank), zeros,
            one_or_each(dilations, rank), groups, bias is not None,
        )  # fmt: skip
    node = b.layer(op, _held(weight=weight, bias=bias), b.node(x))
    made = fresh(b.types[node].shape)
    axes = (made[1], made[0]) if rank == 1 else made
    return Value(node, made, ((b.batch,), *axes))


def _beside(
    b: Builder, x: Value, weight: Constant, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int
) -> Value:
    """A convolution of tensors that are folded into the samples, such as frames of a film: they are a further axis,
    along which the kernel has one position."""
    rank = weight.tensor.dim() - 2
    if rank > 2:
        raise Unsupported("a convolution of volumes beside each other in the samples")
    channels, each, *kernel = weight.tensor.shape
    first, rest = (b.batch,), x.axes[0][1:]
    apart = replace(x, axes=(first, x.axes[1], rest, *x.axes[2:]))
    zeros = padding if isinstance(padding, str) else (0, *_all(padding, rank))
    made = _convolved(
        b, apart, weight.reshaped((channels, each, 1, *kernel)), bias, (1, *_all(stride, rank)), zeros,
        (1, *_all(dilation, rank)), groups,
    )  # fmt: skip
    return replace(made, axes=(first + made.axes[2], made.axes[1], *made.axes[3:]))


def _all(value: Any, rank: int) -> tuple[int, ...]:
    return (value,) * rank if isinstance(value, int) else tuple(value) * (rank // len(value))


def _conv1d_base(b: Builder, x: Value) -> Value:
    """On a base [N, D] of a torch tensor [B, D, N]."""
    if len(x.axes) != 3 or x.axes[0] != (b.batch,):
        raise Unsupported(f"a convolution along the tokens of {list(x.shape)}")
    return b.laid(x, (x.axes[2], x.axes[1]))


@understands("conv1d", "conv2d", "conv3d")
def conv(
    b: Builder, x: Value, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: int = 1,
) -> Value:  # fmt: skip
    return _convolved(b, x, weight, bias, stride, padding, dilation, groups)


@understands("conv_transpose2d")
def conv_transpose2d(
    b: Builder, x: Value, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0,
    groups: int = 1, dilation: Any = 1,
) -> Value:  # fmt: skip
    weight = _constant(weight, "a kernel")
    x = b.map(x)
    kernel = tuple(weight.tensor.shape[2:])
    numbers = [one_or_each(_all(v, 2), 2) for v in (kernel, stride, padding, output_padding, dilation)]
    op = convolutions.ConvTranspose(
        weight.tensor.shape[1] * groups, numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], groups,
        bias is not None,
    )  # fmt: skip
    node = b.layer(op, _held(weight=weight, bias=bias), b.node(x))
    made = fresh(b.types[node].shape)
    return Value(node, made, ((b.batch,), *made))


@understands("linear")
def linear(b: Builder, x: Value, weight: Any, bias: Any = None) -> Value:
    weight = _constant(weight, "a matrix")
    if weight.tensor.dim() != 2:
        raise Unsupported("a product with a vector")
    x = b.tokens(x)
    alone = {"weight": weight}
    if bias is not None and b.shared(alone):  # a table that others read: its scope holds nothing else
        return add(b, linear(b, x, weight), bias)
    node = b.layer(
        convolutions.Linear(weight.tensor.shape[0], bias is not None), _held(weight=weight, bias=bias), b.node(x)
    )
    made = (Atom(weight.tensor.shape[0]),) if weight.tensor.shape[0] > 1 else ()
    return Value(node, (*x.base[:-1], made), (*x.axes[:-1], made))


@understands("addmm")
def addmm(b: Builder, bias: Any, x: Value, weight: Any, beta: float = 1, alpha: float = 1) -> Value:
    if (beta, alpha) != (1, 1):
        raise Unsupported("a product with factors")
    weight = _constant(weight, "a matrix")
    return linear(b, x, weight.permuted((1, 0)), bias)


@understands("embedding")
def embedding(
    b: Builder, weight: Any, x: Value | Constant, padding_idx: int = -1, *_: Any, like: Value | None = None
) -> Value:
    table = _constant(weight, "a table")
    rows, channels = table.tensor.shape
    if isinstance(x, Constant):
        assert like is not None
        x = _numbers(b, for_one(b, x), like)
    if len(x.base) > 1:
        x = b.laid(x, (tuple(atom for axis in x.base for atom in axis),))
    node = b.layer(Embedding(rows, channels), {"weight": table}, b.node(x))
    made = (Atom(channels),)
    return Value(node, (*x.base, made), (*x.axes, made))


MOST_WRITTEN = 1024
"""Positions that a program says one by one."""


def written(x: Any) -> bool:
    """Whether a table that is looked up at these positions stays one: few are said, those of all tokens need not be."""
    if not isinstance(x, Constant) or x.tensor.numel() <= MOST_WRITTEN:
        return True
    row = x.tensor.reshape(-1, x.tensor.shape[-1])[0]
    return torch.equal(row, torch.arange(row.numel())) and bool((x.tensor == row).all())


def _numbers(b: Builder, numbers: Constant, like: Value) -> Value:
    """Integers that are known, as a node beside a value that is not."""
    flat = numbers.tensor.reshape(-1)
    beside = b.node(like)
    type_ = b.types[beside]
    if type_.rank in (1, 2) and torch.equal(flat, torch.arange(flat.numel())) and flat.numel() == type_.shape[0]:
        node = b.add(Positions(), beside)
    else:
        node = b.add(Numbers(tuple(flat.tolist())), beside)
    axes = fresh(numbers.tensor.shape)
    base = (tuple(atom for axis in axes for atom in axis),)
    return Value(node, base, axes, "i64")


@understands("padded")
def padded(b: Builder, x: Value, padding: int) -> Value:
    (tokens,) = plain(x.axes, b.batch)
    x = b.laid(x, (tokens,))
    return replace(x, node=b.add(Positions(padding), b.node(x)), dtype="i64")


# norms


@understands("batch_norm", "_native_batch_norm_legit_no_training")
def batch_norm(
    b: Builder, x: Value, weight: Any, bias: Any, mean: Any, variance: Any, *numbers: Any,
) -> Value:  # fmt: skip
    momentum, eps = [one for one in numbers if not isinstance(one, bool)][:2]
    if mean is None:
        raise Unsupported("a batch norm without statistics")
    x = _conv1d_base(b, x) if len(x.axes) == 3 else b.tokens(x) if len(x.axes) == 2 else b.map(x, len(x.axes) - 2)
    if (weight is None) != (bias is None):
        raise Unsupported("a norm with a scale and no shift")
    held = _held(weight=weight, bias=bias, running_mean=mean, running_var=variance)
    op = norms.BatchNorm(weight is not None, float(eps), float(momentum))
    return replace(x, node=b.layer(op, held, b.node(x)))


@understands("layer_norm")
def layer_norm(
    b: Builder, x: Value, shape: Sequence[int], weight: Any = None, bias: Any = None, eps: float = 1e-5, *_: Any
) -> Value:
    axes = x.axes
    if len(shape) > 1:
        merged = tuple(atom for axis in axes[-len(shape) :] for atom in axis)
        x = replace(x, axes=(*axes[: -len(shape)], merged))
        weight, bias = (one if one is None else one.reshaped((one.tensor.numel(),)) for one in (weight, bias))
    x = b.tokens(x)
    if (weight is None) != (bias is None):
        given = weight if weight is not None else bias
        fill = torch.zeros_like(given.tensor) if bias is None else torch.ones_like(given.tensor)
        made = Constant(fill, computed="what the norm has none of", trained=True)
        weight, bias = (one if one is not None else made for one in (weight, bias))
    node = b.layer(norms.LayerNorm(weight is not None, eps), _held(weight=weight, bias=bias), b.node(x))
    return replace(x, node=node, axes=axes)


@understands("rms_norm")
def rms_norm(b: Builder, x: Value, shape: Sequence[int], weight: Any = None, eps: float | None = None) -> Value:
    if len(shape) != 1:
        raise Unsupported("a norm over several axes")
    x = b.tokens(x)
    op = norms.RmsNorm(weight is not None, float(torch.finfo(torch.float32).eps) if eps is None else eps)
    return replace(x, node=b.layer(op, _held(weight=weight), b.node(x)))


@understands("group_norm")
def group_norm(
    b: Builder, x: Value, groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5, *_: Any
) -> Value:
    axes = x.axes
    if len(axes) == 3:  # channels and tokens, as a map of one column
        x = replace(x, axes=(*axes, ()))
    x = b.map(x, len(x.axes) - 2)
    op = norms.GroupNorm(groups, weight is not None, eps)
    return replace(x, node=b.layer(op, _held(weight=weight, bias=bias), b.node(x)), axes=axes)


@understands("instance_norm")
def instance_norm(
    b: Builder, x: Value, weight: Any, bias: Any, mean: Any, variance: Any, use_input_stats: bool, momentum: float,
    eps: float, *_: Any,
) -> Value:  # fmt: skip
    if not use_input_stats:
        return batch_norm(b, x, weight, bias, mean, variance, momentum, eps)
    x = _conv1d_base(b, x) if len(x.axes) == 3 else b.map(x, len(x.axes) - 2)
    op = norms.InstanceNorm(weight is not None, eps)
    return replace(x, node=b.layer(op, _held(weight=weight, bias=bias), b.node(x)))

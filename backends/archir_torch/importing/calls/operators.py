"""ONNX's operators as torch's functions: what they compute in evaluation. Shapes and axes are arrays, known before."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from archir.base.errors import RuleError

Array = NDArray[Any]
Operator = Callable[..., Any]
OPERATORS: dict[str, Operator] = {}
"""Functions of tensors, then of attributes by name; `version` is that of the operators."""


def operator(*names: str) -> Callable[[Operator], Operator]:
    """Register a function for operators of ONNX."""

    def register(function: Operator) -> Operator:
        for name in names:
            OPERATORS[name] = function
        return function

    return register


def ints(value: Any) -> list[int]:
    """Whole numbers that are known while a network is read."""
    if isinstance(value, Tensor):
        raise RuleError("sizes or places that depend on numbers of the input")
    return [int(one) for one in np.asarray(value).reshape(-1)]


# one number for one


def _simple(name: str, function: Operator) -> None:
    OPERATORS[name] = lambda x, **_: function(x)


for _name, _function in dict[str, Operator]({
    "Relu": F.relu, "Sigmoid": torch.sigmoid, "Tanh": torch.tanh, "Exp": torch.exp, "Log": torch.log,
    "Sqrt": torch.sqrt, "Abs": torch.abs, "Neg": torch.neg, "Reciprocal": torch.reciprocal, "Erf": torch.erf,
    "Softplus": F.softplus, "Sin": torch.sin, "Cos": torch.cos, "HardSwish": F.hardswish, "Mish": F.mish,
    "Silu": F.silu, "Identity": lambda x: x,
    "Softsign": F.softsign, "Square": torch.square, "Floor": torch.floor, "Not": torch.logical_not,
}).items():  # fmt: skip
    _simple(_name, _function)


@operator("Dropout")
def dropout(x: Tensor, *_: Any, **given: Any) -> Tensor:
    """Nothing, in evaluation."""
    return x


@operator("Elu")
def elu(x: Tensor, alpha: float = 1.0, **_: Any) -> Tensor:
    """x where positive, alpha (exp(x) - 1) elsewhere."""
    return F.elu(x, alpha)


@operator("LeakyRelu")
def leaky_relu(x: Tensor, alpha: float = 0.01, **_: Any) -> Tensor:
    """x where positive, alpha x elsewhere."""
    return F.leaky_relu(x, alpha)


@operator("Gelu")
def gelu(x: Tensor, approximate: str = "none", **_: Any) -> Tensor:
    """x times the normal distribution function."""
    return F.gelu(x, approximate=approximate)


@operator("HardSigmoid")
def hard_sigmoid(x: Tensor, alpha: float = 0.2, beta: float = 0.5, **_: Any) -> Tensor:
    """A line cut at 0 and at 1."""
    if abs(alpha - 1 / 6) < 1e-6 and abs(beta - 0.5) < 1e-6:
        return F.hardsigmoid(x)
    return torch.clamp(x * alpha + beta, 0.0, 1.0)


@operator("PRelu")
def prelu(x: Tensor, slope: Tensor, **_: Any) -> Tensor:
    """A slope, learned, where x is negative."""
    return F.prelu(x, slope.reshape(-1))


@operator("Clip")
def clip(x: Tensor, low: Any = None, high: Any = None, **given: Any) -> Tensor:
    """Between two numbers."""
    bounds = [given.get(name) if one is None else float(np.asarray(one)) for name, one in (("min", low), ("max", high))]
    if bounds == [0.0, 6.0]:
        return F.relu6(x)
    return torch.clamp(x, *bounds)


@operator("Cast")
def cast(x: Tensor, to: int = 1, **_: Any) -> Tensor:
    """Numbers of another type."""
    types = {1: torch.float32, 10: torch.float32, 11: torch.float32, 6: torch.int32, 7: torch.int64, 9: torch.bool}
    return x if types[to] == x.dtype else x.to(types[to])


@operator("Softmax")
def softmax(x: Tensor, axis: int | None = None, version: int = 13, **_: Any) -> Tensor:
    """Of all axes from one on before version 13, of one axis since."""
    if version >= 13:
        return F.softmax(x, -1 if axis is None else axis)
    first = (1 if axis is None else axis) % x.dim()
    if all(size == 1 for size in x.shape[first + 1 :]):
        return F.softmax(x, first)
    if first == x.dim() - 1:
        return F.softmax(x, -1)
    return F.softmax(x.flatten(first), -1).reshape(x.shape)


# two tensors


def _both(function: Operator) -> Operator:
    return lambda a, b, **_: function(a, b)


for _name, _both_of in dict[str, Operator]({
    "Add": torch.add, "Sub": torch.sub, "Mul": torch.mul, "Div": torch.div, "Equal": torch.eq, "Greater": torch.gt,
    "Less": torch.lt, "And": torch.logical_and, "Or": torch.logical_or,
}).items():  # fmt: skip
    OPERATORS[_name] = _both(_both_of)


@operator("Pow")
def power(x: Tensor, exponent: Any, **_: Any) -> Tensor:
    """To a number that is known."""
    if isinstance(exponent, Tensor):
        raise RuleError("a power that is computed")
    number = float(np.asarray(exponent).reshape(-1)[0])
    return torch.square(x) if number == 2 else torch.pow(x, number)


@operator("Sum")
def summed(first: Tensor, *others: Tensor, **_: Any) -> Tensor:
    """One after the other."""
    for other in others:
        first = first + other
    return first


@operator("Max", "Min")
def extremes(*xs: Any, named: str = "Max", **_: Any) -> Tensor:
    """The largest or the smallest of each."""
    found: Tensor = xs[0]
    for other in xs[1:]:
        found = (torch.maximum if named == "Max" else torch.minimum)(found, other)
    return found


@operator("Where")
def where(mask: Tensor, a: Any, b: Any, **_: Any) -> Tensor:
    """One or the other."""
    return torch.where(mask, a, b)


@operator("MatMul")
def matmul(a: Tensor, b: Tensor, **_: Any) -> Tensor:
    """Products of matrices."""
    return F.linear(a, b.t()) if isinstance(b, torch.nn.Parameter) and b.dim() == 2 else torch.matmul(a, b)


@operator("Linear")
def linear(x: Tensor, weight: Tensor, bias: Tensor, **_: Any) -> Tensor:
    """A product with a stored matrix, and a stored vector added: two operators of ONNX."""
    return F.linear(x, weight.t(), bias)


@operator("Gemm")
def gemm(a: Tensor, b: Tensor, c: Any = None, alpha: float = 1.0, beta: float = 1.0, **given: Any) -> Tensor:
    """alpha a b + beta c."""
    if given.get("transA"):
        raise RuleError("a product over the samples")
    weight = b if given.get("transB") else b.t()
    if alpha == 1 and beta == 1 and (c is None or c.dim() <= 1):
        return F.linear(a, weight, c.reshape(-1) if c is not None and c.dim() else c)
    made: Tensor = alpha * F.linear(a, weight)
    return made if c is None else made + beta * c


@operator("Attention")
def attention(q: Tensor, k: Tensor, v: Tensor, mask: Any = None, *more: Any, **given: Any) -> Tensor:
    """Of tokens [samples, N, heads * d], or [samples, heads, N, d]."""
    if any(one is not None for one in more) or given.get("softcap"):
        raise RuleError("attention with a cache or a cap")
    packed = q.dim() == 3
    if packed:
        heads, others = given["q_num_heads"], given["kv_num_heads"]
        q, k, v = (x.unflatten(-1, (n, -1)).transpose(1, 2) for x, n in ((q, heads), (k, others), (v, others)))
    made = F.scaled_dot_product_attention(
        q,
        k,
        v,
        mask,
        0.0,
        bool(given.get("is_causal", 0)),
        scale=given.get("scale"),
        enable_gqa=q.shape[1] != k.shape[1],
    )
    return made.transpose(1, 2).flatten(-2) if packed else made


# layers


def _window(x: Tensor, given: dict[str, Any], kernel: list[int]) -> tuple[list[int], list[int], list[int], list[int]]:
    """Strides, dilations, and zeros before and after each axis."""
    axes = len(kernel)
    strides = given.get("strides") or [1] * axes
    dilations = given.get("dilations") or [1] * axes
    pads = given.get("pads") or [0] * 2 * axes
    before, after = pads[:axes], pads[axes:]
    auto = given.get("auto_pad", "NOTSET")
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        before, after = [], []
        for size, k, s, d in zip(x.shape[2:], kernel, strides, dilations, strict=True):
            zeros = max(0, (-(-size // s) - 1) * s + (k - 1) * d + 1 - size)
            less, more = zeros // 2, zeros - zeros // 2
            before.append(less if auto == "SAME_UPPER" else more)
            after.append(more if auto == "SAME_UPPER" else less)
    elif auto == "VALID":
        before = after = [0] * axes
    return strides, dilations, before, after


def _padded(x: Tensor, before: list[int], after: list[int], value: float = 0.0) -> Tensor:
    flat = [size for pair in zip(before[::-1], after[::-1], strict=True) for size in pair]
    return F.pad(x, flat, value=value) if any(flat) else x


@operator("Conv")
def conv(x: Tensor, weight: Tensor, bias: Tensor | None = None, **given: Any) -> Tensor:
    """Of one, two or three axes."""
    axes = weight.dim() - 2
    strides, dilations, before, after = _window(x, given, list(weight.shape[2:]))
    if before != after:
        x, before = _padded(x, before, after), [0] * axes
    function: Any = (F.conv1d, F.conv2d, F.conv3d)[axes - 1]
    made: Tensor = function(x, weight, bias, strides, before, dilations, given.get("group", 1))
    return made


@operator("ConvTranspose")
def conv_transpose(x: Tensor, weight: Tensor, bias: Tensor | None = None, **given: Any) -> Tensor:
    """Of two axes."""
    strides, dilations, before, after = _window(x, {**given, "auto_pad": "NOTSET"}, list(weight.shape[2:]))
    if before != after or given.get("auto_pad", "NOTSET") != "NOTSET" or given.get("output_shape") or weight.dim() != 4:
        raise RuleError("a transposed convolution that is cut off unevenly, or not of two axes")
    more = given.get("output_padding") or [0, 0]
    return F.conv_transpose2d(x, weight, bias, strides, before, more, given.get("group", 1), dilations)


@operator("BatchNormalization")
def batch_norm(
    x: Tensor, scale: Tensor, shift: Tensor, mean: Tensor, var: Tensor, epsilon: float = 1e-5, momentum: float = 0.9,
    **_: Any,
) -> Tensor:  # fmt: skip
    """By the statistics that are stored, of which training keeps a share of `momentum` in each step."""
    return F.batch_norm(x, mean, var, scale, shift, False, 1 - momentum, epsilon)


@operator("InstanceNormalization")
def instance_norm(x: Tensor, scale: Tensor, shift: Tensor, epsilon: float = 1e-5, **_: Any) -> Tensor:
    """Each channel by itself."""
    return F.instance_norm(x, weight=scale, bias=shift, eps=epsilon)


@operator("LayerNormalization")
def layer_norm(
    x: Tensor, scale: Any = None, shift: Any = None, axis: int = -1, epsilon: float = 1e-5, **_: Any
) -> Tensor:
    """Over the last axis."""
    if axis % x.dim() != x.dim() - 1:
        raise RuleError("a norm over more than the last axis")
    return F.layer_norm(x, x.shape[-1:], scale, shift, epsilon)


@operator("GroupNormalization")
def group_norm(
    x: Tensor, scale: Tensor, shift: Tensor, num_groups: int = 1, epsilon: float = 1e-5, version: int = 21, **_: Any
) -> Tensor:
    """Over groups of channels."""
    if scale.shape[0] != x.shape[1]:  # one for each group, before version 21
        scale, shift = (one.repeat_interleave(x.shape[1] // num_groups) for one in (scale, shift))
    return F.group_norm(x, num_groups, scale, shift, epsilon)


@operator("RMSNormalization")
def rms_norm(x: Tensor, scale: Tensor, axis: int = -1, epsilon: float = 1e-5, **_: Any) -> Tensor:
    """Over the last axis."""
    return F.rms_norm(x, x.shape[-1:], scale, epsilon)


@operator("LRN")
def local_response_norm(
    x: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0, **_: Any
) -> Tensor:
    """Numbers over those of neighbouring channels (Krizhevsky et al. 2012, section 3.3)."""
    squares = torch.square(x).transpose(1, 2)  # rows as channels, so that windows slide along channels
    squares = F.pad(squares, (0, 0, (size - 1) // 2, size // 2)) if size % 2 == 0 else squares
    means = F.avg_pool2d(squares, (size, 1), 1, (size // 2 if size % 2 else 0, 0))
    return x / torch.pow(means.transpose(1, 2) * alpha + bias, beta)


# pools


@operator("MaxPool")
def max_pool(x: Tensor, kernel_shape: list[int] | None = None, ceil_mode: int = 0, **given: Any) -> Tensor:
    """The largest of each window."""
    kernel = kernel_shape or []
    strides, dilations, before, after = _window(x, given, kernel)
    if any(one != 1 for one in dilations):
        raise RuleError("a pool that is dilated")
    ceil = _rounds_up(x, kernel, strides, before, after, bool(ceil_mode))
    functions: dict[int, Any] = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
    made: Tensor = functions[len(kernel)](x, kernel, strides, before, ceil_mode=ceil)
    return made


@operator("AveragePool")
def avg_pool(
    x: Tensor, kernel_shape: list[int] | None = None, ceil_mode: int = 0, count_include_pad: int = 0, **given: Any
) -> Tensor:
    """The mean of each window."""
    kernel = kernel_shape or []
    strides, dilations, before, after = _window(x, given, kernel)
    if any(one != 1 for one in dilations):
        raise RuleError("a pool that is dilated")
    if count_include_pad and before != after:
        x, before, after = _padded(x, before, after), [0] * len(kernel), [0] * len(kernel)
    halves = kernel == strides == [*x.shape[2:]]  # a map of one window, and no pool of all there is
    if (
        not count_include_pad
        and not halves
        and all(
            k >= b + size and size + b + a - k < s
            for size, k, s, b, a in zip(x.shape[2:], kernel, strides, before, after, strict=True)
        )
    ):
        return x.mean(list(range(2, x.dim())), keepdim=True)
    ceil = _rounds_up(x, kernel, strides, before, after, bool(ceil_mode))
    functions: dict[int, Any] = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}
    made: Tensor = functions[len(kernel)](x, kernel, strides, before, ceil, bool(count_include_pad))
    return made


def _rounds_up(
    x: Tensor, kernel: list[int], strides: list[int], before: list[int], after: list[int], ceil: bool
) -> bool:
    """Whether more zeros after than before are what rounding up makes."""
    if before == after:
        return ceil
    rounded = []
    for size, k, s, b, a in zip(x.shape[2:], kernel, strides, before, after, strict=True):
        wanted = (size + b + a - k) // s + 1
        up, down = -(-(size + 2 * b - k) // s) + 1, (size + 2 * b - k) // s + 1
        if (up - 1) * s >= size + b:
            up -= 1
        rounded.append({flag for flag, count in ((True, up), (False, down)) if count == wanted})
    common = set.intersection(*rounded)
    if not common:
        raise RuleError("a pool that is padded unevenly")
    return True in common


@operator("GlobalAveragePool")
def global_avg_pool(x: Tensor, **_: Any) -> Tensor:
    """The mean of each channel."""
    return x.mean(list(range(2, x.dim())), keepdim=True)


@operator("GlobalMaxPool")
def global_max_pool(x: Tensor, **_: Any) -> Tensor:
    """The largest of each channel."""
    return x.amax(list(range(2, x.dim())), keepdim=True)


@operator("ReduceMean", "ReduceSum", "ReduceMax")
def reduced(x: Tensor, axes: Any = None, keepdims: int = 1, named: str = "ReduceMean", **given: Any) -> Tensor:
    """Along axes."""
    along = axes if axes is not None else given.get("given_axes")
    dims = ints(along) if along is not None else list(range(x.dim()))
    if not dims:
        return x
    function: Any = {"ReduceMean": torch.mean, "ReduceSum": torch.sum, "ReduceMax": torch.amax}[named]
    made: Tensor = function(x, dims, keepdim=bool(keepdims))
    return made


# movement


@operator("Reshape")
def reshape(
    x: Tensor, shape: Any = None, allowzero: int = 0, batch: int = 1, fixed: bool = False, **given: Any
) -> Tensor:
    """A 1 in front stands for the samples, in files that are made for one."""
    target = ints(given.get("given_shape") if shape is None else shape)
    target = [x.shape[i] if size == 0 and not allowzero else size for i, size in enumerate(target)]
    if fixed and x.shape[0] == batch and target and target[0] == 1:
        target[0] = batch
    return x.reshape(target)


@operator("Flatten")
def flatten(x: Tensor, axis: int = 1, **_: Any) -> Tensor:
    """The samples, and the rest."""
    if axis % x.dim() != 1:
        return x.reshape(int(np.prod(x.shape[:axis])), -1)
    return x.flatten(1)


@operator("Transpose")
def transpose(x: Tensor, perm: list[int] | None = None, **_: Any) -> Tensor:
    """Axes in another order."""
    return x.permute(perm or list(range(x.dim()))[::-1])


@operator("Squeeze")
def squeeze(x: Tensor, axes: Any = None, batch: int = 1, **given: Any) -> Tensor:
    """Without axes of size 1."""
    along = axes if axes is not None else given.get("given_axes")
    dims = ints(along) if along is not None else [i for i, size in enumerate(x.shape) if size == 1 and i]
    for dim in sorted((dim % x.dim() for dim in dims), reverse=True):
        if x.shape[dim] != 1:
            raise RuleError("the axis of samples is taken away" if dim == 0 else "an axis that is no 1 is taken away")
        x = x.squeeze(dim)
    return x


@operator("Unsqueeze")
def unsqueeze(x: Tensor, axes: Any = None, **given: Any) -> Tensor:
    """With axes of size 1."""
    dims = ints(axes if axes is not None else given.get("given_axes"))
    rank = x.dim() + len(dims)
    for dim in sorted(dim % rank for dim in dims):
        x = x.unsqueeze(dim)
    return x


@operator("Concat")
def concat(*xs: Tensor, axis: int = 1, **_: Any) -> Tensor:
    """Side by side."""
    return torch.cat(xs, axis)


@operator("Split")
def split(x: Tensor, sizes: Any = None, axis: int = 0, outputs: int = 1, **given: Any) -> Any:
    """Parts along an axis, equal ones if nothing is said."""
    along = sizes if sizes is not None else given.get("given_split")
    size = x.shape[axis]
    wanted = ints(along) if along is not None else [-(-size // outputs)] * (size // -(-size // outputs))
    wanted += [size - sum(wanted)] if sum(wanted) < size else []
    return torch.split(x, wanted, axis)


@operator("Slice")
def sliced(
    x: Tensor, starts: Any = None, ends: Any = None, axes: Any = None, steps: Any = None, **given: Any
) -> Tensor:
    """Positions of axes."""
    begin, end = (ints(given[f"given_{n}"] if one is None else one) for n, one in (("starts", starts), ("ends", ends)))
    along = axes if axes is not None else given.get("given_axes")
    dims = ints(along) if along is not None else list(range(len(begin)))
    by = ints(steps) if steps is not None else [1] * len(begin)
    for a, b, dim, step in zip(begin, end, dims, by, strict=True):
        if step < 1:
            raise RuleError("a slice that goes backwards")
        start, stop, _ = slice(a, b).indices(x.shape[dim])
        whole: list[Any] = [slice(None)] * x.dim()
        whole[dim] = slice(start, stop, step)
        x = x[tuple(whole)]
    return x


@operator("Gather")
def gather(x: Tensor, at: Any, axis: int = 0, batch: int = 1, **given: Any) -> Tensor:
    """A row of a table, or positions that are known."""
    if isinstance(at, Tensor):
        if isinstance(x, torch.nn.Parameter) and axis == 0 and x.dim() == 2:
            return F.embedding(at, x)
        raise RuleError("positions that depend on numbers of the input")
    if np.ndim(at) > 1:
        rows = np.asarray(at)
        if len(rows) == batch and bool((rows == rows[:1]).all()) and axis == 0:  # the same for all samples
            table = isinstance(x, torch.nn.Parameter) and x.dim() == 2 and rows.ndim == 2
            made = F.embedding(torch.from_numpy(rows[0].copy()), x) if table else gather(x, rows[0], 0, batch)
            return made.unsqueeze(0).expand(batch, *made.shape)
        flat: Tensor = gather(x, rows.reshape(-1), axis, batch)
        parted: Tensor = flat.unflatten(axis, rows.shape)
        return parted
    places = ints(at)
    if np.ndim(at) == 0:
        return x.select(axis, places[0])
    steps = [b - a for a, b in pairwise(places)]
    if all(step == 1 for step in steps):
        return x.narrow(axis, places[0] % x.shape[axis], len(places))
    return torch.cat([x.narrow(axis, place % x.shape[axis], 1) for place in places], axis)


@operator("Expand")
def expand(x: Tensor, shape: Any, batch: int = 1, fixed: bool = False, **_: Any) -> Tensor:
    """Stretched along axes of size 1."""
    target = ints(shape)
    if fixed and target and target[0] == 1 and x.shape[0] == batch and len(target) == x.dim():
        target[0] = batch
    return x.expand(list(np.broadcast_shapes(tuple(x.shape), tuple(target))))


@operator("Pad")
def pad(
    x: Tensor, pads: Any = None, value: Any = None, axes: Any = None, mode: str = "constant", **given: Any
) -> Tensor:
    """Numbers around."""
    amounts = ints(given.get("given_pads") if pads is None else pads)
    number = float(given.get("value", 0.0) if value is None else np.asarray(value).reshape(-1)[0])
    dims = ints(axes) if axes is not None else list(range(x.dim()))
    before, after = [0] * x.dim(), [0] * x.dim()
    for i, dim in enumerate(dims):
        before[dim], after[dim] = amounts[i], amounts[i + len(dims)]
    if mode != "constant":
        raise RuleError(f"padding by {mode}")
    return _padded(x, before[1:], after[1:], number) if not before[0] and not after[0] else F.pad(x, amounts)


@operator("DepthToSpace")
def depth_to_space(x: Tensor, blocksize: int, mode: str = "DCR", **_: Any) -> Tensor:
    """Channels as pixels."""
    if mode == "CRD":
        return F.pixel_shuffle(x, blocksize)
    b, c, h, w = x.shape
    x = x.reshape(b, blocksize, blocksize, c // blocksize**2, h, w).permute(0, 3, 4, 1, 5, 2)
    return x.reshape(b, c // blocksize**2, h * blocksize, w * blocksize)


@operator("Resize", "Upsample")
def resize(
    x: Tensor, *more: Any, named: str = "Resize", mode: str = "nearest", version: int = 13, **given: Any
) -> Tensor:
    """A map of another size."""
    scales: Any = given.get("scales")
    sizes: Any = None
    if named == "Upsample" or version < 11:
        scales = more[0] if more else scales
    else:
        scales, sizes = (more[1] if len(more) > 1 else None), (more[2] if len(more) > 2 else None)
    if sizes is not None and np.size(sizes):
        target = ints(sizes)[2:]
    else:
        target = [int(np.floor(size * float(s))) for size, s in zip(x.shape[2:], np.asarray(scales)[2:], strict=True)]
    way = given.get("coordinate_transformation_mode", "half_pixel" if version >= 11 else "asymmetric")
    if mode == "nearest":
        whole = all(wanted % size == 0 for wanted, size in zip(target, x.shape[2:], strict=True))
        floors = way == "asymmetric" and given.get("nearest_mode", "round_prefer_floor") == "floor"
        if not whole and not floors and version >= 11:
            raise RuleError("pixels that are repeated unevenly")
        return F.interpolate(x, target, mode="nearest")
    kinds = {"linear": "bilinear", "cubic": "bicubic"}
    if mode not in kinds or way not in ("half_pixel", "pytorch_half_pixel", "align_corners"):
        raise RuleError(f"interpolation: {mode}, {way}")
    return F.interpolate(x, target, mode=kinds[mode], align_corners=way == "align_corners")


@operator("Einsum")
def einsum(*xs: Tensor, equation: str = "", **_: Any) -> Tensor:
    """Products, summed over axes that are named."""
    return torch.einsum(equation, *xs)

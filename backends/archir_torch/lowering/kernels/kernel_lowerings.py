"""Variants of lowerings that call compiled CPU kernels, for training.

Norms and activations become lazy tensors (`LazyNormAct`), which the consuming kernel computes while it reads them;
additions collect their terms (`LazySum`). A lowering without a kernel variant gets materialized tensors. Kernels are
chosen by operation only, never by network.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial, wraps
from typing import Any

from torch import Tensor

from archir_torch.lowering.kernels.attention import window_attention
from archir_torch.lowering.kernels.depthwise import has_output, window_geometry
from archir_torch.lowering.kernels.lazy import (
    LAZY,
    LazyDepthwise,
    LazyNormAct,
    LazySum,
    MapWithStatistics,
    as_term,
    materialize,
)
from archir_torch.lowering.kernels.library import has_kernels, to_channels_last
from archir_torch.lowering.kernels.norm import HARD_SWISH, NONE, RELU, RELU6, norm_from_statistics, norm_of_batch
from archir_torch.lowering.kernels.pool import pool_windows
from archir_torch.lowering.kernels.separable import MAX_CHANNELS, separable
from archir_torch.lowering.kernels.sums import Term
from archir_torch.lowering.local_attention import local_attention, offset_tables
from archir_torch.lowering.operations import activation, arithmetic, conv, norm, pool

Function = Callable[..., Any]


def kernel_lowering(function: Function) -> Function:
    """Return the kernel variant of a lowering: it accepts lazy tensors, and its result may be lazy."""
    if isinstance(function, partial):  # a lazy consumer may still read the operand, so that it must not be overwritten
        keywords = {name: value for name, value in function.keywords.items() if name != "inplace"}
        return partial(kernel_lowering(function.func), *function.args, **keywords)
    return KERNELS.get(function) or _cached_materializing(function)


def materializing(function: Function) -> Function:
    """Wrap a function that does not accept lazy tensors, so that its operands are materialized first."""

    @wraps(function)
    def run(*operands: Any, **keywords: Any) -> Any:
        return function(*map(materialize, operands), **keywords)

    return run


_cached_materializing = cache(materializing)
"""The same for lowerings, which are few: always the same wrapper of a function."""


def _batch_norm(
    x: Any, running_mean: Tensor, running_var: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, *,
    eps: float, momentum: float, training: bool,
) -> Any:  # fmt: skip
    lazy, x = x, materialize(x)
    suitable = has_kernels(x, running_mean, running_var, weight, bias) and len(running_mean) == x.shape[1] < x.numel()
    if not training or not suitable:
        return norm.batch_norm(
            x, running_mean, running_var, weight, bias, eps=eps, momentum=momentum, training=training
        )
    if isinstance(lazy, MapWithStatistics):
        pixels = x.numel() // x.shape[1]
        running = running_mean, running_var
        new_norm = norm_from_statistics(lazy.mean, lazy.variance, pixels, *running, weight, bias, eps, momentum)
        return LazyNormAct(x, new_norm, NONE, lazy.deferred)
    x = to_channels_last(x)
    return LazyNormAct(x, norm_of_batch(x.detach(), running_mean, running_var, weight, bias, eps, momentum))


def _activation(function: Function, code: int) -> Function:
    @wraps(function)
    def run(x: Any) -> Any:
        if isinstance(x, LazyNormAct) and x.activation == NONE:
            return LazyNormAct(x.x, x.norm, code, x.deferred)
        x = materialize(x)
        return LazyNormAct(to_channels_last(x), None, code) if has_kernels(x) else function(x)

    return run


def _conv(
    x: Any, weight: Tensor, bias: Tensor | None = None, *, stride: Any, pads: tuple[int, ...], dilation: Any,
    groups: int,
) -> Any:  # fmt: skip
    settings = {"stride": stride, "pads": pads, "dilation": dilation, "groups": groups}
    channels = x.shape[1]
    if isinstance(x, LazyDepthwise) and _is_pointwise(x, weight, bias, settings):
        lazy = x.map
        weight = weight.contiguous()
        return MapWithStatistics(
            *separable(lazy.x, lazy.norm, lazy.activation, lazy.deferred, x.filter, x.geometry, weight)
        )
    is_simple = isinstance(stride, int) and isinstance(dilation, int)
    if not is_simple or not groups == channels == weight.shape[0] or groups == 1 or weight.dim() != 4:
        return conv.conv(materialize(x), weight, bias, **settings)
    if bias is not None:
        return materialize(_conv(x, weight, **settings)) + bias[:, None, None]
    if not isinstance(x, LazyNormAct):
        x = materialize(x)
        x = LazyNormAct(to_channels_last(x)) if has_kernels(x, weight) else x
    if not isinstance(x, LazyNormAct) or not has_kernels(x.x, weight):
        return conv.conv(materialize(x), weight, bias, **settings)
    window = window_geometry(x.x, (weight.shape[2], weight.shape[3]), stride, dilation, pads)
    if not has_output(window):
        return conv.conv(materialize(x), weight, bias, **settings)
    return LazyDepthwise(x, weight.contiguous(), window)


def _conv1d(
    x: Any, weight: Tensor, bias: Tensor | None = None, *, stride: int, pads: tuple[int, ...], dilation: int,
    groups: int,
) -> Tensor:  # fmt: skip
    row, weight = conv.as_row(materialize(x)), weight.unsqueeze(2)
    y = _conv(row, weight, bias, stride=stride, pads=(*pads, 0, 0), dilation=dilation, groups=groups)
    return conv.from_row(materialize(y))


def _is_pointwise(x: LazyDepthwise, weight: Tensor, bias: Tensor | None, settings: dict[str, Any]) -> bool:
    required = {"stride": (1, (1, 1)), "pads": ((0, 0, 0, 0),), "groups": (1,)}
    return (
        bias is None
        and weight.shape[2:] == (1, 1)
        and max(weight.shape) <= MAX_CHANNELS
        and all(settings[name] in values for name, values in required.items())
        and has_kernels(x.map.x, weight)
    )


def _max_pool(x: Any, *, kernel: Any, stride: Any, pads: tuple[int, ...]) -> Tensor:
    x = materialize(x)
    if not has_kernels(x) or not isinstance(stride, int) or not isinstance(kernel, int):
        return pool.max_pool(x, kernel=kernel, stride=stride, pads=pads)
    window = window_geometry(x, (kernel, kernel), stride, 1, pads)
    if not has_output(window):
        return pool.max_pool(x, kernel=kernel, stride=stride, pads=pads)
    return pool_windows(to_channels_last(x), window, is_max=True)


def _avg_pool(x: Any, *, kernel: Any, stride: Any, pads: tuple[int, ...], count_padding: bool) -> Tensor:
    x = materialize(x)
    if not has_kernels(x) or not isinstance(stride, int) or not isinstance(kernel, int):
        return pool.avg_pool(x, kernel=kernel, stride=stride, pads=pads, count_padding=count_padding)
    window = window_geometry(x, (kernel, kernel), stride, 1, pads)
    if not has_output(window):
        return pool.avg_pool(x, kernel=kernel, stride=stride, pads=pads, count_padding=count_padding)
    return pool_windows(to_channels_last(x), window, is_max=False, count_padding=count_padding)


def _add(a: Any, b: Any) -> Any:
    if (isinstance(a, LAZY) or isinstance(b, LAZY)) and a.shape == b.shape:
        terms = tuple(addend for side in (a, b) for addend in _terms(side))
        if has_kernels(*(addend.x for addend in terms)):
            return LazySum(terms)
    return arithmetic.add(materialize(a), materialize(b))


def _terms(value: Any) -> tuple[Term, ...]:
    if isinstance(value, LazySum) and not value.is_materialized:
        return value.terms
    return (as_term(value),)


def _local_attention(
    query: Any, key: Any, value: Any, rows: Tensor | None = None, columns: Tensor | None = None, *, heads: int,
    kernel: int, **settings: Any,
) -> Tensor:  # fmt: skip
    query, key, value = materialize(query), materialize(key), materialize(value)
    dropping = settings.get("training", False) and settings.get("dropout", 0.0) > 0
    if dropping or not has_kernels(query, key, value, rows, columns, without_gradients=True):
        return local_attention(query, key, value, rows, columns, heads=heads, kernel=kernel, **settings)
    scale = settings.get("scale", 1.0)
    query = query * scale if scale != 1.0 else query
    table = None
    if rows is not None and columns is not None:
        by_row, by_column = offset_tables(rows, columns, query.shape[1])
        table = (by_row[:, :, None] + by_column[:, None]).flatten(1)
    return window_attention(
        to_channels_last(query), to_channels_last(key), to_channels_last(value), table, heads, kernel
    )


def _identity(x: Any) -> Any:
    return x


KERNELS: dict[Function, Function] = {
    norm.batch_norm: _batch_norm,
    activation.relu: _activation(activation.relu, RELU),
    activation.relu6: _activation(activation.relu6, RELU6),
    activation.hard_swish: _activation(activation.hard_swish, HARD_SWISH),
    activation.identity: _identity,
    arithmetic.add: _add,
    local_attention: _local_attention,
    conv.conv: _conv,
    conv.conv1d: _conv1d,
    pool.max_pool: _max_pool,
    pool.avg_pool: _avg_pool,
}
"""Kernel variants by lowering function; lowerings without a variant are missing."""

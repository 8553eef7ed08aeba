"""Lowerings by kernels: what a network's functions become where it is compiled.

A norm or an activation is left to what reads it (`Pending`), a sum collects its terms (`Sum`); what knows neither gets
the map that they stand for. Which functions have kernels is said here by operations, never by networks.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial, wraps
from typing import Any

from torch import Tensor

from archir_torch.lowering.kernels.attention import windowed
from archir_torch.lowering.kernels.depthwise import fits, geometry
from archir_torch.lowering.kernels.lazy import LAZY, Filtered, Made, Pending, Sum, term, whole
from archir_torch.lowering.kernels.library import laid_out, suits
from archir_torch.lowering.kernels.norm import HARD_SWISH, NONE, RELU, RELU6, known, measured
from archir_torch.lowering.kernels.pool import pooled
from archir_torch.lowering.kernels.separable import MOST_CHANNELS, separable
from archir_torch.lowering.kernels.sums import Term
from archir_torch.lowering.local_attention import local_attention, offset_tables
from archir_torch.lowering.operations import activation, arithmetic, conv, norm, pool

Function = Callable[..., Any]


def compiled(function: Function) -> Function:
    """What a lowering becomes: it takes maps that are not written yet, and may give one."""
    if isinstance(function, partial):  # overwriting what another reads later is what laziness forbids
        given = {name: value for name, value in function.keywords.items() if name != "inplace"}
        return partial(compiled(function.func), *function.args, **given)
    return KERNELS.get(function) or _of_whole(function)


@cache
def _of_whole(function: Function) -> Function:
    """A function that knows nothing of maps that are not written."""

    @wraps(function)
    def run(*operands: Any, **given: Any) -> Any:
        return function(*map(whole, operands), **given)

    return run


def _batch_norm(
    x: Any, running_mean: Tensor, running_var: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, *,
    eps: float, momentum: float, training: bool,
) -> Any:  # fmt: skip
    made, x = x, whole(x)
    fit = suits(x, running_mean, running_var, weight, bias) and len(running_mean) == x.shape[1] < x.numel()
    if not training or not fit:
        return norm.batch_norm(
            x, running_mean, running_var, weight, bias, eps=eps, momentum=momentum, training=training
        )
    if isinstance(made, Made):
        pixels = x.numel() // x.shape[1]
        running = running_mean, running_var
        found = known(made.mean, made.variance, pixels, *running, weight, bias, eps, momentum)
        return Pending(x, found, NONE, made.handed)
    x = laid_out(x)
    return Pending(x, measured(x.detach(), running_mean, running_var, weight, bias, eps, momentum))


def _activation(function: Function, number: int) -> Function:
    @wraps(function)
    def run(x: Any) -> Any:
        if isinstance(x, Pending) and x.activation == NONE:
            return Pending(x.x, x.norm, number, x.handed)
        x = whole(x)
        return Pending(laid_out(x), None, number) if suits(x) else function(x)

    return run


def _conv(
    x: Any, weight: Tensor, bias: Tensor | None = None, *, stride: Any, pads: tuple[int, ...], dilation: Any,
    groups: int,
) -> Any:  # fmt: skip
    settings = {"stride": stride, "pads": pads, "dilation": dilation, "groups": groups}
    channels = x.shape[1]
    if isinstance(x, Filtered) and _is_pointwise(x, weight, bias, settings):
        of = x.map
        weight = weight.contiguous()
        return Made(*separable(of.x, of.norm, of.activation, of.handed, x.filter, x.geometry, weight))
    plain = isinstance(stride, int) and isinstance(dilation, int) and bias is None
    if not plain or not groups == channels == weight.shape[0] or groups == 1 or weight.dim() != 4:
        return conv.conv(whole(x), weight, bias, **settings)
    if not isinstance(x, Pending):
        x = whole(x)
        x = Pending(laid_out(x)) if suits(x, weight) else x
    if not isinstance(x, Pending) or not suits(x.x, weight):
        return conv.conv(whole(x), weight, bias, **settings)
    where = geometry(x.x, (weight.shape[2], weight.shape[3]), stride, dilation, pads)
    if not fits(where):
        return conv.conv(whole(x), weight, bias, **settings)
    return Filtered(x, weight.contiguous(), where)


def _is_pointwise(x: Filtered, weight: Tensor, bias: Tensor | None, settings: dict[str, Any]) -> bool:
    same = {"stride": (1, (1, 1)), "pads": ((0, 0, 0, 0),), "groups": (1,)}
    return (
        bias is None
        and weight.shape[2:] == (1, 1)
        and max(weight.shape) <= MOST_CHANNELS
        and all(settings[name] in values for name, values in same.items())
        and suits(x.map.x, weight)
    )


def _max_pool(x: Any, *, kernel: Any, stride: Any, pads: tuple[int, ...]) -> Tensor:
    x = whole(x)
    if not suits(x) or not isinstance(stride, int) or not isinstance(kernel, int):
        return pool.max_pool(x, kernel=kernel, stride=stride, pads=pads)
    where = geometry(x, (kernel, kernel), stride, 1, pads)
    if not fits(where):
        return pool.max_pool(x, kernel=kernel, stride=stride, pads=pads)
    return pooled(laid_out(x), where, largest=True)


def _avg_pool(x: Any, *, kernel: Any, stride: Any, pads: tuple[int, ...], count_padding: bool) -> Tensor:
    x = whole(x)
    if not suits(x) or not isinstance(stride, int) or not isinstance(kernel, int):
        return pool.avg_pool(x, kernel=kernel, stride=stride, pads=pads, count_padding=count_padding)
    where = geometry(x, (kernel, kernel), stride, 1, pads)
    if not fits(where):
        return pool.avg_pool(x, kernel=kernel, stride=stride, pads=pads, count_padding=count_padding)
    return pooled(laid_out(x), where, largest=False, padded=count_padding)


def _add(a: Any, b: Any) -> Any:
    if (isinstance(a, LAZY) or isinstance(b, LAZY)) and a.shape == b.shape:
        terms = tuple(one for side in (a, b) for one in _terms(side))
        if suits(*(one.x for one in terms)):
            return Sum(terms)
    return arithmetic.add(whole(a), whole(b))


def _terms(value: Any) -> tuple[Term, ...]:
    if isinstance(value, Sum) and not value.written:
        return value.terms
    return (term(value),)


def _local_attention(
    query: Any, key: Any, value: Any, rows: Tensor | None = None, columns: Tensor | None = None, *, heads: int,
    kernel: int, **settings: Any,
) -> Tensor:  # fmt: skip
    query, key, value = whole(query), whole(key), whole(value)
    if not suits(query, key, value, rows, columns):
        return local_attention(query, key, value, rows, columns, heads=heads, kernel=kernel, **settings)
    scale = settings.get("scale", 1.0)
    query = query * scale if scale != 1.0 else query
    table = None
    if rows is not None and columns is not None:
        by_row, by_column = offset_tables(rows, columns, query.shape[1])
        table = (by_row[:, :, None] + by_column[:, None]).flatten(1)
    return windowed(laid_out(query), laid_out(key), laid_out(value), table, heads, kernel)


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
    pool.max_pool: _max_pool,
    pool.avg_pool: _avg_pool,
}
"""By lowering, the function that runs instead of it where kernels run."""

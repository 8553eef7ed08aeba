"""Operators on what is known while a network is read: shapes, and what is computed from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from archir.diagnostics.errors import RuleError

Array = NDArray[Any]
Attributes = Mapping[str, Any]
MOST = 2**20
"""Numbers of a tensor that is computed while a network is read. What only repeats one number may be larger."""
LARGEST = 2**28
"""Numbers of any tensor."""

DTYPES: dict[int, Any] = {
    1: np.float32,
    2: np.uint8,
    3: np.int8,
    6: np.int32,
    7: np.int64,
    9: np.bool_,
    10: np.float32,
    11: np.float64,
}
"""The element types by their number in ONNX."""


class TooLargeError(RuleError):
    """A tensor of constants that is larger than anything that networks compute with shapes."""


def _slice(
    x: Array, starts: Any = None, ends: Any = None, axes: Any = None, steps: Any = None, /, **given: Any
) -> Array:
    begin: list[int] = given["starts"] if starts is None else starts.tolist()
    end: list[int] = given["ends"] if ends is None else ends.tolist()
    along = given.get("axes") if axes is None else axes.tolist()
    by = [1] * len(begin) if steps is None else steps.tolist()
    whole: list[slice] = [slice(None)] * x.ndim
    for a, b, axis, step in zip(begin, end, range(x.ndim) if along is None else along, by, strict=False):
        whole[axis] = slice(a, None if step < 0 and b < -x.shape[axis] else b, step)
    return x[tuple(whole)]


def _unsqueeze(x: Array, axes: Any = None, /, **given: Any) -> Array:
    wanted = given["axes"] if axes is None else axes.tolist()
    rank = x.ndim + len(wanted)
    for axis in sorted(axis % rank for axis in wanted):
        x = np.expand_dims(x, axis)
    return x


def _squeeze(x: Array, axes: Any = None, /, **given: Any) -> Array:
    wanted = given.get("axes") if axes is None else axes.tolist()
    return np.squeeze(x, None if wanted is None else tuple(wanted))


def _reshape(x: Array, shape: Array, /, **given: Any) -> Array:
    target = [x.shape[i] if size == 0 and not given.get("allowzero") else size for i, size in enumerate(shape.tolist())]
    return x.reshape(target)


def _filled(shape: Array, /, **given: Any) -> Array:
    value = np.asarray(given.get("value", np.zeros(1, np.float32))).reshape(-1)[0]
    return np.broadcast_to(value, tuple(shape.tolist()))


def _constant(**given: Any) -> Array:
    if "value" in given:
        return np.asarray(given["value"])
    (name, value), *_ = given.items()
    return np.asarray(value, np.float32 if "float" in name else np.int64)


def _reduced(function: Callable[..., Any]) -> Callable[..., Array]:
    def reduce(x: Array, axes: Any = None, /, **given: Any) -> Array:
        wanted = given.get("axes") if axes is None else axes.tolist()
        along = None if wanted is None else tuple(wanted)
        return np.asarray(function(x, axis=along, keepdims=bool(given.get("keepdims", 1))))

    return reduce


def _divided(a: Array, b: Array) -> Array:
    if np.issubdtype(a.dtype, np.integer):
        return np.asarray(np.trunc(a / b), a.dtype)
    return np.asarray(a / b)


FUNCTIONS: dict[str, Callable[..., Array]] = {
    "Constant": _constant,
    "ConstantOfShape": _filled,
    "Identity": lambda x, **_: x,
    "Gather": lambda x, at, **given: np.take(x, at, axis=given.get("axis", 0)),
    "Concat": lambda *xs, **given: np.concatenate(xs, axis=given["axis"]),
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
    "Slice": _slice,
    "Reshape": _reshape,
    "Flatten": lambda x, **given: x.reshape(int(np.prod(x.shape[: given.get("axis", 1)])), -1),
    "Transpose": lambda x, **given: np.transpose(x, given.get("perm")),
    "Cast": lambda x, **given: x.astype(DTYPES[given["to"]]),
    "Add": lambda a, b, **_: a + b,
    "Sub": lambda a, b, **_: a - b,
    "Mul": lambda a, b, **_: a * b,
    "Div": lambda a, b, **_: _divided(a, b),
    "Mod": lambda a, b, **_: np.mod(a, b),
    "Pow": lambda a, b, **_: np.power(a, b),
    "Neg": lambda x, **_: -x,
    "Abs": lambda x, **_: np.abs(x),
    "Sqrt": lambda x, **_: np.sqrt(x),
    "Reciprocal": lambda x, **_: np.reciprocal(x),
    "Floor": lambda x, **_: np.floor(x),
    "Ceil": lambda x, **_: np.ceil(x),
    "Min": lambda *xs, **_: np.minimum.reduce(xs),
    "Max": lambda *xs, **_: np.maximum.reduce(xs),
    "Equal": lambda a, b, **_: np.equal(a, b),
    "Less": lambda a, b, **_: np.less(a, b),
    "Greater": lambda a, b, **_: np.greater(a, b),
    "Not": lambda x, **_: np.logical_not(x),
    "Where": lambda c, a, b, **_: np.where(c, a, b),
    "Range": lambda a, b, by, **_: np.arange(a.item(), b.item(), by.item(), dtype=a.dtype),
    "Expand": lambda x, shape, **_: np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(shape.tolist()))),
    "Tile": lambda x, times, **_: np.tile(x, times.tolist()),
    "ReduceProd": _reduced(np.prod),
    "ReduceSum": _reduced(np.sum),
    "ReduceMax": _reduced(np.max),
    "ReduceMin": _reduced(np.min),
    "ReduceMean": _reduced(np.mean),
}
VIEWS = {"Constant", "ConstantOfShape", "Identity", "Unsqueeze", "Squeeze", "Slice", "Expand", "Transpose"}
"""Those that make no numbers."""


def known(operator: str, arrays: list[Array | None], attributes: Attributes) -> Array | None:
    """What an operator makes of constants; None where it is not one of these. Raises TooLargeError."""
    function = FUNCTIONS.get(operator)
    if function is None:
        return None
    if operator not in VIEWS:
        shapes = [one.shape for one in arrays if one is not None]
        size = max((int(np.prod(shape, dtype=np.float64)) for shape in shapes), default=0)
        repeated = (
            operator == "Tile" and arrays[1] is not None and float(np.prod(arrays[1], dtype=np.float64)) * size > MOST
        )
        if repeated or (size > MOST and operator not in ("Reshape", "Cast", "Flatten")):
            return None
        if operator == "Range":
            a, b, by = (float(one) for one in arrays if one is not None)
            if by == 0 or (b - a) / by > MOST:
                raise TooLargeError("more constants than shapes have")
    with np.errstate(all="ignore"):  # a division by zero is what it is in ONNX: undefined, and no warning
        made = np.asarray(function(*arrays, **attributes))
    if made.size > LARGEST:
        raise TooLargeError(f"a constant of {made.size} numbers")
    return made

"""Constant folding of ONNX operators with numpy, for shapes and values computed from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from archir.diagnostics.errors import RuleError

Array = NDArray[Any]
"""Numpy array."""
Attributes = Mapping[str, Any]
"""Attributes of an operator call by name."""
MAX_FOLDED = 2**20
"""Maximum number of elements of a folded tensor; views and broadcasts of existing data may be larger."""
MAX_ELEMENTS = 2**28
"""Maximum number of elements of any constant."""

DTYPES: dict[int, Any] = {
    1: np.float32,
    2: np.uint8,
    3: np.int8,
    6: np.int32,
    7: np.int64,
    9: np.bool_,
    10: np.float32,
    11: np.float64,
    16: np.float32,
}
"""Numpy element type by ONNX element type; bfloat16 and float16 become float32."""


class TooLargeError(RuleError):
    """Raised for a constant larger than any that real networks compute from shapes."""


def _slice(
    x: Array, starts: Any = None, ends: Any = None, axes: Any = None, steps: Any = None, /, **attrs: Any
) -> Array:
    """Slice axes. In newer operator sets, bounds are operands instead of attributes; operands take precedence."""
    begin: list[int] = attrs["starts"] if starts is None else starts.tolist()
    end: list[int] = attrs["ends"] if ends is None else ends.tolist()
    axis_list = attrs.get("axes") if axes is None else axes.tolist()
    step_list = [1] * len(begin) if steps is None else steps.tolist()
    slices: list[slice] = [slice(None)] * x.ndim
    for a, b, axis, step in zip(begin, end, range(x.ndim) if axis_list is None else axis_list, step_list, strict=False):
        slices[axis] = slice(a, None if step < 0 and b < -x.shape[axis] else b, step)
    return x[tuple(slices)]


def _unsqueeze(x: Array, axes: Any = None, /, **attrs: Any) -> Array:
    """Insert axes of size 1."""
    axis_list = attrs["axes"] if axes is None else axes.tolist()
    rank = x.ndim + len(axis_list)
    for axis in sorted(axis % rank for axis in axis_list):
        x = np.expand_dims(x, axis)
    return x


def _squeeze(x: Array, axes: Any = None, /, **attrs: Any) -> Array:
    """Remove axes of size 1."""
    axis_list = attrs.get("axes") if axes is None else axes.tolist()
    return np.squeeze(x, None if axis_list is None else tuple(axis_list))


def _reshape(x: Array, shape: Array, /, **attrs: Any) -> Array:
    """Reshape an array; a size of 0 keeps the existing size, unless the attribute `allowzero` is set."""
    target = [x.shape[i] if size == 0 and not attrs.get("allowzero") else size for i, size in enumerate(shape.tolist())]
    return x.reshape(target)


def _cast(x: Array, /, to: int, **_: Any) -> Array:
    """Convert to another element type."""
    if to not in DTYPES:
        raise RuleError(f"constants of ONNX's element type {to} are not supported")
    return x.astype(DTYPES[to])


def _constant_of_shape(shape: Array, /, **attrs: Any) -> Array:
    """Return an array of the given shape filled with one number."""
    value = np.asarray(attrs.get("value", np.zeros(1, np.float32))).reshape(-1)[0]
    return np.broadcast_to(value, tuple(shape.tolist()))


def _constant(**attrs: Any) -> Array:
    """Return the value of a `Constant` node, which is stored in one of several attributes."""
    if "value" in attrs:
        return np.asarray(attrs["value"])
    (name, value), *_ = attrs.items()
    return np.asarray(value, np.float32 if "float" in name else np.int64)


def _reduction(function: Callable[..., Any]) -> Callable[..., Array]:
    """Return a folding function that applies a numpy reduction over axes."""

    def reduce_axes(x: Array, axes: Any = None, /, **attrs: Any) -> Array:
        axis_list = attrs.get("axes") if axes is None else axes.tolist()
        axis = None if axis_list is None else tuple(axis_list)
        return np.asarray(function(x, axis=axis, keepdims=bool(attrs.get("keepdims", 1))))

    return reduce_axes


def _divide(a: Array, b: Array) -> Array:
    """Divide as ONNX does: integer quotients are truncated toward 0."""
    return np.asarray((a - np.fmod(a, b)) // b if np.issubdtype(a.dtype, np.integer) else a / b)


FUNCTIONS: dict[str, Callable[..., Array]] = {
    "Constant": _constant,
    "ConstantOfShape": _constant_of_shape,
    "Identity": lambda x, **_: x,
    "Gather": lambda x, at, **attrs: np.take(x, at, axis=attrs.get("axis", 0)),
    "Concat": lambda *xs, **attrs: np.concatenate(xs, axis=attrs["axis"]),
    "Unsqueeze": _unsqueeze,
    "Squeeze": _squeeze,
    "Slice": _slice,
    "Reshape": _reshape,
    "Flatten": lambda x, **attrs: x.reshape(int(np.prod(x.shape[: attrs.get("axis", 1)])), -1),
    "Transpose": lambda x, **attrs: np.transpose(x, attrs.get("perm")),
    "Cast": _cast,
    "Add": lambda a, b, **_: a + b,
    "Sub": lambda a, b, **_: a - b,
    "Mul": lambda a, b, **_: a * b,
    "Div": lambda a, b, **_: _divide(a, b),
    "Mod": lambda a, b, **attrs: np.fmod(a, b) if attrs.get("fmod") else np.mod(a, b),
    "Pow": lambda a, b, **_: np.power(a, b),
    "Neg": lambda x, **_: -x,
    "Abs": lambda x, **_: np.abs(x),
    "Sqrt": lambda x, **_: np.sqrt(x),
    "Reciprocal": lambda x, **_: np.reciprocal(x),
    "Floor": lambda x, **_: np.floor(x),
    "Ceil": lambda x, **_: np.ceil(x),
    "Min": lambda *xs, **_: reduce(np.minimum, xs),
    "Max": lambda *xs, **_: reduce(np.maximum, xs),
    "Equal": lambda a, b, **_: np.equal(a, b),
    "Less": lambda a, b, **_: np.less(a, b),
    "Greater": lambda a, b, **_: np.greater(a, b),
    "Not": lambda x, **_: np.logical_not(x),
    "Where": lambda c, a, b, **_: np.where(c, a, b),
    "Range": lambda a, b, by, **_: np.arange(a.item(), b.item(), by.item(), dtype=a.dtype),
    "Expand": lambda x, shape, **_: np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(shape.tolist()))),
    "Tile": lambda x, times, **_: np.tile(x, times.tolist()),
    "ReduceProd": _reduction(np.prod),
    "ReduceSum": _reduction(np.sum),
    "ReduceMax": _reduction(np.max),
    "ReduceMin": _reduction(np.min),
    "ReduceMean": _reduction(np.mean),
}
"""Folding function by operator; it takes the operands as arrays, then the attributes by name."""
VIEWS = {"Constant", "ConstantOfShape", "Identity", "Unsqueeze", "Squeeze", "Slice", "Expand", "Transpose"}
"""Operators whose results only rearrange or repeat existing numbers, so that no size limit is needed."""

BROADCASTS = {"Add", "Sub", "Mul", "Div", "Mod", "Pow", "Min", "Max", "Equal", "Less", "Greater", "Where"}
"""Operators that broadcast their operands to one shape."""


def fold_operator(operator: str, arrays: list[Array | None], attributes: Attributes) -> Array | None:
    """Compute an operator on constant operands.

    Returns None if the operator cannot be folded or the result would be too large. Raises TooLargeError if the constant
    is so large that no real network would compute it.
    """
    function = FUNCTIONS.get(operator)
    if function is None:
        return None
    if operator not in VIEWS:
        shapes = [array.shape for array in arrays if array is not None]
        _require_size(_result_elements(operator, shapes, attributes))
        size = max((int(np.prod(shape, dtype=np.float64)) for shape in shapes), default=0)
        repeated = (
            operator == "Tile"
            and arrays[1] is not None
            and float(np.prod(arrays[1], dtype=np.float64)) * size > MAX_FOLDED
        )
        if repeated or (size > MAX_FOLDED and operator not in ("Reshape", "Cast", "Flatten")):
            return None
        if operator == "Range":
            a, b, by = (float(array) for array in arrays if array is not None)
            if by == 0 or (b - a) / by > MAX_FOLDED:
                raise TooLargeError(f"a range of more than {MAX_FOLDED} numbers")
    with np.errstate(all="ignore"):  # a division by zero is undefined in ONNX and needs no warning
        result = np.asarray(function(*arrays, **attributes))
    _require_size(result.size)
    return result


def _require_size(elements: int) -> None:
    """Raise TooLargeError if a constant would have more than `MAX_ELEMENTS` elements."""
    if elements > MAX_ELEMENTS:
        raise TooLargeError(f"a constant of {elements} elements, more than {MAX_ELEMENTS}")


def _result_elements(operator: str, shapes: list[tuple[int, ...]], attributes: Attributes) -> int:
    """Return the number of elements of an operator's result if it can exceed that of each operand, otherwise 0."""
    if operator in BROADCASTS:
        return prod(np.broadcast_shapes(*shapes))
    if operator == "Concat":
        return sum(map(prod, shapes))
    if operator == "Gather":
        axis_size = shapes[0][attributes.get("axis", 0)]
        return prod(shapes[0]) // max(axis_size, 1) * prod(shapes[1])
    return 0

"""Constant folding of torch operators whose tensor operands are all constants.

Reshapes, permutations, slices and other views are recorded as moves, so that the source of a weight stays known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from archir.language.decompiler.imported import Move
from archir_torch.importing.constants import Constant
from archir_torch.importing.layout import Unsupported

IDENTITIES = {"contiguous", "clone", "detach", "alias", "lift_fresh_copy", "dropout", "to", "_to_copy"}
"""Operators that return their operand unchanged."""
RESHAPES = {"view", "reshape", "flatten", "unflatten", "unsqueeze", "squeeze", "_unsafe_view"}
"""Operators that change only the shape."""
RANDOM = {"rand", "randn", "randint", "randperm", "normal", "bernoulli", "rand_like", "randn_like"}
"""Operators that generate random numbers."""
EXPANSIONS = {"expand", "expand_as", "broadcast_to"}
"""Operators that expand axes of size 1."""


def fold_call(name: str, target: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Compute an operator on constants, lists and numbers.

    Raises Unsupported for operators that generate random numbers.
    """
    if name in RANDOM:
        raise Unsupported("random numbers in evaluation")
    constants = [constant for constant in _leaves([args, kwargs]) if isinstance(constant, Constant)]
    result = target(*_unwrap(args), **_unwrap(kwargs))
    first = args[0] if args else None
    if isinstance(first, Constant):
        moved = _moved_constant(name, first, args, result) if isinstance(result, Tensor) else None
        if moved is not None:
            return replace(moved, tensor=result)
        if views := _views(target, first, args, kwargs):
            parts = [
                replace(first, tensor=tensor, moves=(*first.moves, move))
                for tensor, move in zip([result] if isinstance(result, Tensor) else result, views, strict=True)
            ]
            return parts[0] if isinstance(result, Tensor) else parts
    names = sorted({constant.origin.name if constant.origin else constant.computed for constant in constants} - {""})
    label = f"{name} of {', '.join(names)}" if names else name
    trained = any(constant.trained for constant in constants)
    return _wrap(result, label, trained)


def _moved_constant(name: str, x: Constant, args: Sequence[Any], result: Tensor) -> Constant | None:
    """Return the result of a reshape, permutation or identity as a constant with its origin.

    Returns None for other operators.
    """
    rank = x.tensor.dim()
    if name in IDENTITIES:
        return x if result.dtype == x.tensor.dtype else None
    if name in RESHAPES:
        return x.reshaped(tuple(result.shape))
    if name in EXPANSIONS:
        return x if result.shape == x.tensor.shape else None
    if name == "permute":
        return x.permuted(tuple(dim % rank for dim in args[1]))
    if name in ("transpose", "t"):
        order = list(range(rank))
        first, second = (args[1] % rank, args[2] % rank) if name == "transpose" else (0, rank - 1)
        order[first], order[second] = order[second], order[first]
        return x.permuted(tuple(order))
    return None


def _views(target: Callable[..., Any], x: Constant, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Move]:
    """Return the offset, shape and strides of each result of an operator as a view of `x`.

    Returns an empty list if the results are not views of `x`. Expanded views, in which several positions share an
    element of `x`, do not count as views.
    """
    schema = getattr(target, "_schema", None)
    if schema is None or any(view.alias_info is None or view.alias_info.is_write for view in schema.returns):
        return []
    results = target(torch.empty(x.tensor.shape, device="meta"), *_unwrap(args[1:]), **_unwrap(kwargs))
    moves = []
    for view in [results] if isinstance(results, Tensor) else results:
        if any(step == 0 and size > 1 for size, step in zip(view.shape, view.stride(), strict=True)):
            return []
        moves.append(Move("strided", (int(view.storage_offset()), *view.shape, *view.stride())))
    return moves


def _unwrap(value: Any) -> Any:
    """Replace constants by their tensors, also in nested lists and dicts."""
    if isinstance(value, Constant):
        return value.tensor
    if isinstance(value, dict):
        return {key: _unwrap(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_unwrap(item) for item in value] if isinstance(value, list) else tuple(_unwrap(item) for item in value)
    return value


def _wrap(value: Any, label: str, trained: bool) -> Any:
    """Replace tensors by constants with the given description, also in nested lists."""
    if isinstance(value, Tensor):
        return Constant(value, computed=label, trained=trained)
    if isinstance(value, list | tuple):
        return [_wrap(item, label, trained) for item in value]
    return value


def _leaves(value: Any) -> list[Any]:
    """Return the leaves of nested lists, tuples and dicts."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return [leaf for item in value for leaf in _leaves(item)]
    return [value]


FILL_VALUES: dict[str, float | None] = {
    "zeros_like": 0.0, "ones_like": 1.0, "new_zeros": 0.0, "new_ones": 1.0, "empty_like": 0.0, "new_empty": 0.0,
    "full_like": None, "new_full": None, "fill": None,
}  # fmt: skip
"""Number with which an operator fills a tensor of known shape, by operator.

None means that an argument of the operator gives the number.
"""


def filled_constant(name: str, args: Sequence[Any], shape: Sequence[int], dtype: torch.dtype) -> Constant:
    """Return the result of an operator in `FILL_VALUES`. Raises Unsupported if the number depends on inputs."""
    number = FILL_VALUES[name]
    if number is None:
        number = args[2] if name == "new_full" else args[1]
    if isinstance(number, Constant):
        number = number.tensor.item()
    if not isinstance(number, int | float):
        raise Unsupported("a tensor filled with a number that depends on inputs")
    return Constant(torch.full((1,) * len(shape), number, dtype=dtype).expand(tuple(shape)), computed="a number")

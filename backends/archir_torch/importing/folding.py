"""Operators on constants alone: computed at once, and remembered where they only move numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from archir.language.decompiler.imported import Move
from archir_torch.importing.constants import Constant
from archir_torch.importing.layout import Unsupported

SAME = {"contiguous", "clone", "detach", "alias", "lift_fresh_copy", "dropout", "to", "_to_copy"}
SHAPED = {"view", "reshape", "flatten", "unflatten", "unsqueeze", "squeeze", "_unsafe_view"}
RANDOM = {"rand", "randn", "randint", "randperm", "normal", "bernoulli", "rand_like", "randn_like"}
EXPANDED = {"expand", "expand_as", "broadcast_to"}


def folded(name: str, target: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """What an operator makes of constants, lists and numbers."""
    if name in RANDOM:
        raise Unsupported("random numbers in evaluation")
    given = [one for one in _leaves([args, kwargs]) if isinstance(one, Constant)]
    made = target(*_tensors(args), **_tensors(kwargs))
    first = args[0] if args else None
    if isinstance(first, Constant):
        moved = _moved(name, first, args, made) if isinstance(made, Tensor) else None
        if moved is not None:
            return replace(moved, tensor=made)
        if views := _views(target, first, args, kwargs):
            parts = [
                replace(first, tensor=tensor, moves=(*first.moves, move))
                for tensor, move in zip([made] if isinstance(made, Tensor) else made, views, strict=True)
            ]
            return parts[0] if isinstance(made, Tensor) else parts
    names = sorted({one.origin.name if one.origin else one.computed for one in given} - {""})
    label = f"{name} of {', '.join(names)}" if names else name
    trained = any(one.trained for one in given)
    return _constants(made, label, trained)


def _moved(name: str, x: Constant, args: Sequence[Any], made: Tensor) -> Constant | None:
    rank = x.tensor.dim()
    if name in SAME:
        return x if made.dtype == x.tensor.dtype else None
    if name in SHAPED:
        return x.reshaped(tuple(made.shape))
    if name in EXPANDED:
        return x if made.shape == x.tensor.shape else None
    if name == "permute":
        return x.permuted(tuple(dim % rank for dim in args[1]))
    if name in ("transpose", "t"):
        order = list(range(rank))
        one, other = (args[1] % rank, args[2] % rank) if name == "transpose" else (0, rank - 1)
        order[one], order[other] = order[other], order[one]
        return x.permuted(tuple(order))
    return None


def _views(target: Callable[..., Any], x: Constant, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Move]:
    """Where the results of an operator lie in `x`, if it gives views of it; each element of `x` lies in one at most."""
    schema = getattr(target, "_schema", None)
    if schema is None or any(one.alias_info is None or one.alias_info.is_write for one in schema.returns):
        return []
    made = target(torch.empty(x.tensor.shape, device="meta"), *_tensors(args[1:]), **_tensors(kwargs))
    found = []
    for one in [made] if isinstance(made, Tensor) else made:
        if any(step == 0 and size > 1 for size, step in zip(one.shape, one.stride(), strict=True)):
            return []
        found.append(Move("strided", (int(one.storage_offset()), *one.shape, *one.stride())))
    return found


def _tensors(given: Any) -> Any:
    if isinstance(given, Constant):
        return given.tensor
    if isinstance(given, dict):
        return {key: _tensors(one) for key, one in given.items()}
    if isinstance(given, list | tuple):
        return [_tensors(one) for one in given] if isinstance(given, list) else tuple(_tensors(one) for one in given)
    return given


def _constants(made: Any, label: str, trained: bool) -> Any:
    if isinstance(made, Tensor):
        return Constant(made, computed=label, trained=trained)
    if isinstance(made, list | tuple):
        return [_constants(one, label, trained) for one in made]
    return made


def _leaves(given: Any) -> list[Any]:
    if isinstance(given, dict):
        given = list(given.values())
    if isinstance(given, list | tuple):
        return [leaf for one in given for leaf in _leaves(one)]
    return [given]


FILLED: dict[str, float | None] = {
    "zeros_like": 0.0, "ones_like": 1.0, "new_zeros": 0.0, "new_ones": 1.0, "empty_like": 0.0, "new_empty": 0.0,
    "full_like": None, "new_full": None, "fill": None,
}  # fmt: skip
"""Operators that need no more than a tensor's shape, and the number they fill one with; None is told."""


def filled(name: str, args: Sequence[Any], shape: Sequence[int], dtype: torch.dtype) -> Constant:
    """A tensor of one number."""
    number = FILLED[name]
    if number is None:
        number = args[2] if name == "new_full" else args[1]
    if isinstance(number, Constant):
        number = number.tensor.item()
    if not isinstance(number, int | float):
        raise Unsupported("a tensor filled with what is computed")
    return Constant(torch.full((1,) * len(shape), number, dtype=dtype).expand(tuple(shape)), computed="a number")

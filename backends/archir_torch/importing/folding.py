"""Operators on constants alone: computed at once, and remembered where they only move numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

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
    if isinstance(first, Constant) and isinstance(made, Tensor):
        moved = _moved(name, first, args, kwargs, made)
        if moved is not None:
            return replace(moved, tensor=made)
    names = sorted({one.origin.name if one.origin else one.computed for one in given} - {""})
    label = f"{name} of {', '.join(names)}" if names else name
    trained = any(one.trained for one in given)
    if isinstance(first, Constant) and isinstance(made, Sequence) and name in ("unbind", "chunk", "split"):
        parts = _parts(name, first, args, kwargs, made)
        if parts is not None:
            return parts
    return _constants(made, label, trained)


def _moved(name: str, x: Constant, args: Sequence[Any], kwargs: dict[str, Any], made: Tensor) -> Constant | None:
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
    if name == "select":
        dim, index = args[1] % rank, args[2] % x.tensor.shape[args[1]]
        return x.sliced(dim, index, index + 1).reshaped(tuple(made.shape))
    if name == "slice" and len(args) < 5:
        dim = (args[1] if len(args) > 1 else 0) % rank
        given = [*args[2:], None, None][:2]
        start, stop, _ = slice(*given).indices(x.tensor.shape[dim])
        return x.sliced(dim, start, stop)
    return None


def _parts(
    name: str, x: Constant, args: Sequence[Any], kwargs: dict[str, Any], made: Sequence[Tensor]
) -> list[Constant] | None:
    dim = kwargs.get("dim", args[-1] if name == "unbind" and len(args) > 1 else args[2] if len(args) > 2 else 0)
    dim %= x.tensor.dim()
    found, start = [], 0
    for one in made:
        size = 1 if name == "unbind" else one.shape[dim]
        part = x.sliced(dim, start, start + size)
        found.append(part.reshaped(tuple(one.shape)))
        start += size
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

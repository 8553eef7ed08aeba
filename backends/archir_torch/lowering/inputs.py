"""Checks of the inputs of networks: how many there are, their element types, ranks and sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from archir.ir.types import INTEGERS, TensorType

_FLOATS = frozenset({torch.float16, torch.bfloat16, torch.float32, torch.float64})
_INTEGERS = frozenset({torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64})


class Expected(NamedTuple):
    """What a network takes for one input."""

    name: str
    shape: tuple[int, ...]
    """Without the batch axis."""
    dtypes: frozenset[torch.dtype]
    """Floating-point numbers are of any precision: networks run in float64 and in 16 bits as well."""


def expected(inputs: Mapping[str, TensorType]) -> tuple[Expected, ...]:
    """What a network takes for inputs of these types, by name."""
    dtypes = {"bool": frozenset({torch.bool}), **dict.fromkeys(INTEGERS, _INTEGERS)}
    return tuple(Expected(name, x.shape, dtypes.get(x.dtype, _FLOATS)) for name, x in inputs.items())


def check_inputs(inputs: Sequence[Tensor], wanted: Sequence[Expected], open_sizes: bool = False) -> None:
    """Raise TypeError for other numbers of inputs and other element types, and ValueError for other ranks and sizes.

    With `open_sizes`, sizes are left to the operations.
    """
    if len(inputs) != len(wanted):
        names = ", ".join(one.name for one in wanted)
        raise TypeError(f"the network takes {len(wanted)} inputs ({names}), got {len(inputs)}")
    for x, one in zip(inputs, wanted, strict=True):
        if not isinstance(x, Tensor) or x.dtype not in one.dtypes:
            got = str(x.dtype) if isinstance(x, Tensor) else type(x).__name__
            kind = "truth values" if torch.bool in one.dtypes else "integers" if torch.int64 in one.dtypes else "floats"
            raise TypeError(f"`{one.name}`: expected a tensor of {kind}, got {got}")
        shape = x.shape
        if len(shape) != 1 + len(one.shape) or (not open_sizes and shape[1:] != one.shape):
            raise ValueError(_misfit(one, shape))
        if len(wanted) > 1 and shape[0] != inputs[0].shape[0]:
            counts = f"{inputs[0].shape[0]} samples of `{wanted[0].name}`, and {shape[0]} of `{one.name}`"
            raise ValueError(f"inputs differ in the size of the batch: {counts}")


def _misfit(one: Expected, shape: torch.Size) -> str:
    hint = "; one sample is `x[None]`" if shape == one.shape else ""
    if len(shape) == 1 + len(one.shape):
        hint = "; `module.open_sizes = True` lets other sizes through"
    return f"`{one.name}`: expected [{', '.join(['batch', *map(str, one.shape)])}], got {list(shape)}{hint}"

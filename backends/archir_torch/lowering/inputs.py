"""Checks of the inputs of a network: their number, element types, ranks and sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from archir.ir.types import INTEGER_DTYPES, TensorType

_FLOATS = frozenset({torch.float16, torch.bfloat16, torch.float32, torch.float64})
_INTEGERS = frozenset({torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64})


class ExpectedInput(NamedTuple):
    """Name, shape and accepted dtypes of one input of a network."""

    name: str
    shape: tuple[int, ...]
    """Shape without the batch axis."""
    dtypes: frozenset[torch.dtype]
    """Accepted element types: all floating-point types are accepted for a float input, since networks run in float64
    and in 16 bits as well."""


def expected_inputs(inputs: Mapping[str, TensorType]) -> tuple[ExpectedInput, ...]:
    """Return what a network accepts for inputs of these types, by name."""
    dtypes = {"bool": frozenset({torch.bool}), **dict.fromkeys(INTEGER_DTYPES, _INTEGERS)}
    return tuple(ExpectedInput(name, x.shape, dtypes.get(x.dtype, _FLOATS)) for name, x in inputs.items())


def check_inputs(inputs: Sequence[Tensor], specs: Sequence[ExpectedInput], open_sizes: bool = False) -> None:
    """Check the inputs of a network. Raises TypeError for a wrong number of inputs or wrong element types, and
    ValueError for wrong ranks, sizes, or batch sizes that differ.

    With `open_sizes`, sizes are not checked here but by the operations.
    """
    if len(inputs) != len(specs):
        names = ", ".join(spec.name for spec in specs)
        raise TypeError(f"the network takes {len(specs)} inputs ({names}), got {len(inputs)}")
    for x, spec in zip(inputs, specs, strict=True):
        if not isinstance(x, Tensor) or x.dtype not in spec.dtypes:
            got = str(x.dtype) if isinstance(x, Tensor) else type(x).__name__
            kind = (
                "truth values" if torch.bool in spec.dtypes else "integers" if torch.int64 in spec.dtypes else "floats"
            )
            raise TypeError(f"`{spec.name}`: expected a tensor of {kind}, got {got}")
        shape = x.shape
        if len(shape) != 1 + len(spec.shape) or (not open_sizes and shape[1:] != spec.shape):
            raise ValueError(_shape_error(spec, shape))
        if len(specs) > 1 and shape[0] != inputs[0].shape[0]:
            counts = f"{inputs[0].shape[0]} samples of `{specs[0].name}`, and {shape[0]} of `{spec.name}`"
            raise ValueError(f"inputs differ in the size of the batch: {counts}")


def _shape_error(spec: ExpectedInput, shape: torch.Size) -> str:
    """Return the message for an input of the wrong shape."""
    hint = "; one sample is `x[None]`" if shape == spec.shape else ""
    if len(shape) == 1 + len(spec.shape):
        hint = "; `module.open_sizes = True` lets other sizes through"
    return f"`{spec.name}`: expected [{', '.join(['batch', *map(str, spec.shape)])}], got {list(shape)}{hint}"

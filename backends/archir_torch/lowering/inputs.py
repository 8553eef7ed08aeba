"""Checks of a network's inputs: their number, dtypes, ranks and sizes."""

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
    """Accepted dtypes. A float input accepts all floating-point dtypes, since networks also run in float64 and in
    16 bits."""


def expected_inputs(inputs: Mapping[str, TensorType]) -> tuple[ExpectedInput, ...]:
    """Return the name, shape and accepted dtypes of each input, from the input types by name."""
    dtypes = {"bool": frozenset({torch.bool}), **dict.fromkeys(INTEGER_DTYPES, _INTEGERS)}
    return tuple(ExpectedInput(name, x.shape, dtypes.get(x.dtype, _FLOATS)) for name, x in inputs.items())


def check_inputs(inputs: Sequence[Tensor], specs: Sequence[ExpectedInput], open_sizes: bool = False) -> None:
    """Check the inputs of a network.

    Raises TypeError for a wrong number of inputs or a wrong dtype, and ValueError for a wrong rank, a wrong size, or
    batch
    sizes that differ between inputs. With `open_sizes`, sizes are not checked: the operations accept or reject them.
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

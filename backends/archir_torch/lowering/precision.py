"""Numeric precision in which networks run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from archir.diagnostics.errors import fail, join_names

_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
_PRECISIONS = ("auto", "float32", *_DTYPES)


def autocast(precision: str, device: str) -> torch.autocast:
    """Return the autocast context for a precision on a device. Raises ArchError (A1109) for an unknown precision."""
    device_type = torch.device(device).type
    dtype = _DTYPES.get(resolve_precision(precision, device_type))
    return torch.autocast(device_type, dtype, enabled=dtype is not None)


def resolve_precision(precision: str, device: str) -> str:
    """Resolve `auto` to bf16 on a GPU that supports it in hardware, otherwise to float32; return other values
    unchanged."""
    if precision not in _PRECISIONS:
        raise fail("A1109", f"there is no precision `{precision}`: precisions are {join_names(_PRECISIONS)}")
    if precision != "auto":
        return precision
    return "bf16" if device == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False) else "float32"


@contextmanager
def full_precision(device: str) -> Iterator[None]:
    """Context manager that turns off autocast and TF32, so that small differences of gradients survive rounding.

    By default, convolutions on GPUs use TF32, which keeps 10 of the 23 mantissa bits of float32.
    """
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    try:
        with torch.autocast(torch.device(device).type, enabled=False):
            yield
    finally:
        torch.backends.cudnn.allow_tf32 = before

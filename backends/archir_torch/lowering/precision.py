"""In how many digits networks run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


def autocast(precision: str, device: str) -> torch.autocast:
    """What makes networks run in a precision on a device."""
    kind = torch.device(device).type
    dtype = _DTYPES.get(chosen_precision(precision, kind))
    return torch.autocast(kind, dtype, enabled=dtype is not None)


def chosen_precision(precision: str, device: str) -> str:
    """What `auto` means on a device: bf16 on a GPU that computes in it, float32 elsewhere."""
    if precision != "auto":
        return precision
    return "bf16" if device == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False) else "float32"


@contextmanager
def exact(device: str) -> Iterator[None]:
    """Inside, float32 keeps all its digits: differences of gradients are small beside what they are taken of.

    Convolutions on GPUs take 10 of the 23 bits unless they are told not to (TF32).
    """
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    try:
        with torch.autocast(torch.device(device).type, enabled=False):
            yield
    finally:
        torch.backends.cudnn.allow_tf32 = before

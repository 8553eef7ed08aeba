"""Validation of the requested device, and control of the number of CPU threads that torch uses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from archir.diagnostics.errors import fail
from archir.utils.settings import suggest_setting


def resolve_device(name: str | None) -> str:
    """Return the name of an available device: `cpu`, `cuda` or `cuda:N`.

    None as the requested device selects a GPU if there is one, otherwise the CPU. Raises ArchError (A1505) if the name
    is invalid or the device does not exist.
    """
    if name is None:
        return "cuda" if torch.cuda.is_available() else "cpu"
    match = re.fullmatch(r"cpu|cuda(?::(0|[1-9]\d{0,3}))?", name)
    if match is None:
        prefix = f"{hint} D" if (hint := suggest_setting(name.partition(":")[0], ("cpu", "cuda"))) else "d"
        text = f"there is no device {name!a}"
        raise fail("A1505", text, None, f"{prefix}evices are cpu, cuda, and cuda:1 for the second GPU")
    if name != "cpu":
        if not torch.cuda.is_available():
            raise fail("A1505", "torch finds no CUDA device here", None, "`archir doctor` looks for the usual causes")
        count = torch.cuda.device_count()
        if int(match[1] or 0) >= count:
            raise fail("A1505", f"there is no {name}: torch finds {count} GPU{'s' * (count > 1)}")
    return name


@contextmanager
def torch_threads(count: int | None) -> Iterator[None]:
    """Context manager that sets the number of CPU threads of torch; None keeps the current number."""
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)

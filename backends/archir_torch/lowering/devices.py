"""The device that is asked for, which must be there before anything begins, and the threads of the CPU."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from archir.diagnostics.errors import fail
from archir.utils.settings import meant


def device_of(name: str | None) -> str:
    """A device of a name, `cpu`, `cuda`, `cuda:1`, by default a GPU where there is one. Raises ArchError (A1505)."""
    if name is None:
        return "cuda" if torch.cuda.is_available() else "cpu"
    found = re.fullmatch(r"cpu|cuda(?::(0|[1-9]\d{0,3}))?", name)
    if found is None:
        near = f"{hint} D" if (hint := meant(name.partition(":")[0], ("cpu", "cuda"))) else "d"
        text = f"there is no device {name!a}"
        raise fail("A1505", text, None, f"{near}evices are cpu, cuda, and cuda:1 for the second GPU")
    if name != "cpu":
        if not torch.cuda.is_available():
            raise fail("A1505", "torch finds no CUDA device here", None, "`archir doctor` looks for the usual causes")
        count = torch.cuda.device_count()
        if int(found[1] or 0) >= count:
            raise fail("A1505", f"there is no {name}: torch finds {count} GPU{'s' * (count > 1)}")
    return name


@contextmanager
def threads(count: int | None) -> Iterator[None]:
    """So many threads of the CPU meanwhile; None: as many as there are."""
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)

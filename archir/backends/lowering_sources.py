"""Finds the source locations of lowering rules without importing a backend, which takes seconds."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

from archir.backends import modules
from archir.diagnostics.errors import ArchError
from archir.ir.op import Op
from archir.utils.files import read_bytes

_MAX_BYTES = 2**20
"""Maximum size in bytes of a source file to search."""


def lowering_locations(op: type[Op]) -> list[str]:
    """Return file and line of an operation's lowering rule in each backend, such as
    `archir_torch/lowering/operations/conv.py:12`.

    The rule must be in `lowering/operations/`, in a file with the name of the operation's module; rules
    elsewhere, as plugins may have them, are not found.
    """
    family = op.__module__.rpartition(".")[2]
    locations = []
    for module in modules().values():
        spec = find_spec(module)
        for folder in (spec.submodule_search_locations or []) if spec is not None else []:
            path = Path(folder) / "lowering" / "operations" / f"{family}.py"
            try:
                text = read_bytes(path, _MAX_BYTES).decode("utf-8")
            except (OSError, UnicodeDecodeError, ArchError):
                continue
            if (mention := re.search(rf"\b{op.__name__}\b", text)) is not None:
                line = text.count("\n", 0, mention.start()) + 1
                locations.append(f"{path.relative_to(Path(folder).parent).as_posix()}:{line}")
    return locations

"""Where the source of a lowering stands, found without importing a backend: that takes seconds."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

from archir.backends import modules
from archir.diagnostics.errors import ArchError
from archir.ir.op import Op
from archir.utils.files import read_bytes

_MOST_BYTES = 2**20


def written(op: type[Op]) -> list[str]:
    """For each backend with a rule for an operation, the file and the line, such as
    `archir_torch/lowering/operations/conv.py:12`.

    Rules lie in `lowering/operations/`, in a file that is called as that of the operation; those of plugins may lie
    anywhere, and are not found.
    """
    family = op.__module__.rpartition(".")[2]
    found = []
    for module in modules().values():
        spec = find_spec(module)
        for folder in (spec.submodule_search_locations or []) if spec is not None else []:
            path = Path(folder) / "lowering" / "operations" / f"{family}.py"
            try:
                text = read_bytes(path, _MOST_BYTES).decode("utf-8")
            except (OSError, UnicodeDecodeError, ArchError):
                continue
            if (mention := re.search(rf"\b{op.__name__}\b", text)) is not None:
                line = text.count("\n", 0, mention.start()) + 1
                found.append(f"{path.relative_to(Path(folder).parent).as_posix()}:{line}")
    return found

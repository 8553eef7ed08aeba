"""Labels for the inputs and outputs of an imported module in archir's graph."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from torch.utils import _pytree as pytree

from archir.language.decompiler.spelling import RESERVED


def output_labels(outputs: Any) -> dict[str, Any]:
    """Return a module's results by output label.

    The results are the tensors at the top level of the returned structure or, if there are none, all nested tensors.
    """
    if isinstance(outputs, Mapping):
        pairs = [(str(key), value) for key, value in outputs.items() if not isinstance(value, Mapping | list | tuple)]
        if pairs:
            return _distinct(pairs)
    items = outputs if isinstance(outputs, list | tuple) else ()
    leaves = [value for value in items if not isinstance(value, Mapping | list | tuple)]
    leaves = leaves or pytree.tree_leaves(outputs)
    return {"result" if len(leaves) == 1 else f"result_{place}": value for place, value in enumerate(leaves)}


def _distinct(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Convert pairs of name and value to a dict whose keys are valid and distinct names."""
    result: dict[str, Any] = {}
    for name, value in pairs:
        label, number = valid_name(name), 1
        while label in result:
            number += 1
            label = f"{valid_name(name)}_{number}"
        result[label] = value
    return result


def valid_name(name: str) -> str:
    """Convert a text to a valid name for an input or output of a program."""
    name = re.sub(r"\W", "_", name, flags=re.ASCII) or "result"
    name = f"result_{name}" if name[0].isdigit() else name
    return f"{name}_" if name in RESERVED else name

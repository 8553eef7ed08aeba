"""The names of what a module takes and gives."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from torch.utils import _pytree as pytree

from archir.language.decompiler.spelling import RESERVED


def labelled(outputs: Any) -> dict[str, Any]:
    """What a module gives, by the names of outputs: what stands at the top, or if nothing does, all there is."""
    if isinstance(outputs, Mapping):
        pairs = [(str(key), one) for key, one in outputs.items() if not isinstance(one, Mapping | list | tuple)]
        if pairs:
            return _distinct(pairs)
    given = outputs if isinstance(outputs, list | tuple) else ()
    tops = [one for one in given if not isinstance(one, Mapping | list | tuple)]
    tops = tops or pytree.tree_leaves(outputs)
    return {"result" if len(tops) == 1 else f"result_{place}": one for place, one in enumerate(tops)}


def _distinct(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, one in pairs:
        word, number = named(name), 1
        while word in found:
            number += 1
            word = f"{named(name)}_{number}"
        found[word] = one
    return found


def named(name: str) -> str:
    """A name that an input or output of a program can have."""
    name = re.sub(r"\W", "_", name, flags=re.ASCII) or "result"
    name = f"result_{name}" if name[0].isdigit() else name
    return f"{name}_" if name in RESERVED else name

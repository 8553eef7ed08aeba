"""Valid names and shortest equivalent attribute values for decompiled programs. Names may come from untrusted
files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from archir.ir.op import Op, attribute_names
from archir.ir.types import TensorType
from archir.language.elaboration.cost_names import COSTS, LATENCY
from archir.language.elaboration.static import FOLDS, FUNCTIONS
from archir.ops.conv import Convolution, ConvTranspose
from archir.ops.pool import AvgPool, MaxPool
from archir.ops.windows import collapse_sizes
from archir_grammar import keywords

MAX_NAME_CHARACTERS = 40
"""Maximum length of a name in characters."""

RESERVED = keywords() | {"i", "j", "k", "weights"} | FUNCTIONS.keys() | FOLDS.keys() | {*COSTS, LATENCY}
"""Words that decompiled programs may not use as names: keywords of the language, loop indices, `weights`, and the
names of built-in functions and costs."""


def snake(name: str) -> str:
    """Convert a name to snake case: `MultiHeadAttention2d` -> `multi_head_attention2d`. The result is always a valid
    name."""
    name = re.sub(r"[^A-Za-z0-9]+", "_", name)
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
    name = re.sub(r"_+", "_", name).strip("_")[:MAX_NAME_CHARACTERS] or "block"
    name = name if name[0].isalpha() else f"block_{name}"
    return f"{name}_block" if name in RESERVED else name


def arguments(op: Op, types: Sequence[TensorType]) -> dict[str, Any]:
    """Return the attributes of an operation, each written in the shortest equivalent way."""
    attributes = {name: getattr(op, name) for name in attribute_names(type(op))}
    for name in ("kernel", "stride", "dilation"):
        if name in attributes:
            attributes[name] = collapse_sizes(attributes[name])
    if isinstance(op, Convolution | MaxPool | AvgPool) and not isinstance(op, ConvTranspose):
        attributes["padding"] = _padding(op)
    return attributes


def _padding(op: Any) -> Any:
    """Return an equivalent "same", "valid" or single integer for the padding if there is one, else the padding
    itself."""
    pads: tuple[int, ...] = op.pads
    spans = [window.span - 1 for window in reversed(op.windows)]
    if pads == tuple(span // 2 for span in spans for _ in range(2)) and not any(span % 2 for span in spans):
        return "same"
    if not any(pads):
        return "valid"
    return pads[0] if len(set(pads)) == 1 else op.padding

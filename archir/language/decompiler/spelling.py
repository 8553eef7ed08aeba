"""How names and attributes are spelled. Names come from files that anybody may have made."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from archir.ir.op import Op, attribute_names
from archir.ir.types import TensorType
from archir.language.elaboration.locals import COSTS, LATENCY
from archir.language.elaboration.static import FOLDS, FUNCTIONS
from archir.ops.conv import Convolution, ConvTranspose
from archir.ops.pool import AvgPool, MaxPool
from archir.ops.windows import alike

KEYWORDS = frozenset(
    (
        *("import", "as", "const", "block", "cell", "net", "input", "output", "return", "for", "in", "repeat", "if"),
        *("else", "require", "choose", "own", "match", "where", "of", "and", "or", "not", "true", "false", "none"),
        *("i", "j", "k", "weights"),
    )
)
"""Words of the language, and what texts use themselves."""
LONGEST = 40
"""Characters of a name."""

RESERVED = KEYWORDS | FUNCTIONS.keys() | FOLDS.keys() | {*COSTS, LATENCY}
"""What no name may be."""


def snake(name: str) -> str:
    """`MultiHeadAttention2d` -> `multi_head_attention2d`; always a name."""
    name = re.sub(r"[^A-Za-z0-9]+", "_", name)
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
    name = re.sub(r"_+", "_", name).strip("_")[:LONGEST] or "block"
    name = name if name[0].isalpha() else f"block_{name}"
    return f"{name}_block" if name in RESERVED else name


def arguments(op: Op, types: Sequence[TensorType]) -> dict[str, Any]:
    """An operation's attributes, the simplest of those that mean the same."""
    given = {name: getattr(op, name) for name in attribute_names(type(op))}
    for name in ("kernel", "stride", "dilation"):
        if name in given:
            given[name] = alike(given[name])
    if isinstance(op, Convolution | MaxPool | AvgPool) and not isinstance(op, ConvTranspose):
        given["padding"] = _padding(op)
    return given


def _padding(op: Any) -> Any:
    """Zeros as "same", "valid", one number, or as they are."""
    pads: tuple[int, ...] = op.pads
    spans = [window.span - 1 for window in reversed(op.windows)]
    if pads == tuple(span // 2 for span in spans for _ in range(2)) and not any(span % 2 for span in spans):
        return "same"
    if not any(pads):
        return "valid"
    return pads[0] if len(set(pads)) == 1 else op.padding

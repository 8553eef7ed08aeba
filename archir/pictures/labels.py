"""Label texts in pictures, for operations, shapes, values and costs."""

from __future__ import annotations

from dataclasses import fields
from typing import Literal

from archir.diagrams.diagram import Choice, Value, leaves, same, varies
from archir.ir.op import Op
from archir.ir.printer import ValueWriter
from archir.ir.types import TensorType
from archir.utils.counts import count_noun

Kind = Literal["convolution", "attention", "norm", "pooling", "data", "io", "choice", "through", "block"]
"""Kind of a box, which determines its colour."""

KINDS: dict[Kind, str] = {
    "io": "input, output",
    "convolution": "convolution, linear map",
    "attention": "attention, matrix product",
    "norm": "norm, activation",
    "pooling": "pooling",
    "data": "arithmetic, data movement",
    "choice": "choice",
    "through": "unchanged",
    "block": "block",
}
"""Names of the kinds of boxes, in legend order."""

_FAMILIES: dict[str, Kind] = {
    "conv": "convolution",
    "attention": "attention",
    "norm": "norm",
    "activation": "norm",
    "pool": "pooling",
}
"""Maps files of `archir.ops` to the kind of box for their operations; other files have the kind `data`."""
_IN_SHAPE = {"channels", "shape", "dims"}
"""Attributes omitted from labels because the output shape shows them."""
_MAX_CHARACTERS = 40
"""Maximum length of a label in characters."""
_MAX_VALUES = 5
"""Maximum number of possible values that a label lists."""


def kind(op: Op) -> Kind:
    """Return the kind of box for an operation, based on the file of `archir.ops` that defines it."""
    if op.name == "matmul":
        return "attention"
    return _FAMILIES.get(type(op).__module__.rsplit(".", 1)[-1], "data")


def printable(text: str) -> str:
    """Replace unprintable characters in a text: whitespace by a space, others by U+FFFD."""
    return "".join(c if c.isprintable() else " " if c.isspace() else "\ufffd" for c in text)


def shortened(text: str, max_characters: int = _MAX_CHARACTERS) -> str:
    """Return a text on one line, truncated to `max_characters`."""
    text = " ".join(text.split())
    return text if len(text) <= max_characters else text[: max_characters - 1] + "…"


def value(x: Value) -> str:
    """Format a value; for one that depends on choices, its possible values: `3 | 5 | 7`."""
    if not varies(x):
        return ValueWriter().plain(x)
    values = [ValueWriter().plain(leaf) for leaf in leaves(x)]
    return " | ".join(values[:_MAX_VALUES]) + (" | …" if len(values) > _MAX_VALUES else "")


def shape(x: TensorType | None) -> str:
    """Format a shape, such as `64×112×112`; a dimension that depends on choices shows its possible sizes:
    `16|32×8×8`."""
    if x is None:
        return ""
    return "×".join(value(dim).replace(" | ", "|") for dim in x.dims) or "scalar"


def heading(op: Op) -> str:
    """Return the title of an operation's box: its name and kernel size, such as `conv 3×3`."""
    kernel = getattr(op, "kernel", None)
    if kernel is None:
        return op.name
    sizes = kernel if isinstance(kernel, tuple) else (kernel,) if op.name.endswith("1d") else (kernel, kernel)
    text = "×".join(value(size).replace(" | ", "|") for size in (sizes[:1] if varies(kernel) else sizes))
    return f"{op.name} {text}"


def settings(op: Op) -> str:
    """Format the non-default attributes that neither the title nor the shape shows: `stride 2, groups 32`."""
    shown = _IN_SHAPE | {"kernel"}
    changed = (f for f in fields(op) if f.name not in shown and not same(getattr(op, f.name), f.default))
    return ", ".join(
        f"{f.name}" if getattr(op, f.name) is True else f"{f.name} {value(getattr(op, f.name))}" for f in changed
    )


def amount(number: int) -> str:
    """Format a count with three significant digits: `940`, `12.3K`, `25.6M`, `4.09G`."""
    size, unit = float(number), ""
    for larger in "KMGTPE":
        if size >= 999.5:
            size, unit = size / 1000, larger
    return f"{size:.3g}{unit}" if unit else str(number)


def outcomes(choice: Choice, selected: list[int]) -> str:
    """Format outcomes of a choice: `3 | 5`, or `a + b | a + c` if it selects several alternatives."""
    labels = [choice.label(outcome) for outcome in selected[: _MAX_VALUES + 1]]
    texts = [" + ".join(map(str, label)) if isinstance(label, list) else str(label) for label in labels]
    return " | ".join(texts[:_MAX_VALUES]) + (" | …" if len(texts) > _MAX_VALUES else "")


def taken(choice: Choice) -> str:
    """Format how many alternatives a choice selects: `7 alternatives` (one of 7) or `2 of 3 alternatives`."""
    return ("" if choice.k is None else f"{choice.k} of ") + count_noun(len(choice.alternatives), "alternative")


def tags(choice: Choice) -> str:
    """Format the tags of a choice: `@operator @stage`."""
    return " ".join(f"@{tag}" for tag in sorted(choice.tags))


_NARROW, _WIDE = set("iljtfrI.,:;|!'[]() "), set("mwMW@%…×—+<>=")
"""Characters that are clearly narrower, and clearly wider, than most."""


def width(text: str, size: float, bold: bool = False) -> float:
    """Estimate the width in pixels of a text in a system font; errs towards too large."""
    units = (
        0.39 if c in _NARROW else 0.9 if c in _WIDE else 1.05 if ord(c) > 0x2E80 else 0.72 if c.isupper() else 0.63
        for c in text
    )
    return size * sum(units) * (1.1 if bold else 1.0)


SANS = "system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,'Noto Sans',sans-serif"
"""CSS list of sans-serif fonts of common operating systems."""

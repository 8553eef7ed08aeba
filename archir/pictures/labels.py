"""What is written on a picture: short texts for operations, shapes, values and costs."""

from __future__ import annotations

from dataclasses import fields
from typing import Literal

from archir.diagrams.cases import Choice, Value, leaves, same, varies
from archir.ir.op import Op
from archir.ir.printer import ValueWriter
from archir.ir.types import TensorType

Kind = Literal["convolution", "attention", "norm", "pooling", "data", "io", "choice", "through", "block"]

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
"""The kinds of boxes, in the order of the legend, and what the legend calls them."""

_FAMILIES: dict[str, Kind] = {
    "conv": "convolution",
    "attention": "attention",
    "norm": "norm",
    "activation": "norm",
    "pool": "pooling",
}
_IN_SHAPE = {"channels", "shape", "dims"}
"""Attributes that the shape of the result tells already."""
_MOST_CHARACTERS = 40
_MOST_VALUES = 5


def kind(op: Op) -> Kind:
    """The kind of an operation: by the family whose file it stands in, or that of a matrix product."""
    if op.name == "matmul":
        return "attention"
    return _FAMILIES.get(type(op).__module__.rsplit(".", 1)[-1], "data")


def printable(text: str) -> str:
    """A text in one line, with a replacement in place of every character that does not print."""
    return "".join(c if c.isprintable() else " " if c.isspace() else "\ufffd" for c in text)


def shortened(text: str, most: int = _MOST_CHARACTERS) -> str:
    """A text of at most so many characters, in one line."""
    text = " ".join(text.split())
    return text if len(text) <= most else text[: most - 1] + "…"


def value(of: Value) -> str:
    """A value; one that depends on choices as its possible values, `3 | 5 | 7`."""
    if not varies(of):
        return ValueWriter().plain(of)
    found = [ValueWriter().plain(leaf) for leaf in leaves(of)]
    return " | ".join(found[:_MOST_VALUES]) + (" | …" if len(found) > _MOST_VALUES else "")


def shape(of: TensorType | None) -> str:
    """`64×112×112`; a dimension that depends on choices as its possible sizes, `16|32×8×8`."""
    if of is None:
        return ""
    return "×".join(value(dim).replace(" | ", "|") for dim in of.dims) or "scalar"


def heading(op: Op) -> str:
    """An operation's name and window: `conv 3×3`."""
    kernel = getattr(op, "kernel", None)
    if kernel is None:
        return op.name
    sizes = kernel if isinstance(kernel, tuple) else (kernel,) if op.name.endswith("1d") else (kernel, kernel)
    text = "×".join(value(size).replace(" | ", "|") for size in (sizes[:1] if varies(kernel) else sizes))
    return f"{op.name} {text}"


def settings(op: Op) -> str:
    """Attributes that are not as usual and not told otherwise: `stride 2, groups 32`."""
    told = _IN_SHAPE | {"kernel"}
    unusual = (f for f in fields(op) if f.name not in told and not same(getattr(op, f.name), f.default))
    return ", ".join(
        f"{f.name}" if getattr(op, f.name) is True else f"{f.name} {value(getattr(op, f.name))}" for f in unusual
    )


def amount(number: int) -> str:
    """A number in three digits: `940`, `12.3K`, `25.6M`, `4.09G`."""
    size, unit = float(number), ""
    for larger in "KMGTPE":
        if size >= 999.5:
            size, unit = size / 1000, larger
    return f"{size:.3g}{unit}" if unit else str(number)


def counted(number: int, word: str) -> str:
    """`1 choice`, `3 choices`."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def outcomes(choice: Choice, which: list[int]) -> str:
    """Outcomes of a choice as one text: `3 | 5`, or `a + b | a + c` where several are taken."""
    labels = [choice.label(outcome) for outcome in which[: _MOST_VALUES + 1]]
    texts = [" + ".join(map(str, label)) if isinstance(label, list) else str(label) for label in labels]
    return " | ".join(texts[:_MOST_VALUES]) + (" | …" if len(texts) > _MOST_VALUES else "")


def taken(choice: Choice) -> str:
    """`7 alternatives`, `2 of 3 alternatives`."""
    return ("" if choice.take is None else f"{choice.take} of ") + counted(len(choice.alternatives), "alternative")


def tags(choice: Choice) -> str:
    """`@operator @stage`."""
    return " ".join(f"@{tag}" for tag in sorted(choice.tags))


_NARROW, _WIDE = set("iljtfrI.,:;|!'[]() "), set("mwMW@%…×—+<>=")


def width(text: str, size: float, bold: bool = False) -> float:
    """About how wide a text is in a system font, in pixels; rather too much than too little."""
    units = (
        0.39 if c in _NARROW else 0.9 if c in _WIDE else 1.05 if ord(c) > 0x2E80 else 0.72 if c.isupper() else 0.63
        for c in text
    )
    return size * sum(units) * (1.1 if bold else 1.0)


SANS = "system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,'Noto Sans',sans-serif"
"""Fonts that systems come with."""

"""Text with holes for constants: calls that differ in numbers alone have the same text."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from archir_torch.lowering.layers import Argument

_HOLE = "\N{SYMBOL FOR NULL}"
_NUMBERED = re.compile(f"{_HOLE}(\\d+)_")


@dataclass(frozen=True)
class Code:
    """An argument that is an expression, not a constant."""

    text: str

    def __repr__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Mold:
    """A text and the constants that belong into its holes."""

    text: str
    holes: tuple[Argument, ...] = ()

    def fill(self, constants: Sequence[str]) -> str:
        """The text with these expressions in its holes."""
        filled = iter(
            f", {hole.name}={constant}" if hole.keyword and constant else constant
            for hole, constant in zip(self.holes, constants, strict=True)
        )
        return re.sub(_HOLE, lambda _: next(filled), self.text)


def called(name: str, arguments: Sequence[Argument]) -> Mold:
    """`name(...)`, its constants in holes; what is given by keyword brings its comma along when it is filled in."""
    holes: list[Argument] = []
    given = [_shaped(argument, holes) for argument in arguments if not argument.keyword]
    keywords = [argument for argument in arguments if argument.keyword]
    return Mold(f"{name}({', '.join(given)}{_HOLE * len(keywords)})", (*holes, *keywords))


def _shaped(argument: Argument, holes: list[Argument]) -> str:
    """A hole for a constant, one each for the items of a tuple."""
    if isinstance(argument.value, tuple) and argument.value:
        inner = [_shaped(Argument(argument.name, item), holes) for item in argument.value]
        return f"({', '.join(inner)}{',' if len(inner) == 1 else ''})"
    holes.append(argument)
    return _HOLE


def with_holes(text: str, attributes: Mapping[str, Any]) -> Mold:
    """An expression whose numbers are holes, named as the attributes that have these values."""
    names = {value: name for name, whole in attributes.items() for value in _scalars(whole)}
    emptied = _Emptied()
    text = tidy(ast.unparse(emptied.visit(ast.parse(text, mode="eval"))))
    found = [emptied.constants[int(number)] for number in _NUMBERED.findall(text)]
    holes = tuple(Argument(names.get(value, "size"), value) for value in found)
    return Mold(_NUMBERED.sub(_HOLE, text), holes)


def _scalars(value: Any) -> Iterator[int | float]:
    if isinstance(value, tuple | list):
        for item in value:
            yield from _scalars(item)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield value


class _Emptied(ast.NodeTransformer):
    def __init__(self) -> None:
        self.constants: list[int | float] = []

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        return node  # -1 is an axis, the last one, and no size

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        if ast.unparse(node.value).endswith(".shape"):
            return node
        self.generic_visit(node)
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        if isinstance(node.value, bool) or not isinstance(node.value, int | float):
            return node
        self.constants.append(node.value)
        return ast.Name(f"{_HOLE}{len(self.constants) - 1}_")


def literal(value: Any) -> str:
    """A constant as it is written."""
    if isinstance(value, tuple):
        return f"({', '.join(map(literal, value))}{',' * (len(value) == 1)})"
    return f'float("{value!r}")' if isinstance(value, float) and not isfinite(value) else tidy(repr(value))


def tidy(text: str) -> str:
    """Strings in double quotes, as formatters have them."""
    return text if '"' in text else text.replace("'", '"')

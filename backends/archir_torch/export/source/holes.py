"""Source text with holes in place of constants, so that calls that differ only in numbers have the same text."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from archir_torch.lowering.layers import Argument

_HOLE = "\N{SYMBOL FOR NULL}"
"""Character that stands for a hole."""
_NUMBERED = re.compile(f"{_HOLE}(\\d+)_")
"""Pattern of a numbered hole, as inserted into syntax trees by `with_holes`."""


@dataclass(frozen=True)
class Code:
    """Argument given as Python source instead of a constant."""

    text: str

    def __repr__(self) -> str:
        return self.text


@dataclass(frozen=True)
class TextTemplate:
    """Source text with holes, and the constants that fill them."""

    text: str
    holes: tuple[Argument, ...] = ()

    def fill(self, constants: Sequence[str]) -> str:
        """Return the text with the given expressions in its holes."""
        filled = iter(
            f", {hole.name}={constant}" if hole.keyword and constant else constant
            for hole, constant in zip(self.holes, constants, strict=True)
        )
        return re.sub(_HOLE, lambda _: next(filled), self.text)


def call_template(name: str, arguments: Sequence[Argument]) -> TextTemplate:
    """Return the text of a call `name(...)` with holes for its constants.

    The hole of a keyword argument also stands for the comma and the keyword, so that an empty filling omits the
    argument.
    """
    holes: list[Argument] = []
    positional = [_hole_for(argument, holes) for argument in arguments if not argument.keyword]
    keywords = [argument for argument in arguments if argument.keyword]
    return TextTemplate(f"{name}({', '.join(positional)}{_HOLE * len(keywords)})", (*holes, *keywords))


def _hole_for(argument: Argument, holes: list[Argument]) -> str:
    """Return a hole for a constant; for a tuple, return a tuple with one hole per item."""
    if isinstance(argument.value, tuple) and argument.value:
        inner = [_hole_for(Argument(argument.name, item), holes) for item in argument.value]
        return f"({', '.join(inner)}{',' if len(inner) == 1 else ''})"
    holes.append(argument)
    return _HOLE


def with_holes(text: str, attributes: Mapping[str, Any]) -> TextTemplate:
    """Replace the numbers in an expression by holes, each named after the attribute that has this value."""
    names = {value: name for name, attribute_value in attributes.items() for value in _scalars(attribute_value)}
    inserter = _HoleInserter()
    text = tidy(ast.unparse(inserter.visit(ast.parse(text, mode="eval"))))
    constants = [inserter.constants[int(number)] for number in _NUMBERED.findall(text)]
    holes = tuple(Argument(names.get(value, "size"), value) for value in constants)
    return TextTemplate(_NUMBERED.sub(_HOLE, text), holes)


def _scalars(value: Any) -> Iterator[int | float]:
    """Yield all numbers in a value, including those in nested lists and tuples."""
    if isinstance(value, tuple | list):
        for item in value:
            yield from _scalars(item)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield value


class _HoleInserter(ast.NodeTransformer):
    """Replaces numbers by numbered holes and collects them in `constants`.

    Negative numbers (axes) and indices of shapes are kept.
    """

    def __init__(self) -> None:
        self.constants: list[int | float] = []

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        return node  # -1 is the last axis, not a size

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
    """Return a constant as Python source code."""
    if isinstance(value, tuple):
        return f"({', '.join(map(literal, value))}{',' * (len(value) == 1)})"
    return f'float("{value!r}")' if isinstance(value, float) and not isfinite(value) else tidy(repr(value))


def tidy(text: str) -> str:
    """Replace single quotes of strings by double quotes, as code formatters do."""
    return text if '"' in text else text.replace("'", '"')

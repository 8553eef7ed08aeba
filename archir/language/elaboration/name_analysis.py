"""Syntactic name analysis: the names that a body assigns, and those that it reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from typing import Any

from archir.language.elaboration.cost_names import COSTS, LATENCY
from archir.language.syntax import ast


def assigned(tree: Any) -> Iterator[str]:
    """Yield the names that are assigned anywhere in a body; a `require` counts as assigning the names of costs."""
    for part in walk(tree):
        match part:
            case ast.Assign() | ast.ForLoop() | ast.For():
                yield from (target.text for target in part.targets)
            case ast.Repeat(index=ast.Name() as index):
                yield index.text
            case ast.Input():
                yield part.name.text
            case ast.ChooseSubset(label=ast.Name() as label, where=ast.Expr()):
                yield label.text
            case ast.Require():
                yield from (*COSTS, LATENCY)


def walk(tree: Any) -> Iterator[ast.Tree]:
    """Yield the syntax nodes of a tree in source order, except names in defining positions (`_DEFINING_FIELDS`)."""
    stack = [tree]
    while stack:
        part = stack.pop()
        if type(part) is tuple:
            stack += part[::-1]
        elif isinstance(part, ast.Tree):
            yield part
            stack += [getattr(part, name) for name in _reading_fields(type(part).__name__)]


def names_read(tree: Any) -> frozenset[str]:
    """Return all names that are read in a syntax tree."""
    return frozenset(part.text for part in walk(tree) if isinstance(part, ast.Name))


_DEFINING_FIELDS: dict[type[ast.Tree], tuple[str, ...]] = {
    ast.Definition: ("name",),
    ast.Param: ("name",),
    ast.Argument: ("name",),
    ast.Attribute: ("name",),
    ast.Alternative: ("name",),
    ast.ChooseValue: ("label",),
    ast.ChooseOne: ("label",),
    ast.ChooseSubset: ("label",),
    ast.Type: ("dtype",),
    ast.Input: ("name",),
    ast.Output: ("name",),
    ast.Assign: ("targets",),
    ast.ForLoop: ("targets",),
    ast.For: ("targets",),
    ast.Repeat: ("index",),
}
"""Fields in which names are defined, not read, by syntax node class."""


@cache
def _reading_fields(name: str) -> tuple[str, ...]:
    """Return the fields of a syntax node class in which names may be read, in reverse order."""
    kind_of = getattr(ast, name)
    excluded = ("span", "depth", *_DEFINING_FIELDS.get(kind_of, ()))
    return tuple(field.name for field in reversed(fields(kind_of)) if field.name not in excluded)

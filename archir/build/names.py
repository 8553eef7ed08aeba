"""Names in bodies that nothing calls yet: unknown ones, and attributes that operations and blocks do not have."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from archir.build.evaluate import known_names
from archir.build.files import Module
from archir.build.values import Block
from archir.errors import Diagnostic, Note, suggest
from archir.ir.op import OPS
from archir.syntax import ast

_REQUIRE_NAMES = {"params", "macs"}


def check_names(module: Module) -> Iterator[Diagnostic]:
    """Problems with names in every definition of a file."""
    everywhere = set(known_names(module))
    for definition in module.definitions():
        local = {param.name.text for param in definition.params}
        local.update(_assigned(definition.body))
        for tree in _walk(definition):
            if isinstance(tree, ast.Name) and tree.text not in local | everywhere:
                yield Diagnostic("A0201", f"there is no `{tree}`", tree.span, suggest(tree.text, local | everywhere))
            elif isinstance(tree, ast.Call) and isinstance(tree.callee, ast.Name) and tree.callee.text not in local:
                yield from _arguments(tree, tree.callee.text, module)


def _arguments(call: ast.Call, name: str, module: Module) -> Iterator[Diagnostic]:
    callee = module.lookup(name)
    notes: tuple[Note, ...] = ()
    if isinstance(callee, Block):
        names = [param.name.text for param in callee.definition.params]
        word, notes = "parameter", (Note(f"`{name}` is defined here", callee.definition.name.span),)
    elif callee is None and name in OPS and not OPS[name].internal:
        names, word = [f.name for f in fields(OPS[name])], "attribute"
        names += [operand for operand in OPS[name].operands if not operand.startswith("*")]
    else:
        return
    for argument in call.arguments:
        if argument.name is not None and argument.name.text not in names:
            shown = [n for n in names if word == "parameter" or n not in OPS[name].operands]
            hint = suggest(argument.name.text, shown)
            hint = hint or (None if word == "parameter" else f"it has {', '.join(shown)}" if shown else "it has none")
            yield Diagnostic("A0203", f"`{name}` has no {word} `{argument.name}`", argument.name.span, hint, notes)


def _assigned(tree: Any) -> Iterator[str]:
    """Names that are given a value anywhere in a body."""
    for part in _walk(tree):
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
                yield from _REQUIRE_NAMES


def _walk(tree: Any) -> Iterator[ast.Tree]:
    """Every piece of syntax in which names are read."""
    if isinstance(tree, tuple):
        for part in tree:
            yield from _walk(part)
        return
    if not isinstance(tree, ast.Tree):
        return
    yield tree
    for field in fields(tree):
        if field.name in ("span", "depth") or field.name in _NAMING.get(type(tree), ()):
            continue
        yield from _walk(getattr(tree, field.name))


_NAMING: dict[type[ast.Tree], tuple[str, ...]] = {
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
"""Fields that give names rather than read them."""

"""Static checks of all definitions, even uncalled ones.

The checks find undefined names, unknown arguments, duplicate parameters, and comparisons with values that a choice
cannot have.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from itertools import islice

from archir.diagnostics.errors import Diagnostic, Note
from archir.diagnostics.hints import suggest
from archir.diagnostics.work import spend
from archir.ir.op import OPS
from archir.language.elaboration.context import MAX_DIAGNOSTICS, WEIGHTS
from archir.language.elaboration.evaluate import known_names
from archir.language.elaboration.foreign_names import attribute_hint
from archir.language.elaboration.module import Block, Module
from archir.language.elaboration.name_analysis import assigned, walk
from archir.language.elaboration.never_equal import impossible_comparisons
from archir.language.elaboration.unknown_names import unknown_name
from archir.language.syntax import ast


def check_names(module: Module) -> Iterator[Diagnostic]:
    """Yield diagnostics for names in all definitions of a file, at most `MAX_DIAGNOSTICS`."""
    return islice(_problems(module), MAX_DIAGNOSTICS)


def _problems(module: Module) -> Iterator[Diagnostic]:
    if module.incomplete:
        return
    everywhere = set(known_names(module))
    for definition in module.definitions():
        spend(5)
        yield from _duplicate_params(definition)
        yield from impossible_comparisons(definition, module)
        local = {param.name.text for param in definition.params}
        local.update(assigned(definition.body))
        for tree in walk(definition):
            spend(1)
            if isinstance(tree, ast.Name) and not (
                tree.text in local or tree.text in everywhere or OPS.find(tree.text)
            ):
                yield unknown_name(tree, local | everywhere, module)
            elif isinstance(tree, ast.Call) and isinstance(tree.callee, ast.Name) and tree.callee.text not in local:
                yield from _unknown_arguments(tree, tree.callee.text, module)


def _duplicate_params(definition: ast.Definition) -> Iterator[Diagnostic]:
    """Yield diagnostics (A0202) for duplicate parameters and for inputs that have the name of a parameter."""
    first: dict[str, ast.Name] = {}
    for param in definition.params:
        if param.name.text in first:
            text = f"the parameter `{param.name}` is defined twice"
            yield Diagnostic(
                "A0202", text, param.name.span, None, (Note("first defined here", first[param.name.text].span),)
            )
        first.setdefault(param.name.text, param.name)
    for statement in definition.body:
        if isinstance(statement, ast.Input) and statement.name.text in first:
            text = f"`{statement.name}` is a parameter and cannot also be an input"
            note = Note("the parameter", first[statement.name.text].span)
            yield Diagnostic("A0202", text, statement.name.span, None, (note,))


def _unknown_arguments(call: ast.Call, name: str, module: Module) -> Iterator[Diagnostic]:
    """Yield diagnostics (A0203) for named arguments that the called block or operation does not accept."""
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
        if argument.name is not None and argument.name.text not in (*names, WEIGHTS):
            shown = [n for n in names if word == "parameter" or n not in OPS[name].operands]
            hint = (suggest if word == "parameter" else attribute_hint)(argument.name.text, shown)
            yield Diagnostic("A0203", f"`{name}` has no {word} `{argument.name}`", argument.name.span, hint, notes)

"""Static checks of all definitions, even uncalled ones.

The checks find undefined names, unknown arguments, duplicate parameters, and comparisons with values that a choice
cannot have.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from itertools import islice, pairwise
from typing import Any

from archir.diagnostics.errors import Diagnostic, Note
from archir.diagnostics.hints import suggest
from archir.diagnostics.work import spend
from archir.ir.op import OPS
from archir.language.elaboration.context import MAX_DIAGNOSTICS, WEIGHTS
from archir.language.elaboration.equality import RULES, equal
from archir.language.elaboration.evaluate import known_names
from archir.language.elaboration.module import Block, Module
from archir.language.elaboration.name_analysis import assigned, walk
from archir.language.elaboration.values import Items, show
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
                from archir.language.elaboration.unknown_names import unknown_name

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
            from archir.language.elaboration.unknown_names import attribute_hint

            hint = (suggest if word == "parameter" else attribute_hint)(argument.name.text, shown)
            yield Diagnostic("A0203", f"`{name}` has no {word} `{argument.name}`", argument.name.span, hint, notes)


def impossible_comparisons(definition: ast.Definition, module: Module) -> Iterator[Diagnostic]:
    """Yield diagnostics (A0312) for comparisons and `match` patterns in a body that are true for no outcome."""
    options = _options(definition, module)
    for tree in walk(definition.body):
        match tree:
            case ast.Comparison():
                sides = [tree.first, *(operand for _, operand in tree.links)]
                for (op, _), (left, right) in zip(tree.links, pairwise(sides), strict=True):
                    yield from _check_comparison(op, left, right, options)
            case ast.Match(subject=ast.Name(text=name)) if name in options:
                for pattern in (pattern for arm in tree.arms for pattern in arm.patterns):
                    yield from _check_literals(name, [pattern], options[name])


def _check_comparison(op: str, left: ast.Expr, right: ast.Expr, options: dict[str, list[Any]]) -> Iterator[Diagnostic]:
    if op not in RULES:
        return
    if op in ("==", "!="):
        for variable, literal in ((left, right), (right, left)):
            if isinstance(variable, ast.Name) and variable.text in options:
                yield from _check_literals(variable.text, [literal], options[variable.text])
    elif isinstance(left, ast.Name) and left.text in options and isinstance(right, ast.Sequence) and right.items:
        yield from _check_literals(left.text, right.items, options[left.text])


def _check_literals(name: str, trees: Sequence[ast.Expr], options: list[Any]) -> Iterator[Diagnostic]:
    """Yield a diagnostic if the variable can equal none of the literals, although it could by their kinds."""
    values = [tree.value for tree in trees if isinstance(tree, ast.Literal)]
    equalities = [equal(value, option) for value in values for option in options]
    if len(values) < len(trees) or True in equalities or False not in equalities:
        return
    texts = [option for option in options if isinstance(option, str)]
    hint = suggest(str(values[0]), texts) or f"it is one of {', '.join(map(show, options[:8]))}"
    shown = show(values[0]) if len(values) == 1 else "any of these"
    yield Diagnostic("A0312", f"`{name}` is never {shown}", trees[0].span.to(trees[-1].span), hint)


def _options(definition: ast.Definition, module: Module) -> dict[str, list[Any]]:
    """Map each variable that is assigned only literals and choices among literals to all of these literals."""
    literals: dict[str, list[Any]] = {}
    chosen: set[str] = set()
    unknown = {param.name.text for param in definition.params}
    local = unknown | set(assigned(definition.body))
    for tree in walk(definition.body):
        if isinstance(tree, ast.Assign) and len(tree.targets) == 1:
            options = _possible_literals(tree.value, module, local)
            if options is not None:
                literals.setdefault(tree.targets[0].text, []).extend(options)
                chosen.update([tree.targets[0].text] if isinstance(tree.value, ast.Choose) else [])
                continue
        unknown.update(_assigned_names(tree))
    return {name: literals[name] for name in chosen - unknown}


def _assigned_names(tree: ast.Tree) -> Iterator[str]:
    """Yield the names that a syntax node assigns, not counting nested nodes."""
    match tree:
        case ast.Assign() | ast.ForLoop() | ast.For():
            yield from (target.text for target in tree.targets)
        case ast.Repeat(index=ast.Name() as name) | ast.ChooseSubset(label=ast.Name() as name):
            yield name.text
        case ast.Input():
            yield tree.name.text


def _possible_literals(tree: ast.Expr, module: Module, local: set[str]) -> list[Any] | None:
    """Return the literals to which an expression may evaluate; None if it may have other values."""
    match tree:
        case ast.Literal():
            return [tree.value]
        case ast.ChooseValue(values=(ast.Sequence(items=values),)) | ast.ChooseValue(values=values):
            pass
        case ast.ChooseOne():
            values = tuple(alternative.value for alternative in tree.alternatives)
        case _:
            return None
    if isinstance(tree, ast.ChooseValue) and len(values) == 1 and isinstance(values[0], ast.Name):
        constant = module.lookup(values[0].text) if values[0].text not in local else None
        return list(constant) if isinstance(constant, (Items, range)) and len(constant) <= 1000 else None
    if not all(isinstance(value, ast.Literal) for value in values):
        return None
    return [value.value for value in values if isinstance(value, ast.Literal)]

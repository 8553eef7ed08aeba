"""Finds comparisons with values that a choice cannot have: `k == "c"` after `k = choose k("a", "b")`.

The analysis is syntactic and considers one body at a time. It covers variables that are assigned only literals or
choices among literals, and that are compared with literals. Parameters of blocks are not covered, because a comparison
that is false in one call may be true in another.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from archir.diagnostics.errors import Diagnostic
from archir.diagnostics.hints import suggest
from archir.language.elaboration.equality import RULES, equal
from archir.language.elaboration.module import Module
from archir.language.elaboration.name_analysis import assigned, walk
from archir.language.elaboration.values import Items, show
from archir.language.syntax import ast


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

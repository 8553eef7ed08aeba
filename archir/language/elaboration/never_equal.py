"""Comparisons with what was never to choose from: `k == "c"` after `k = choose k("a", "b")`.

Only what is written out is looked at, in one body: a variable that is given nothing but choices among literals, and
literals, compared with a literal. What a block is given may differ from call to call, so that a comparison that never
holds in one of them is no mistake.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from archir.diagnostics.errors import Diagnostic, suggest
from archir.language.elaboration.equality import RULES, alike
from archir.language.elaboration.files import Module
from archir.language.elaboration.locals import assigned, walk
from archir.language.elaboration.values import Items, show
from archir.language.syntax import ast


def never_chosen(definition: ast.Definition, module: Module) -> Iterator[Diagnostic]:
    """Comparisons and patterns of a body that never hold, whatever is chosen."""
    known = _options(definition, module)
    for tree in walk(definition.body):
        match tree:
            case ast.Comparison():
                sides = [tree.first, *(operand for _, operand in tree.rest)]
                for (op, _), (left, right) in zip(tree.rest, pairwise(sides), strict=True):
                    yield from _compared(op, left, right, known)
            case ast.Match(subject=ast.Name(text=name)) if name in known:
                for pattern in (pattern for arm in tree.arms for pattern in arm.patterns):
                    yield from _never(name, [pattern], known[name])


def _compared(op: str, left: ast.Expr, right: ast.Expr, known: dict[str, list[Any]]) -> Iterator[Diagnostic]:
    if op not in RULES:
        return
    if op in ("==", "!="):
        for one, other in ((left, right), (right, left)):
            if isinstance(one, ast.Name) and one.text in known:
                yield from _never(one.text, [other], known[one.text])
    elif isinstance(left, ast.Name) and left.text in known and isinstance(right, ast.Sequence) and right.items:
        yield from _never(left.text, right.items, known[left.text])


def _never(name: str, trees: Sequence[ast.Expr], options: list[Any]) -> Iterator[Diagnostic]:
    """A complaint if none of these literals is among the options, though some are like them."""
    values = [tree.value for tree in trees if isinstance(tree, ast.Literal)]
    likeness = [alike(value, option) for value in values for option in options]
    if len(values) < len(trees) or True in likeness or False not in likeness:
        return
    texts = [option for option in options if isinstance(option, str)]
    hint = suggest(str(values[0]), texts) or f"it is one of {', '.join(map(show, options[:8]))}"
    never = show(values[0]) if len(values) == 1 else "any of these"
    yield Diagnostic("A0312", f"`{name}` is never {never}", trees[0].span.to(trees[-1].span), hint)


def _options(definition: ast.Definition, module: Module) -> dict[str, list[Any]]:
    """The variables that only get what is chosen from literals, and these."""
    found: dict[str, list[Any]] = {}
    chosen: set[str] = set()
    unknown = {param.name.text for param in definition.params}
    local = unknown | set(assigned(definition.body))
    for tree in walk(definition.body):
        if isinstance(tree, ast.Assign) and len(tree.targets) == 1:
            options = _written(tree.value, module, local)
            if options is not None:
                found.setdefault(tree.targets[0].text, []).extend(options)
                chosen.update([tree.targets[0].text] if isinstance(tree.value, ast.Choose) else [])
                continue
        unknown.update(_given(tree))
    return {name: found[name] for name in chosen - unknown}


def _given(tree: ast.Tree) -> Iterator[str]:
    """Names that a piece of syntax itself gives values to."""
    match tree:
        case ast.Assign() | ast.ForLoop() | ast.For():
            yield from (target.text for target in tree.targets)
        case ast.Repeat(index=ast.Name() as name) | ast.ChooseSubset(label=ast.Name() as name):
            yield name.text
        case ast.Input():
            yield tree.name.text


def _written(tree: ast.Expr, module: Module, local: set[str]) -> list[Any] | None:
    """The literals that an expression is one of; None if it may be anything else."""
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

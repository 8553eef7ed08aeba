"""Evaluates lists and comprehensions whose elements may exist for only some outcomes of choices."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from archir.diagnostics.errors import RuleError, Span
from archir.diagrams.conditions import conjoin
from archir.diagrams.diagram import Value, leaves
from archir.language.elaboration import static
from archir.language.elaboration.context import Context
from archir.language.elaboration.values import POISON, Items, kind
from archir.language.syntax import ast

MAX_ITERATIONS = 100_000
"""Maximum length of a list that a loop iterates over."""

Element = Callable[[], Value]
"""Function that evaluates one list element."""


def evaluate_sequence(context: Context, tree: ast.Sequence) -> Value:
    """Evaluate a list or tuple."""
    return make_list(context, [context.eval(item) for item in tree.items], tree.span)


def make_list(context: Context, values: list[Value], span: Span) -> Value:
    """Return a list of values; POISON after an error."""
    if any(value is POISON for value in values):
        return POISON
    try:
        return Items(values)
    except RuleError as error:
        return context.report_rule_error(error, span)


def evaluate_comprehension(context: Context, tree: ast.Comprehension) -> Value:
    """Evaluate a comprehension to a list."""
    elements = list_elements(context, tree)
    if elements is None:
        return POISON
    values: list[tuple[Value, Value]] = []
    for exists, element in elements:
        with context.under(exists) as possible:
            if possible:
                values.append((exists, element()))
    return make_conditional_list(context, values, tree.span)


def make_conditional_list(context: Context, values: list[tuple[Value, Value]], span: Span) -> Value:
    """Build a list from (condition, value) pairs; it contains each value where the condition holds."""
    if any(value is POISON for _, value in values):
        return POISON
    unconditional = next((i for i, (exists, _) in enumerate(values) if exists is not True), len(values))
    result = make_list(context, [value for _, value in values[:unconditional]], span)
    for exists, value in values[unconditional:]:
        result = context.lift(
            span, lambda here, items, value=value: Items((*items, value)) if here else items, exists, result
        )
    return result


def list_elements(context: Context, tree: ast.Expr) -> list[tuple[Value, Element]] | None:
    """Return the elements of a list, not evaluated: pairs of existence condition and evaluating function.

    Because of this, a choice inside an element is made only if the element is picked. Returns None after an error.
    """
    if isinstance(tree, ast.Sequence):
        return [(True, partial(context.eval, item)) for item in tree.items]
    if not isinstance(tree, ast.Comprehension):
        value = context.checked(tree.span, static.sequence, context.eval(tree))
        if value is POISON:
            return None
        return iterate(context, value, tree.span)
    elements: list[tuple[Value, Element]] = []
    if not _comprehend(context, tree, tree.parts, True, elements):
        return None
    return [(context.restricted(exists), element) for exists, element in elements]


def _comprehend(
    context: Context,
    tree: ast.Comprehension,
    parts: tuple[ast.For | ast.Filter, ...],
    exists_here: Value,
    elements: list[tuple[Value, Element]],
) -> bool:
    """Process the remaining `for` and filter parts of a comprehension, appending its elements to `elements`.

    Returns False after an error.
    """
    context.step(tree.span)
    if not parts:
        context.spend(len(context.frame.env) / 2, tree.span)
        env, loops = dict(context.frame.env), context.scope.loops

        def element() -> Value:
            before, context.frame.env = context.frame.env, env
            outer, context.scope.loops = context.scope.loops, loops
            try:
                return context.eval(tree.item)
            finally:
                context.frame.env, context.scope.loops = before, outer

        elements.append((exists_here, element))
        return True
    part, *remaining = parts
    if isinstance(part, ast.Filter):
        condition = context.condition(part.condition)
        if condition is POISON:
            return False
        with context.under(condition) as possible:
            return not possible or _comprehend(
                context, tree, tuple(remaining), conjoin(exists_here, condition), elements
            )
        return True
    value = context.checked(part.items.span, static.sequence, context.eval(part.items))
    if value is POISON:
        return False
    context.spend(len(context.frame.env) / 2, tree.span)
    env, loops = dict(context.frame.env), context.scope.loops
    try:
        for position, (exists, item) in enumerate(iterate(context, value, part.items.span)):
            context.scope.loops = (*loops, position)
            with context.under(exists):
                if not bind_targets(context, part.targets, item()):
                    return False
                if not _comprehend(context, tree, tuple(remaining), conjoin(exists_here, exists), elements):
                    return False
    finally:
        context.frame.env, context.scope.loops = env, loops
    return True


def iterate(context: Context, value: Value, span: Span) -> list[tuple[Value, Element]]:
    """Return pairs (existence condition, evaluating function) for the items of a list whose length may depend on
    choices."""
    longest = max(len(leaf) for leaf in leaves(value))
    if longest > MAX_ITERATIONS:
        context.abort("A0603", f"a list of {longest} items is too long", span)
    elements: list[tuple[Value, Element]] = []
    for position in range(longest):
        context.step(span)
        exists = context.lift(span, lambda leaf, position=position: len(leaf) > position, value)
        if exists is False:
            break
        item = partial(context.lift, span, lambda leaf, position=position: leaf[position], value)
        elements.append((exists, item))
    return elements


def bind_targets(context: Context, targets: tuple[ast.Name, ...], value: Value) -> bool:
    """Assign a value to the targets, unpacking it if there are several; return False after an error."""
    if len(targets) == 1:
        context.frame.env[targets[0].text] = value
        return value is not POISON
    span = targets[0].span.to(targets[-1].span)

    def check(leaf: Value) -> Value:
        if not isinstance(leaf, Items):
            raise RuleError(f"cannot unpack {kind(leaf)} into {len(targets)} names", code="A0306")
        if len(leaf) != len(targets):
            raise RuleError(f"cannot unpack {len(leaf)} values into {len(targets)} names", code="A0306")
        return leaf

    value = context.lift(span, check, value)
    for position, target in enumerate(targets):
        item = context.lift(span, lambda leaf, position=position: leaf[position], value)
        context.frame.env[target.text] = item
    return value is not POISON

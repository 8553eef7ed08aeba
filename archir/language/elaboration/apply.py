"""Evaluates calls of operations and built-in functions: checks arguments, and sorts them into operands and
attributes."""

from __future__ import annotations

import re
import types
from collections.abc import Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args, get_origin

from archir.diagnostics.errors import RuleError, Span, require
from archir.diagrams.diagram import Value, leaf_conditions, leaves, varies
from archir.ir.op import Op, attribute_names, attribute_types, required_attributes, type_phrase
from archir.ir.typing import MAX_ELEMENTS
from archir.language.elaboration import static
from archir.language.elaboration.context import STEP_WORK, WEIGHTS, Context
from archir.language.elaboration.evaluate import apply_binary, first_or_excluded
from archir.language.elaboration.frame import Scope, join
from archir.language.elaboration.lists import make_list
from archir.language.elaboration.network import add_node, is_tensor, merge_values, node_of, node_scope
from archir.language.elaboration.values import POISON, Items, Tensor, hoist_choices, kind, show
from archir.utils.counts import count_noun

MAX_ATTRIBUTE_ITEMS = 1_000
"""Maximum number of items in a list-valued attribute."""


@dataclass(frozen=True)
class ArgValue:
    """Evaluated argument of a call; `name` is None for a positional argument."""

    name: str | None
    value: Value
    span: Span


def split_weights_arg(args: list[ArgValue], parameters: Container[str]) -> tuple[list[ArgValue], ArgValue | None]:
    """Split off the argument `weights=`, which names shared weights; None if there is none.

    If the callee has a parameter called `weights` (among `parameters`), `weights=` is an ordinary argument.
    """
    weights_arg = None if WEIGHTS in parameters else next((arg for arg in args if arg.name == WEIGHTS), None)
    return [arg for arg in args if arg is not weights_arg], weights_arg


def shared_weights_scope(context: Context, argument: ArgValue) -> Scope | None:
    """Return the scope of the shared weights that an argument names, below the scope of the current block call.

    Returns None after an error.
    """
    base_scope, name = context.frame.base_scope, argument.value
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z_]\w*", name):
        text = f'`{WEIGHTS}` must be a name for the weights that calls share, such as "table"; got {show(name)}'
        context.error("A0309", text, argument.span)
        return None
    if name in base_scope.used and name not in base_scope.shared:
        hint = "give the weights that are shared another name"
        context.error("A0409", f"`{name}` is used for other weights here", argument.span, hint)
        return None
    base_scope.used.add(name)
    base_scope.shared.add(name)
    return Scope(join(base_scope.path, name), join(base_scope.choices, name))


@contextmanager
def sharing_weights(context: Context) -> Iterator[None]:
    """Context manager for the evaluation of a call with shared weights."""
    context.sharing_depth += 1
    try:
        yield
    finally:
        context.sharing_depth -= 1


# static functions
def call_builtin(context: Context, name: str, args: list[ArgValue], span: Span) -> Value:
    """Call a built-in function on static values; `sum` also accepts tensors."""
    named = next((argument for argument in args if argument.name), None)
    if named is not None:
        return context.error("A0203", f"`{name}` takes no named arguments", named.span)
    values = [argument.value for argument in args]
    if name in static.FOLDS:
        if not values:
            return context.error("A0207", f"`{name}` needs a list or several values", span)
        items = values[0] if len(values) == 1 else make_list(context, values, span)
        return _fold_list(context, name, context.checked(span, static.sequence, items), span)
    min_count, max_count, rule = static.FUNCTIONS[name]
    if name in static.ITEM_FUNCTIONS:
        values = [context.checked(span, hoist_choices, value) for value in values]
    if not min_count <= len(values) <= max_count:
        expected = str(min_count) if min_count == max_count else f"{min_count} or more"
        return context.error("A0207", f"`{name}` takes {expected} arguments, got {len(values)}", span)
    return context.lift(span, rule, *values)


def _fold_list(context: Context, name: str, items: Value, span: Span) -> Value:
    """Reduce a list with the fold `static.FOLDS[name]`, such as `sum` or `max`."""
    if items is POISON:
        return POISON
    if varies(items):
        return each_case(context, items, lambda leaf: _fold_list(context, name, leaf, span), span)
    start, rule = static.FOLDS[name]
    context.spend(STEP_WORK * len(items), span)
    if len(items) > 10_000:
        return context.error("A0603", f"`{name}` takes lists of at most 10000 items, got {len(items)}", span)
    if not items:
        return start if start is not None else context.error("A0308", f"`{name}` of an empty list", span)
    total: Value = items[0] if name in ("sum", "min", "max") else start
    for item in items[1:] if name in ("sum", "min", "max") else items:
        total = (
            apply_binary(context, "+", total, item, span) if name == "sum" else context.lift(span, rule, total, item)
        )
    return total


# operations
def call_operation(context: Context, op: type[Op], args: list[ArgValue], span: Span, in_scope: bool) -> Value:
    """Add a node for a call of an operation; return its output tensor.

    If the list of operands of a variadic operation depends on choices, add one node per possible list. With
    `in_scope`, the node gets the current scope itself instead of a component below it.
    """
    variadic = op.operands[:1] and op.operands[0].startswith("*")
    first = (
        next((arg for arg in args if arg.name is None and _is_list_somewhere(arg.value)), None) if variadic else None
    )
    if first is not None:

        def call_with(leaf: Value) -> Value:
            leaf_args = [replace(first, value=leaf) if argument is first else argument for argument in args]
            return call_operation(context, op, leaf_args, span, in_scope)

        return each_case(context, first.value, call_with, span)
    operands: list[tuple[Value, Span]] = []
    attributes: dict[str, Value] = {}
    names = attribute_names(op)
    args, weights_arg = split_weights_arg(args, (*names, *op.operands))
    positional = iter(names)
    for argument in args:
        if argument.name is None and not attributes and _is_operand(op, argument, len(operands), bool(variadic)):
            operands += _operands_of(argument) if variadic else [(argument.value, argument.span)]
            continue
        name = argument.name or next(positional, None)
        if name is None:
            takes = [
                count_noun(len(op.operands), "tensor"),
                *([count_noun(len(names), "attribute")] if names else []),
            ]
            return context.error("A0207", f"`{op.name}` takes at most {' and '.join(takes)}", argument.span)
        if name in op.operands and name not in names and op.operands.index(name) == len(operands):
            operands.append((argument.value, argument.span))
            continue
        if name not in names:
            from archir.language.elaboration.unknown_names import attribute_hint

            hint = attribute_hint(name, names)
            return context.error("A0203", f"`{op.name}` has no attribute `{name}`", argument.span, hint)
        if name in attributes:
            return context.error("A0207", f"`{op.name}` is given `{name}` twice", argument.span)
        attributes[name] = attribute_argument(context, op, name, argument)
    for value, operand_span in operands:
        if not is_tensor(value) and value is not POISON:
            text = f"`{op.name}`'s operand must be a tensor, got {kind(value)}"
            from archir.language.elaboration.unknown_names import NUMBER_HINTS

            hint = NUMBER_HINTS.get(op.name, f"write `x |> {op.name}(...)`")
            return context.error("A0404", text, operand_span, hint)
    nodes = [node_of(context, value, operand_span, f"`{op.name}`'s operand") for value, operand_span in operands]
    missing = op.operands[len(nodes) : len(op.operands) - op.optional]
    if missing and not (variadic and nodes):
        operand_name = missing[0].lstrip("*")
        return context.error("A0207", f"`{op.name}` needs a tensor `{operand_name}`", span)
    for name in required_attributes(op):
        if name not in attributes:
            return context.error("A0207", f"`{op.name}` needs `{name}`", span)
    if None in nodes or any(value is POISON for value in attributes.values()):
        return POISON
    scope = node_scope(context, op.name, in_scope) if weights_arg is None else _shared_scope(context, op, weights_arg)
    if scope is None:
        return POISON
    return add_node(context, op(**attributes), tuple(node for node in nodes if node is not None), span, scope)


def _shared_scope(context: Context, op: type[Op], shared: ArgValue) -> str | None:
    """Return the scope of the weights that the argument `weights=` names; None after an error."""
    if op.weights is Op.weights:
        context.error("A0409", f"`{op.name}` has no weights to share", shared.span)
        return None
    scope = shared_weights_scope(context, shared)
    return None if scope is None else scope.path


def _is_operand(op: type[Op], argument: ArgValue, count: int, variadic: bool) -> bool:
    """Return True if a positional argument is an operand and not an attribute; `count` operands precede it."""
    if variadic:
        return is_tensor(argument.value) or isinstance(argument.value, Items)
    if count >= len(op.operands):
        return False
    return is_tensor(argument.value) or count < len(op.operands) - op.optional


def _operands_of(argument: ArgValue) -> list[tuple[Value, Span]]:
    value = argument.value
    return [(item, argument.span) for item in value] if isinstance(value, Items) else [(value, argument.span)]


def attribute_argument(context: Context, op: type[Op], name: str, argument: ArgValue) -> Value:
    """Return an attribute's value, converted to its declared type."""
    declared = attribute_types(op)[name]
    what = f"`{name}` of `{op.name}`"
    value = context.checked(argument.span, hoist_choices, argument.value)
    return context.checked(argument.span, lambda leaf: convert(leaf, declared, what), value)


# cases
def each_case(context: Context, value: Value, then: Any, span: Span) -> Value:
    """Evaluate `then(leaf)` for each possible value (leaf) of a choice-dependent value, and merge the results.

    Each evaluation runs under the condition that the choice-dependent value equals that leaf.
    """
    outcomes: list[tuple[Value, Value]] = []
    for leaf, condition in leaf_conditions(value):
        with context.under(condition) as possible:
            if possible:
                outcomes.append((condition, then(leaf)))
    return merge_cases(context, outcomes, span)


def merge_cases(context: Context, outcomes: list[tuple[Value, Value]], span: Span) -> Value:
    """Merge (condition, value) pairs into one choice-dependent value. The first value applies where no other
    condition holds."""
    if any(value is POISON for _, value in outcomes):
        return POISON
    result = first_or_excluded([value for _, value in outcomes])
    for condition, value in outcomes[1:]:
        result = merge_values(context, condition, value, result, span)
    return result


def _is_list_somewhere(value: Value) -> bool:
    """Return True if a choice-dependent value is a list for some outcomes."""
    return varies(value) and any(isinstance(leaf, Items) for leaf in leaves(value))


def convert(value: Value, declared: Any, what: str) -> Value:
    """Convert a static value to the declared type of an attribute; `what` names the attribute in messages.

    Raises RuleError (A0309, or A0603 for a list that is too long) if the value does not have that type.
    """
    options = get_args(declared) if isinstance(declared, types.UnionType) else (declared,)
    if value is None and type(None) in options:
        return None
    for option in options:
        if option is int and isinstance(value, int) and not isinstance(value, bool):
            return _check_size(value, what)
        if option is bool and isinstance(value, bool):
            return value
        if option is str and isinstance(value, str):
            return value
        if option is float and static.is_number(value):
            return static.to_float(value)
        if get_origin(option) is Literal and value in get_args(option):
            return value
        if get_origin(option) is tuple and isinstance(value, (Items, range)):
            require(
                len(value) <= MAX_ATTRIBUTE_ITEMS, f"{what} has more than {MAX_ATTRIBUTE_ITEMS} items", code="A0603"
            )
            kind = get_args(option)[0]
            if kind is int:
                return tuple(_check_size(static.integer(item, f"each item of {what}"), what) for item in value)
            return tuple(convert(item, kind, f"each item of {what}") for item in value)
    if int in options and (static.is_number(value) or not isinstance(value, (str, Items, Tensor))):
        return static.integer(value, what)
    raise RuleError(f"{what} must be {type_phrase(declared)}, got {show(value)}", code="A0309")


def _check_size(value: int, what: str) -> int:
    require(abs(value) <= MAX_ELEMENTS, f"{what} must be less than 2**63", code="A0309")
    return value

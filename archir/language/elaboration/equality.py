"""Whether values are equal, and whether they ever could be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from archir.diagnostics.errors import RuleError
from archir.diagnostics.work import spend
from archir.diagrams.cases import Value
from archir.diagrams.lifting import lift
from archir.language.elaboration.static import is_number
from archir.language.elaboration.values import Block, Builtin, Items, Operation, Tensor, kind

Likeness = bool | None
"""Whether two values are equal; None if they are of kinds that never are."""


def alike(a: Value, b: Value) -> Value:
    """The likeness of two values, which may depend on choices, and so may what is inside of lists.

    Numbers are compared by value, lists and ranges item by item, everything else with its kind. `none` may be compared
    with anything.
    """
    return lift(_alike, a, b)


def _alike(a: Value, b: Value) -> Value:
    if a is None or b is None:
        return a is b
    if isinstance(a, range) and isinstance(b, range):
        return a == b
    if isinstance(a, (Items, range)) and isinstance(b, (Items, range)):
        if len(a) != len(b):
            return False
        result: Value = True
        spend(2 * len(a))
        for x, y in zip(a, b, strict=True):
            result = lift(_and, result, alike(x, y))
        return result
    if isinstance(a, Tensor) or _family(a) != _family(b):
        return None
    return bool(a == b)


def _family(value: Value) -> type:
    """Values of one family can be equal."""
    if is_number(value):
        return int
    return Operation if isinstance(value, (Block, Operation, Builtin)) else type(value)


def _and(one: Likeness, other: Likeness) -> Likeness:
    return None if one is None or other is None else one and other


def _or(one: Likeness, other: Likeness) -> Likeness:
    return other if one is None else one or bool(other)


def contains(item: Value, items: Value) -> Value:
    """The likeness of a value and any item of a plain list. RuleError if it is no list, nor a string."""
    if isinstance(items, str):
        return item in items if isinstance(item, str) else None
    if not isinstance(items, (Items, range)):
        raise RuleError(f"`in` needs a list on the right, got {kind(items)}", code="A0301")
    if isinstance(items, range) and is_number(item):
        return item == int(item) and int(item) in items
    result: Value = None if items else False
    spend(2 * len(items))
    for one in items:
        result = lift(_or, result, alike(item, one))
    return result


RULES: dict[str, Callable[[Value, Value], Value]] = {
    "==": _alike,
    "!=": _alike,
    "in": contains,
    "not in": contains,
}
"""The likeness that a comparison asks for."""


def refuse(op: str, a: Value, b: Value) -> Any:
    """Complain of a comparison between kinds that are never equal."""
    always = "never" if op in ("==", "in") else "always"
    if isinstance(b, (Items, range)) and op in ("in", "not in"):
        raise RuleError(f"`{op}` {always} holds: the list has nothing like {kind(a)}", code="A0311")
    hint = "tensors have values only when the network runs" if Tensor in (type(a), type(b)) else None
    raise RuleError(f"`{op}` {always} holds between {kind(a)} and {kind(b)}", hint, "A0311")

"""Equality of values, and detection of comparisons that can never be true."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from archir.diagnostics.errors import RuleError
from archir.diagnostics.work import spend
from archir.diagrams.diagram import Value
from archir.diagrams.lifting import lift
from archir.language.elaboration.module import Block
from archir.language.elaboration.static import is_number
from archir.language.elaboration.values import Builtin, Items, Operation, Tensor, kind

Equality = bool | None
"""Whether two values are equal; None if values of their kinds are never equal."""


def equal(a: Value, b: Value) -> Value:
    """Return the equality of two values; the values, or items of lists in them, may depend on choices.

    Numbers are compared by value, lists and ranges item by item, other values only with values of the same kind. Any
    value can be compared with `none`.
    """
    return lift(_equal_plain, a, b)


def _equal_plain(a: Value, b: Value) -> Value:
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
            result = lift(_and, result, equal(x, y))
        return result
    if isinstance(a, Tensor) or _family(a) != _family(b):
        return None
    return bool(a == b)


def _family(value: Value) -> type:
    """Return the family of a value; values of different families are never equal."""
    if is_number(value):
        return int
    return Operation if isinstance(value, (Block, Operation, Builtin)) else type(value)


def _and(left: Equality, right: Equality) -> Equality:
    return None if left is None or right is None else left and right


def _or(left: Equality, right: Equality) -> Equality:
    return right if left is None else left or bool(right)


def contains(item: Value, items: Value) -> Value:
    """Return whether any item of a static list or string equals `item`. Raises RuleError (A0301) for other
    containers."""
    if isinstance(items, str):
        return item in items if isinstance(item, str) else None
    if not isinstance(items, (Items, range)):
        raise RuleError(f"`in` needs a list on the right, got {kind(items)}", code="A0301")
    if isinstance(items, range) and is_number(item):
        return item == int(item) and int(item) in items
    result: Value = None if items else False
    spend(2 * len(items))
    for element in items:
        result = lift(_or, result, equal(item, element))
    return result


RULES: dict[str, Callable[[Value, Value], Value]] = {
    "==": _equal_plain,
    "!=": _equal_plain,
    "in": contains,
    "not in": contains,
}
"""Maps each comparison operator to its equality rule; `!=` and `not in` then negate the rule's result."""


def raise_never_equal(op: str, a: Value, b: Value) -> Any:
    """Raise RuleError (A0311) for a comparison of kinds that are never equal, so that its result is always the same."""
    always = "never" if op in ("==", "in") else "always"
    if isinstance(b, (Items, range)) and op in ("in", "not in"):
        raise RuleError(f"`{op}` {always} holds: no item of the list can equal {kind(a)}", code="A0311")
    hint = "tensors have values only when the network runs" if Tensor in (type(a), type(b)) else None
    raise RuleError(f"`{op}` {always} holds between {kind(a)} and {kind(b)}", hint, "A0311")

"""Calls of operations and of static functions: which argument is an operand, and which an attribute."""

from __future__ import annotations

import types
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, get_args, get_origin

from archir.diagnostics.errors import RuleError, Span, require
from archir.diagrams.cases import Value, leaves, parted, varies
from archir.ir.op import Op, attribute_names, attribute_types, needed_attributes
from archir.ir.typing import MOST_ELEMENTS
from archir.language.elaboration import static
from archir.language.elaboration.context import A_STEP
from archir.language.elaboration.foreign import OF_NUMBERS, about_attribute
from archir.language.elaboration.network import is_tensor
from archir.language.elaboration.shared import Given, Sharer
from archir.language.elaboration.values import POISON, Items, Tensor, flat, kind, show

MOST_RANK = 1_000
"""Items of an attribute that is a list."""


class Applier(Sharer):
    """Applies operations and static functions to arguments."""

    # static functions

    def call_builtin(self, name: str, given: list[Given], span: Span) -> Value:
        """A static function; `sum` adds tensors, too."""
        named = next((argument for argument in given if argument.name), None)
        if named is not None:
            return self.error("A0203", f"`{name}` takes no named arguments", named.span)
        values = [argument.value for argument in given]
        if name in static.FOLDS:
            if not values:
                return self.error("A0207", f"`{name}` needs a list or several values", span)
            items = values[0] if len(values) == 1 else self.items(values, span)
            return self._fold(name, self.checked(span, static.sequence, items), span)
        least, most, rule = static.FUNCTIONS[name]
        if name in static.DEEP:
            values = [self.checked(span, flat, value) for value in values]
        if not least <= len(values) <= most:
            wanted = str(least) if least == most else f"{least} or more"
            return self.error("A0207", f"`{name}` takes {wanted} arguments, got {len(values)}", span)
        return self.lift(span, rule, *values)

    def _fold(self, name: str, items: Value, span: Span) -> Value:
        if items is POISON:
            return POISON
        if varies(items):
            return self.each_case(items, lambda leaf: self._fold(name, leaf, span), span)
        start, rule = static.FOLDS[name]
        self.spend(A_STEP * len(items), span)
        if len(items) > 10_000:
            return self.error("A0603", f"`{name}` of a list of {len(items)} items", span)
        if not items:
            return start if start is not None else self.error("A0308", f"`{name}` of an empty list", span)
        total: Value = items[0] if name in ("sum", "min", "max") else start
        for item in items[1:] if name in ("sum", "min", "max") else items:
            total = self.binary("+", total, item, span) if name == "sum" else self.lift(span, rule, total, item)
        return total

    # operations

    def call_op(self, op: type[Op], given: list[Given], span: Span, here: bool) -> Value:
        """A node of the operation; one for each of the lists of operands that there may be."""
        variadic = op.operands[:1] and op.operands[0].startswith("*")
        first = (
            next((one for one in given if one.name is None and _is_list_somewhere(one.value)), None)
            if variadic
            else None
        )
        if first is not None:

            def one(leaf: Value) -> Value:
                known = [replace(first, value=leaf) if argument is first else argument for argument in given]
                return self.call_op(op, known, span, here)

            return self.each_case(first.value, one, span)
        operands: list[tuple[Value, Span]] = []
        attributes: dict[str, Value] = {}
        names = attribute_names(op)
        given, shared = self.apart(given, (*names, *op.operands))
        positional = iter(names)
        for argument in given:
            if (
                argument.name is None
                and not attributes
                and self._is_operand(op, argument, len(operands), bool(variadic))
            ):
                operands += self._operands(argument) if variadic else [(argument.value, argument.span)]
                continue
            name = argument.name or next(positional, None)
            if name is None:
                takes = [_counted(len(op.operands), "tensor"), *([_counted(len(names), "attribute")] if names else [])]
                return self.error("A0207", f"`{op.name}` takes {' and '.join(takes)} at the most", argument.span)
            if name in op.operands and name not in names and op.operands.index(name) == len(operands):
                operands.append((argument.value, argument.span))
                continue
            if name not in names:
                hint = about_attribute(name, names)
                return self.error("A0203", f"`{op.name}` has no attribute `{name}`", argument.span, hint)
            if name in attributes:
                return self.error("A0207", f"`{op.name}` is given `{name}` twice", argument.span)
            attributes[name] = self.attribute_value(op, name, argument)
        for value, place in operands:
            if not is_tensor(value) and value is not POISON:
                text = f"`{op.name}`'s operand must be a tensor, got {kind(value)}"
                hint = OF_NUMBERS.get(op.name, f"write `x |> {op.name}(...)`")
                return self.error("A0404", text, place, hint)
        nodes = [self.node(value, place, f"`{op.name}`'s operand") for value, place in operands]
        missing = op.operands[len(nodes) : len(op.operands) - op.optional]
        if missing and not (variadic and nodes):
            wanted = missing[0].lstrip("*")
            return self.error("A0207", f"`{op.name}` needs a tensor `{wanted}`", span)
        for name in needed_attributes(op):
            if name not in attributes:
                return self.error("A0207", f"`{op.name}` needs `{name}`", span)
        if None in nodes or any(value is POISON for value in attributes.values()):
            return POISON
        scope = self.named(op.name, here) if shared is None else self._shared_scope(op, shared)
        if scope is None:
            return POISON
        return self.add(op(**attributes), tuple(node for node in nodes if node is not None), span, scope)

    def _shared_scope(self, op: type[Op], shared: Given) -> str | None:
        if op.weights is Op.weights:
            self.error("A0409", f"`{op.name}` has no weights to share", shared.span)
            return None
        scope = self.set_of(shared)
        return None if scope is None else scope.path

    def _is_operand(self, op: type[Op], argument: Given, have: int, variadic: bool) -> bool:
        if variadic:
            return is_tensor(argument.value) or isinstance(argument.value, Items)
        if have >= len(op.operands):
            return False
        return is_tensor(argument.value) or have < len(op.operands) - op.optional

    def _operands(self, argument: Given) -> list[tuple[Value, Span]]:
        value = argument.value
        return [(item, argument.span) for item in value] if isinstance(value, Items) else [(value, argument.span)]

    def attribute_value(self, op: type[Op], name: str, argument: Given) -> Value:
        """An attribute's value in its declared type."""
        wanted = attribute_types(op)[name]
        what = f"`{name}` of `{op.name}`"
        value = self.checked(argument.span, flat, argument.value)
        return self.checked(argument.span, lambda leaf: convert(leaf, wanted, what), value)

    # cases

    def each_case(self, value: Value, then: Any, span: Span) -> Value:
        """`then` of each leaf, run where the value is that leaf."""
        found: list[tuple[Value, Value]] = []
        for leaf, condition in parted(value):
            with self.under(condition) as possible:
                if possible:
                    found.append((condition, then(leaf)))
        return self.cases(found, span)

    def cases(self, found: list[tuple[Value, Value]], span: Span) -> Value:
        """Values merged by the conditions that they were found under, of which the last is what the others leave."""
        if any(value is POISON for _, value in found):
            return POISON
        result = self.only([value for _, value in found])
        for condition, value in found[1:]:
            result = self.merged(condition, value, result, span)
        return result


def _is_list_somewhere(value: Value) -> bool:
    return varies(value) and any(isinstance(leaf, Items) for leaf in leaves(value))


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def convert(value: Value, wanted: Any, what: str) -> Value:
    """A plain value in an attribute's declared type. RuleError if it does not fit."""
    options = get_args(wanted) if isinstance(wanted, types.UnionType) else (wanted,)
    if value is None and type(None) in options:
        return None
    for option in options:
        if option is int and isinstance(value, int) and not isinstance(value, bool):
            return _sized(value, what)
        if option is bool and isinstance(value, bool):
            return value
        if option is str and isinstance(value, str):
            return value
        if option is float and static.is_number(value):
            return static.decimal(value)
        if get_origin(option) is Literal and value in get_args(option):
            return value
        if get_origin(option) is tuple and isinstance(value, (Items, range)):
            require(len(value) <= MOST_RANK, f"{what} has more than {MOST_RANK} items", code="A0603")
            kind = get_args(option)[0]
            if kind is int:
                return tuple(_sized(static.integer(item, f"each item of {what}"), what) for item in value)
            return tuple(convert(item, kind, f"each item of {what}") for item in value)
    if int in options and (static.is_number(value) or not isinstance(value, (str, Items, Tensor))):
        return static.integer(value, what)
    raise RuleError(f"{what} must be {_wanted(options)}, got {show(value)}", code="A0309")


def _sized(value: int, what: str) -> int:
    require(abs(value) <= MOST_ELEMENTS, f"{what} must be less than 2**63", code="A0309")
    return value


def _wanted(options: Sequence[Any]) -> str:
    words = {int: "an integer", bool: "true or false", str: "a string", float: "a number", type(None): "none"}
    found = []
    for option in options:
        if get_origin(option) is Literal:
            found += [f'"{name}"' for name in get_args(option)]
        else:
            found.append(words.get(option, "a list of integers" if int in get_args(option) else "a list of numbers"))
    return " or ".join(found)

"""Checks of operations read from text or JSON: attribute types, operand counts, and references to choices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields
from types import UnionType
from typing import Any, Literal, get_args, get_origin

from archir.diagnostics.errors import RuleError, require
from archir.diagnostics.hints import suggest
from archir.diagrams.diagram import Value, leaves, varies
from archir.ir.graph import Decision
from archir.ir.op import OPS, Op, attribute_types, type_phrase
from archir.ir.structure import Input, Select
from archir.ir.types import DTYPES


def has_type(value: Value, type_: Any) -> bool:
    """Return whether a plain value has a declared type; an integer is also accepted as a float, as in type checkers."""
    if isinstance(type_, UnionType):
        return any(has_type(value, option) for option in get_args(type_))
    if get_origin(type_) is Literal:
        return type(value) is str and value in get_args(type_)
    if get_origin(type_) is tuple:
        return type(value) is tuple and all(has_type(item, get_args(type_)[0]) for item in value)
    return type(value) is type_ or (type_ is float and type(value) is int)


def attribute_error(op: type[Op], name: str, value: Value) -> str | None:
    """Return the error message for the value of an attribute; None if the value is valid."""
    declared: Any = op  # mypy considers classes of dataclasses unhashable
    type_ = attribute_types(declared)[name]
    if op.internal and op is not Input and varies(value):
        return f"`{name}` of `{op.name}` must not depend on choices"
    if all(has_type(leaf, type_) for leaf in (leaves(value) if varies(value) else [value])):
        return None
    return f"`{name}` of `{op.name}` must be {type_phrase(type_)}"


def new_op(name: str, attributes: Mapping[str, Value]) -> Op:
    """Create the operation called `name` with these attributes.

    Raises RuleError for an unknown operation or attribute, an attribute of the wrong type, or a missing one.
    """
    op = OPS.find(name)
    if op is None:
        raise RuleError(f"there is no operation `{name}`", OPS.hint(name))
    defaults = {f.name: f.default for f in fields(op)}
    for attribute, value in attributes.items():
        require(attribute in defaults, f"`{name}` has no attribute `{attribute}`", suggest(attribute, defaults))
        error = attribute_error(op, attribute, value)
        require(error is None, error or "")
    missing = [
        attribute for attribute, default in defaults.items() if default is MISSING and attribute not in attributes
    ]
    require(not missing, f"`{name}` needs `{', '.join(missing)}`")
    return op(**attributes)


def node_errors(op: Op, operand_count: int, decisions: Mapping[str, Decision]) -> Iterator[str]:
    """Yield an error message for each violation in a node.

    The checks cover the number of operands, the dtype and dimensions of an input, and the choice and cases of a
    `select`.
    """
    names = type(op).operands
    variadic = names[:1] != () and names[0].startswith("*")
    low, high = (1, operand_count) if variadic else (len(names) - op.optional, len(names))
    if not low <= operand_count <= high:
        expected = f"at least {low}" if variadic else f"{low}" if low == high else f"{low} to {high}"
        yield f"`{op.name}` takes {expected} operands, not {operand_count}"
    if isinstance(op, Input):
        if op.dtype not in DTYPES:
            yield f"there is no element type `{op.dtype}`"
        if any(dim < 1 for dims in (leaves(op.dims) if varies(op.dims) else [op.dims]) for dim in dims):
            yield "dimensions must be at least 1"
    if isinstance(op, Select):
        if op.choice not in decisions:
            yield f"there is no choice `{op.choice}`"
        elif len(op.cases) != (outcomes := decisions[op.choice].choice.outcome_count):
            yield f"`{op.choice}` has {outcomes} outcomes, but {len(op.cases)} cases are given"
        if any(not 0 <= position < operand_count for position in op.cases):
            yield f"a case of `select` is not a position of its {operand_count} operands"

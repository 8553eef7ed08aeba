"""What attributes and operands an operation takes: checks of graphs that come from outside."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields
from types import UnionType
from typing import Any, Literal, get_args, get_origin

from archir.diagnostics.errors import RuleError, require, suggest
from archir.diagrams.cases import Value, leaves, varies
from archir.ir.graph import Decision
from archir.ir.op import OPS, Op, attribute_types
from archir.ir.structure import Input, Select
from archir.ir.types import DTYPES

_WORDS = {int: "an integer", float: "a number", bool: "true or false", str: "a string", type(None): "none"}


def fits(value: Value, wanted: Any) -> bool:
    """Whether a plain value has a declared type. As for type checkers, an integer will do for a float."""
    if isinstance(wanted, UnionType):
        return any(fits(value, option) for option in get_args(wanted))
    if get_origin(wanted) is Literal:
        return type(value) is str and value in get_args(wanted)
    if get_origin(wanted) is tuple:
        return type(value) is tuple and all(fits(item, get_args(wanted)[0]) for item in value)
    return type(value) is wanted or (wanted is float and type(value) is int)


def complaint(op: type[Op], name: str, value: Value) -> str | None:
    """What is wrong with the value of an attribute, if anything is."""
    declared: Any = op  # mypy takes the classes of dataclasses for unhashable
    wanted = attribute_types(declared)[name]
    if op.internal and op is not Input and varies(value):
        return f"`{name}` of `{op.name}` must not depend on choices"
    if all(fits(leaf, wanted) for leaf in (leaves(value) if varies(value) else [value])):
        return None
    return f"`{name}` of `{op.name}` must be {_described(wanted)}"


def _described(wanted: Any) -> str:
    if isinstance(wanted, UnionType):
        return " or ".join(_described(option) for option in get_args(wanted))
    if get_origin(wanted) is Literal:
        return " or ".join(f'"{name}"' for name in get_args(wanted))
    if get_origin(wanted) is tuple:
        return "a tuple of integers" if get_args(wanted)[0] is int else "a tuple of numbers"
    return _WORDS.get(wanted, "a tuple of integers")


def new_op(name: str, attributes: Mapping[str, Value]) -> Op:
    """The operation of a name with these attributes. RuleError if there is none such."""
    op = OPS.get(name)
    if op is None:
        raise RuleError(f"there is no operation `{name}`", OPS.hint(name))
    known = {f.name: f.default for f in fields(op)}
    for attribute, value in attributes.items():
        require(attribute in known, f"`{name}` has no attribute `{attribute}`", suggest(attribute, known))
        wrong = complaint(op, attribute, value)
        require(wrong is None, wrong or "")
    missing = [attribute for attribute, default in known.items() if default is MISSING and attribute not in attributes]
    require(not missing, f"`{name}` needs `{', '.join(missing)}`")
    return op(**attributes)


def misfits(op: Op, operands: int, decisions: Mapping[str, Decision]) -> Iterator[str]:
    """What is wrong with an operation of so many operands in a graph of these choices."""
    names = type(op).operands
    variadic = names[:1] != () and names[0].startswith("*")
    least, most = (1, operands) if variadic else (len(names) - op.optional, len(names))
    if not least <= operands <= most:
        wanted = f"at least {least}" if variadic else f"{least}" if least == most else f"{least} to {most}"
        yield f"`{op.name}` takes {wanted} operands, not {operands}"
    if isinstance(op, Input):
        if op.dtype not in DTYPES:
            yield f"there is no element type `{op.dtype}`"
        if any(dim < 1 for dims in (leaves(op.dims) if varies(op.dims) else [op.dims]) for dim in dims):
            yield "dimensions must be at least 1"
    if isinstance(op, Select):
        if op.choice not in decisions:
            yield f"there is no choice `{op.choice}`"
        elif len(op.cases) != (outcomes := decisions[op.choice].choice.outcomes):
            yield f"`{op.choice}` has {outcomes} outcomes, but {len(op.cases)} cases are given"
        if any(not 0 <= position < operands for position in op.cases):
            yield f"a case of `select` is no position of its {operands} operands"

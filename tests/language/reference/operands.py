"""Arguments of operations and attributes of tensors, for the reference interpreter."""

from __future__ import annotations

import dataclasses
from functools import lru_cache
from typing import Any, Literal, get_args, get_origin

from archir.ir.op import Op, attribute_types
from archir.ir.types import TensorType
from tests.language.reference.values import List, Tensor, Wrong, integer, number


def attribute(x: TensorType, name: str) -> Any:
    """Return the value of `x.name`."""
    axes = {"height": (1, 3), "width": (2, 3), "tokens": (0, 2)}
    if name in axes:
        axis, rank = axes[name]
        if x.rank != rank:
            raise Wrong(f"no {name}")
        return x.shape[axis]
    values = {
        "shape": lambda: List(x.shape),
        "rank": lambda: x.rank,
        "dtype": lambda: x.dtype,
        "kind": lambda: x.kind,
        "channels": lambda: x.channels,
        "features": lambda: x.channels,
    }
    if name not in values:
        raise Wrong(f"no attribute {name}")
    return values[name]()


def arguments(op: type[Op], argument_values: list[tuple[str | None, Any]]) -> tuple[list[Tensor], dict[str, Any]]:
    """Return the tensors and the attributes by name in the arguments of a call of an operation."""
    names = [f.name for f in dataclasses.fields(op)]
    operands: list[Tensor] = []
    attributes: dict[str, Any] = {}
    positional = iter(names)
    is_variadic = bool(op.operands) and op.operands[0].startswith("*")
    for name, value in argument_values:
        if name is None and not attributes and is_variadic and isinstance(value, (Tensor, List)):
            operands += [_tensor(item) for item in (value if isinstance(value, List) else [value])]
        elif name is None and not is_variadic and len(operands) < len(op.operands) - op.optional:
            operands.append(_tensor(value))
        elif name is None and not is_variadic and isinstance(value, Tensor) and len(operands) < len(op.operands):
            operands.append(value)
        else:
            name = name or next(positional, None)
            if name not in names or name in attributes:
                raise Wrong("no such attribute")
            attributes[name] = _converted(attribute_types(op)[name], value)
    wanted = 1 if is_variadic else len(op.operands) - op.optional
    if len(operands) < wanted:
        raise Wrong("a tensor is missing")
    if any(f.name not in attributes and f.default is dataclasses.MISSING for f in dataclasses.fields(op)):
        raise Wrong("an attribute is missing")
    return operands, attributes


@lru_cache(maxsize=4096)
def inferred(op: Op, types: tuple[TensorType, ...]) -> TensorType:
    """Return the type of an operation's result."""
    if not op.any_kind and any(x.kind != "feature" for x in types):
        raise Wrong("a feature is needed")
    return op.infer(*types)


def _converted(wanted: Any, value: Any) -> Any:
    """Return a value in the declared type of an attribute."""
    options = get_args(wanted) if get_origin(wanted) is not Literal and get_args(wanted) else (wanted,)
    if get_origin(wanted) is tuple:
        options = (wanted,)
    for option in options:
        if value is None and option is type(None):
            return None
        if option in (int, bool, str) and type(value) is option:
            return value
        if option is float and number(value):
            return float(value)
        if get_origin(option) is Literal and value in get_args(option):
            return value
        if get_origin(option) is tuple and isinstance(value, (List, range)):
            return tuple(integer(item) for item in value)
    raise Wrong("an attribute of another type is needed")


def _tensor(value: Any) -> Tensor:
    if not isinstance(value, Tensor):
        raise Wrong("a tensor is needed")
    return value

"""Values of the language, in addition to Python's numbers, strings, bools and None."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from archir.diagnostics.errors import RuleError
from archir.diagnostics.work import spend
from archir.diagrams.diagram import Value, describe_leaves, leaves, varies
from archir.diagrams.lifting import lift
from archir.ir.op import Op
from archir.language.elaboration.module import Block, Library

MAX_ITEMS = 100_000
"""Maximum number of items of a list, including those of nested lists."""
MAX_BITS = 4096
"""Maximum size of an exact number in bits."""
CHARACTERS_PER_UNIT = 3
"""Characters of list text that one work unit pays for."""


class Items(tuple[Value, ...]):
    """List or tuple of the language. `size` counts the list itself and all items, including those of nested lists."""

    size: int

    def __new__(cls, items: Any = ()) -> Items:
        """Create a list. Raises RuleError (A0603) if `size` exceeds `MAX_ITEMS`."""
        self = super().__new__(cls, items)
        spend(2 + len(self) / 3)
        self.size = 1 + sum(item.size if isinstance(item, Items) else 1 for item in self)
        if self.size > MAX_ITEMS:
            raise RuleError(f"a list of more than {MAX_ITEMS} items", code="A0603")
        return self


def hoist_choices(value: Value) -> Value:
    """Turn a list with choice-dependent items into a choice-dependent list with fixed items; other values are
    unchanged."""
    if not isinstance(value, Items) or not any(isinstance(item, Items) or varies(item) for item in value):
        return value
    return lift(lambda *items: Items(items), *(lift(hoist_choices, item) for item in value))


@dataclass(frozen=True, slots=True)
class Tensor:
    """Output of a node in the graph under construction."""

    node: int


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation as a value."""

    op: type[Op]

    @property
    def name(self) -> str:
        """Name of the operation."""
        return self.op.name


@dataclass(frozen=True, slots=True)
class Builtin:
    """A built-in function such as `len`, as a value."""

    name: str


class Sentinel:
    """Marker object that stands for a missing or erroneous value."""

    def __init__(self, name: str) -> None:
        self.name = name


UNBOUND = Sentinel("unbound")
"""Value of a variable for outcomes under which it is not assigned."""
POISON = Sentinel("poison")
"""Value of an expression for which an error was reported; it suppresses follow-up errors."""


def kind(value: Value) -> str:
    """Return the kind of a value for messages, such as "an integer"."""
    if varies(value):
        kinds = {kind(leaf) for leaf in leaves(value)}
        return kinds.pop() if len(kinds) == 1 else " or ".join(sorted(kinds))
    names = {
        bool: "a boolean",
        int: "an integer",
        Fraction: "a fraction",
        float: "a float",
        str: "a string",
        range: "a range",
        Items: "a list",
        Tensor: "a tensor",
        Block: "a block",
        Operation: "an operation",
        Builtin: "a function",
        Library: "a library",
        type(None): "none",
    }
    return names.get(type(value), "nothing")


def not_applied(*values: Value) -> str | None:
    """Return a hint if one of the values is an operation or block, probably meant to be applied; else None."""
    name = next((value.name for value in values if isinstance(value, (Operation, Block))), None)
    return f"to apply it, write `x |> {name}`" if name is not None else None


def show(value: Value) -> str:
    """Return the source text of a value; for a choice-dependent value, of all its possible values.

    Raises WorkError if the work budget is exhausted.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "none"
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, Items):
        parts = []
        for item in value:
            parts.append(show(item))
            spend(len(parts[-1]) / CHARACTERS_PER_UNIT)
        return f"[{', '.join(parts)}]"
    if isinstance(value, range):
        return f"{value.start}..{value.stop}"
    if isinstance(value, (Block, Operation, Builtin)):
        return value.name
    if varies(value):
        return describe_leaves(value, show)
    return kind(value) if isinstance(value, (Tensor, Library, Sentinel)) else str(value)

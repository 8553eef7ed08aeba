"""Values of expressions, beyond Python's numbers, strings, booleans and None."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from archir.diagnostics.errors import RuleError
from archir.diagnostics.work import spend
from archir.diagrams.lifting import lift
from archir.diagrams.mdd import Value, describe_leaves, leaves, varies
from archir.ir.op import Op
from archir.language.elaboration.module import Block, Library

if TYPE_CHECKING:
    pass

MAX_ITEMS = 100_000
"""Maximum number of items of a list, nested lists included."""
MAX_BITS = 4096
"""Maximum number of bits of a number."""
CHARACTERS_PER_UNIT = 3
"""Characters of a list's text per unit of work."""


class Items(tuple[Value, ...]):
    """A list or tuple of the language. `size` counts the list and all its items, those of nested lists included."""

    size: int

    def __new__(cls, items: Any = ()) -> Items:
        """Create a list. Raises RuleError (A0603) for more than `MAX_ITEMS` items."""
        self = super().__new__(cls, items)
        spend(2 + len(self) / 3)
        self.size = 1 + sum(item.size if isinstance(item, Items) else 1 for item in self)
        if self.size > MAX_ITEMS:
            raise RuleError(f"a list of more than {MAX_ITEMS} items", code="A0603")
        return self


def hoist_choices(value: Value) -> Value:
    """Return a value whose lists have no choices inside: the list itself depends on the choices that its items depended
    on."""
    if not isinstance(value, Items) or not any(isinstance(item, Items) or varies(item) for item in value):
        return value
    return lift(lambda *items: Items(items), *(lift(hoist_choices, item) for item in value))


@dataclass(frozen=True, slots=True)
class Tensor:
    """The result of a node of the graph under construction."""

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
    """A static function such as `len`."""

    name: str


class Sentinel:
    """A marker in place of a value."""

    def __init__(self, name: str) -> None:
        self.name = name


UNBOUND = Sentinel("unbound")
"""Value of a variable where it is not assigned."""
POISON = Sentinel("poison")
"""Value of an expression with a reported error; it suppresses errors that follow from the first."""


def kind(value: Value) -> str:
    """Return the kind of a value, for messages."""
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
    """Return a hint if a value is an operation or block where its result was expected."""
    name = next((value.name for value in values if isinstance(value, (Operation, Block))), None)
    return f"to apply it, write `x |> {name}`" if name is not None else None


def show(value: Value) -> str:
    """Return the text of a value in the language; for a value that depends on choices, all that it may be. Raises
    WorkError."""
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

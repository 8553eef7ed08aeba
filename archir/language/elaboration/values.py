"""What expressions of the language evaluate to, beyond Python's numbers, strings, booleans and None."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

from archir.diagnostics.errors import RuleError
from archir.diagnostics.work import spend
from archir.diagrams.cases import Value, leaves, varies, worded
from archir.diagrams.lifting import lift
from archir.ir.op import Op
from archir.language.elaboration.locals import assigned

if TYPE_CHECKING:
    from archir.language.elaboration.files import Module
    from archir.language.syntax import ast

MOST_ITEMS = 100_000
MOST_BITS = 4096
CHARACTERS_A_UNIT = 3
"""Characters of a list's text that take a unit of work."""


class Items(tuple[Value, ...]):
    """A list or tuple of the language. `size` counts what is inside, all the way down."""

    size: int

    def __new__(cls, items: Any = ()) -> Items:
        """RuleError if there are more items than memory should hold."""
        made = super().__new__(cls, items)
        spend(2 + len(made) / 3)
        made.size = 1 + sum(item.size if isinstance(item, Items) else 1 for item in made)
        if made.size > MOST_ITEMS:
            raise RuleError(f"a list of more than {MOST_ITEMS} items", code="A0603")
        return made


def flat(value: Value) -> Value:
    """A value in which what depends on choices does so as a whole: no list of it has items that do."""
    if not isinstance(value, Items) or not any(isinstance(item, Items) or varies(item) for item in value):
        return value
    return lift(lambda *items: Items(items), *(lift(flat, item) for item in value))


@dataclass(frozen=True, slots=True)
class Tensor:
    """The result of a node of the graph under construction."""

    node: int


@dataclass(frozen=True, eq=False)
class Block:
    """A `block` or `cell` as a value."""

    definition: ast.Definition
    module: Module

    @property
    def name(self) -> str:
        """Its name."""
        return self.definition.name.text

    @cached_property
    def local(self) -> frozenset[str]:
        """The names that its body gives values to."""
        return frozenset(assigned(self.definition.body))


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation as a value."""

    op: type[Op]

    @property
    def name(self) -> str:
        """Its name."""
        return self.op.name


@dataclass(frozen=True, slots=True)
class Builtin:
    """A static function such as `len`."""

    name: str


@dataclass(frozen=True, eq=False)
class Library:
    """An imported file under its alias."""

    module: Module


class Mark:
    """A value that is none."""

    def __init__(self, name: str) -> None:
        self.name = name


UNBOUND = Mark("unbound")
"""Of a variable, where it was not assigned."""
POISON = Mark("poison")
"""Of an expression that was already complained about: silences what follows from it."""


def kind(value: Value) -> str:
    """What a value is, for messages."""
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
    """A hint where an operation or a block stands for its result."""
    name = next((value.name for value in values if isinstance(value, (Operation, Block))), None)
    return f"to apply it, write `x |> {name}`" if name is not None else None


def show(value: Value) -> str:
    """A value as the language writes it; one that depends on choices as what it may be. Raises WorkError."""
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
            spend(len(parts[-1]) / CHARACTERS_A_UNIT)
        return f"[{', '.join(parts)}]"
    if isinstance(value, range):
        return f"{value.start}..{value.stop}"
    if isinstance(value, (Block, Operation, Builtin)):
        return value.name
    if varies(value):
        return worded(value, show)
    return kind(value) if isinstance(value, (Tensor, Library, Mark)) else str(value)

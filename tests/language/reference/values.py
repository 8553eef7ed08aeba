"""Values of the language and their operations, for the reference interpreter."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from archir.ir.op import Op
from archir.ir.types import TensorType
from archir.language.syntax import ast


class Wrong(Exception):  # noqa: N818  (of a program, not of the interpreter)
    """Raised if the program is invalid for the current choices."""


class List(tuple[Any, ...]):
    """A list or tuple."""


@dataclass(frozen=True)
class Tensor:
    """A node and its type."""

    node: int
    type: TensorType


@dataclass(frozen=True, eq=False)
class Block:
    """A block or cell, and the names of its file."""

    definition: ast.Definition
    names: Mapping[str, Any]

    @property
    def is_net(self) -> bool:
        """True if this is the net."""
        return self.definition.word == "net"


@dataclass(frozen=True, eq=False)
class Library:
    """A file that is imported under a name."""

    names: Mapping[str, Any]


@dataclass(frozen=True)
class Operation:
    """An operation as a value."""

    op: type[Op]


@dataclass(frozen=True)
class Function:
    """A static function as a value."""

    name: str


def number(value: Any) -> bool:
    return isinstance(value, (int, float, Fraction)) and not isinstance(value, bool)


def integer(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise Wrong("an integer is needed")
    return value


def truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise Wrong("a condition is needed")
    return value


def listed(value: Any) -> List:
    if not isinstance(value, (List, range)):
        raise Wrong("a list is needed")
    return List(value)


def family(value: Any) -> str:
    """Return the family of a value: only values of the same family can be compared."""
    if number(value):
        return "number"
    if isinstance(value, (List, range)):
        return "list"
    if isinstance(value, (Block, Operation, Function)):
        return "callee"
    return type(value).__name__


def equal(a: Any, b: Any) -> bool:
    if a is None or b is None:
        return a is b
    if family(a) != family(b) or isinstance(a, Tensor):
        raise Wrong("unlike values are never equal")
    if family(a) == "list":
        results = [equal(x, y) for x, y in zip(a, b, strict=False)] if len(a) == len(b) else [False]
        return all(results)
    return type(a) is type(b) and a == b if family(a) == "callee" else bool(a == b)


def contains(item: Any, items: Any) -> bool:
    if isinstance(items, str):
        if not isinstance(item, str):
            raise Wrong("a string contains strings")
        return item in items
    results = [equal_or_none(item, element) for element in listed(items)]
    if results and all(element is None for element in results):
        raise Wrong("nothing there is like it")
    return True in results


def equal_or_none(a: Any, b: Any) -> bool | None:
    """True if two values are equal; None if they can never be."""
    try:
        return equal(a, b)
    except Wrong:
        return None


def compare(op: str, a: Any, b: Any) -> bool:
    match op:
        case "==":
            return equal(a, b)
        case "!=":
            return not equal(a, b)
        case "in":
            return contains(a, b)
        case "not in":
            return not contains(a, b)
    if not (number(a) and number(b)) and not (isinstance(a, str) and isinstance(b, str)):
        raise Wrong("no order between these")
    return bool({"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[op])


class TooMany(Exception):  # noqa: N818
    """Raised if there are too many architectures or steps to run, or if a number is too long."""


MAX_BITS = 100_000
"""Of whole numbers that are multiplied; archir stops long before."""


def arithmetic(op: str, a: Any, b: Any) -> Any:
    if op == "+" and isinstance(a, List) and isinstance(b, List):
        return List((*a, *b))
    if op == "+" and isinstance(a, str) and isinstance(b, str):
        return a + b
    if not (number(a) and number(b)):
        raise Wrong("numbers are needed")
    if op in ("/", "//", "%") and b == 0:
        raise Wrong("division by zero")
    if op == "/" and isinstance(a, int) and isinstance(b, int):
        return simple(Fraction(a, b))
    if op == "*" and any(isinstance(operand, int) and operand.bit_length() > MAX_BITS for operand in (a, b)):
        raise TooMany
    rules: dict[str, Callable[[], Any]] = {
        "+": lambda: a + b,
        "-": lambda: a - b,
        "*": lambda: a * b,
        "/": lambda: a / b,
        "//": lambda: a // b,
        "%": lambda: a % b,
        "**": lambda: Fraction(a) ** b if isinstance(b, int) and b < 0 else a**b,
    }
    return simple(rules[op]())


def simple(value: Any) -> Any:
    return value.numerator if isinstance(value, Fraction) and value.denominator == 1 else value


def index(items: Any, place: Any) -> Any:
    if not isinstance(items, (List, range, str)):
        raise Wrong("this has no items")
    if not -len(items) <= integer(place) < len(items):
        raise Wrong("there is no such item")
    return items[place]


def rounded(value: Any, to: Any) -> int:
    if not number(value) or integer(to) < 1:
        raise Wrong("rounds numbers to multiples")
    nearest = max(to, math.floor(Fraction(value) + Fraction(to, 2)) // to * to)
    return nearest + to if nearest < Fraction(9, 10) * Fraction(value) else nearest


def _numbers(value: Any) -> list[Any]:
    items = listed(value)
    if not all(number(item) for item in items):
        raise Wrong("numbers are needed")
    return list(items)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "len": lambda items: len(items) if isinstance(items, str) else len(listed(items)),
    "abs": lambda value: abs(_numbers(List([value]))[0]),
    "round_to": rounded,
    "zip": lambda *lists: List(List(row) for row in zip(*map(listed, lists), strict=False)),
    "enumerate": lambda items: List(List(pair) for pair in enumerate(listed(items))),
    "reversed": lambda items: List(reversed(listed(items))),
    "sorted": lambda items: List(sorted(_numbers(items))),
    "list": listed,
}
FOLDS = ("sum", "min", "max", "any", "all")

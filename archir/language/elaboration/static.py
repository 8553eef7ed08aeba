"""Arithmetic, comparison and functions on plain static values.

Rules raise RuleError; `archir.diagrams.lifting.lift` carries them over values that depend on choices.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from archir.diagnostics.errors import RuleError, require
from archir.diagnostics.work import spend
from archir.diagrams.cases import Value
from archir.language.elaboration.values import MOST_BITS, Items, kind, not_applied, show

Number = int | Fraction | float

MOST_TEXT = 10_000
"""Characters of a string that is made."""
MOST_RANGE = 2**62
"""Items of a range, which is not written out."""


_SHORT = 2**256


def is_number(value: Value) -> bool:
    """Whether a plain value is a number (booleans are not)."""
    return isinstance(value, (int, Fraction, float)) and not isinstance(value, bool)


def settle(value: Number) -> Number:
    """A result in its simplest exact form, within bounds."""
    if type(value) is int and -_SHORT < value < _SHORT:
        return value
    if isinstance(value, Fraction) and value.denominator == 1:
        value = value.numerator
    if isinstance(value, float):
        require(math.isfinite(value), "this is not a finite number", code="A0302")
        return value
    digits = (
        value.bit_length()
        if isinstance(value, int)
        else max(value.numerator.bit_length(), value.denominator.bit_length())
    )
    if digits > 256:
        spend(digits / 64)
    require(digits <= MOST_BITS, f"a number of more than {MOST_BITS} bits", code="A0604")
    return value


def binary(op: str, a: Value, b: Value) -> Value:
    """`a op b` for plain values."""
    if type(a) is int and type(b) is int and op in _EXACT:
        return settle(_EXACT[op](a, b))
    if op == "+" and isinstance(a, Items) and isinstance(b, Items):
        return Items((*a, *b))
    if op == "+" and isinstance(a, str) and isinstance(b, str):
        return text(a + b)
    if not (is_number(a) and is_number(b)):
        raise unfit(op, a, b)
    if op in ("/", "//", "%"):
        require(b != 0, "division by zero", code="A0303")
    if op == "**":
        return _power(a, b)
    if op == "/" and isinstance(a, int) and isinstance(b, int):
        return settle(Fraction(a, b))
    return settle(_finite(_ARITHMETIC[op], a, b))


def _finite(rule: Callable[..., Any], *numbers: Any) -> Any:
    """What a rule of arithmetic gives; where that is no finite number, a refusal."""
    try:
        return rule(*numbers)
    except ZeroDivisionError:
        raise RuleError("division by zero", code="A0303") from None
    except (OverflowError, ValueError):
        raise RuleError("this is not a finite number", code="A0302") from None


_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
}


_EXACT = {op: _ARITHMETIC[op] for op in ("+", "-", "*")}
"""What makes integers of integers."""


def _power(a: Any, b: Any) -> Value:
    require(a != 0 or b >= 0, "division by zero", code="A0303")
    if isinstance(b, int) and not isinstance(a, float):
        size = max(a.numerator.bit_length(), a.denominator.bit_length())
        require(
            size * abs(b) <= MOST_BITS or abs(a) == 1 or a == 0, f"a number of more than {MOST_BITS} bits", code="A0604"
        )
        return settle(Fraction(a) ** b) if b < 0 else settle(a**b)
    result = _finite(lambda x, y: float(x) ** float(y), a, b)
    require(not isinstance(result, complex), "the root of a negative number", code="A0302")
    return settle(result)


def unfit(op: str, a: Value, b: Value, code: str = "A0301") -> RuleError:
    """The refusal of two values that an operator does not work on."""
    return RuleError(f"`{op}` does not work on {kind(a)} and {kind(b)}", not_applied(a, b) or _instead(op, a, b), code)


def _instead(op: str, a: Value, b: Value) -> str | None:
    """What to write instead of what works on texts and lists elsewhere."""
    if op == "+" and any(isinstance(one, str) and is_number(other) for one, other in ((a, b), (b, a))):
        return "`str` makes a string of a number"
    if op == "*" and isinstance(a, Items) and is_number(b):
        return "to repeat, write `[a for i in 0..3]`"
    return None


def sign(op: str, a: Value) -> Value:
    """`-a` or `+a`."""
    if not is_number(a):
        raise RuleError(f"`{op}` does not work on {kind(a)}", code="A0301")
    return -a if op == "-" else a


def compare(op: str, a: Value, b: Value) -> bool:
    """Which of two plain values is larger."""
    if not (is_number(a) and is_number(b)) and not (isinstance(a, str) and isinstance(b, str)):
        raise unfit(op, a, b)
    return bool({"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[op])


def text(value: str) -> str:
    """A string, of bounded length."""
    require(len(value) <= MOST_TEXT, f"a string of more than {MOST_TEXT} characters", code="A0603")
    spend(len(value) / 3)
    return value


def truth(value: Value) -> bool:
    """A condition's value; only booleans are conditions."""
    if not isinstance(value, bool):
        raise RuleError(f"a condition must be true or false, got {kind(value)}", code="A0304")
    return value


def integer(value: Value, what: str = "this") -> int:
    """An integer; exact fractions and floats are refused."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    hint = None
    if isinstance(value, float):
        hint = "floats are inexact: write fractions, such as 1/2"
    raise RuleError(f"{what} must be an integer, got {show(value) if is_number(value) else kind(value)}", hint, "A0305")


def interval(start: Value, stop: Value) -> range:
    """The integers from `start` up to `stop`, without it."""
    found = range(integer(start, "the start of a range"), integer(stop, "the end of a range"))
    if found and found[-1] - found[0] >= MOST_RANGE:
        raise RuleError(f"a range of more than {MOST_RANGE} items", code="A0603")
    return found


def decimal(value: Value) -> float:
    """A number as a float. RuleError if it is too large for one."""
    return float(_finite(float, value))


def sequence(value: Value) -> Items | range:
    """A list or range."""
    if isinstance(value, (Items, range)):
        return value
    hint = "to count, write `0..n`" if isinstance(value, int) else None
    raise RuleError(f"expected a list or a range, got {kind(value)}", hint, "A0306")


def index(items: Value, position: Value) -> Value:
    """`items[position]`, negative positions from the end."""
    if not isinstance(items, (Items, range, str)):
        raise RuleError(f"{kind(items)} cannot be indexed", code="A0306")
    place = integer(position, "an index")
    if not -len(items) <= place < len(items):
        raise RuleError(f"index {place} of a list of {len(items)}", code="A0307")
    return items[place]


def part(items: Value, start: Value, stop: Value) -> Value:
    """`items[start:stop]`."""
    found = sequence(items)
    bounds = slice(*(None if bound is None else integer(bound, "a slice bound") for bound in (start, stop)))
    return found[bounds] if isinstance(found, range) else Items(found[bounds])


def _number(name: str, value: Value) -> Any:
    if not is_number(value):
        raise RuleError(f"`{name}` needs a number, got {kind(value)}", code="A0301")
    return value


def _listed(value: Value) -> Items:
    items = sequence(value)
    require(len(items) <= 100_000, "a list of more than 100000 items", code="A0603")
    return Items(items)


def _root(value: Value) -> Value:
    require(_number("sqrt", value) >= 0, "the root of a negative number", code="A0302")
    exact = math.isqrt(value) if isinstance(value, int) else None
    return exact if exact is not None and exact**2 == value else _finite(math.sqrt, value)


def _log2(value: Value) -> Value:
    require(_number("log2", value) > 0, "the logarithm of a number that is not positive", code="A0302")
    if isinstance(value, Fraction):  # each part may be larger than floats are
        return math.log2(value.numerator) - math.log2(value.denominator)
    return math.log2(value)


def _rounded(value: Value, to: Value) -> Value:
    """Round to a multiple, never below 90% of the value (MobileNet's rule)."""
    value, to = _number("round_to", value), integer(to, "the divisor")
    require(to >= 1, "the divisor must be at least 1", code="A0301")
    nearest = max(to, int(Fraction(value) + Fraction(to, 2)) // to * to)
    return settle(nearest + to if nearest < Fraction(9, 10) * Fraction(value) else nearest)


FUNCTIONS: dict[str, tuple[int, int, Callable[..., Value]]] = {
    "len": (1, 1, lambda items: len(items) if isinstance(items, str) else len(sequence(items))),
    "abs": (1, 1, lambda value: abs(_number("abs", value))),
    "floor": (1, 1, lambda value: math.floor(_number("floor", value))),
    "ceil": (1, 1, lambda value: math.ceil(_number("ceil", value))),
    "round": (1, 1, lambda value: round(_number("round", value))),
    "round_to": (2, 2, _rounded),
    "sqrt": (1, 1, _root),
    "log2": (1, 1, _log2),
    "zip": (1, 99, lambda *lists: Items(Items(row) for row in zip(*map(_listed, lists), strict=False))),
    "enumerate": (1, 1, lambda items: Items(Items(pair) for pair in enumerate(_listed(items)))),
    "reversed": (1, 1, lambda items: Items(reversed(_listed(items)))),
    "sorted": (1, 1, lambda items: Items(sorted(_number("sorted", item) for item in _listed(items)))),
    "list": (1, 1, _listed),
    "str": (1, 1, lambda value: value if isinstance(value, str) else text(show(value))),
}
"""Static functions: least and most arguments, and the rule."""
DEEP = {"sorted", "str"}
"""Those that look at what is inside of lists."""


def _either(name: str, pick: Callable[[Any, Any], Any]) -> Callable[[Value, Value], Value]:
    return lambda a, b: pick(_number(name, a), _number(name, b))


FOLDS: dict[str, tuple[Value, Callable[[Value, Value], Value]]] = {
    "sum": (0, lambda a, b: binary("+", a, b)),
    "min": (None, _either("min", min)),
    "max": (None, _either("max", max)),
    "any": (False, lambda a, b: truth(a) or truth(b)),
    "all": (True, lambda a, b: truth(a) and truth(b)),
}
"""Functions of a list that take it item by item: what an empty list gives (None: it is refused), and the rule."""

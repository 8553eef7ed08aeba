"""Arithmetic, comparisons and built-in functions on static values that do not depend on choices.

The rules raise RuleError. `archir.diagrams.lifting.lift` applies them to values that depend on choices.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from archir.diagnostics.errors import RuleError, require
from archir.diagnostics.work import spend
from archir.diagrams.diagram import Value
from archir.language.elaboration.values import MAX_BITS, Items, kind, not_applied, show

Number = int | Fraction | float

MAX_TEXT = 10_000
"""Maximum length of a computed string in characters."""
MAX_RANGE = 2**62
"""Maximum span of a range; not a memory limit, because ranges are lazy."""


_FAST_LIMIT = 2**256
"""Integers of smaller magnitude skip the checks in `normalized`."""


def is_number(value: Value) -> bool:
    """Return True if a static value is a number; bools are not."""
    return isinstance(value, (int, Fraction, float)) and not isinstance(value, bool)


def normalized(value: Number) -> Number:
    """Return a number as an int if it is a whole fraction, else unchanged.

    Raises RuleError if it is not finite (A0302) or has more than MAX_BITS bits (A0604).
    """
    if type(value) is int and -_FAST_LIMIT < value < _FAST_LIMIT:
        return value
    if isinstance(value, Fraction) and value.denominator == 1:
        value = value.numerator
    if isinstance(value, float):
        require(math.isfinite(value), "this is not a finite number", code="A0302")
        return value
    bits = (
        value.bit_length()
        if isinstance(value, int)
        else max(value.numerator.bit_length(), value.denominator.bit_length())
    )
    if bits > 256:
        spend(bits / 64)
    require(bits <= MAX_BITS, f"a number of more than {MAX_BITS} bits", code="A0604")
    return value


def binary(op: str, a: Value, b: Value) -> Value:
    """Evaluate `a op b` on static values."""
    if type(a) is int and type(b) is int and op in _INTEGER_OPERATORS:
        return normalized(_INTEGER_OPERATORS[op](a, b))
    if op == "+" and isinstance(a, Items) and isinstance(b, Items):
        return Items((*a, *b))
    if op == "+" and isinstance(a, str) and isinstance(b, str):
        return check_text(a + b)
    if not (is_number(a) and is_number(b)):
        raise operand_error(op, a, b)
    if op in ("/", "//", "%"):
        require(b != 0, "division by zero", code="A0303")
    if op == "**":
        return _power(a, b)
    if op == "/" and isinstance(a, int) and isinstance(b, int):
        return normalized(Fraction(a, b))
    return normalized(_arithmetic(_OPERATORS[op], a, b))


def _arithmetic(rule: Callable[..., Any], *numbers: Any) -> Any:
    """Apply an arithmetic rule. Raises RuleError on division by zero (A0303) and on results that are not finite
    (A0302)."""
    try:
        return rule(*numbers)
    except ZeroDivisionError:
        raise RuleError("division by zero", code="A0303") from None
    except (OverflowError, ValueError):
        raise RuleError("this is not a finite number", code="A0302") from None


_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
}


_INTEGER_OPERATORS = {op: _OPERATORS[op] for op in ("+", "-", "*")}
"""Operators whose result is an integer if both operands are."""


def _power(a: Any, b: Any) -> Value:
    require(a != 0 or b >= 0, "division by zero", code="A0303")
    if isinstance(b, int) and not isinstance(a, float):
        size = max(a.numerator.bit_length(), a.denominator.bit_length())
        require(
            size * abs(b) <= MAX_BITS or abs(a) == 1 or a == 0, f"a number of more than {MAX_BITS} bits", code="A0604"
        )
        return normalized(Fraction(a) ** b) if b < 0 else normalized(a**b)
    result = _arithmetic(lambda x, y: float(x) ** float(y), a, b)
    require(not isinstance(result, complex), "the root of a negative number", code="A0302")
    return normalized(result)


def operand_error(op: str, a: Value, b: Value, code: str = "A0301") -> RuleError:
    """Return the error for an operator that is not defined for two values."""
    return RuleError(
        f"`{op}` does not work on {kind(a)} and {kind(b)}", not_applied(a, b) or _operand_hint(op, a, b), code
    )


def _operand_hint(op: str, a: Value, b: Value) -> str | None:
    """Return a hint for an operation on strings or lists that exists in other languages but not here."""
    if op == "+" and any(
        isinstance(text_operand, str) and is_number(number_operand) for text_operand, number_operand in ((a, b), (b, a))
    ):
        return "`str` makes a string of a number"
    if op == "*" and isinstance(a, Items) and is_number(b):
        return "to repeat, write `[a for i in 0..3]`"
    return None


def sign(op: str, a: Value) -> Value:
    """Return `-a` or `+a`."""
    if not is_number(a):
        raise RuleError(f"`{op}` does not work on {kind(a)}", code="A0301")
    return -a if op == "-" else a


def compare(op: str, a: Value, b: Value) -> bool:
    """Evaluate an ordering comparison (`<`, `<=`, `>`, `>=`) of two numbers or two strings."""
    if not (is_number(a) and is_number(b)) and not (isinstance(a, str) and isinstance(b, str)):
        raise operand_error(op, a, b)
    return bool({"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[op])


def check_text(value: str) -> str:
    """Check the length of a computed string and return it. Raises RuleError (A0603)."""
    require(len(value) <= MAX_TEXT, f"a string of more than {MAX_TEXT} characters", code="A0603")
    spend(len(value) / 3)
    return value


def boolean(value: Value) -> bool:
    """Return a value that must be a bool. Raises RuleError (A0304)."""
    if not isinstance(value, bool):
        raise RuleError(f"a condition must be true or false, got {kind(value)}", code="A0304")
    return value


def integer(value: Value, what: str = "this") -> int:
    """Return a value that must be an integer.

    Raises RuleError (A0305) for anything else, including fractions and floats.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    hint = None
    if isinstance(value, float):
        hint = "floats are inexact: write fractions, such as 1/2"
    raise RuleError(f"{what} must be an integer, got {show(value) if is_number(value) else kind(value)}", hint, "A0305")


def integer_range(start: Value, stop: Value) -> range:
    """Return the half-open range of integers from `start` to `stop`."""
    result = range(integer(start, "the start of a range"), integer(stop, "the end of a range"))
    if result and result[-1] - result[0] >= MAX_RANGE:
        raise RuleError(f"a range of more than {MAX_RANGE} items", code="A0603")
    return result


def to_float(value: Value) -> float:
    """Convert a number to a float. Raises RuleError (A0302) if it is too large."""
    return float(_arithmetic(float, value))


def sequence(value: Value) -> Items | range:
    """Return a value that must be a list or range. Raises RuleError (A0306) for anything else."""
    if isinstance(value, (Items, range)):
        return value
    hint = "to count, write `0..n`" if isinstance(value, int) else None
    raise RuleError(f"expected a list or a range, got {kind(value)}", hint, "A0306")


def index(items: Value, position: Value) -> Value:
    """Return `items[position]`; a negative position counts from the end."""
    if not isinstance(items, (Items, range, str)):
        raise RuleError(f"{kind(items)} cannot be indexed", code="A0306")
    offset = integer(position, "an index")
    if not -len(items) <= offset < len(items):
        raise RuleError(f"index {offset} is out of range: the length is {len(items)}", code="A0307")
    return items[offset]


def slice_items(items: Value, start: Value, stop: Value) -> Value:
    """Return the slice `items[start:stop]`."""
    sliceable = sequence(items)
    bounds = slice(*(None if bound is None else integer(bound, "a slice bound") for bound in (start, stop)))
    return sliceable[bounds] if isinstance(sliceable, range) else Items(sliceable[bounds])


def _number(name: str, value: Value) -> Any:
    if not is_number(value):
        raise RuleError(f"`{name}` needs a number, got {kind(value)}", code="A0301")
    return value


def _to_items(value: Value) -> Items:
    items = sequence(value)
    require(len(items) <= 100_000, "a list of more than 100000 items", code="A0603")
    return Items(items)


def _root(value: Value) -> Value:
    require(_number("sqrt", value) >= 0, "the root of a negative number", code="A0302")
    exact = math.isqrt(value) if isinstance(value, int) else None
    return exact if exact is not None and exact**2 == value else _arithmetic(math.sqrt, value)


def _log2(value: Value) -> Value:
    require(_number("log2", value) > 0, "the logarithm of a number that is not positive", code="A0302")
    if isinstance(value, Fraction):  # numerator and denominator may each exceed the range of floats
        return math.log2(value.numerator) - math.log2(value.denominator)
    return math.log2(value)


def _round_to(value: Value, divisor: Value) -> Value:
    """Round to the nearest multiple of `divisor`; round up if that would be less than 90% of the value (as in
    MobileNet)."""
    value, divisor = _number("round_to", value), integer(divisor, "the divisor")
    require(divisor >= 1, "the divisor must be at least 1", code="A0301")
    multiple = max(divisor, int(Fraction(value) + Fraction(divisor, 2)) // divisor * divisor)
    return normalized(multiple + divisor if multiple < Fraction(9, 10) * Fraction(value) else multiple)


FUNCTIONS: dict[str, tuple[int, int, Callable[..., Value]]] = {
    "len": (1, 1, lambda items: len(items) if isinstance(items, str) else len(sequence(items))),
    "abs": (1, 1, lambda value: abs(_number("abs", value))),
    "floor": (1, 1, lambda value: math.floor(_number("floor", value))),
    "ceil": (1, 1, lambda value: math.ceil(_number("ceil", value))),
    "round": (1, 1, lambda value: round(_number("round", value))),
    "round_to": (2, 2, _round_to),
    "sqrt": (1, 1, _root),
    "log2": (1, 1, _log2),
    "zip": (1, 99, lambda *lists: Items(Items(row) for row in zip(*map(_to_items, lists), strict=False))),
    "enumerate": (1, 1, lambda items: Items(Items(pair) for pair in enumerate(_to_items(items)))),
    "reversed": (1, 1, lambda items: Items(reversed(_to_items(items)))),
    "sorted": (1, 1, lambda items: Items(sorted(_number("sorted", item) for item in _to_items(items)))),
    "list": (1, 1, _to_items),
    "str": (1, 1, lambda value: value if isinstance(value, str) else check_text(show(value))),
}
"""Built-in functions on static values: minimum and maximum number of arguments, and the rule."""
ITEM_FUNCTIONS = {"sorted", "str"}
"""Functions that read list items. Their list arguments must first be converted to lists whose items have no
choices."""


def _pick_number(name: str, pick: Callable[[Any, Any], Any]) -> Callable[[Value, Value], Value]:
    return lambda a, b: pick(_number(name, a), _number(name, b))


FOLDS: dict[str, tuple[Value, Callable[[Value, Value], Value]]] = {
    "sum": (0, lambda a, b: binary("+", a, b)),
    "min": (None, _pick_number("min", min)),
    "max": (None, _pick_number("max", max)),
    "any": (False, lambda a, b: boolean(a) or boolean(b)),
    "all": (True, lambda a, b: boolean(a) and boolean(b)),
}
"""Built-in functions that fold a list: result for an empty list (None: an error), and the rule that combines two
items."""

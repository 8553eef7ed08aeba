"""The parameters of a block: numbers in which its calls differ, and what follows from them."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from archir.ir.types import TensorType
from archir.language.decompiler.outline import WILD, Expr, Many, Name, Size, Test, Times

LARGEST = 8
"""Largest numerator and denominator of a ratio that is taken for a rule, and no accident."""
WIDTHS = frozenset({"channels", "width", "inner", "hidden", "groups", "shape"})
"""What counts channels, and may follow from those of the input."""
NAMES = {"channels": "width", "shape": "size", "values": "numbers"}


class Parameters:
    """Parameters by name, each with its value for every call.

    Numbers that are in all calls the same small multiple of another parameter, or of the channels of the first input,
    are written so.
    """

    def __init__(self, input_: int | None, types: Sequence[TensorType | None], taken: Sequence[str]) -> None:
        self.values: dict[str, tuple[Any, ...]] = {}
        self._input = input_
        self._sizes = tuple(one.channels if one is not None and one.rank else 0 for one in types)
        self._word = "channels" if types and types[0] is not None and types[0].rank >= 3 else "features"
        self._taken = set(taken)
        self.name = ""

    def expression(self, column: Sequence[Any]) -> Expr:
        """What is written for the values that all calls have in one place; `name` says what they are called."""
        known, name = [value for value in column if value is not WILD], self.name
        if not known:
            return WILD
        first = known[0]
        if name in WIDTHS and all(type(value) is tuple and len(value) == len(first) for value in known):
            whole = [(WILD,) * len(first) if value is WILD else value for value in column]
            items = [self.expression(items) for items in zip(*whole, strict=True)]
            if any(isinstance(item, Size | Times | Name) for item in items):
                return Many(tuple(items))
        alike = all(_same(value, first) for value in known)
        if name in WIDTHS and (found := self._of_input(column, 1 if name != "channels" or not alike else LARGEST)):
            return found
        if alike:
            return first
        if name == "full" and (test := self._test(column)):
            return test
        for parameter, values in self.values.items():
            if all(_same(a, b) for a, b in zip(column, values, strict=True) if a is not WILD):
                return Name(parameter)
        for parameter, values in self.values.items():
            ratio = _ratio(column, values)
            if ratio is not None:
                return Times(Name(parameter), ratio.numerator, ratio.denominator)
        if name in WIDTHS and (found := self._of_input(column, LARGEST, LARGEST)):
            return found
        name = self._free(NAMES.get(name, name))
        self.values[name] = tuple(commonest(known) if value is WILD else value for value in column)
        return Name(name)

    def _test(self, flags: Sequence[Any]) -> Expr | None:
        """A condition on what is known that is true in just these calls."""
        tests: list[tuple[Expr, tuple[bool, ...]]] = []
        for name, values in self.values.items():
            if all(type(value) is int for value in values):
                tests.append((Test("!=", (Name(name), 1)), tuple(value != 1 for value in values)))
        if self._input is not None:
            size = Size(self._input, self._word)
            for name, values in self.values.items():
                if all(type(value) is int for value in values):
                    for times in (1, 2, 4):
                        unlike = tuple(times * a != b for a, b in zip(values, self._sizes, strict=True))
                        of = Times(Name(name), times) if times > 1 else Name(name)
                        tests.append((Test("!=", (size, of)), unlike))
        for test, truth in tests:
            if _match(flags, truth):
                return test
            if _match(flags, [not one for one in truth]):
                return Test("==", test.sides)
        for place, (one, truth) in enumerate(tests):
            for two, other in tests[place + 1 :]:
                either = [a or b for a, b in zip(truth, other, strict=True)]
                if _match(flags, either):
                    return Test("or", (one, two))
                if _match(flags, [not one for one in either]):
                    return Test("and", (Test("==", one.sides), Test("==", two.sides)))
        return None

    def _of_input(self, column: Sequence[Any], times: int, over: int = 1) -> Expr | None:
        ratio = _ratio(column, self._sizes) if self._input is not None else None
        if (
            ratio is None
            or ratio.numerator > times
            or ratio.denominator > over
            or min(v for v in column if v is not WILD) < 2
        ):
            return None
        assert self._input is not None
        size = Size(self._input, self._word)
        return size if ratio == 1 else Times(size, ratio.numerator, ratio.denominator)

    def _free(self, wanted: str) -> str:
        name, number = wanted, 1
        while name in self.values or name in self._taken:
            number += 1
            name = f"{wanted}_{number}"
        return name


def _match(flags: Sequence[Any], truth: Sequence[bool]) -> bool:
    return all(flag is WILD or flag == one for flag, one in zip(flags, truth, strict=True))


def _same(one: Any, other: Any) -> bool:
    return bool(one == other) and type(one) is type(other)


def _ratio(values: Sequence[Any], of: Sequence[Any]) -> Fraction | None:
    """What all values are of others; None where that differs, or is no small ratio."""
    pairs = [(value, other) for value, other in zip(values, of, strict=True) if value is not WILD]
    if not all(type(number) is int and number > 0 for pair in pairs for number in pair):
        return None
    ratios = {Fraction(value, other) for value, other in pairs}
    ratio = ratios.pop()
    return ratio if not ratios and max(ratio.numerator, ratio.denominator) <= LARGEST else None


def commonest(values: Sequence[Any]) -> Any:
    """The value that most calls have."""
    return max(values, key=lambda value: sum(_same(value, other) for other in values))

"""Integers that are not known yet: what rules are run with once, instead of once for each of many values.

A symbol stands for an integer that depends on choices, and is known to lie in an interval. Sums, differences and
products of symbols are polynomials. A comparison whose outcome the intervals settle has that outcome; whatever else
asks for the value raises AskError, and is answered by listing the values.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import prod
from typing import Any
from weakref import WeakKeyDictionary

from archir.diagrams.cases import Case, Value, leaves
from archir.diagrams.lifting import lift

Monomial = tuple[Case, ...]


class AskError(Exception):
    """A rule needs to know what a value is."""

    def __init__(self, values: set[Case]) -> None:
        super().__init__("a value is asked for")
        self.values = values


class Symbol:
    """A polynomial of values that depend on choices, of which at least one has a factor that is not 0."""

    __slots__ = ("_bounds", "terms")

    def __init__(self, terms: Mapping[Monomial, int]) -> None:
        self.terms = dict(terms)
        self._bounds: tuple[int, int] | None = None

    @staticmethod
    def of(value: Case) -> Symbol:
        """The symbol for a value that is an integer, whatever is chosen."""
        return Symbol({(value,): 1})

    @property
    def values(self) -> set[Case]:
        """The values that it depends on."""
        return {value for monomial in self.terms for value in monomial}

    def value(self) -> Value:
        """The value that it stands for, listed if it is none of those it was made of."""
        if len(self.terms) == 1:
            ((monomial, factor),) = self.terms.items()
            if factor == 1 and len(monomial) == 1:
                return monomial[0]
        used = sorted(self.values, key=id)
        return lift(lambda *numbers: self.at(dict(zip(used, numbers, strict=True))), *used)

    def at(self, known: Mapping[Case, Any]) -> Any:
        """What it is where these are its values: integers, or arrays of them."""
        return sum(factor * prod(known[value] for value in monomial) for monomial, factor in self.terms.items())

    @property
    def bounds(self) -> tuple[int, int]:
        """An interval that it lies in."""
        if self._bounds is None:
            low = high = 0
            for monomial, factor in self.terms.items():
                ends = [factor]
                for value in monomial:
                    least, greatest = extent(value)
                    ends = [end * one for end in ends for one in (least, greatest)]
                    ends = [min(ends), max(ends)]
                low, high = low + min(ends), high + max(ends)
            self._bounds = low, high
        return self._bounds

    def ask(self) -> AskError:
        """What is raised where its value is needed."""
        return AskError(self.values)

    # arithmetic

    def _with(self, other: Any, sign: int) -> Any:
        terms = dict(self.terms)
        for monomial, factor in _terms(other).items():
            terms[monomial] = terms.get(monomial, 0) + sign * factor
        return _simple(terms)

    def __add__(self, other: Any) -> Any:
        return self._with(other, 1) if _known(other) else NotImplemented

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self._with(other, -1) if _known(other) else NotImplemented

    def __rsub__(self, other: Any) -> Any:
        return -self + other

    def __neg__(self) -> Any:
        return Symbol({monomial: -factor for monomial, factor in self.terms.items()})

    def __mul__(self, other: Any) -> Any:
        if not _known(other):
            return NotImplemented
        terms: dict[Monomial, int] = {}
        for one, factor in self.terms.items():
            for two, times in _terms(other).items():
                monomial = tuple(sorted((*one, *two), key=id))
                terms[monomial] = terms.get(monomial, 0) + factor * times
        return _simple(terms)

    __rmul__ = __mul__

    def __floordiv__(self, other: Any) -> Any:
        if type(other) is int and other != 0 and all(factor % other == 0 for factor in self.terms.values()):
            return Symbol({monomial: factor // other for monomial, factor in self.terms.items()})
        raise self.ask()

    def __mod__(self, other: Any) -> Any:
        if type(other) is int and other != 0 and all(factor % other == 0 for factor in self.terms.values()):
            return 0
        raise self.ask()

    def _asked(self, *_: Any) -> Any:
        raise self.ask()

    __truediv__ = __rtruediv__ = __rfloordiv__ = __rmod__ = __divmod__ = __rdivmod__ = _asked
    __pow__ = __rpow__ = __int__ = __index__ = __float__ = __round__ = __abs__ = _asked

    def __bool__(self) -> bool:
        return self != 0

    # comparisons

    def _sign(self, other: Any) -> tuple[int, int] | None:
        """An interval that the difference lies in; None if it is not an integer's."""
        if not _known(other):
            return None
        difference = self - other
        return (difference, difference) if isinstance(difference, int) else difference.bounds

    def __eq__(self, other: object) -> bool:
        found = self._sign(other)
        if found is None:
            if isinstance(other, (float, Fraction)):
                raise self.ask()
            return False
        low, high = found
        if low == high:
            return low == 0
        if low > 0 or high < 0:
            return False
        raise self.ask()

    def __hash__(self) -> int:
        return hash(frozenset(self.terms.items()))

    def _less(self, other: Any, strictly: bool) -> bool:
        found = self._sign(other)
        if found is None:
            raise self.ask()
        low, high = found
        if high < 0 or (not strictly and high == 0):
            return True
        if low > 0 or (strictly and low == 0):
            return False
        raise self.ask()

    def __lt__(self, other: Any) -> bool:
        return self._less(other, strictly=True)

    def __le__(self, other: Any) -> bool:
        return self._less(other, strictly=False)

    def __gt__(self, other: Any) -> bool:
        return not self._less(other, strictly=False)

    def __ge__(self, other: Any) -> bool:
        return not self._less(other, strictly=True)

    def __str__(self) -> str:
        return "..."

    __repr__ = __str__


def _known(value: Any) -> bool:
    return type(value) is int or type(value) is Symbol


def _terms(value: Any) -> Mapping[Monomial, int]:
    return value.terms if type(value) is Symbol else {(): value}


def _simple(terms: Mapping[Monomial, int]) -> Symbol | int:
    """A polynomial; a number if it is one."""
    left = {monomial: factor for monomial, factor in terms.items() if factor}
    return left.get((), 0) if not left.keys() - {()} else Symbol(left)


def extent(value: Case) -> tuple[int, int]:
    """The least and the greatest leaf of an integer."""
    if value not in _extents:
        found = list(leaves(value))
        _extents[value] = min(found), max(found)
    return _extents[value]


_extents: WeakKeyDictionary[Case, tuple[int, int]] = WeakKeyDictionary()


LONG = 64
"""Outcomes of a choice beyond which integers that depend on it are a long range."""


def is_long(value: Case) -> bool:
    """Whether a value is a long range of integers, of one choice."""
    branches = value.branches
    return len(branches) > LONG and value.depth == 1 and all(type(leaf) is int for leaf in branches)


def value_of(value: Any) -> Value:
    """The value that a symbol stands for, or a number itself."""
    return value.value() if type(value) is Symbol else value

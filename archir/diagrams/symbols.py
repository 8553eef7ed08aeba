"""Symbolic integers: they let a rule run once instead of once for each of many values.

A symbolic integer stands for an integer that depends on choices and lies in a known interval. Sums, differences and
products of symbolic integers are polynomials. A comparison has a plain result if the intervals decide it. Any other
operation that needs the actual value raises ValueNeededError; the caller then runs the rule once for each value.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import prod
from typing import Any
from weakref import WeakKeyDictionary

from archir.diagrams.diagram import Diagram, Value, leaves
from archir.diagrams.lifting import lift

Monomial = tuple[Diagram, ...]
"""A product of integer diagrams, sorted by their `id`; the empty product is 1."""


class ValueNeededError(Exception):
    """A rule needs the concrete value of a symbolic integer.

    `variables` are the diagrams that this integer depends on.
    """

    def __init__(self, variables: set[Diagram]) -> None:
        super().__init__("a rule needs the concrete value of a symbolic integer")
        self.variables = variables


class SymbolicInt:
    """A polynomial whose variables are integer diagrams (integers that depend on choices).

    At least one monomial other than the constant has a non-zero coefficient.
    """

    __slots__ = ("_bounds", "terms")

    def __init__(self, terms: Mapping[Monomial, int]) -> None:
        self.terms = dict(terms)
        self._bounds: tuple[int, int] | None = None

    @staticmethod
    def of(value: Diagram) -> SymbolicInt:
        """Return the symbolic integer for a diagram whose leaves are all integers."""
        return SymbolicInt({(value,): 1})

    @property
    def variables(self) -> set[Diagram]:
        """The diagrams that the polynomial depends on."""
        return {value for monomial in self.terms for value in monomial}

    def value(self) -> Value:
        """Return the diagram of the polynomial's value; it is computed by lifting unless it is one of the variables."""
        if len(self.terms) == 1:
            ((monomial, factor),) = self.terms.items()
            if factor == 1 and len(monomial) == 1:
                return monomial[0]
        variables = sorted(self.variables, key=id)
        return lift(lambda *numbers: self.at(dict(zip(variables, numbers, strict=True))), *variables)

    def at(self, assignment: Mapping[Diagram, Any]) -> Any:
        """Evaluate the polynomial for these values of its variables, which are integers or arrays of integers."""
        return sum(factor * prod(assignment[value] for value in monomial) for monomial, factor in self.terms.items())

    @property
    def bounds(self) -> tuple[int, int]:
        """An interval (minimum, maximum) that contains the value, by interval arithmetic."""
        if self._bounds is None:
            low = high = 0
            for monomial, factor in self.terms.items():
                products = [factor]
                for value in monomial:
                    least, greatest = leaf_bounds(value)
                    products = [product * bound for product in products for bound in (least, greatest)]
                    products = [min(products), max(products)]
                low, high = low + min(products), high + max(products)
            self._bounds = low, high
        return self._bounds

    def value_needed(self) -> ValueNeededError:
        """Return the ValueNeededError to be raised by an operation that needs the concrete value."""
        return ValueNeededError(self.variables)

    # arithmetic

    def _plus(self, other: Any, sign: int) -> Any:
        terms = dict(self.terms)
        for monomial, factor in _terms(other).items():
            terms[monomial] = terms.get(monomial, 0) + sign * factor
        return _simplify(terms)

    def __add__(self, other: Any) -> Any:
        return self._plus(other, 1) if _is_integer(other) else NotImplemented

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self._plus(other, -1) if _is_integer(other) else NotImplemented

    def __rsub__(self, other: Any) -> Any:
        return -self + other

    def __neg__(self) -> Any:
        return SymbolicInt({monomial: -factor for monomial, factor in self.terms.items()})

    def __mul__(self, other: Any) -> Any:
        if not _is_integer(other):
            return NotImplemented
        terms: dict[Monomial, int] = {}
        for left, factor in self.terms.items():
            for right, times in _terms(other).items():
                monomial = tuple(sorted((*left, *right), key=id))
                terms[monomial] = terms.get(monomial, 0) + factor * times
        return _simplify(terms)

    __rmul__ = __mul__

    def __floordiv__(self, other: Any) -> Any:
        if type(other) is int and other != 0 and all(factor % other == 0 for factor in self.terms.values()):
            return SymbolicInt({monomial: factor // other for monomial, factor in self.terms.items()})
        raise self.value_needed()

    def __mod__(self, other: Any) -> Any:
        if type(other) is int and other != 0 and all(factor % other == 0 for factor in self.terms.values()):
            return 0
        raise self.value_needed()

    def _raise_value_needed(self, *_: Any) -> Any:
        raise self.value_needed()

    __truediv__ = __rtruediv__ = __rfloordiv__ = __rmod__ = __divmod__ = __rdivmod__ = _raise_value_needed
    __pow__ = __rpow__ = __int__ = __index__ = __float__ = __round__ = __abs__ = _raise_value_needed

    def __bool__(self) -> bool:
        return self != 0

    # comparisons

    def _difference_bounds(self, other: Any) -> tuple[int, int] | None:
        """Return an interval that contains `self - other`; None if `other` is not an integer."""
        if not _is_integer(other):
            return None
        difference = self - other
        return (difference, difference) if isinstance(difference, int) else difference.bounds

    def __eq__(self, other: object) -> bool:
        bounds = self._difference_bounds(other)
        if bounds is None:
            if isinstance(other, (float, Fraction)):
                raise self.value_needed()
            return False
        low, high = bounds
        if low == high:
            return low == 0
        if low > 0 or high < 0:
            return False
        raise self.value_needed()

    def __hash__(self) -> int:
        return hash(frozenset(self.terms.items()))

    def _is_less(self, other: Any, strict: bool) -> bool:
        bounds = self._difference_bounds(other)
        if bounds is None:
            raise self.value_needed()
        low, high = bounds
        if high < 0 or (not strict and high == 0):
            return True
        if low > 0 or (strict and low == 0):
            return False
        raise self.value_needed()

    def __lt__(self, other: Any) -> bool:
        return self._is_less(other, strict=True)

    def __le__(self, other: Any) -> bool:
        return self._is_less(other, strict=False)

    def __gt__(self, other: Any) -> bool:
        return not self._is_less(other, strict=False)

    def __ge__(self, other: Any) -> bool:
        return not self._is_less(other, strict=True)

    def __str__(self) -> str:
        return "..."

    __repr__ = __str__


def _is_integer(value: Any) -> bool:
    return type(value) is int or type(value) is SymbolicInt


def _terms(value: Any) -> Mapping[Monomial, int]:
    return value.terms if type(value) is SymbolicInt else {(): value}


def _simplify(terms: Mapping[Monomial, int]) -> SymbolicInt | int:
    """Return the polynomial without its zero terms; a plain integer if only the constant is left."""
    nonzero = {monomial: factor for monomial, factor in terms.items() if factor}
    return nonzero.get((), 0) if not nonzero.keys() - {()} else SymbolicInt(nonzero)


def leaf_bounds(value: Diagram) -> tuple[int, int]:
    """Return the smallest and the largest leaf of an integer diagram (cached)."""
    if value not in _leaf_bounds:
        numbers = list(leaves(value))
        _leaf_bounds[value] = min(numbers), max(numbers)
    return _leaf_bounds[value]


_leaf_bounds: WeakKeyDictionary[Diagram, tuple[int, int]] = WeakKeyDictionary()


LONG_RANGE = 64
"""Number of outcomes of a choice above which an integer that depends on it is treated as a long range."""


def is_long_range(value: Diagram) -> bool:
    """Return whether an integer diagram depends on exactly one choice, with more than `LONG_RANGE` outcomes."""
    branches = value.branches
    return len(branches) > LONG_RANGE and value.depth == 1 and all(type(leaf) is int for leaf in branches)


def concrete_value(value: Any) -> Value:
    """Return the diagram or integer that a symbolic integer stands for; other values are returned unchanged."""
    return value.value() if type(value) is SymbolicInt else value

"""What costs are sums of: values, and products of values whose combinations are too many to be listed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import prod
from operator import mul

from archir.diagrams.cases import Case, Choice, Value, leaves, size, support, varies
from archir.diagrams.conditions import if_else
from archir.diagrams.lifting import lift
from archir.diagrams.symbols import Monomial, Symbol, extent, is_long
from archir.ir.typing import MOST_LISTED


@dataclass(frozen=True)
class Product:
    """A product of several integers that depend on choices."""

    factors: tuple[Case, ...]


Term = Value
"""A value, or a `Product`."""
Terms = Counter[Term]
"""Terms, and how often each is to be counted."""
Polynomial = frozenset[tuple[Monomial, int]]


def told(numbers: Value) -> Value:
    """A tuple of numbers, with polynomials, alike if they look alike, instead of symbols."""
    return tuple([frozenset(x.terms.items()) if type(x) is Symbol else x for x in numbers])


def expanded(value: Value) -> Terms:
    """The terms of a value, whose leaves may be polynomials."""
    found: Terms = Counter()
    monomials = {monomial: None for leaf in leaves(value) for monomial, _ in _polynomial(leaf)}
    if list(monomials) == [()] and not any(isinstance(leaf, frozenset) for leaf in leaves(value)):
        _add(found, 1, value)
        return found
    for monomial in monomials:
        times = lift(lambda leaf, of=monomial: dict(_polynomial(leaf)).get(of, 0), value)
        _add(found, 1, times, *monomial)
    return found


def only(terms: Terms, under: Value) -> Terms:
    """The terms where a condition holds; elsewhere they are 0."""
    found: Terms = Counter()
    for term, times in terms.items():
        if type(term) is Product:
            _add(found, times, if_else(under, 1, 0), *term.factors)
        else:
            _add(found, times, if_else(under, term, 0))
    return found


def factors(term: Term) -> tuple[Case, ...]:
    """What a term that depends on choices is the product of."""
    return term.factors if type(term) is Product else (term,)


def depends(term: Term) -> bool:
    """Whether a term depends on choices."""
    return type(term) is Product or varies(term)


def greatest(term: Term) -> int:
    """No magnitude of a term is more."""
    return prod(max(map(abs, leaves(factor))) for factor in factors(term))


def weaker(term: Term, times: int) -> Value:
    """A value that is at most so many times a term, whatever is chosen: its long ranges are at their ends."""
    if type(term) is not Product:
        return lift(lambda leaf: leaf * times, term)
    *others, kept = sorted(term.factors, key=lambda factor: (not is_long(factor), size(factor), len(factor.branches)))
    ends = [times]
    for factor in others:
        ends = [end * one for end in (min(ends), max(ends)) for one in extent(factor)]
    return lift(lambda leaf: min(leaf * min(ends), leaf * max(ends)), kept)


def _polynomial(leaf: int | Polynomial) -> Polynomial:
    return leaf if isinstance(leaf, frozenset) else frozenset({((), leaf)})


def _add(terms: Terms, times: int, *values: Value) -> None:
    """Add so many times a product of values, listed where it has few combinations."""
    apart: dict[tuple[Choice, ...], Value] = {}
    for value in values:
        choices = tuple(support(value))
        apart[choices] = lift(mul, apart[choices], value) if choices in apart else value
    about = {choice for choices in apart for choice in choices}
    if len(apart) > 1 and prod(choice.outcomes for choice in about) <= MOST_LISTED:
        apart = {(): lift(lambda *numbers: prod(numbers), *apart.values())}
    varied = sorted([value for value in apart.values() if varies(value)], key=id)
    times *= prod(int(value) for value in apart.values() if not varies(value))
    if times:
        terms[Product(tuple(varied)) if len(varied) > 1 else varied[0] if varied else 1] += times

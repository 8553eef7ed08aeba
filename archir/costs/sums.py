"""Terms that costs are sums of: values, and products of values that are too large for one diagram."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import prod
from operator import mul

from archir.diagrams.conditions import if_else
from archir.diagrams.diagram import Choice, Diagram, Value, diagram_size, leaves, support, varies
from archir.diagrams.lifting import lift
from archir.diagrams.symbols import Monomial, SymbolicInt, is_long_range, leaf_bounds
from archir.ir.typing import MAX_LISTED


@dataclass(frozen=True)
class Product:
    """Product of several integers that depend on choices, stored as factors instead of one diagram."""

    factors: tuple[Diagram, ...]


Term = Value
"""Summand of a cost: a plain value, a diagram, or a `Product`."""
Terms = Counter[Term]
"""Multiset of terms: how many times each term is added."""
Polynomial = frozenset[tuple[Monomial, int]]


def symbols_to_polynomials(numbers: Value) -> Value:
    """Replace the symbolic integers in a tuple by polynomials, which are hashable and compare by value."""
    return tuple([frozenset(x.terms.items()) if type(x) is SymbolicInt else x for x in numbers])


def expand_terms(value: Value) -> Terms:
    """Return the terms of a value whose leaves may be polynomials: one term per monomial."""
    terms: Terms = Counter()
    monomials = {monomial: None for leaf in leaves(value) for monomial, _ in _polynomial(leaf)}
    if list(monomials) == [()] and not any(isinstance(leaf, frozenset) for leaf in leaves(value)):
        _add_product(terms, 1, value)
        return terms
    for monomial in monomials:
        times = lift(lambda leaf, of=monomial: dict(_polynomial(leaf)).get(of, 0), value)
        _add_product(terms, 1, times, *monomial)
    return terms


def restrict_terms(terms: Terms, condition: Value) -> Terms:
    """Return terms that keep their values where a condition holds and are 0 elsewhere."""
    restricted: Terms = Counter()
    for term, times in terms.items():
        if type(term) is Product:
            _add_product(restricted, times, if_else(condition, 1, 0), *term.factors)
        else:
            _add_product(restricted, times, if_else(condition, term, 0))
    return restricted


def factors(term: Term) -> tuple[Diagram, ...]:
    """Return the factors of a term that depends on choices: those of a `Product`, or the term itself."""
    return term.factors if type(term) is Product else (term,)


def is_varying(term: Term) -> bool:
    """Return whether a term depends on choices."""
    return type(term) is Product or varies(term)


def max_magnitude(term: Term) -> int:
    """Return an upper bound of the absolute value of a term over all choices."""
    return prod(max(map(abs, leaves(factor))) for factor in factors(term))


def lower_bound(term: Term, times: int) -> Value:
    """Return a value that is at most `times` times a term, for all outcomes of the choices.

    For a `Product`, one factor is kept as a diagram, and the other factors are replaced by their extreme values.
    """
    if type(term) is not Product:
        return lift(lambda leaf: leaf * times, term)
    *others, kept = sorted(
        term.factors, key=lambda factor: (not is_long_range(factor), diagram_size(factor), len(factor.branches))
    )
    extremes = [times]
    for factor in others:
        extremes = [extreme * bound for extreme in (min(extremes), max(extremes)) for bound in leaf_bounds(factor)]
    return lift(lambda leaf: min(leaf * min(extremes), leaf * max(extremes)), kept)


def _polynomial(leaf: int | Polynomial) -> Polynomial:
    """Return a leaf as a polynomial; an integer is a polynomial with only a constant monomial."""
    return leaf if isinstance(leaf, frozenset) else frozenset({((), leaf)})


def _add_product(terms: Terms, times: int, *values: Value) -> None:
    """Add a product of values to the terms, `times` times.

    The product is computed as one value if it has at most MAX_LISTED combinations of choices; otherwise it stays a
    `Product`.
    """
    by_choices: dict[tuple[Choice, ...], Value] = {}
    for value in values:
        choices = tuple(support(value))
        by_choices[choices] = lift(mul, by_choices[choices], value) if choices in by_choices else value
    all_choices = {choice for choices in by_choices for choice in choices}
    if len(by_choices) > 1 and prod(choice.outcome_count for choice in all_choices) <= MAX_LISTED:
        by_choices = {(): lift(lambda *numbers: prod(numbers), *by_choices.values())}
    varied = sorted([value for value in by_choices.values() if varies(value)], key=id)
    times *= prod(int(value) for value in by_choices.values() if not varies(value))
    if times:
        terms[Product(tuple(varied)) if len(varied) > 1 else varied[0] if varied else 1] += times

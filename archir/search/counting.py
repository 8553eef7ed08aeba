"""How many architectures there are, and how to draw one of them uniformly: elimination of choices, last to first.

Each constraint is a factor with values 0 and 1; eliminating a choice multiplies the factors that mention it and sums
them over its outcomes (where it is inactive, there is one way not to make it). What is left is the exact count; the
summands met on the way are the weights by which a choice is drawn, given the choices before it.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import accumulate
from math import gcd

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from archir.cases import Choice, Value, fix, if_else, lift, support
from archir.errors import RuleError, fail
from archir.ir.graph import Decision
from archir.work import bounded


@dataclass(frozen=True)
class Program:
    """The exact count, and for each choice, in drawing order, its distribution given the choices before it.

    A `Distribution` may depend on earlier choices.
    """

    size: int
    distributions: Mapping[str, Value]


BITS = 53
"""Bits that a random float has."""


@dataclass(frozen=True)
class Distribution:
    """How many ways there are with each outcome of a choice, or with any before it, up to a common factor.

    Exact, however large: an outcome that is one of 10^17 is possible. All zeros where nothing that satisfies the
    constraints can be reached.
    """

    ways: tuple[int, ...]

    @classmethod
    def of(cls, *weights: int) -> Distribution:
        """The distribution with these weights, one per outcome."""
        common = gcd(*weights) or 1
        return cls(tuple(accumulate(weight // common for weight in weights)))

    @cached_property
    def possible(self) -> tuple[int, ...]:
        """The outcomes that there are ways to."""
        return tuple(i for i, ways in enumerate(self.ways) if ways > (self.ways[i - 1] if i else 0))

    def draw(self, rng: random.Random) -> int:
        """An outcome in proportion to its ways, exactly."""
        return self._outcome(int(rng.random() * 2**BITS), lambda: rng.getrandbits(BITS))

    def draws(self, n: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """`n` outcomes, each in proportion to its ways, exactly."""
        first = (rng.random(n) * 2.0**BITS).astype(np.int64)
        found = np.searchsorted(self._cells, first, side="right")
        for i in np.flatnonzero(np.isin(first, self._cells)):
            found[i] = self._outcome(int(first[i]), lambda: int(rng.integers(2**BITS)))
        return found

    def _outcome(self, number: int, more: Callable[[], int]) -> int:
        """The outcome at a point between 0 and 1 of which `number` has the first bits; `more` draws further ones, which
        are wanted where an outcome ends within what is known of the point."""
        bits, total = BITS, self.ways[-1]
        while True:
            least, most = number * total, (number + 1) * total - 1
            outcome = bisect_right(self.ways, least >> bits)
            if outcome == bisect_right(self.ways, most >> bits):
                return outcome
            number, bits = number << BITS | more(), bits + BITS

    @cached_property
    def _cells(self) -> NDArray[np.int64]:
        """Of 2^53 equal parts of the way from 0 to 1, those in which an outcome ends."""
        return np.array([(ways << BITS) // self.ways[-1] for ways in self.ways], np.int64)


def drawing_order(decisions: Iterable[Decision]) -> list[Decision]:
    """Decisions such that each comes after those it is conditional on. Raises ArchError (A0511) for a ring."""
    known = {decision.choice.path: decision for decision in decisions}
    order: nx.DiGraph[str] = nx.DiGraph()
    for path, decision in known.items():
        order.add_node(path)
        order.add_edges_from((other.path, path) for other in support(decision.active) if other.path != path)
    try:
        paths = nx.lexicographical_topological_sort(order, key=lambda path: known[path].choice.order)
        return [known[path] for path in paths]
    except nx.NetworkXUnfeasible:
        ring = " -> ".join(edge[0] for edge in nx.find_cycle(order))
        raise fail("A0511", f"choices are conditional on each other in a ring: {ring}") from None


def compile_program(order: Sequence[Decision], constraints: Iterable[Value]) -> Program:
    """Count the architectures that satisfy all constraints (conditions on choices)."""
    with bounded():
        return _compiled(order, constraints)


def _compiled(order: Sequence[Decision], constraints: Iterable[Value]) -> Program:
    factors: list[Value] = [lift(int, condition) for condition in constraints if condition is not True]
    distributions: dict[str, Value] = {}
    size = 1
    for decision in reversed(order):
        choice = decision.choice
        related = [factor for factor in factors if choice in support(factor)]
        factors = [factor for factor in factors if not any(factor is one for one in related)]
        try:
            product = reduce(_times, related, 1)
            weights = [fix(product, choice, outcome) for outcome in range(choice.outcomes)]
            distributions[choice.path] = lift(Distribution.of, *weights)
            total = if_else(decision.active, lift(lambda *parts: sum(parts), *weights), weights[0])
        except RuleError as error:
            raise error.at(choice.span) from None
        if isinstance(total, int):
            size *= total
        else:
            factors.append(total)
    return Program(size * reduce(lambda a, b: a * b, (int(factor) for factor in factors), 1), distributions)


def _times(one: Value, other: Value) -> Value:
    return lift(lambda a, b: a * b, one, other)


def choices_of(order: Sequence[Decision]) -> dict[str, Choice]:
    """The choices by path."""
    return {decision.choice.path: decision.choice for decision in order}

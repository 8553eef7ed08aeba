"""How many architectures there are, and how to draw one of them uniformly: elimination of choices, last to first.

Each constraint is a factor with values 0 and 1; eliminating a choice multiplies the factors that mention it and sums
them over its outcomes (where it is inactive, there is one way not to make it). What is left is the exact count; the
summands met on the way are the weights by which a choice is drawn, given the choices before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import count
from math import log10, prod
from typing import TypeVar

from archir.diagnostics.errors import ArchError, RuleError, fail
from archir.diagnostics.work import bounded
from archir.diagrams.cases import Choice, Value, fix, support
from archir.diagrams.conditions import if_else
from archir.diagrams.lifting import lift
from archir.ir.graph import Decision
from archir.utils.draws import Distribution

T = TypeVar("T")
QUICK = 100_000
"""Units of work that something may be counted with by the way."""


@dataclass(frozen=True)
class Program:
    """The exact count, and for each choice, in drawing order, its distribution given the choices before it.

    A `Distribution` may depend on earlier choices.
    """

    size: int
    distributions: Mapping[str, Value]


def drawing_order(decisions: Iterable[Decision]) -> list[Decision]:
    """Decisions such that each comes after those it is conditional on. Raises ArchError (A0511) for a ring."""
    import networkx as nx

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


def concerned(order: Sequence[Decision], conditions: Iterable[Value]) -> list[Decision]:
    """The decisions on which conditions depend, and those on which these are conditional, in drawing order. Whether
    there is a way to meet the conditions does not depend on others."""
    about = set(support(*conditions))
    found: list[Decision] = []
    for decision in reversed(order):
        if decision.choice in about:
            found.append(decision)
            about.update(support(decision.active))
    return found[::-1]


class Factors:
    """Functions of choices whose product is wanted, found by the choices that they depend on."""

    def __init__(self, values: Iterable[Value]) -> None:
        self._about: dict[Choice, dict[int, Value]] = {}
        self._numbers = count()
        self.plain: list[Value] = []
        """Those that depend on no choice, or no longer."""
        for value in values:
            self.add(value)

    def add(self, value: Value) -> None:
        """One more of them, which may be there already."""
        about, number = support(value), next(self._numbers)
        for choice in about:
            self._about.setdefault(choice, {})[number] = value
        if not about:
            self.plain.append(value)

    def taken(self, choice: Choice) -> list[Value]:
        """Those that depend on a choice, which are no longer there after this."""
        found = dict(self._about.get(choice, {}))
        for number, value in found.items():
            for other in support(value):
                del self._about[other][number]
        return list(found.values())


def compile_program(order: Sequence[Decision], constraints: Iterable[Value]) -> Program:
    """Count the architectures that satisfy all constraints (conditions on choices)."""
    with bounded():
        return _compiled(order, constraints)


def _compiled(order: Sequence[Decision], constraints: Iterable[Value]) -> Program:
    factors = Factors(lift(int, condition) for condition in constraints if condition is not True)
    distributions: dict[str, Value] = {}
    size = 1
    for decision in reversed(order):
        choice = decision.choice
        try:
            product = reduce(_times, factors.taken(choice), 1)
            weights = [fix(product, choice, outcome) for outcome in range(choice.outcomes)]
            distributions[choice.path] = lift(Distribution.of, *weights)
            total = if_else(decision.active, lift(lambda *parts: sum(parts), *weights), weights[0])
        except RuleError as error:
            raise error.at(choice.span) from None
        if isinstance(total, int):
            size *= total
        else:
            factors.add(total)
    return Program(size * prod(map(int, factors.plain)), distributions)


def _times(one: Value, other: Value) -> Value:
    return lift(lambda a, b: a * b, one, other)


def choices_of(order: Sequence[Decision]) -> dict[str, Choice]:
    """The choices by path."""
    return {decision.choice.path: decision.choice for decision in order}


def quickly(counted: Callable[[], T]) -> T | None:
    """What is counted, if it takes no more than about a tenth of a second."""
    try:
        with bounded(QUICK):
            return counted()
    except ArchError:
        return None


def many(number: int | None, what: str) -> str:
    """A number of things in a few words: `1 choice`, `15,625 architectures`, `about 10^52 architectures`."""
    if number is None:
        return f"many {what}s"
    text = f"{number:,}" if number < 10**12 else f"about 10^{number.bit_length() * log10(2):.0f}"
    return f"{text} {what}{'' if number == 1 else 's'}"

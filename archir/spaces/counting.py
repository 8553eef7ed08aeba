"""Exact counting and uniform sampling of architectures by variable elimination, choices last to first.

Each constraint is a factor with values 0 and 1. Eliminating a choice multiplies the factors that depend on it and sums
over its outcomes (an inactive choice counts as one way). The final value is the exact number of architectures; the
summands of a step are the weights by which a choice is sampled, given the choices before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import count
from math import log10, prod
from typing import TypeVar

from archir.diagnostics.errors import ArchError, RuleError, fail
from archir.diagnostics.work import work_budget
from archir.diagrams.conditions import if_else
from archir.diagrams.lifting import lift
from archir.diagrams.mdd import Choice, Value, fix_choice, support
from archir.ir.graph import Decision
from archir.utils.distributions import Distribution

T = TypeVar("T")
MAX_QUICK_WORK = 100_000
"""Work limit of a count that is only shown in passing, about a tenth of a second."""


@dataclass(frozen=True)
class CountingProgram:
    """Exact count, and for each choice, in sampling order, its distribution given the choices before it.

    A distribution is a `Distribution` or a diagram of earlier choices with `Distribution` leaves.
    """

    size: int
    distributions: Mapping[str, Value]


def sampling_order(decisions: Iterable[Decision]) -> list[Decision]:
    """Sort decisions so that each comes after those it is conditional on. Raises ArchError (A0511) for a cycle."""
    import networkx as nx

    by_path = {decision.choice.path: decision for decision in decisions}
    dependencies: nx.DiGraph[str] = nx.DiGraph()
    for path, decision in by_path.items():
        dependencies.add_node(path)
        dependencies.add_edges_from((other.path, path) for other in support(decision.active) if other.path != path)
    try:
        paths = nx.lexicographical_topological_sort(dependencies, key=lambda path: by_path[path].choice.order)
        return [by_path[path] for path in paths]
    except nx.NetworkXUnfeasible:
        cycle = " -> ".join(edge[0] for edge in nx.find_cycle(dependencies))
        raise fail("A0511", f"choices are conditional on each other in a cycle: {cycle}") from None


def relevant_decisions(order: Sequence[Decision], conditions: Iterable[Value]) -> list[Decision]:
    """Return the decisions that conditions depend on, and those that these are conditional on, in sampling order.

    Other decisions have no influence on whether the conditions can be met.
    """
    choices = set(support(*conditions))
    relevant: list[Decision] = []
    for decision in reversed(order):
        if decision.choice in choices:
            relevant.append(decision)
            choices.update(support(decision.active))
    return relevant[::-1]


class Factors:
    """Factors of a product, indexed by the choices that they depend on."""

    def __init__(self, values: Iterable[Value]) -> None:
        self._by_choice: dict[Choice, dict[int, Value]] = {}
        self._numbers = count()
        self.constants: list[Value] = []
        """Factors that depend on no choice."""
        for value in values:
            self.add(value)

    def add(self, value: Value) -> None:
        """Add a factor; equal factors are kept separately."""
        choices, number = support(value), next(self._numbers)
        for choice in choices:
            self._by_choice.setdefault(choice, {})[number] = value
        if not choices:
            self.constants.append(value)

    def pop(self, choice: Choice) -> list[Value]:
        """Remove and return the factors that depend on a choice."""
        factors = dict(self._by_choice.get(choice, {}))
        for number, value in factors.items():
            for other in support(value):
                del self._by_choice[other][number]
        return list(factors.values())


def compile_program(order: Sequence[Decision], constraints: Iterable[Value]) -> CountingProgram:
    """Count the architectures that satisfy all constraints (conditions on choices), within the work budget."""
    with work_budget():
        return _count(order, constraints)


def _count(order: Sequence[Decision], constraints: Iterable[Value]) -> CountingProgram:
    """Count the architectures that satisfy all constraints."""
    factors = Factors(lift(int, condition) for condition in constraints if condition is not True)
    distributions: dict[str, Value] = {}
    size = 1
    for decision in reversed(order):
        choice = decision.choice
        try:
            product = reduce(_product, factors.pop(choice), 1)
            weights = [fix_choice(product, choice, outcome) for outcome in range(choice.outcome_count)]
            distributions[choice.path] = lift(Distribution.of, *weights)
            total = if_else(decision.active, lift(lambda *parts: sum(parts), *weights), weights[0])
        except RuleError as error:
            raise error.with_span(choice.span) from None
        if isinstance(total, int):
            size *= total
        else:
            factors.add(total)
    return CountingProgram(size * prod(map(int, factors.constants)), distributions)


def _product(left: Value, right: Value) -> Value:
    """Return the product of two values that depend on choices."""
    return lift(lambda a, b: a * b, left, right)


def try_quickly(compute: Callable[[], T]) -> T | None:
    """Return the result of a computation if it takes no more than about a tenth of a second, otherwise None."""
    try:
        with work_budget(MAX_QUICK_WORK):
            return compute()
    except ArchError:
        return None


def format_count(number: int | None, noun: str) -> str:
    """Return a count in a few words: `1 choice`, `15,625 architectures`, `about 10^52 architectures`."""
    if number is None:
        return f"many {noun}s"
    text = f"{number:,}" if number < 10**12 else f"about 10^{number.bit_length() * log10(2):.0f}"
    return f"{text} {noun}{'' if number == 1 else 's'}"

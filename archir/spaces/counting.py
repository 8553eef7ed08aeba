"""Exact counting and uniform sampling of architectures by variable elimination, last choice first.

Each constraint is a factor with the values 0 and 1. Eliminating a choice multiplies the factors that depend on it and
sums over its outcomes (an inactive choice counts as one outcome). The final value is the exact number of architectures.
The summands of each step are the weights by which the choice is sampled, given the choices before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import count
from math import prod
from typing import TypeVar

from archir.diagnostics.errors import ArchError, RuleError, fail
from archir.diagnostics.work import work_budget
from archir.diagrams.conditions import if_else
from archir.diagrams.diagram import Choice, Value, fix_choice, support
from archir.diagrams.lifting import lift
from archir.ir.graph import Decision
from archir.utils.distributions import Distribution

T = TypeVar("T")
MAX_QUICK_WORK = 100_000
"""Maximum work units for a count that is only displayed incidentally: about a tenth of a second."""


@dataclass(frozen=True)
class CountingProgram:
    """Exact number of architectures, and each choice's distribution given earlier choices, in sampling order.

    A distribution is a `Distribution`, or a diagram of earlier choices with `Distribution` leaves.
    """

    size: int
    distributions: Mapping[str, Value]


def sampling_order(decisions: Iterable[Decision]) -> list[Decision]:
    """Sort choices so that each comes after those on which its activity depends.

    Raises ArchError (A0511) for a cycle.
    """
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
    """Return the choices that conditions depend on, and those that their activity depends on, in sampling order.

    No other choice affects whether the conditions can be satisfied.
    """
    choices = set(support(*conditions))
    relevant: list[Decision] = []
    for decision in reversed(order):
        if decision.choice in choices:
            relevant.append(decision)
            choices.update(support(decision.active))
    return relevant[::-1]


class Factors:
    """Factors of a product, indexed by the choices that each depends on."""

    def __init__(self, values: Iterable[Value]) -> None:
        self._by_choice: dict[Choice, dict[int, Value]] = {}
        self._numbers = count()
        self.constants: list[Value] = []
        """Factors that depend on no choices."""
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
        """Remove and return all factors that depend on a choice."""
        factors = dict(self._by_choice.get(choice, {}))
        for number, value in factors.items():
            for other in support(value):
                del self._by_choice[other][number]
        return list(factors.values())


def compile_program(order: Sequence[Decision], constraints: Iterable[Value]) -> CountingProgram:
    """Count the architectures that satisfy all constraints on choices, within the work budget."""
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
    """Return the result of a computation; None if it takes more work than about a tenth of a second."""
    try:
        with work_budget(MAX_QUICK_WORK):
            return compute()
    except ArchError:
        return None

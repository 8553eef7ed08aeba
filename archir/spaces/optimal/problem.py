"""Optimisation problems: an objective to minimise and sums with upper bounds, compiled to a network.

The network is an `archir.costs.optimal.network.Network`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm

from archir.costs.chain import Chain
from archir.costs.optimal.bounded import SumBound, bound_sums, bounded_tables
from archir.costs.optimal.network import Network, build_network
from archir.costs.sums import Terms
from archir.costs.tables import MAX_SUM
from archir.diagnostics.errors import exceeds
from archir.diagrams.conditions import if_else
from archir.diagrams.diagram import Choice, Value, make_diagram
from archir.ir.graph import Constraint
from archir.spaces.scores import AdditiveScores
from archir.spaces.space import Space, fixed_conditions


@dataclass(frozen=True)
class Objective:
    """Objective: a cost, given by its name, or scores; it is minimised, or maximised if `maximize` is set."""

    quantity: str | AdditiveScores
    maximize: bool = False

    @property
    def name(self) -> str:
        """Name of the objective in tables."""
        return self.quantity if isinstance(self.quantity, str) else "scores"


def as_number(value: Fraction | int) -> int | float:
    """Return an exact value as an int if it is whole, otherwise as the nearest float."""
    return int(value) if Fraction(value).denominator == 1 else float(value)


def format_value(value: Fraction) -> str:
    """Return a value as text."""
    return f"{int(value):,}" if value.denominator == 1 else f"{float(value):.6g}"


@dataclass(frozen=True)
class Problem:
    """Compiled problem: a network, and the limits of its columns after the first.

    The first column, to be minimised, is the objective times `scale`. `constant` is added to the objective's values.
    `network` is None if there is no architecture.
    """

    network: Network | None
    limits: tuple[int, ...]
    scale: int
    constant: Fraction
    objective: Objective

    def value(self, total: int) -> Fraction:
        """Return the value of the objective for a total of the network's first column."""
        signed = Fraction(total, self.scale)
        return (-signed if self.objective.maximize else signed) + self.constant


def compile_problem(
    space: Space, objective: Objective, bounds: Sequence[Constraint], fixed: Mapping[str, int],
    others: Sequence[Objective] = (),
) -> Problem:  # fmt: skip
    """Compile the problem of a space within bounds, with fixed outcomes of choices (where these are active).

    The objectives `others` are costs, in the columns after the first one, without limits. Raises ArchError: A1601,
    A1602, A1604, A3302 (a bound that is not on a sum).
    """
    account = space.account
    scale, constant, terms = _objective_terms(space, objective)
    sums = [SumBound(_objective_terms(space, item)[2], MAX_SUM - 1, {}) for item in others]
    for bound in bounds:
        if bound.relation == "!=":
            text = f"`{bound.text}` is not a range, as optimising needs"
            raise exceeds("A3302", text, bound.span, "write `<` or `>`")
        sums += bound_sums(account, bound)
    constants, groups = bounded_tables(account, {"objective": terms}, sums)
    chain = Chain(space.order, [*account.conditions, *fixed_conditions(space.order, fixed)], groups, constants)
    return Problem(build_network(chain), tuple(item.limit for item in sums), scale, constant, objective)


def _objective_terms(space: Space, objective: Objective) -> tuple[int, Fraction, Terms]:
    """Return scale, constant and terms of an objective; the terms are integers whose sum is to be minimised."""
    sign = -1 if objective.maximize else 1
    if isinstance(objective.quantity, str):
        space.account.check_cost(objective.quantity, summed=True)
        space.account.check_reachability()
        terms = space.account.terms(objective.quantity)
        return 1, Fraction(0), Terms({term: sign * times for term, times in terms.items()})
    scores = objective.quantity
    scale = lcm(1, *(value.denominator for term in scores.terms for value in term.values.values()))
    if sum(max(map(abs, term.values.values()), default=0) for term in scores.terms) * scale >= MAX_SUM // 2:
        raise exceeds("A3302", "scores have too many digits to be added up exactly", None, "round them to nine digits")
    active = {decision.choice.path: decision for decision in space.order}
    total = Terms()
    for term in scores.terms:
        decisions = sorted((active[path] for path in term.choices), key=lambda decision: decision.choice.order)
        places = [term.choices.index(decision.choice.path) for decision in decisions]
        numbers = {
            tuple(outcomes[place] for place in places): int(value * scale) for outcomes, value in term.values.items()
        }
        value = _table_diagram([decision.choice for decision in decisions], numbers)
        for decision in decisions:
            value = if_else(decision.active, value, 0)
        total[value] += sign
    return scale, scores.constant, total


def _table_diagram(
    choices: Sequence[Choice], numbers: Mapping[tuple[int, ...], int], before: tuple[int, ...] = ()
) -> Value:
    """Return a table of numbers by outcomes as a diagram; missing entries are 0."""
    if not choices:
        return numbers.get(before, 0)
    branches = [_table_diagram(choices[1:], numbers, (*before, outcome)) for outcome in range(choices[0].outcome_count)]
    return make_diagram(choices[0], branches)

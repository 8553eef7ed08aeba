"""What is to be optimised, as a network of choices: an objective to be least, and sums that are bounded from above."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm

from archir.costs.dynamic import Chain
from archir.costs.optimal.bounded import Sum, sums_of, tabulated
from archir.costs.optimal.network import Network, network
from archir.costs.sums import Terms
from archir.costs.tables import MOST_SUM
from archir.diagnostics.errors import fail
from archir.diagrams.cases import Choice, Value, case, when
from archir.diagrams.conditions import either, if_else, negate
from archir.ir.graph import Constraint
from archir.spaces.scores import Scores
from archir.spaces.space import Space


@dataclass(frozen=True)
class Objective:
    """A cost, by name, or scores; the least is best, or if `greatest`, the greatest."""

    what: str | Scores
    greatest: bool = False

    @property
    def name(self) -> str:
        """What it is called in tables."""
        return self.what if isinstance(self.what, str) else "scores"


def plain(value: Fraction | int) -> int | float:
    """A value as a number: whole, or as near as may be."""
    return int(value) if Fraction(value).denominator == 1 else float(value)


def shown(value: Fraction) -> str:
    """A value as text."""
    return f"{int(value):,}" if value.denominator == 1 else f"{float(value):.6g}"


@dataclass(frozen=True)
class Problem:
    """A network whose first column is the objective times `scale`, to be least, and limits of the others. `constant` is
    added to values of the objective. No network: there is no architecture."""

    network: Network | None
    limits: tuple[int, ...]
    scale: int
    constant: Fraction
    objective: Objective

    def value(self, total: int) -> Fraction:
        """The objective's value for a sum of the first column."""
        signed = Fraction(total, self.scale)
        return (-signed if self.objective.greatest else signed) + self.constant


def compiled(
    space: Space, objective: Objective, bounds: Sequence[Constraint], fixed: Mapping[str, int],
    beside: Sequence[Objective] = (),
) -> Problem:  # fmt: skip
    """The problem of a space under some bounds, with outcomes of choices where these are active. Costs `beside` the
    objective have the next columns, which nothing limits.

    Raises ArchError (A1601, A1602, A1604), A3302 (a bound that is no sum).
    """
    account = space.account
    scale, constant, wanted = _objective(space, objective)
    sums = [Sum(_objective(space, one)[2], MOST_SUM - 1, {}) for one in beside]
    for bound in bounds:
        if bound.relation == "!=":
            raise fail("A3302", f"`{bound.text}` is no range, which optimising takes", bound.span, "write `<`, or `>`")
        sums += sums_of(account, bound)
    constants, groups = tabulated(account, {"objective": wanted}, sums)
    chain = Chain(space.order, [*account.conditions, *_fixed(space, fixed)], groups, constants)
    return Problem(network(chain), tuple(one.most for one in sums), scale, constant, objective)


def _objective(space: Space, objective: Objective) -> tuple[int, Fraction, Terms]:
    sign = -1 if objective.greatest else 1
    if isinstance(objective.what, str):
        space.account.known(objective.what, summed=True)
        space.account.told()
        terms = space.account.terms(objective.what)
        return 1, Fraction(0), Terms({term: sign * times for term, times in terms.items()})
    scores = objective.what
    scale = lcm(1, *(value.denominator for term in scores.terms for value in term.values.values()))
    if sum(max(map(abs, term.values.values()), default=0) for term in scores.terms) * scale >= MOST_SUM // 2:
        raise fail("A3302", "scores have too many digits to be added up exactly", None, "round them to nine digits")
    active = {decision.choice.path: decision for decision in space.order}
    found = Terms()
    for term in scores.terms:
        decisions = sorted((active[path] for path in term.choices), key=lambda one: one.choice.order)
        places = [term.choices.index(one.choice.path) for one in decisions]
        numbers = {
            tuple(outcomes[place] for place in places): int(value * scale) for outcomes, value in term.values.items()
        }
        value = _value([one.choice for one in decisions], numbers)
        for decision in decisions:
            value = if_else(decision.active, value, 0)
        found[value] += sign
    return scale, scores.constant, found


def _value(choices: Sequence[Choice], numbers: Mapping[tuple[int, ...], int], before: tuple[int, ...] = ()) -> Value:
    if not choices:
        return numbers.get(before, 0)
    branches = [_value(choices[1:], numbers, (*before, outcome)) for outcome in range(choices[0].outcomes)]
    return case(choices[0], branches)


def _fixed(space: Space, fixed: Mapping[str, int]) -> Iterator[Value]:
    """Conditions that choices have these outcomes where they are active."""
    for decision in space.order:
        if decision.choice.path in fixed:
            yield either(negate(decision.active), when(decision.choice, [fixed[decision.choice.path]]))

"""What is to be optimised, as a network of choices: an objective to be least, and sums that are bounded from above.

A bound of any relation, plain or under a condition, is such a sum. A peak is a maximum: within a bound where no part of
it is beyond, and beyond where at least one part is, so it is a sum of zeros and ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from typing import Any

import numpy as np

from archir.base.errors import fail
from archir.costs.account import PEAKS, Account
from archir.costs.dynamic import Chain
from archir.costs.optimal.network import Network, network
from archir.costs.sums import Terms, only
from archir.costs.tables import MOST_SUM, Groups, Table, grouped
from archir.ir.choices.cases import Choice, Value, case, when
from archir.ir.choices.conditions import either, if_else, negate
from archir.ir.choices.lifting import lift
from archir.ir.graph import Constraint
from archir.search.scores.table import Scores
from archir.search.spaces.space import Space

AT_MOST, AT_LEAST = {"<=": 0, "<": -1, "==": 0}, {">=": 0, ">": 1, "==": 0}
"""For each relation, what is added to a limit that is then included."""


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
class Sum:
    """What is at most `most`: terms that add up, and tables of further ones."""

    terms: Terms
    most: int
    tables: Groups


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
    sums += [one for bound in bounds for one in _sums(account, bound)]
    terms: dict[str, Mapping[Any, int]] = {"objective": wanted}
    terms |= {str(i): one.terms for i, one in enumerate(sums)}
    constants, groups = grouped(terms, {decision.choice.path: i for i, decision in enumerate(space.order)})
    for column, one in enumerate(sums, 1):
        for choices, table in one.tables.items():
            empty = np.zeros((*table.shape, len(terms)), np.int64)
            groups.setdefault(choices, empty)[..., column] += table
    conditions = [*account.conditions, *_fixed(space, fixed)]
    chain = Chain(space.order, conditions, groups, constants.tolist())
    return Problem(network(chain), tuple(one.most for one in sums), scale, constant, objective)


def _objective(space: Space, objective: Objective) -> tuple[int, Fraction, Terms]:
    sign = -1 if objective.greatest else 1
    if isinstance(objective.what, str):
        return (
            1,
            Fraction(0),
            Terms({term: sign * times for term, times in _terms(space.account, objective.what).items()}),
        )
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


def _terms(account: Account, cost: str) -> Terms:
    account.known(cost, summed=True)
    account.told()
    return account.terms(cost)


def _sums(account: Account, bound: Constraint) -> Iterator[Sum]:
    """What is to be at most something so that a bound is kept."""
    cost, relation = str(bound.cost), bound.relation
    if relation not in AT_MOST and relation not in AT_LEAST:
        raise fail("A3302", f"`{bound.text}` is no range, which optimising takes", bound.span, "write `<`, or `>`")
    if cost in PEAKS:
        yield from _of_peak(account, bound)
        return
    terms = _terms(account, cost)
    for sign, relations in ((1, AT_MOST), (-1, AT_LEAST)):
        if relation in relations:
            signed = Terms({term: sign * times for term, times in terms.items()})
            allowed = lift(lambda limit, sign=sign, more=relations[relation]: sign * (int(limit) + more), bound.limit)
            if bound.condition is True and isinstance(allowed, int):
                yield Sum(signed, allowed, {})
            else:
                over = only(signed, bound.condition)
                over[if_else(bound.condition, lift(lambda one: -one, allowed), 0)] += 1
                yield Sum(over, 0, {})


def _of_peak(account: Account, bound: Constraint) -> Iterator[Sum]:
    """A maximum is at most a number where none of its parts is more, and at least where one of them is."""
    if bound.condition is not True or not isinstance(bound.limit, int):
        raise fail("A3302", f"`{bound.text}` has a limit that depends on choices, which a peak cannot have", bound.span)
    table = account.peak_table(str(bound.cost))
    if bound.relation in AT_MOST:
        beyond = _counted(account, table, bound.limit + AT_MOST[bound.relation])
        yield Sum(Terms(), -int(table.constant[0] > bound.limit + AT_MOST[bound.relation]), beyond)
    if bound.relation in AT_LEAST:
        least = bound.limit + AT_LEAST[bound.relation]
        if table.constant[0] < least:
            there = _counted(account, table, least - 1)
            yield Sum(Terms(), -1, {choices: -cells for choices, cells in there.items()})


def _counted(account: Account, table: Table, most: int) -> Groups:
    """A one in each cell of a table that is more."""
    return {
        tuple(account.order[position].choice for position in factor.positions): (factor.table[..., 0] > most).astype(
            int
        )
        for factor in table.factors
    }


def _fixed(space: Space, fixed: Mapping[str, int]) -> Iterator[Value]:
    """Conditions that choices have these outcomes where they are active."""
    for decision in space.order:
        if decision.choice.path in fixed:
            yield either(negate(decision.active), when(decision.choice, [fixed[decision.choice.path]]))

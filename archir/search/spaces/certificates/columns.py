"""What is proved about, as sums in Python's integers: an objective to be least, and numbers that are at most 0.

A bound is kept where what it is exceeded by is at most 0; a peak is exceeded by as many of its parts as are beyond.
This is worked out from costs and scores anew, by none of the optimiser's code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from math import lcm, prod

from archir.base.errors import fail
from archir.costs.account import PEAKS
from archir.costs.sums import factors
from archir.costs.tables import Numbers
from archir.ir.choices.cases import Value, at, support, varies
from archir.ir.graph import Constraint
from archir.search.scores.table import Scores
from archir.search.spaces.optimal.problem import Objective
from archir.search.spaces.space import Space

Outcomes = Mapping[str, int]


@dataclass(frozen=True)
class Part:
    """A number that depends on some choices, by their paths."""

    paths: tuple[str, ...]
    number: Callable[[Outcomes], int]


@dataclass(frozen=True)
class Column:
    """A sum of parts."""

    constant: int
    parts: tuple[Part, ...]


def objective_of(space: Space, objective: Objective) -> tuple[Column, int, Fraction]:
    """The objective, signed so that the least is best and scaled to integers, with its scale and what is added."""
    sign = -1 if objective.greatest else 1
    if isinstance(objective.what, str):
        return _costs(space, objective.what, sign), 1, Fraction(0)
    scores = objective.what
    scale = lcm(1, *(value.denominator for term in scores.terms for value in term.values.values()))
    return Column(0, tuple(_scores(space, scores, sign * scale))), scale, scores.constant


def _scores(space: Space, scores: Scores, scale: int) -> Iterator[Part]:
    active = {decision.choice.path: decision.active for decision in space.order}
    for term in scores.terms:
        needed = [active[path] for path in term.choices]
        values = {outcomes: int(value * scale) for outcomes, value in term.values.items()}
        paths = dict.fromkeys([*term.choices, *(c.path for c in support(*needed))])
        yield Part((*paths,), partial(_score, term.choices, needed, values))


def _score(
    choices: Sequence[str], needed: Sequence[Value], values: Mapping[tuple[int, ...], int], outcomes: Outcomes
) -> int:
    """What outcomes of choices score where all that is needed holds."""
    there = all(at(one, outcomes) is True for one in needed)
    return values.get(tuple(outcomes[path] for path in choices), 0) if there else 0


def exceeded(space: Space, bound: Constraint) -> list[Column]:
    """What a bound is exceeded by, from above and from below. Raises ArchError (A3302) for a bound that is no range."""
    sides = {"<=": [(1, 0)], "<": [(1, -1)], ">=": [(-1, 0)], ">": [(-1, 1)], "==": [(1, 0), (-1, 0)]}
    if bound.relation not in sides:
        raise fail("A3302", f"`{bound.text}` is no range")
    if str(bound.cost) in PEAKS:
        return [one for sign, more in sides[str(bound.relation)] for one in _peak(space, bound, sign, more)]
    found = []
    for sign, more in sides[str(bound.relation)]:
        cost = _costs(space, str(bound.cost), sign, bound.condition)
        limit, condition = bound.limit, bound.condition
        paths = tuple(c.path for c in support(limit, condition))
        found.append(_joined(cost, [Part(paths, partial(_allowed, sign, more, limit, condition))]))
    return found


def _allowed(sign: int, more: int, limit: Value, condition: Value, outcomes: Outcomes) -> int:
    """What a limit takes off a cost where its condition holds."""
    return -sign * (int(at(limit, outcomes)) + more) if at(condition, outcomes) is True else 0


def _costs(space: Space, cost: str, sign: int, condition: Value = True) -> Column:
    """A cost times a sign, where a condition holds."""
    space.account.known(cost, summed=True)
    space.account.told()
    parts = []
    for term, times in space.account.terms(cost).items():
        values = tuple(factors(term)) if not isinstance(term, int) else (term,)
        paths = tuple(choice.path for choice in support(condition, *filter(varies, values)))
        parts.append(Part(paths, partial(_product, sign * times, values, condition)))
    return _joined(Column(0, ()), parts)


def _product(times: int, values: Sequence[Value], condition: Value, outcomes: Outcomes) -> int:
    """So many times what values come to together, where a condition holds."""
    return times * prod(int(at(one, outcomes)) for one in values) if at(condition, outcomes) is True else 0


def _peak(space: Space, bound: Constraint, sign: int, more: int) -> Iterator[Column]:
    """A maximum is at most a limit where none of its parts is beyond, and at least where one of them is not below."""
    if bound.condition is not True or varies(bound.limit):
        raise fail("A3302", f"`{bound.text}` has a limit that depends on choices, which a peak cannot have")
    table, most = space.account.peak_table(str(bound.cost)), int(bound.limit) + more - (sign < 0)
    parts = []
    for factor in table.factors:
        paths, cells = tuple(space.order[i].choice.path for i in factor.positions), factor.table[..., 0]
        parts.append(Part(paths, partial(_beyond, sign, most, paths, cells)))
    beyond = int(table.constant[0]) > most
    if sign > 0 or not beyond:  # else one of its parts is never below
        yield Column(int(beyond) if sign > 0 else 1, tuple(parts))


def _beyond(sign: int, most: int, paths: Sequence[str], cells: Numbers, outcomes: Outcomes) -> int:
    """Whether a part of a peak is beyond what it may be, times a sign."""
    return sign * (int(cells[tuple(outcomes[path] for path in paths)]) > most)


def _joined(column: Column, parts: Sequence[Part]) -> Column:
    """A column and further parts; those that depend on nothing are a constant."""
    constant = column.constant + sum(part.number({}) for part in parts if not part.paths)
    return Column(constant, (*column.parts, *(part for part in parts if part.paths)))

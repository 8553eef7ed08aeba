"""The least total of diagrams, choice by choice: between what is proved and what an architecture has.

The choices are eliminated from the last to the first. All that depends on one is added up, and the least over its
outcomes goes on. Where a sum gets too large it is kept in parts, whose least values are added: at most the least of the
sum, so what comes out is a bound (mini-buckets: Dechter and Rish 2003). Where nothing was parted it is exact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from math import inf, isinf

from archir.diagnostics.work import current
from archir.diagrams.cases import Case, Choice, EntangledError, Value, at, case, leaves, support, varies, when
from archir.diagrams.conditions import either
from archir.diagrams.lifting import lift
from archir.ir.graph import Decision

MOST_CASES = 4_000
"""Cases of one sum."""
MOST_WORK = 1_000_000
"""Cases of all sums; beyond them, nothing more is added up."""
SHARE = 1 / 20
"""Of the work that is left, what sums may take."""


@dataclass(frozen=True)
class Least:
    """No total is less than `proved`; `outcomes`, by path, are those of an assignment that was led to by it, if any."""

    proved: int
    exact: bool
    outcomes: Mapping[str, int] | None


def allowed(conditions: Sequence[Value], order: Sequence[Decision]) -> list[Value]:
    """The conditions; and that choices which they test, and which are not there, have their first outcomes."""
    tested = set(support(*conditions))
    absent = [
        either(decision.active, when(decision.choice, [0]))
        for decision in order
        if decision.active is not True and decision.choice in tested
    ]
    return [*conditions, *absent]


def least(
    terms: Sequence[Value], conditions: Sequence[Value], order: Sequence[Decision], most: int = MOST_CASES
) -> Least | None:
    """The least sum of terms where all conditions hold; None if it is proved that they never do."""
    return _Elimination(terms, conditions, order, most).result()


class _Elimination:
    def __init__(
        self, terms: Sequence[Value], conditions: Sequence[Value], order: Sequence[Decision], most: int
    ) -> None:
        self.most, self.work = most, 0
        self.until = current().left * (1 - SHARE)
        self.exact = True
        self.order = order
        self.constant: float = 0
        self.pending: dict[Choice, list[Value]] = {}
        self.buckets: dict[Choice, list[Value]] = {}
        for condition in allowed(conditions, order):
            self._file(lift(_cost, condition))
        together: dict[tuple[Choice, ...], list[Value]] = {}
        for term in terms:
            together.setdefault(tuple(support(term)), []).append(term)
        for values in together.values():
            for value in self._summed(values):
                self._file(value)

    def result(self) -> Least | None:
        choices = sorted((decision.choice for decision in self.order), key=lambda choice: choice.order)
        for choice in reversed(choices):
            self.buckets[choice] = self._summed(self.pending.pop(choice, []))
            self.exact = self.exact and len(self.buckets[choice]) <= 1
            for value in self.buckets[choice]:
                if current().left < self.until:
                    self.exact, value = False, min(leaves(value))
                self._file(_without(value, choice))
        if isinf(self.constant):
            return None
        return Least(int(self.constant), self.exact, self._led(choices))

    def _file(self, value: Value) -> None:
        """Keep a value where the last choice that it depends on is eliminated."""
        if varies(value):
            self.pending.setdefault(support(value)[-1], []).append(value)
        else:
            self.constant += value

    def _summed(self, values: Sequence[Value]) -> list[Value]:
        """The sum of values, in as few parts as are small."""
        parts: list[Value] = []
        for value in values:
            for i, part in enumerate(parts):
                found = self._sum(part, value)
                if found is not None:
                    parts[i] = found
                    break
            else:
                parts.append(value)
        return parts

    def _sum(self, one: Value, other: Value) -> Value | None:
        """The sum of two values; None if it is too large."""
        memo: dict[tuple[Case, Value], Value] = {}
        if self.work > MOST_WORK or current().left < self.until:
            return None

        def walk(one: Value, other: Value) -> Value:
            if type(one) is not Case and type(other) is not Case:
                return one + other
            if one == 0 or other == inf:
                return other
            if other == 0 or one == inf:
                return one
            if type(one) is not Case:
                one, other = other, one
            name = one, other
            if name not in memo:
                if len(memo) > self.most or current().left < self.until:
                    raise EntangledError
                choice = min((v.choice for v in (one, other) if type(v) is Case), key=lambda choice: choice.order)
                ones = one.branches if type(one) is Case and one.choice is choice else repeat(one)
                others = other.branches if type(other) is Case and other.choice is choice else repeat(other)
                memo[name] = case(choice, map(walk, ones, others))
            return memo[name]

        try:
            return walk(one, other)
        except EntangledError:
            return None
        finally:
            self.work += len(memo)

    def _led(self, choices: Sequence[Choice]) -> dict[str, int] | None:
        """The outcomes by which the parts add up to least, choice by choice."""
        outcomes: dict[str, int] = {}
        for choice in choices:
            parts, totals = self.buckets[choice], []
            for outcome in range(choice.outcomes if parts else 1):
                outcomes[choice.path] = outcome
                totals.append(sum(at(part, outcomes) for part in parts))
            best = min(totals)
            if isinf(best):
                return None
            outcomes[choice.path] = totals.index(best)
        return outcomes


def _cost(holds: bool) -> float:
    return 0 if holds else inf


def _without(value: Value, choice: Choice) -> Value:
    """The least of a value over the outcomes of the last choice it depends on."""
    memo: dict[int, Value] = {}

    def walk(value: Value) -> Value:
        if type(value) is not Case:
            return value
        if value.choice is choice:
            return min(value.branches)
        if id(value) not in memo:
            memo[id(value)] = case(value.choice, map(walk, value.branches))
        return memo[id(value)]

    return walk(value)

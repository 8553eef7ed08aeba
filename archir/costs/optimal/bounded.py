"""The costs of the architectures within bounds: extremes by exact optimisation, all else along a chain of choices whose
states also hold what is left of each bound.

A bound of any relation, plain or under a condition, is a sum that is at most a number. A peak is a maximum: within a
bound where no part of it is beyond, and beyond where at least one part is, so it is a sum of zeros and ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from archir.costs.account import A_TRY, PEAKS, Account
from archir.costs.counting.merged_steps import Strides
from archir.costs.dynamic import A_STEP, MOST_STATES, MOST_STEPS, Chain, State, Step
from archir.costs.extremes.witnesses import Extreme, ahead, extreme
from archir.costs.optimal.network import network
from archir.costs.optimal.optimum import optimum
from archir.costs.sums import Term, Terms, only
from archir.costs.symbolic import Rule
from archir.costs.tables import Codes, Groups, Numbers, Table, grouped
from archir.diagnostics.errors import ArchError, fail
from archir.diagnostics.work import MOST_WORK, TOO_MUCH, bounded, portion, spend
from archir.diagrams.conditions import if_else
from archir.diagrams.lifting import lift
from archir.ir.graph import Constraint, NodeId

AT_MOST, AT_LEAST = {"<=": 0, "<": -1, "==": 0}, {">=": 0, ">": 1, "==": 0}
"""For each relation, what is added to a limit that is then included."""
UNKNOWN = ("A1601", "A1602", "A3302", TOO_MUCH)
"""Codes of diagnostics by which an exact answer is refused: tables, states or work beyond a limit, bounds of no sum."""
KEPT = 2**62
"""What is left of a bound that every completion of a partial architecture keeps."""
UNLIMITED = 10 * MOST_WORK
"""Units of work that an extreme may take where there is no budget."""


@dataclass(frozen=True)
class Sum:
    """A bound as a sum of terms and tables that is at most `most`; or if `differs`, anything but `most`."""

    terms: Terms
    most: int
    tables: Groups
    differs: bool = False


def sums_of(account: Account, bound: Constraint) -> Iterator[Sum]:
    """The sums that a bound limits. Raises ArchError: A1602, A1604, A3302 (a bound that is no sum)."""
    cost, relation = str(bound.cost), bound.relation
    if cost in PEAKS:
        yield from _of_peak(account, bound)
        return
    account.known(cost, summed=True)
    account.told()
    terms = account.terms(cost)
    signs = [(1, AT_MOST), (-1, AT_LEAST)] if relation != "!=" else [(1, {"!=": 0})]
    for sign, relations in signs:
        if relation in relations:
            signed = Terms({term: sign * times for term, times in terms.items()})
            allowed = lift(lambda limit, sign=sign, more=relations[relation]: sign * (int(limit) + more), bound.limit)
            if bound.condition is True and isinstance(allowed, int):
                yield Sum(signed, allowed, {}, relation == "!=")
            elif relation == "!=":  # 1 where the condition does not hold
                over = only(signed, bound.condition)
                over[if_else(bound.condition, lift(lambda one: -one, allowed), 1)] += 1
                yield Sum(over, 0, {}, True)
            else:
                over = only(signed, bound.condition)
                over[if_else(bound.condition, lift(lambda one: -one, allowed), 0)] += 1
                yield Sum(over, 0, {})


def _of_peak(account: Account, bound: Constraint) -> Iterator[Sum]:
    """A maximum is at most a number where none of its parts is more, and at least where one of them is."""
    if bound.condition is not True or not isinstance(bound.limit, int):
        raise fail("A3302", f"`{bound.text}` has a limit that depends on choices, which a peak cannot have", bound.span)
    if bound.relation == "!=":
        raise fail("A3302", f"`{bound.text}` is no range, which a peak must have", bound.span, "write `<`, or `>`")
    table = account.peak_table(str(bound.cost))
    if bound.relation in AT_MOST:
        most = bound.limit + AT_MOST[bound.relation]
        yield Sum(Terms(), -int(table.constant[0] > most), _beyond(account, table, most))
    if bound.relation in AT_LEAST:
        least = bound.limit + AT_LEAST[bound.relation]
        if table.constant[0] < least:
            there = _beyond(account, table, least - 1)
            yield Sum(Terms(), -1, {choices: -cells for choices, cells in there.items()})


def _beyond(account: Account, table: Table, most: int) -> Groups:
    """A one in each cell of a table that is more."""
    return {
        tuple(account.order[position].choice for position in one.positions): (one.table[..., 0] > most).astype(int)
        for one in table.factors
    }


def tabulated(
    account: Account, terms: Mapping[str, Mapping[Term, int]], bounds: Sequence[Sum]
) -> tuple[list[int], Groups]:
    """Constants and tables of sums of terms, with a further column for each bound. Raises ArchError (A1601)."""
    columns = {**terms, **{f"bound {number}": bound.terms for number, bound in enumerate(bounds)}}
    places = {decision.choice.path: place for place, decision in enumerate(account.order)}
    constants, groups = grouped(columns, places)
    for column, bound in enumerate(bounds, len(terms)):
        for choices, table in bound.tables.items():
            empty = np.zeros((*table.shape, len(columns)), np.int64)
            groups.setdefault(choices, empty)[..., column] += table
    return constants.tolist(), groups


def within(chain: Chain, bounds: Sequence[Sum]) -> Chain | None:
    """The chain of the architectures within bounds, which its last columns are the sums of; None if there are none.

    Raises ArchError (A1602), WorkError.
    """
    own = len(chain.constant) - len(bounds)
    ends = [[ahead(chain.levels, own + column, sign) for sign in (1, -1)] for column in range(len(bounds))]

    def settled(number: int, state: State, left: Iterable[int]) -> tuple[int, ...] | None:
        """What is left of each bound before a level; None if no completion keeps all of them."""
        found = []
        for (least, greatest), bound, room in zip(ends, bounds, left, strict=True):
            if state not in least[number]:
                return None
            low, high = least[number][state], -greatest[number][state]
            if low == high == room if bound.differs else room < low:
                return None
            kept = not low <= room <= high if bound.differs else room >= high
            found.append(KEPT if kept else room)
        return tuple(found)

    def reduced(left: tuple[int, ...], costs: tuple[int, ...]) -> Iterator[int]:
        return (room if room == KEPT else room - cost for room, cost in zip(left, costs, strict=True))

    first = settled(
        0, (), (bound.most - constant for bound, constant in zip(bounds, chain.constant[own:], strict=True))
    )
    states: dict[State, tuple[State, tuple[int, ...]]] = {} if first is None else {(): ((), first)}
    levels: list[dict[State, list[Step]]] = []
    total = steps = 0
    for number, level in enumerate(chain.levels, 1):
        found: dict[State, list[Step]] = {}
        after: dict[State, tuple[State, tuple[int, ...]]] = {}
        for key, (state, left) in states.items():
            spend(A_STEP * len(level[state]))
            found[key] = []
            for step in level[state]:
                rest = settled(number, step.after, reduced(left, step.costs[own:]))
                if rest is not None:
                    name = (*step.after, *rest) if number < len(chain.levels) else ()
                    after[name] = step.after, rest
                    found[key].append(Step(step.outcome, step.costs[:own], name))
            steps += len(level[state])
        levels.append(found)
        states, total = after, total + len(after)
        if total > MOST_STATES or steps > MOST_STEPS:
            text = f"bounds have more than {MOST_STATES:,} different rests, or {MOST_STEPS:,} steps between them"
            raise fail("A1602", text, None, "draw architectures: archir cost -n 1000")
    if not states:
        return None
    narrowed = copy(chain)
    narrowed.constant, narrowed.levels = chain.constant[:own], levels
    return narrowed


@contextmanager
def suppress_unknown() -> Iterator[None]:
    """Go on after a refusal to answer exactly."""
    try:
        yield
    except ArchError as error:
        if error.diagnostics[0].code not in UNKNOWN:
            raise


class BoundedAccount(Account):
    """The costs of the architectures of a space within bounds on costs; `free` is the account of all of them.

    `ranges` are the least and the greatest that the bounds allow of each cost, where they say no more than that. What
    is not known within the limit of work is refused (A1602), or of an extreme, a number that no architecture is beyond.
    """

    def __init__(self, free: Account, bounds: Sequence[Constraint], ranges: Mapping[str, tuple[int, int]]) -> None:
        super().__init__(free.graph, free.order, free.conditions)
        self.free, self.bounds, self.ranges = free, bounds, ranges
        self.rules, self.peaks = free.rules, free.peaks

    def told(self) -> None:
        """Raise ArchError (A1602) if it cannot be told which architectures have which parts."""
        self.free.told()

    def terms(self, name: str, sure: bool = False) -> Terms:
        """The values that a cost is the sum of."""
        return self.free.terms(name, sure)

    def include(self, name: str) -> None:
        """Have a further cost among those that are shown."""
        self.free.include(name)
        self.peaks = self.free.peaks

    @cached_property
    def contributions(self) -> Mapping[NodeId, Mapping[str, Terms]]:
        """What each node contributes to the costs that add up."""
        return self.free.contributions

    def contributing(self, rule: Rule, codes: Codes) -> Iterator[tuple[int, Numbers]]:
        """What nodes contribute to a further cost of rows of outcomes, and how many of them contribute just that."""
        return self.free.contributing(rule, codes)

    @cached_property
    def table(self) -> Table:
        """The usual costs that add up."""
        return self.free.table

    def peak_table(self, name: str) -> Table:
        """The table of a cost that is a maximum."""
        return self.free.peak_table(name)

    def at(self, codes: Codes, names: Iterable[str] | None = None) -> dict[str, Numbers]:
        """The costs of rows of outcomes, exact."""
        return self.free.at(codes, names)

    @cached_property
    def _sums(self) -> list[Sum]:
        return [one for bound in self.bounds for one in sums_of(self.free, bound)]

    def _columns(self, terms: Mapping[str, Mapping[Term, int]]) -> Chain:
        constants, groups = tabulated(self.free, terms, self._sums)
        return Chain(self.order, self.conditions, groups, constants)

    def sums(self, terms: Mapping[str, Mapping[Term, int]]) -> Chain:
        """The choices as a chain, with costs that are sums of terms. Raises ArchError (A1601, A1602, A1603, A3302)."""
        found = within(self._columns(terms), self._sums)
        if found is None:
            raise self.none()
        return found

    def chain(self, *names: str) -> Chain:
        """The choices as a chain, with some costs. Raises ArchError (A1601 to A1604, A3302)."""
        for name in names:
            self.known(name, summed=True)
        if names not in self._chains:
            self.told()
            self._chains[names] = self.sums({name: self.terms(name) for name in names})
        return self._chains[names]

    def strides(self, *names: str) -> Strides:
        """The chain with some costs, a few choices at a time; of all architectures if ranges of the one cost are all
        that is bounded, so that totals within the ranges are those of architectures within the bounds."""
        return self.free.strides(*names) if (*self.ranges,) == names else super().strides(*names)

    def _extreme(self, name: str, sign: int) -> Extreme:
        found = Extreme(self._clipped(name, sign, self.free.end(name, sign).bound), None)
        with bounded(UNLIMITED), suppress_unknown():
            if not any(one.differs for one in self._sums):
                with portion(A_TRY):
                    found = self._there(self._optimum(name, sign))
        if not found.exact:
            with bounded(UNLIMITED), suppress_unknown():
                found = self._there(extreme(self.chain(name), 0, sign))
        return found

    def _optimum(self, name: str, sign: int) -> Extreme | None:
        """The least (sign 1) or the greatest (-1) cost within the bounds; None if no architecture is within them."""
        signed = Terms({term: sign * times for term, times in self.terms(name).items()})
        steps = network(self._columns({name: signed}))
        if steps is None:
            return None
        found = optimum(steps, [one.most for one in self._sums])
        if found.value is None:
            return None if found.settled else Extreme(sign * found.bound, None)
        codes = tuple(found.codes[0].tolist())
        return Extreme(sign * found.value, codes, None if found.settled else sign * found.bound)

    def limits(self, name: str) -> tuple[int, int]:
        """Numbers that every architecture costs at least and at most."""
        if name not in PEAKS:
            return super().limits(name)
        low, high = self.free.limits(name)
        return self._clipped(name, 1, low), self._clipped(name, -1, high)

    def _clipped(self, name: str, sign: int, end: int) -> int:
        """The least (sign 1) or the greatest number from `end` on that bounds on the cost itself allow."""
        more = AT_LEAST if sign == 1 else AT_MOST
        for bound in self.bounds:
            plain = bound.condition is True and isinstance(bound.limit, int)
            if bound.cost == name and plain and bound.relation in more:
                end = sign * max(sign * end, sign * (bound.limit + more[bound.relation]))
        return end

    def _there(self, found: Extreme | None) -> Extreme:
        if found is None:
            raise self.none()
        return found

    def none(self) -> ArchError:
        """That no architecture is within the bounds."""
        text = " and ".join(bound.text for bound in self.bounds)
        return fail("A1603", f"no architecture has {text}", self.bounds[0].span)

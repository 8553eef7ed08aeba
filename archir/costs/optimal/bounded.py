"""Costs of the architectures within bounds.

Minima and maxima are found by exact optimisation. Everything else is computed by a chain of choices whose states also
hold the residual budget of each bound (the amount that the partial architecture has not used yet). Each bound, whatever
its relation and condition, is converted to the form "a sum is at most a number". A peak cost is a maximum of parts: the
peak is within a limit if no part exceeds the limit, and beyond the limit if at least one part does. A bound on a peak
is therefore a bound on a sum of zeros and ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from archir.costs.account import EXACT_WORK_FRACTION, PEAKS, Account
from archir.costs.chain import MAX_STATES, MAX_STEPS, WORK_PER_STEP, Chain, State, Step
from archir.costs.counting.stages import Stages
from archir.costs.extremes.witnesses import Extreme, cost_to_go, extreme
from archir.costs.optimal.network import build_network
from archir.costs.optimal.optimum import optimum
from archir.costs.sums import Term, Terms, restrict_terms
from archir.costs.symbolic import Rule
from archir.costs.tables import Codes, Groups, Numbers, Table, group_terms
from archir.diagnostics.errors import ArchError, LimitError, exceeds, fail
from archir.diagnostics.work import MAX_WORK, budget_share, spend, work_budget
from archir.diagrams.conditions import if_else
from archir.diagrams.lifting import lift
from archir.ir.graph import Constraint, NodeId

UPPER_OFFSETS, LOWER_OFFSETS = {"<=": 0, "<": -1, "==": 0}, {">=": 0, ">": 1, "==": 0}
"""For each relation, the number to add to a limit to get an inclusive upper limit, or a lower one."""
SATISFIED = 2**62
"""Residual budget that stands for a bound which every completion of the partial architecture satisfies."""
DEFAULT_WORK = 10 * MAX_WORK
"""Work units for computing an extreme if no work budget is set."""


@dataclass(frozen=True)
class SumBound:
    """Bound on a sum of terms and tables: the sum is at most `limit`; with `not_equal`, it differs from `limit`."""

    terms: Terms
    limit: int
    tables: Groups
    not_equal: bool = False


def bound_sums(account: Account, bound: Constraint) -> Iterator[SumBound]:
    """Yield the bounds on sums that are equivalent to a bound on a cost.

    Raises ArchError: A1602, A1604, A3302 (the bound cannot be expressed by sums).
    """
    cost, relation = str(bound.cost), bound.relation
    if cost in PEAKS:
        yield from _peak_sums(account, bound)
        return
    account.check_cost(cost, summed=True)
    account.check_reachability()
    terms = account.terms(cost)
    signs = [(1, UPPER_OFFSETS), (-1, LOWER_OFFSETS)] if relation != "!=" else [(1, {"!=": 0})]
    for sign, relations in signs:
        if relation in relations:
            signed = Terms({term: sign * times for term, times in terms.items()})
            allowed = lift(lambda limit, sign=sign, more=relations[relation]: sign * (int(limit) + more), bound.limit)
            if bound.condition is True and isinstance(allowed, int):
                yield SumBound(signed, allowed, {}, relation == "!=")
            elif relation == "!=":  # 1 where the condition does not hold
                restricted = restrict_terms(signed, bound.condition)
                restricted[if_else(bound.condition, lift(lambda number: -number, allowed), 1)] += 1
                yield SumBound(restricted, 0, {}, True)
            else:
                restricted = restrict_terms(signed, bound.condition)
                restricted[if_else(bound.condition, lift(lambda number: -number, allowed), 0)] += 1
                yield SumBound(restricted, 0, {})


def _peak_sums(account: Account, bound: Constraint) -> Iterator[SumBound]:
    """Yield the bounds on sums of zeros and ones that are equivalent to a bound on a peak cost.

    A maximum is at most a number if none of its parts exceeds the number, and at least a number if some part reaches
    it.
    """
    if bound.condition is not True or not isinstance(bound.limit, int):
        text = f"`{bound.text}` depends on choices; a bound on `{bound.cost}` needs a constant limit and no condition"
        raise exceeds("A3302", text, bound.span)
    if bound.relation == "!=":
        raise exceeds("A3302", f"`!=` is not supported for the maximum `{bound.cost}`", bound.span, "write `<` or `>`")
    table = account.peak_table(str(bound.cost))
    if bound.relation in UPPER_OFFSETS:
        most = bound.limit + UPPER_OFFSETS[bound.relation]
        yield SumBound(Terms(), -int(table.constant[0] > most), _exceeding_cells(account, table, most))
    if bound.relation in LOWER_OFFSETS:
        least = bound.limit + LOWER_OFFSETS[bound.relation]
        if table.constant[0] < least:
            exceeding = _exceeding_cells(account, table, least - 1)
            yield SumBound(Terms(), -1, {choices: -cells for choices, cells in exceeding.items()})


def _exceeding_cells(account: Account, table: Table, limit: int) -> Groups:
    """Return tables of zeros and ones, with a one in each cell of the cost's table that exceeds `limit`."""
    return {
        tuple(account.order[position].choice for position in factor.positions): (factor.table[..., 0] > limit).astype(
            int
        )
        for factor in table.factors
    }


def bounded_tables(
    account: Account, terms: Mapping[str, Mapping[Term, int]], bounds: Sequence[SumBound]
) -> tuple[list[int], Groups]:
    """Return the constants and tables of sums of terms, with one additional column for each bound.

    Raises ArchError (A1601).
    """
    columns = {**terms, **{f"bound {number}": bound.terms for number, bound in enumerate(bounds)}}
    position = {decision.choice.path: place for place, decision in enumerate(account.order)}
    constants, groups = group_terms(columns, position)
    for column, bound in enumerate(bounds, len(terms)):
        for choices, table in bound.tables.items():
            zeros = np.zeros((*table.shape, len(columns)), np.int64)
            groups.setdefault(choices, zeros)[..., column] += table
    return constants.tolist(), groups


def restrict_chain(chain: Chain, bounds: Sequence[SumBound]) -> Chain | None:
    """Return the chain of the architectures within bounds; None if there are none.

    The last columns of `chain` are the sums that are bounded, in the order of `bounds`; the result does not contain
    them. Raises ArchError (A1602), WorkError.
    """
    cost_count = len(chain.constant) - len(bounds)
    cost_bounds = [
        [cost_to_go(chain.levels, cost_count + column, sign) for sign in (1, -1)] for column in range(len(bounds))
    ]

    def budgets_before(number: int, state: State, left: Iterable[int]) -> tuple[int, ...] | None:
        """Return the residual budget of each bound in a state; None if every completion violates some bound."""
        remaining: list[int] = []
        for (least, greatest), bound, budget in zip(cost_bounds, bounds, left, strict=True):
            if state not in least[number]:
                return None
            least_left, greatest_left = least[number][state], -greatest[number][state]
            if least_left == greatest_left == budget if bound.not_equal else budget < least_left:
                return None
            is_satisfied = not least_left <= budget <= greatest_left if bound.not_equal else budget >= greatest_left
            remaining.append(SATISFIED if is_satisfied else budget)
        return tuple(remaining)

    def budgets_after(left: tuple[int, ...], costs: tuple[int, ...]) -> Iterator[int]:
        """Yield the residual budget of each bound after a step with these costs."""
        return (budget if budget == SATISFIED else budget - cost for budget, cost in zip(left, costs, strict=True))

    initial = budgets_before(
        0, (), (bound.limit - constant for bound, constant in zip(bounds, chain.constant[cost_count:], strict=True))
    )
    states: dict[State, tuple[State, tuple[int, ...]]] = {} if initial is None else {(): ((), initial)}
    levels: list[dict[State, list[Step]]] = []
    total = steps = 0
    for number, level in enumerate(chain.levels, 1):
        level_steps: dict[State, list[Step]] = {}
        next_states: dict[State, tuple[State, tuple[int, ...]]] = {}
        for key, (state, left) in states.items():
            spend(WORK_PER_STEP * len(level[state]))
            level_steps[key] = []
            for step in level[state]:
                residuals = budgets_before(number, step.after, budgets_after(left, step.costs[cost_count:]))
                if residuals is not None:
                    next_key = (*step.after, *residuals) if number < len(chain.levels) else ()
                    next_states[next_key] = step.after, residuals
                    level_steps[key].append(Step(step.outcome, step.costs[:cost_count], next_key))
            steps += len(level[state])
        levels.append(level_steps)
        states, total = next_states, total + len(next_states)
        if total > MAX_STATES or steps > MAX_STEPS:
            text = f"an exact answer within these bounds takes more than {MAX_STATES:,} states or {MAX_STEPS:,} steps"
            raise exceeds("A1602", text, None, "estimate it from samples: archir cost -n 1000")
    if not states:
        return None
    narrowed = copy(chain)
    narrowed.constant, narrowed.levels = chain.constant[:cost_count], levels
    return narrowed


class BoundedAccount(Account):
    """Costs of the architectures within bounds on costs; `unbounded` is the account without these bounds.

    If all bounds are ranges of costs, `ranges` maps each of these costs to its smallest and greatest allowed value;
    otherwise `ranges` is empty. Queries that would take too much work raise ArchError (A1602); for an extreme, a proved
    bound is returned instead.
    """

    def __init__(self, unbounded: Account, bounds: Sequence[Constraint], ranges: Mapping[str, tuple[int, int]]) -> None:
        super().__init__(unbounded.graph, unbounded.order, unbounded.conditions)
        self.unbounded, self.bounds, self.ranges = unbounded, bounds, ranges
        self.rules, self.peaks = unbounded.rules, unbounded.peaks

    def check_reachability(self) -> None:
        """Raise ArchError (A1602) if it cannot be determined exactly which nodes each architecture contains."""
        self.unbounded.check_reachability()

    def terms(self, name: str, lower_bound: bool = False) -> Terms:
        """Return the terms that add up to a cost; see `Account.terms`."""
        return self.unbounded.terms(name, lower_bound)

    def add_cost(self, name: str) -> None:
        """Add a cost to `names`, the costs to be shown."""
        self.unbounded.add_cost(name)
        self.peaks = self.unbounded.peaks

    @cached_property
    def contributions(self) -> Mapping[NodeId, Mapping[str, Terms]]:
        """Terms that each node adds to each additive cost."""
        return self.unbounded.contributions

    def distinct_node_costs(self, rule: Rule, codes: Codes) -> Iterator[tuple[int, Numbers]]:
        """Yield each distinct contribution that nodes make to a rule's cost; see `Account.distinct_node_costs`."""
        return self.unbounded.distinct_node_costs(rule, codes)

    @cached_property
    def table(self) -> Table:
        """Table of the built-in additive costs."""
        return self.unbounded.table

    def peak_table(self, name: str) -> Table:
        """Return the table of a cost that is a maximum over time."""
        return self.unbounded.peak_table(name)

    def at(self, codes: Codes, names: Iterable[str] | None = None) -> dict[str, Numbers]:
        """Return the exact costs of architectures, given as rows of outcomes."""
        return self.unbounded.at(codes, names)

    @cached_property
    def _bound_sums(self) -> list[SumBound]:
        """Bounds on sums that are equivalent to the bounds on costs."""
        return [bound_sum for bound in self.bounds for bound_sum in bound_sums(self.unbounded, bound)]

    def _chain_with_bounds(self, terms: Mapping[str, Mapping[Term, int]]) -> Chain:
        """Return the chain of all architectures, whose columns are the costs, followed by the sums that are bounded."""
        constants, groups = bounded_tables(self.unbounded, terms, self._bound_sums)
        return Chain(self.order, self.conditions, groups, constants)

    def chain_of_terms(self, terms: Mapping[str, Mapping[Term, int]]) -> Chain:
        """Return the chain of the architectures within the bounds, whose costs are sums of terms.

        Raises ArchError (A1601, A1602, A1603, A3302).
        """
        chain = restrict_chain(self._chain_with_bounds(terms), self._bound_sums)
        if chain is None:
            raise self.infeasible_error()
        return chain

    def chain(self, *names: str) -> Chain:
        """Return the chain of the architectures within the bounds, with these costs.

        Raises ArchError (A1601 to A1604, A3302).
        """
        for name in names:
            self.check_cost(name, summed=True)
        if names not in self._chains:
            self.check_reachability()
            self._chains[names] = self.chain_of_terms({name: self.terms(name) for name in names})
        return self._chains[names]

    def stages(self, *names: str) -> Stages:
        """Return the chain with these costs, coarsened into stages of a few choices each.

        If the only bound is a range of the one cost in `names`, this is the chain of all architectures, because an
        architecture is within the bounds whenever its total is within the range.
        """
        return self.unbounded.stages(*names) if (*self.ranges,) == names else super().stages(*names)

    def _find_extreme(self, name: str, sign: int) -> Extreme:
        """Compute an extreme within the bounds by exact optimisation or by the chain.

        If both methods take too much work, return only a proved bound.
        """
        result = Extreme(self._clip(name, sign, self.unbounded.extreme(name, sign).bound), None)
        with work_budget(DEFAULT_WORK), suppress(LimitError):
            if not any(bound.not_equal for bound in self._bound_sums):
                with budget_share(EXACT_WORK_FRACTION):
                    result = self._require_feasible(self._optimum(name, sign))
        if not result.exact:
            with work_budget(DEFAULT_WORK), suppress(LimitError):
                result = self._require_feasible(extreme(self.chain(name), 0, sign))
        return result

    def _optimum(self, name: str, sign: int) -> Extreme | None:
        """Return the minimum (`sign` 1) or maximum (`sign` -1) of a cost within the bounds.

        None if no architecture is within the bounds.
        """
        signed = Terms({term: sign * times for term, times in self.terms(name).items()})
        layers = build_network(self._chain_with_bounds({name: signed}))
        if layers is None:
            return None
        best = optimum(layers, [bound.limit for bound in self._bound_sums])
        if best.value is None:
            return None if best.is_proved else Extreme(sign * best.bound, None)
        codes = tuple(best.codes[0].tolist())
        return Extreme(sign * best.value, codes, None if best.is_proved else sign * best.bound)

    def limits(self, name: str) -> tuple[int, int]:
        """Return a lower and an upper bound of a cost over all architectures within the bounds."""
        if name not in PEAKS:
            return super().limits(name)
        low, high = self.unbounded.limits(name)
        return self._clip(name, 1, low), self._clip(name, -1, high)

    def _clip(self, name: str, sign: int, number: int) -> int:
        """Tighten a lower (`sign` 1) or upper (`sign` -1) bound of a cost by the unconditional bounds on that cost."""
        offsets = LOWER_OFFSETS if sign == 1 else UPPER_OFFSETS
        for bound in self.bounds:
            plain = bound.condition is True and isinstance(bound.limit, int)
            if bound.cost == name and plain and bound.relation in offsets:
                number = sign * max(sign * number, sign * (bound.limit + offsets[bound.relation]))
        return number

    def _require_feasible(self, extreme: Extreme | None) -> Extreme:
        """Return the extreme. Raises ArchError (A1603) if there is none."""
        if extreme is None:
            raise self.infeasible_error()
        return extreme

    def infeasible_error(self) -> ArchError:
        """Return the error (A1603) which reports that no architecture is within the bounds."""
        text = " and ".join(bound.text for bound in self.bounds)
        return fail("A1603", f"no architecture has {text}", self.bounds[0].span)

"""Costs of a space: the costs of given architectures, their extremes, and their distribution.

The distribution of a cost is the number of architectures at each value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial

import numpy as np

from archir.costs.chain import Chain
from archir.costs.counting.distribution import Distribution
from archir.costs.counting.joint_bounds import Limit, ResidualBudgets
from archir.costs.counting.stages import Stages
from archir.costs.evaluators import FlatDiagram, NodeSums, PerNetworkCost, TermSums
from archir.costs.extremes import arrays
from archir.costs.extremes.heuristic_search import ExtremeSearch, Sampler
from archir.costs.extremes.witnesses import Extreme, Marginals, extreme, marginals
from archir.costs.resized import Resized
from archir.costs.rules import rule_of
from archir.costs.sums import Term, Terms
from archir.costs.symbolic import Rule, SymbolicCosts, network_cost
from archir.costs.tables import MAX_SUM, Codes, Groups, Numbers, Table, group_terms, max_table, sum_table
from archir.diagnostics.errors import LimitError, exceeds, fail
from archir.diagnostics.escaping import escape_to_line
from archir.diagnostics.hints import suggest
from archir.diagnostics.work import budget_share
from archir.diagrams.diagram import DiagramSizeError, Value, varies
from archir.ir.graph import Decision, Graph, NodeId
from archir.language.elaboration.cost_names import COST_DEFAULTS, is_cost, latency_file, latency_name
from archir.passes.cost import ADDITIVE_COSTS, peak_memory

PEAK = "peak_bytes"
PEAKS = {PEAK: False, "sram_bytes": True}
"""Costs that are a maximum over time (peak memory) instead of a sum.

The value is True if results are assumed to be stored in 8 bits and operations to run in place where possible.
"""
EXACT_WORK_FRACTION = 1 / 4
"""Fraction of the remaining work budget that an exact method may use before an approximate one is tried instead."""
MAX_SMALL_STATES, MAX_SMALL_STEPS = 2_000, 50_000
"""Maximum numbers of states and steps of a chain that is solved state by state.

Larger chains are solved with arrays.
"""
MAX_SAMPLING_RESIDUALS, MAX_COUNTING_RESIDUALS = 50_000, 200_000
"""Maximum numbers of distinct residual budgets, for sampling and for counting.

If there are more, residual budgets are rounded. A residual budget is the amount of a cost bound that a partial
architecture has not used yet.
"""
MAX_SHOWN_TOTALS = 300_000
"""Maximum number of distinct totals in a distribution to be displayed; if there are more, totals are rounded."""


class Account:
    """The costs of a space; each is computed on first access and then cached.

    `conditions` restrict which architectures exist, `sampler` samples some of them, and `rules` has the rules of
    additional costs, by name. In place of a cost's name, all methods also accept the name of a latency table, such as
    `latency("cpu.json")`: the latency in nanoseconds.
    """

    def __init__(
        self,
        graph: Graph,
        order: Sequence[Decision],
        conditions: Sequence[Value],
        rules: Mapping[str, Rule] | None = None,
        sampler: Sampler | None = None,
    ) -> None:
        """See the class for the arguments; `order` has the space's choices in sampling order."""
        self._extreme_search = ExtremeSearch(
            order, conditions, sampler or (lambda n, rng: np.zeros((0, len(order)), np.int16))
        )
        self._approximate = False
        self._extremes: dict[tuple[str, int], Extreme] = {}
        self.graph, self.order, self.conditions = graph, order, conditions
        self.peaks: tuple[str, ...] = ()
        """Names of the requested costs that are a maximum over time."""
        self.rules = dict(rules or {})
        self._rule_cache: dict[str, Rule] = {}
        self._resized: dict[int, Resized] = {}
        self._peak_evaluators: dict[str, Table | PerNetworkCost] = {}
        self._group_cache: dict[str, tuple[Numbers, Groups]] = {}
        self._evaluators: dict[str, Table | TermSums | PerNetworkCost] = {}
        self._index = {decision.choice.path: i for i, decision in enumerate(order)}
        self._chains: dict[tuple[str, ...], Chain] = {}
        self._stage_cache: dict[tuple[str, ...], Stages] = {}
        self._residual_cache: dict[tuple[tuple[tuple[str, tuple[int, int]], ...], int, bool], ResidualBudgets] = {}
        self._distributions: dict[tuple[str, int, int, int | None], Distribution] = {}

    @property
    def summed(self) -> tuple[str, ...]:
        """Names of the additive costs."""
        return (*ADDITIVE_COSTS, *self.rules)

    def __repr__(self) -> str:
        return escape_to_line(f"<Account of {self.graph.name}: {', '.join(self.names)}>")

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all costs."""
        return (*self.summed, PEAK)

    @cached_property
    def _symbolic(self) -> SymbolicCosts:
        """Costs of the nodes as functions of the choices.

        The conditions under which nodes are needed are exact unless computing them takes too much work; in that case,
        they are over-approximated.
        """
        try:
            with budget_share(EXACT_WORK_FRACTION):
                return SymbolicCosts(self.graph)
        except LimitError:
            pass
        self._approximate = True
        return SymbolicCosts(self.graph, approximate=True)

    @cached_property
    def _builtin_groups(self) -> tuple[Numbers, Groups]:
        """Constants and tables of the additive costs that are built in."""
        self.check_reachability()
        return group_terms(self._term_bounds[False], self._index)

    def check_reachability(self) -> None:
        """Raise ArchError (A1602) if it cannot be determined exactly which nodes each architecture contains."""
        if self._symbolic.overapproximated:
            raise exceeds("A1602", "the nodes that an architecture contains depend on too many choices at once")

    def _groups_of(self, name: str) -> tuple[Numbers, Groups, int]:
        """Return the constants and the tables that contain an additive cost, and the index of its column in both."""
        if name in ADDITIVE_COSTS:
            return (*self._builtin_groups, ADDITIVE_COSTS.index(name))
        if name not in self._group_cache:
            self.check_reachability()
            self._group_cache[name] = group_terms({name: self.terms(name)}, self._index)
        return (*self._group_cache[name], 0)

    def terms(self, name: str, lower_bound: bool = False) -> Terms:
        """Return the terms that add up to a cost.

        If the conditions of some nodes are over-approximated, the sum is an upper bound of the cost or, with
        `lower_bound`, a lower bound.
        """
        if name in ADDITIVE_COSTS:
            return self._term_bounds[lower_bound][name]
        rule, overapproximated = self._rule(name), self._symbolic.overapproximated
        terms: Terms = Terms(
            value for number, value in self._node_costs(rule) if not lower_bound or number not in overapproximated
        )
        terms[rule.base] += 1
        return terms

    def _node_costs(self, rule: Rule) -> Iterator[tuple[NodeId, Value]]:
        """Yield each node with its contribution to a rule's cost, for the sequence length that the rule specifies."""
        numbers, symbolic = None, self._symbolic
        if rule.tokens is not None:
            if rule.tokens not in self._resized:
                self._resized[rule.tokens] = Resized(symbolic, rule.tokens, self._approximate)
            resized = self._resized[rule.tokens]
            numbers, symbolic = resized.original_ids, resized.symbolic
        for number, value in symbolic.rule_costs(rule):
            yield number if numbers is None else numbers[number], value

    def distinct_node_costs(self, rule: Rule, codes: Codes) -> Iterator[tuple[int, Numbers]]:
        """Yield each distinct contribution that nodes make to a rule's cost: number of nodes, and values [n].

        The values are those for the architectures `codes`. Raises ArchError (A1602).
        """
        self.check_reachability()
        for value, node_count in Terms(value for _, value in self._node_costs(rule)).items():
            yield node_count, FlatDiagram(value, self._index).at(codes) if varies(value) else np.full(len(codes), value)

    @cached_property
    def _term_bounds(self) -> tuple[Mapping[str, Terms], Mapping[str, Terms]]:
        """Terms of the built-in additive costs: those of an upper bound, and those of a lower bound.

        The two are the same if all conditions are exact.
        """
        upper = self._symbolic.total_terms()
        return upper, self._symbolic.total_terms(lower_bound=True) if self._symbolic.overapproximated else upper

    def _rule(self, name: str) -> Rule:
        """Return the rule of a cost: one of `rules`, a named cost, or a latency.

        The path of a latency table is relative to the current folder.
        """
        if name in self.rules:
            return self.rules[name]
        if name not in self._rule_cache and latency_file(name) is None:
            self._rule_cache[name] = rule_of(self.graph, name)
        if name not in self._rule_cache:
            from archir.costs.latencies.files import latency_cost  # pydantic takes time to import

            self._rule_cache[name] = latency_cost(self.graph, name)
        return self._rule_cache[name]

    def add_cost(self, name: str) -> None:
        """Add a cost to `names`, the costs to be shown. Raises ArchError (A1501, A1502, A1604, A3320, A3321)."""
        if name in PEAKS:
            self.peaks = tuple(dict.fromkeys((*self.peaks, name)))
        elif name not in ADDITIVE_COSTS:
            self.rules[name] = self._rule(name)

    @cached_property
    def contributions(self) -> Mapping[NodeId, Mapping[str, Terms]]:
        """Terms that each node adds to each additive cost.

        The cost of shared weights is attributed to the first needed node that uses them. Raises ArchError (A1602).
        """
        self.check_reachability()
        node_terms = {number: dict(costs) for number, costs in self._symbolic.contributions()}
        for name in self.rules:
            for number, value in self._node_costs(self._rule(name)):
                if value != 0:
                    node_terms.setdefault(number, {})[name] = Terms({value: 1})
        return node_terms

    def chain_of_terms(self, terms: Mapping[str, Mapping[Term, int]]) -> Chain:
        """Return the chain of the space (see `archir.costs.chain`) whose costs are the given sums of terms.

        Each term is multiplied by its multiplicity. Raises ArchError (A1601, A1602).
        """
        constant, groups = group_terms(terms, self._index)
        return Chain(self.order, self.conditions, groups, constant.tolist())

    @cached_property
    def table(self) -> Table:
        """Table of the built-in additive costs. Raises ArchError (A1601, A1602)."""
        return sum_table(ADDITIVE_COSTS, *self._builtin_groups, self._index)

    @cached_property
    def _builtin_evaluator(self) -> Table | TermSums | PerNetworkCost:
        """Table of the built-in additive costs, or a row-by-row evaluator if the table would be too large."""
        return self._table_or_evaluator(lambda: self.table, ADDITIVE_COSTS)

    def _table_or_evaluator(
        self, table: Callable[[], Table], names: Sequence[str]
    ) -> Table | TermSums | PerNetworkCost:
        """Return the table of costs, or an evaluator that computes row by row if the table would be too large."""
        try:
            with budget_share(EXACT_WORK_FRACTION):
                return table()
        except LimitError:
            pass
        if not self._symbolic.overapproximated:
            return TermSums({name: self.terms(name) for name in names}, self._index)
        if tuple(names) == ADDITIVE_COSTS:
            return NodeSums(self.graph, self._symbolic.own_terms(), self._index)
        (name,) = names
        rule = self._rule(name)
        if rule.share_key is not None:
            return self._network_evaluator(lambda network: network_cost(network, rule))
        node_terms = {number: Terms({value: 1}) for number, value in self._node_costs(rule)}
        return NodeSums(self.graph, {name: node_terms}, self._index, {name: rule.base})

    def _network_evaluator(self, evaluate: Callable[[Graph], int]) -> PerNetworkCost:
        """Return an evaluator that specialises the graph for each row and calls `evaluate` on the resulting network."""
        return PerNetworkCost(self.graph, [decision.choice.path for decision in self.order], evaluate)

    def _peak_evaluator(self, name: str) -> Table | PerNetworkCost:
        """Return the table of a peak cost, or a row-by-row evaluator if the table would be too large (cached)."""
        if name not in self._peak_evaluators:
            self._peak_evaluators[name] = self._make_peak_evaluator(name)
        return self._peak_evaluators[name]

    def peak_table(self, name: str) -> Table:
        """Return the table of a cost that is a maximum over time.

        Raises ArchError (A1602) if the cost depends on too many choices at once.
        """
        table = self._peak_evaluator(name)
        if not isinstance(table, Table):
            raise exceeds("A1602", f"`{name}` depends on too many choices at once")
        return table

    def _make_peak_evaluator(self, name: str) -> Table | PerNetworkCost:
        """Build the table of a peak cost, or an evaluator that computes row by row if the table would be too large."""
        eight_bit = PEAKS[name]
        try:
            self.check_reachability()
            with budget_share(EXACT_WORK_FRACTION):
                return max_table(name, self._symbolic.live_bytes(eight_bit), self._index)
        except LimitError:
            pass
        except DiagramSizeError:
            pass
        return self._network_evaluator(lambda network: peak_memory(network, eight_bit))

    def at(self, codes: Codes, names: Iterable[str] | None = None) -> dict[str, Numbers]:
        """Return the exact costs of architectures, given as rows of outcomes: an array [n] for each name.

        By default, returns all additive costs. Raises ArchError (A1604) for an unknown cost.
        """
        requested = tuple(names) if names is not None else self.summed
        for name in requested:
            self.check_cost(name)
        builtin = [name for name in requested if name in ADDITIVE_COSTS]
        totals = self._builtin_evaluator.at(codes) if builtin else None
        costs = {name: totals[:, ADDITIVE_COSTS.index(name)] for name in builtin if totals is not None}
        for name in requested:
            if name in PEAKS:
                costs[name] = self._peak_evaluator(name).at(codes)[:, 0]
            elif name not in costs:
                if name not in self._evaluators:
                    self._evaluators[name] = self._table_or_evaluator(partial(self._single_table, name), (name,))
                costs[name] = self._evaluators[name].at(codes)[:, 0]
        return costs

    def _single_table(self, name: str) -> Table:
        """Return the table of one additive cost."""
        constant, groups, _ = self._groups_of(name)
        return sum_table((name,), constant, groups, self._index)

    def check_cost(self, name: str, summed: bool = False) -> None:
        """Raise ArchError (A1604) if no cost has this name or if, with `summed`, no additive cost has it."""
        names = self.summed if summed else self.names
        others = (further for further in COST_DEFAULTS if not (summed and further in PEAKS))
        candidates = dict.fromkeys((*names, *others, latency_name("FILE")))
        if summed and name in PEAKS:
            text = f"`{name}` is a maximum over the operations, and an additive cost is needed here"
            raise fail("A1604", text, None, f"additive costs are {', '.join(candidates)}")
        if name not in names and not is_cost(name):
            raise fail(
                "A1604",
                f"there is no cost `{name}`",
                None,
                suggest(name, candidates) or f"there are {', '.join(candidates)}",
            )

    def chain(self, *names: str) -> Chain:
        """Return the chain (see `archir.costs.chain`) of the space with these costs. Raises ArchError (A1602,
        A1604)."""
        for name in names:
            self.check_cost(name, summed=True)
        if names not in self._chains:
            groups: Groups = {}
            constants = []
            for position, name in enumerate(names):
                constant, tables, column = self._groups_of(name)
                constants.append(int(constant[column]))
                for choices, table in tables.items():
                    if table[..., column].any():
                        zeros = np.zeros((*table.shape[:-1], len(names)), np.int64)
                        groups.setdefault(choices, zeros)[..., position] = table[..., column]
            self._chains[names] = Chain(self.order, self.conditions, groups, constants)
        return self._chains[names]

    def stages(self, *names: str) -> Stages:
        """Return the chain with these costs, coarsened into stages of a few choices each."""
        if names not in self._stage_cache:
            self._stage_cache[names] = Stages(self.chain(*names))
        return self._stage_cache[names]

    def extremes(self, name: str) -> tuple[Extreme, Extreme]:
        """Return the minimum and the maximum of a cost, with architectures that attain them.

        If the choices interact too much for an exact search, these are the best architectures found, with proved
        bounds. Raises ArchError (A0510) if no architecture satisfies the conditions.
        """
        return self.extreme(name, 1), self.extreme(name, -1)

    def extreme(self, name: str, sign: int) -> Extreme:
        """Return the minimum (`sign` 1) or the maximum (`sign` -1) of a cost."""
        if (name, sign) not in self._extremes:
            self.check_cost(name, summed=True)
            self._extremes[name, sign] = self._find_extreme(name, sign)
        return self._extremes[name, sign]

    def _find_extreme(self, name: str, sign: int) -> Extreme:
        """Compute an extreme: exactly by the chain if that is small enough, otherwise by bounds and heuristic
        search."""
        chain = self._try_chain(name)
        if chain is not None:
            if chain.max_states <= MAX_SMALL_STATES and chain.max_steps <= MAX_SMALL_STEPS:
                return _require_feasible(extreme(chain, 0, sign))
            try:
                with budget_share(EXACT_WORK_FRACTION):
                    return _require_feasible(arrays.extreme(chain, 0, sign))
            except LimitError:
                pass
        approximated = bool(self._symbolic.overapproximated)
        terms = self.terms(name, lower_bound=approximated and sign == 1)
        result = self._extreme_search.extreme(terms, sign, not approximated, lambda codes: self.at(codes, [name])[name])
        if chain is not None and (result is None or not result.exact):
            return _require_feasible(extreme(chain, 0, sign))
        return _require_feasible(result)

    def _try_chain(self, name: str) -> Chain | None:
        """Return the chain with a cost; None if it has too many states or building it takes too much work."""
        self.terms(name)  # outside of the work limit below: the fallback needs the terms, too
        try:
            with budget_share(EXACT_WORK_FRACTION):
                return self.chain(name)
        except LimitError:
            return None

    def limits(self, name: str) -> tuple[int, int]:
        """Return a lower and an upper bound of a cost over all architectures.

        If the cost is additive and computed exactly, some architectures attain the bounds.
        """
        if name not in PEAKS:
            least, greatest = self.extremes(name)
            return least.bound, greatest.bound
        peaks = self._peak_evaluator(name)
        if isinstance(peaks, PerNetworkCost):
            return 0, MAX_SUM
        factor_ranges = [(int(factor.table.min()), int(factor.table.max())) for factor in peaks.factors]
        factor_ranges.append((int(peaks.constant[0]),) * 2)
        return max(least for least, _ in factor_ranges), max(greatest for _, greatest in factor_ranges)

    def marginals(self, name: str) -> Marginals:
        """Return, for each outcome of each choice, the minimum and maximum cost of the architectures with this
        outcome."""
        return marginals(self.chain(name), 0)

    def distribution(self, name: str, low: int, high: int, entries: int | None = None) -> Distribution:
        """Return the distribution of a cost in the range from `low` to `high`, clipped to the costs that exist.

        Totals are rounded if more than `entries` distinct totals would be needed on one side of the chain.
        """
        key = (name, low, high, entries)
        if key not in self._distributions:
            least, greatest = self.extremes(name)
            bounds = max(low, least.bound), min(high, greatest.bound)
            self._distributions[key] = Distribution(self.stages(name), *bounds, entries)
        return self._distributions[key]

    def count(self, name: str, low: int, high: int) -> tuple[int, int]:
        """Return a lower and an upper bound of the number of architectures whose cost is from `low` to `high`.

        The bounds are equal, and thus exact, unless the space has so many distinct totals that the totals are rounded.
        """
        return self.distribution(name, low, high).count(low, high)

    def count_within(self, ranges: Mapping[str, tuple[int, int]]) -> tuple[int, int]:
        """Return a lower and an upper bound of the number of architectures whose costs are within all these ranges.

        For one range, the bounds are equal under the same condition as in `count`. For several ranges, they are equal
        unless residual budgets are rounded.
        """
        if len(ranges) == 1:
            ((name, (low, high)),) = ranges.items()
            return self.count(name, low, high)
        rounded_up = self._residuals(ranges, MAX_COUNTING_RESIDUALS)
        return (
            self._residuals(ranges, MAX_COUNTING_RESIDUALS, up=False).count if rounded_up.rounded else rounded_up.count
        ), rounded_up.count

    def clear_range_caches(self) -> None:
        """Clear the results cached by range; for callers that query many different ranges."""
        self._residual_cache.clear()
        self._distributions.clear()

    def sample(self, ranges: Mapping[str, tuple[int, int]], n: int, rng: np.random.Generator) -> Codes:
        """Sample `n` architectures uniformly from those whose costs are within all ranges.

        If residual budgets are rounded, some samples may lie slightly outside of the ranges, but every architecture
        within them can occur.
        """
        return self._residuals(ranges, MAX_SAMPLING_RESIDUALS).sample(n, rng)

    def _residuals(self, ranges: Mapping[str, tuple[int, int]], entries: int, up: bool = True) -> ResidualBudgets:
        """Return the residual budgets of the chain for the cost bounds given by these ranges (cached)."""
        key = (tuple(ranges.items()), entries, up)
        if key not in self._residual_cache:
            limits = []
            for i, (name, (low, high)) in enumerate(ranges.items()):
                least, greatest = self.extremes(name)
                if high < greatest.bound or low <= least.value:
                    limits.append(Limit(i, 1, high))
                if low > least.value:
                    limits.append(Limit(i, -1, -low))
            self._residual_cache[key] = ResidualBudgets(self.stages(*ranges), limits, entries, up)
        return self._residual_cache[key]

    def is_countable(self, ranges: Mapping[str, tuple[int, int]]) -> bool:
        """Return whether the architectures within these ranges are few enough (in states) to be sampled and counted."""
        try:
            if ranges:
                self._residuals(ranges, MAX_SAMPLING_RESIDUALS)
        except LimitError:
            return False
        return True

    def may_satisfy(self, ranges: Mapping[str, tuple[int, int]]) -> bool:
        """Return whether some architecture has costs within all these ranges.

        A result of False is always correct. A result of True may be wrong if residual budgets are rounded, or if the
        chain is too large.
        """
        return all(self.may_contain(name, *pair) for name, pair in ranges.items()) and (
            len(ranges) == 1
            or not self.is_countable(ranges)
            or self._residuals(ranges, MAX_SAMPLING_RESIDUALS).count > 0
        )

    def may_contain(self, name: str, low: int, high: int) -> bool:
        """Return whether some architecture has a cost from `low` to `high`.

        A result of True may be wrong if the architectures cannot be counted.
        """
        least, greatest = self.extremes(name)
        if high < least.bound or low > greatest.bound or low > high:
            return False
        if low <= least.value <= high or low <= greatest.value <= high:
            return True
        try:
            return self.count(name, low, high)[1] > 0
        except LimitError:
            return True

    def is_always_within(self, name: str, low: int, high: int) -> bool:
        """Return whether the cost of every architecture is proved to be from `low` to `high`."""
        least, greatest = self.extremes(name)
        return low <= least.bound and greatest.bound <= high

    def nearest_cost(self, name: str, low: int, high: int) -> int:
        """Return, of the costs that architectures have, the one nearest to a range."""
        least, greatest = (extreme.value for extreme in self.extremes(name))
        if high < least:
            return least
        if low > greatest:
            return greatest
        all_totals = self.distribution(name, least, greatest)
        neighbours = [
            value for value in (all_totals.last_total(low), all_totals.first_total(high)) if value is not None
        ]
        return min(neighbours, key=lambda value: max(low - value, value - high))

    def quantiles(self, name: str, fractions: Sequence[float]) -> list[int]:
        """Return, for each fraction, the smallest cost that at least this fraction of the architectures does not
        exceed.

        Costs are rounded if there are many distinct totals.
        """
        least, greatest = (extreme.bound for extreme in self.extremes(name))
        return self.distribution(name, least, greatest, MAX_SHOWN_TOTALS).quantiles(fractions)


def _require_feasible(extreme: Extreme | None) -> Extreme:
    """Return the extreme. Raises ArchError (A0510) if there is none."""
    if extreme is None:
        raise fail("A0510", "no architecture satisfies the constraints")
    return extreme

"""What the architectures of a space cost: of arrays of them, at least and at most, and how many of them how much."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial

from archir.costs.counting.distribution import Distribution
from archir.costs.counting.joint import Limit, Rooms
from archir.costs.counting.merged_steps import Strides
from archir.costs.dynamic import Chain
from archir.costs.extremes import arrays
from archir.costs.extremes.rough import Draw, Ends
from archir.costs.extremes.witnesses import Extreme, Marginals, extreme, marginals
from archir.costs.lengths import Resized
from archir.costs.rows import Followed, Networks, Parts, Sums
from archir.costs.rules import rule_of
from archir.costs.sums import Term, Terms
from archir.costs.symbolic import Rule, Symbolic, total
from archir.costs.tables import MOST_SUM, Codes, Groups, Numbers, Table, grouped, maxima, sums
from archir.diagnostics.errors import ArchError, fail, suggest
from archir.diagnostics.visible import one_line
from archir.diagnostics.work import TOO_MUCH, portion
from archir.diagrams.cases import EntangledError, Value, varies
from archir.ir.graph import Decision, Graph, NodeId
from archir.language.elaboration.costs import is_cost
from archir.language.elaboration.locals import FURTHER, latency_file
from archir.passes.cost import SUMMED, peak
from archir.utils.arrays import np

PEAK = "peak_bytes"
PEAKS = {PEAK: False, "sram_bytes": True}
"""The costs that are a maximum, and whether results are in 8 bits, and take the place of what they are made of."""
A_TRY = 1 / 4
"""Of the work that is left, what may be spent on finding out that choices are too entangled for what is exact."""
FEW_STATES, FEW_STEPS = 2_000, 50_000
"""States and steps of a chain that are surely few."""
FEW, MANY = 50_000, 200_000
"""Rooms under bounds that are told apart, to draw quickly or to count closely."""
SHOWN = 300_000
"""Totals that are told apart where a distribution is shown."""


class Account:
    """The costs of a space, worked out when they are first asked for.

    `conditions` say which architectures there are, `draw` draws some; `rules` are costs beside the usual ones, by name.
    Whatever takes the name of a cost takes that of a table, such as `latency("cpu.json")`, too: nanoseconds.
    """

    def __init__(
        self,
        graph: Graph,
        order: Sequence[Decision],
        conditions: Sequence[Value],
        rules: Mapping[str, Rule] | None = None,
        draw: Draw | None = None,
    ) -> None:
        self._ends = Ends(order, conditions, draw or (lambda n, rng: np.zeros((0, len(order)), np.int16)))
        self._roughly = False
        self._extremes: dict[tuple[str, int], Extreme] = {}
        self.graph, self.order, self.conditions = graph, order, conditions
        self.peaks: tuple[str, ...] = ()
        """The costs that are a maximum, and asked for."""
        self.rules = dict(rules or {})
        self._asked: dict[str, Rule] = {}
        self._lengths: dict[int, Resized] = {}
        self._highest: dict[str, Table | Networks] = {}
        self._further: dict[str, tuple[Numbers, Groups]] = {}
        self._tables: dict[str, Table | Sums | Networks] = {}
        self._index = {decision.choice.path: i for i, decision in enumerate(order)}
        self._chains: dict[tuple[str, ...], Chain] = {}
        self._strides: dict[tuple[str, ...], Strides] = {}
        self._followed: dict[tuple[tuple[tuple[str, tuple[int, int]], ...], int, bool], Rooms] = {}
        self._distributions: dict[tuple[str, int, int, int | None], Distribution] = {}

    @property
    def summed(self) -> tuple[str, ...]:
        """The names of the costs that add up."""
        return (*SUMMED, *self.rules)

    def __repr__(self) -> str:
        return one_line(f"<Account of {self.graph.name}: {', '.join(self.names)}>")

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all costs."""
        return (*self.summed, PEAK)

    @cached_property
    def _symbolic(self) -> Symbolic:
        try:
            with portion(A_TRY):
                return Symbolic(self.graph)
        except ArchError as error:
            _entangled(error)
        self._roughly = True
        return Symbolic(self.graph, roughly=True)

    @cached_property
    def _usual(self) -> tuple[Numbers, Groups]:
        self.told()
        return grouped(self._bounded[False], self._index)

    def told(self) -> None:
        """Raise ArchError (A1602) if it cannot be told which architectures have which parts."""
        if self._symbolic.loose:
            raise fail("A1602", "which parts an architecture has depends on too many choices at once")

    def _grouped(self, name: str) -> tuple[Numbers, Groups, int]:
        """The constant, the tables, and the column in both of a cost that adds up."""
        if name in SUMMED:
            return (*self._usual, SUMMED.index(name))
        if name not in self._further:
            self.told()
            self._further[name] = grouped({name: self.terms(name)}, self._index)
        return (*self._further[name], 0)

    def terms(self, name: str, sure: bool = False) -> Terms:
        """The values that a cost is the sum of: at most, or if `sure`, at least."""
        if name in SUMMED:
            return self._bounded[sure][name]
        rule, loose = self._rule(name), self._symbolic.loose
        terms: Terms = Terms(value for number, value in self._contributed(rule) if not sure or number not in loose)
        terms[rule.base] += 1
        return terms

    def _contributed(self, rule: Rule) -> Iterator[tuple[NodeId, Value]]:
        """What each node contributes to a further cost."""
        numbers, symbolic = None, self._symbolic
        if rule.tokens is not None:
            if rule.tokens not in self._lengths:
                self._lengths[rule.tokens] = Resized(symbolic, rule.tokens, self._roughly)
            resized = self._lengths[rule.tokens]
            numbers, symbolic = resized.numbers, resized.symbolic
        for number, value in symbolic.contributed(rule):
            yield number if numbers is None else numbers[number], value

    def contributing(self, rule: Rule, codes: Codes) -> Iterator[tuple[int, Numbers]]:
        """What nodes contribute to a further cost of rows of outcomes, and how many of them contribute just that.

        Raises ArchError (A1602).
        """
        self.told()
        for value, often in Terms(value for _, value in self._contributed(rule)).items():
            yield often, Followed(value, self._index).at(codes) if varies(value) else np.full(len(codes), value)

    @cached_property
    def _bounded(self) -> tuple[Mapping[str, Terms], Mapping[str, Terms]]:
        most = self._symbolic.summed()
        return most, self._symbolic.summed(sure=True) if self._symbolic.loose else most

    def _rule(self, name: str) -> Rule:
        """A further cost: one of `rules`, one that its name says, or the latency by a table that is looked for from the
        current folder on."""
        if name in self.rules:
            return self.rules[name]
        if name not in self._asked and latency_file(name) is None:
            self._asked[name] = rule_of(self.graph, name)
        if name not in self._asked:
            from archir.costs.latencies.files import latency_of  # pydantic takes time to import

            self._asked[name] = latency_of(self.graph, name)
        return self._asked[name]

    def include(self, name: str) -> None:
        """Have a further cost among those that are shown. Raises ArchError (A1501, A1502, A1604, A3320, A3321)."""
        if name in PEAKS:
            self.peaks = tuple(dict.fromkeys((*self.peaks, name)))
        elif name not in SUMMED:
            self.rules[name] = self._rule(name)

    @cached_property
    def contributions(self) -> Mapping[NodeId, Mapping[str, Terms]]:
        """What each node contributes to the costs that add up; weights that several share, the first of them.

        Raises ArchError (A1602).
        """
        self.told()
        found = {number: dict(costs) for number, costs in self._symbolic.contributions()}
        for name in self.rules:
            for number, value in self._contributed(self._rule(name)):
                if value != 0:
                    found.setdefault(number, {})[name] = Terms({value: 1})
        return found

    def sums(self, terms: Mapping[str, Mapping[Term, int]]) -> Chain:
        """The choices as a chain, with costs that are sums of terms, each as often as it counts.

        Raises ArchError (A1601, A1602).
        """
        constant, groups = grouped(terms, self._index)
        return Chain(self.order, self.conditions, groups, constant.tolist())

    @cached_property
    def table(self) -> Table:
        """The usual costs that add up. Raises ArchError (A1601, A1602)."""
        return sums(SUMMED, *self._usual, self._index)

    @cached_property
    def _rows(self) -> Table | Sums | Networks:
        return self._followed_or(lambda: self.table, SUMMED)

    def _followed_or(self, table: Callable[[], Table], names: Sequence[str]) -> Table | Sums | Networks:
        """A table; or if that is too large, what follows rows instead."""
        try:
            with portion(A_TRY):
                return table()
        except ArchError as error:
            _entangled(error)
        if not self._symbolic.loose:
            return Sums({name: self.terms(name) for name in names}, self._index)
        if tuple(names) == SUMMED:
            return Parts(self.graph, self._symbolic.owns(), self._index)
        (name,) = names
        rule = self._rule(name)
        if rule.once is not None:
            return self._networks(lambda network: total(network, rule))
        own = {number: Terms({value: 1}) for number, value in self._contributed(rule)}
        return Parts(self.graph, {name: own}, self._index, {name: rule.base})

    def _networks(self, of: Callable[[Graph], int]) -> Networks:
        return Networks(self.graph, [decision.choice.path for decision in self.order], of)

    def _peaks(self, name: str) -> Table | Networks:
        """The table of a cost that is a maximum, or what follows rows instead."""
        if name not in self._highest:
            self._highest[name] = self._tabulated(name)
        return self._highest[name]

    def peak_table(self, name: str) -> Table:
        """The table of a cost that is a maximum. Raises ArchError (A1602)."""
        table = self._peaks(name)
        if not isinstance(table, Table):
            raise fail("A1602", f"`{name}` depends on too many choices at once")
        return table

    def _tabulated(self, name: str) -> Table | Networks:
        small = PEAKS[name]
        try:
            self.told()
            with portion(A_TRY):
                return maxima(name, self._symbolic.alive(small), self._index)
        except ArchError as error:
            _entangled(error)
        except EntangledError:
            pass
        return self._networks(lambda network: peak(network, small))

    def at(self, codes: Codes, names: Iterable[str] | None = None) -> dict[str, Numbers]:
        """The costs of rows of outcomes, exact. Raises ArchError (A1604) for a cost that there is not."""
        wanted = tuple(names) if names is not None else self.summed
        for name in wanted:
            self.known(name)
        usual = [name for name in wanted if name in SUMMED]
        totals = self._rows.at(codes) if usual else None
        found = {name: totals[:, SUMMED.index(name)] for name in usual if totals is not None}
        for name in wanted:
            if name in PEAKS:
                found[name] = self._peaks(name).at(codes)[:, 0]
            elif name not in found:
                if name not in self._tables:
                    self._tables[name] = self._followed_or(partial(self._single, name), (name,))
                found[name] = self._tables[name].at(codes)[:, 0]
        return found

    def _single(self, name: str) -> Table:
        constant, groups, _ = self._grouped(name)
        return sums((name,), constant, groups, self._index)

    def known(self, name: str, summed: bool = False) -> None:
        """Raise ArchError (A1604) for a cost that there is not, or with `summed`, that is no sum."""
        names = self.summed if summed else self.names
        known = dict.fromkeys((*names, *(one for one in FURTHER if not (summed and one in PEAKS))))
        if summed and name in PEAKS:
            text = f"`{name}` is the most that is held at once, and no sum over the operations"
            raise fail("A1604", text, None, f"these are sums: {', '.join(known)}")
        if name not in names and not is_cost(name):
            raise fail(
                "A1604", f"there is no cost `{name}`", None, suggest(name, known) or f"there are {', '.join(known)}"
            )

    def chain(self, *names: str) -> Chain:
        """The choices as a chain, with some costs. Raises ArchError (A1602, A1604)."""
        for name in names:
            self.known(name, summed=True)
        if names not in self._chains:
            groups: Groups = {}
            constants = []
            for place, name in enumerate(names):
                constant, tables, column = self._grouped(name)
                constants.append(int(constant[column]))
                for choices, table in tables.items():
                    if table[..., column].any():
                        empty = np.zeros((*table.shape[:-1], len(names)), np.int64)
                        groups.setdefault(choices, empty)[..., place] = table[..., column]
            self._chains[names] = Chain(self.order, self.conditions, groups, constants)
        return self._chains[names]

    def strides(self, *names: str) -> Strides:
        """The chain with some costs, a few choices at a time."""
        if names not in self._strides:
            self._strides[names] = Strides(self.chain(*names))
        return self._strides[names]

    def extremes(self, name: str) -> tuple[Extreme, Extreme]:
        """An architecture of the least, and one of the greatest cost; where choices are too entangled for that, of the
        least and the greatest that were found, and bounds. Raises ArchError (A0510) if there is none."""
        return self.end(name, 1), self.end(name, -1)

    def end(self, name: str, sign: int) -> Extreme:
        """One of the extremes: the least (1), or the greatest (-1)."""
        if (name, sign) not in self._extremes:
            self.known(name, summed=True)
            self._extremes[name, sign] = self._extreme(name, sign)
        return self._extremes[name, sign]

    def _extreme(self, name: str, sign: int) -> Extreme:
        chain = self._tried(name)
        if chain is not None:
            if chain.most <= FEW_STATES and chain.steps <= FEW_STEPS:
                return _there(extreme(chain, 0, sign))
            try:
                with portion(A_TRY):
                    return _there(arrays.extreme(chain, 0, sign))
            except ArchError as error:
                _entangled(error)
        loose = bool(self._symbolic.loose)
        terms = self.terms(name, sure=loose and sign == 1)
        found = self._ends.extreme(terms, sign, not loose, lambda codes: self.at(codes, [name])[name])
        if chain is not None and (found is None or not found.exact):
            return _there(extreme(chain, 0, sign))
        return _there(found)

    def _tried(self, name: str) -> Chain | None:
        """The chain with a cost; None if choices are too entangled for it."""
        self.terms(name)  # needed without a chain, too
        try:
            with portion(A_TRY):
                return self.chain(name)
        except ArchError as error:
            _entangled(error)
        return None

    def limits(self, name: str) -> tuple[int, int]:
        """Numbers that every architecture costs at least and at most: reached, if the cost adds up and is exact."""
        if name not in PEAKS:
            least, greatest = self.extremes(name)
            return least.bound, greatest.bound
        peaks = self._peaks(name)
        if isinstance(peaks, Networks):
            return 0, MOST_SUM
        ends = [(int(factor.table.min()), int(factor.table.max())) for factor in peaks.factors]
        ends.append((int(peaks.constant[0]),) * 2)
        return max(least for least, _ in ends), max(greatest for _, greatest in ends)

    def marginals(self, name: str) -> Marginals:
        """The least and the greatest cost with each outcome of each choice."""
        return marginals(self.chain(name), 0)

    def distribution(self, name: str, low: int, high: int, entries: int | None = None) -> Distribution:
        """The totals from `low` to `high`, as far as there are any; of so many `entries` told apart."""
        question = (name, low, high, entries)
        if question not in self._distributions:
            least, greatest = self.extremes(name)
            bounds = max(low, least.bound), min(high, greatest.bound)
            self._distributions[question] = Distribution(self.strides(name), *bounds, entries)
        return self._distributions[question]

    def count(self, name: str, low: int, high: int) -> tuple[int, int]:
        """At least and at most how many architectures cost from `low` to `high`; the same, and exact, unless the space
        has more different totals than are told apart."""
        return self.distribution(name, low, high).count(low, high)

    def count_within(self, ranges: Mapping[str, tuple[int, int]]) -> tuple[int, int]:
        """At least and at most how many architectures cost within all these ranges; the same, and exact, for one range
        as `count` is, and for several unless what they leave is rounded."""
        if len(ranges) == 1:
            ((name, (low, high)),) = ranges.items()
            return self.count(name, low, high)
        above = self._rooms(ranges, MANY)
        return (self._rooms(ranges, MANY, up=False).count if above.rounded else above.count), above.count

    def forget(self) -> None:
        """Drop what was worked out for ranges: who asks for ever new ones keeps none of them."""
        self._followed.clear()
        self._distributions.clear()

    def draw(self, ranges: Mapping[str, tuple[int, int]], n: int, rng: np.random.Generator) -> Codes:
        """`n` architectures, uniformly among a few more than cost within all these ranges, none of those left out."""
        return self._rooms(ranges, FEW).sample(n, rng)

    def _rooms(self, ranges: Mapping[str, tuple[int, int]], entries: int, up: bool = True) -> Rooms:
        question = (tuple(ranges.items()), entries, up)
        if question not in self._followed:
            limits = []
            for i, (name, (low, high)) in enumerate(ranges.items()):
                limits.append(Limit(i, 1, high))
                if low > self.extremes(name)[0].value:
                    limits.append(Limit(i, -1, -low))
            self._followed[question] = Rooms(self.strides(*ranges), limits, entries, up)
        return self._followed[question]

    def followed(self, ranges: Mapping[str, tuple[int, int]]) -> bool:
        """Whether all architectures within ranges can be followed, to be drawn or counted."""
        try:
            if ranges:
                self._rooms(ranges, FEW)
        except ArchError as error:
            _entangled(error)
            return False
        return True

    def some_within(self, ranges: Mapping[str, tuple[int, int]]) -> bool:
        """Whether there are architectures that cost within all these ranges; where that is rounded, or cannot
        be followed, there may be none all the same."""
        return all(self.some(name, *pair) for name, pair in ranges.items()) and (
            len(ranges) == 1 or not self.followed(ranges) or self._rooms(ranges, FEW).count > 0
        )

    def some(self, name: str, low: int, high: int) -> bool:
        """Whether there are architectures that cost from `low` to `high`; where they cannot be counted, there may be
        none all the same."""
        least, greatest = self.extremes(name)
        if high < least.bound or low > greatest.bound or low > high:
            return False
        if low <= least.value <= high or low <= greatest.value <= high:
            return True
        try:
            return self.count(name, low, high)[1] > 0
        except ArchError as error:
            _entangled(error)
            return True

    def every(self, name: str, low: int, high: int) -> bool:
        """Whether it is proved that all architectures cost from `low` to `high`."""
        least, greatest = self.extremes(name)
        return low <= least.bound and greatest.bound <= high

    def nearest(self, name: str, low: int, high: int) -> int:
        """The cost nearest to a range."""
        least, greatest = (one.value for one in self.extremes(name))
        if high < least:
            return least
        if low > greatest:
            return greatest
        everything = self.distribution(name, least, greatest)
        around = [value for value in (everything.last(low), everything.first(high)) if value is not None]
        return min(around, key=lambda value: max(low - value, value - high))

    def quantiles(self, name: str, fractions: Sequence[float]) -> list[int]:
        """The least costs that these fractions of all architectures do not exceed; rounded where there are many."""
        least, greatest = (one.bound for one in self.extremes(name))
        return self.distribution(name, least, greatest, SHOWN).quantiles(fractions)


def _entangled(error: ArchError) -> None:
    """Raise an error again, unless it says that tables, states or steps are too many."""
    if error.diagnostics[0].code not in ("A1601", "A1602", TOO_MUCH):
        raise error


def _there(found: Extreme | None) -> Extreme:
    if found is None:
        raise fail("A0510", "no architecture satisfies the constraints")
    return found

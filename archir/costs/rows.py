"""Costs of rows of outcomes where tables would be too large: each value is followed along its diagram.

What takes part in an architecture is found along the graph, row by row, where the conditions are too large to be told.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import TypeAlias

from archir.costs.sums import Term, Terms, depends, factors, greatest
from archir.costs.tables import ROWS, Codes, Numbers
from archir.diagnostics.errors import fail
from archir.diagnostics.work import afford, spend
from archir.diagrams.cases import Value, varies
from archir.ir.graph import Graph, NodeId
from archir.ir.structure import Select
from archir.passes.specialize import specialize
from archir.utils.arrays import NDArray, np

Flags: TypeAlias = "NDArray[np.bool_]"
CELLS_A_UNIT = 256
"""Rows times nodes that are costed for a unit of work."""
WORK_A_NODE = 40
"""Units of work that specialising a node and costing it takes."""


class Followed:
    """A diagram of integers as arrays: for each of its cases, where the outcomes of its choice lead."""

    def __init__(self, value: Value, order: Mapping[str, int]) -> None:
        cases: dict[Value, int] = {}
        leaves: dict[int, int] = {}
        stack = [value]
        while stack:
            one = stack.pop()
            if varies(one) and one not in cases:
                cases[one] = 0
                stack.extend(branch for branch in one.branches if varies(branch))
        ordered = sorted(cases, key=lambda one: one.choice.order)
        starts = np.cumsum([0, *(one.choice.outcomes for one in ordered)])
        cases = {one: int(start) for one, start in zip(ordered, starts, strict=False)}

        def place(branch: Value) -> int:
            if varies(branch):
                return cases[branch]
            if abs(branch) >= 2**62:
                raise fail("A1601", "a cost of this space does not fit into 64 bits")
            return -1 - leaves.setdefault(branch, len(leaves))

        self.after = np.array([place(branch) for one in ordered for branch in one.branches], np.int64)
        self.first = place(value)
        self.leaves = np.array(list(leaves), np.int64)
        tested = {order[one.choice.path]: cases[one] for one in reversed(ordered)}
        firsts = sorted(tested.items(), key=lambda level: level[1])
        ends = [*(first for _, first in firsts), len(self.after)][1:]
        self.levels = {position: (first, end) for (position, first), end in zip(firsts, ends, strict=True)}
        """For the position of each choice that is tested, the numbers of the cases that test it: from, and up to."""

    def at(self, codes: Codes) -> Numbers:
        """The value for each row of outcomes; an inactive choice counts as its first outcome."""
        now = np.full(len(codes), self.first, np.int64)
        for position in self.levels:
            self.step(now, position, codes[:, position])
        found: Numbers = self.leaves[-1 - now]
        return found

    def step(self, now: Numbers, position: int, outcomes: NDArray[np.int16]) -> None:
        """Lead those of these numbers of cases on that test the choice at a position, by its outcomes."""
        first, end = self.levels.get(position, (0, 0))
        (rows,) = np.nonzero((now >= first) & (now < end))
        now[rows] = self.after[now[rows] + np.maximum(outcomes[rows], 0)]


class Sums:
    """Costs that are sums of terms. It takes the place of a table."""

    def __init__(self, terms: Mapping[str, Mapping[Term, int]], order: Mapping[str, int]) -> None:
        for one in terms.values():
            if sum(greatest(term) * abs(times) for term, times in one.items()) >= 2**62:
                raise fail("A1601", "a cost of this space does not fit into 64 bits")
        self.terms = terms
        self.order = order
        self.known: dict[Value, Followed] = {}

    def at(self, codes: Codes) -> Numbers:
        """The costs of each row of outcomes, a column each; exact."""
        total = np.zeros((len(codes), len(self.terms)), np.int64)
        for column, terms in enumerate(self.terms.values()):
            total[:, column] += self.total(terms, codes)
        return total

    def total(self, terms: Mapping[Term, int], codes: Codes) -> Numbers | int:
        """What terms add up to."""
        return sum(
            times * (prod(self._value(factor, codes) for factor in factors(term)) if depends(term) else int(term))
            for term, times in terms.items()
        )

    def _value(self, value: Value, codes: Codes) -> Numbers:
        """A diagram's values."""
        if value not in self.known:
            self.known[value] = Followed(value, self.order)
        return self.known[value].at(codes)


class Parts(Sums):
    """Costs that nodes add up to, each where it is needed; parameters of equal scopes count once."""

    def __init__(
        self,
        graph: Graph,
        owns: Mapping[str, Mapping[NodeId, Terms]],
        order: Mapping[str, int],
        bases: Mapping[str, int] | None = None,
    ) -> None:
        """`owns` has what a node costs where it is needed, `bases` what every network costs besides."""
        super().__init__({name: {(bases or {}).get(name, 0): 1} for name in owns}, order)
        self.graph, self.owns = graph, owns

    def at(self, codes: Codes) -> Numbers:
        """The costs of each row of outcomes, a column each; exact."""
        parts = [self._part(codes[start : start + ROWS]) for start in range(0, len(codes), ROWS)]
        return np.concatenate(parts) if parts else np.zeros((0, len(self.owns)), np.int64)

    def _part(self, codes: Codes) -> Numbers:
        work = len(codes) * len(self.graph) * len(self.owns) / CELLS_A_UNIT
        afford(work)
        spend(work)
        total = super().at(codes)
        counted: dict[str, Flags] = {}
        needed = self.needed(codes)
        for column, (name, owns) in enumerate(self.owns.items()):
            for number, terms in owns.items():
                if number in needed:
                    counts = needed[number]
                    scope = self.graph[number].scope
                    if name == "params" and scope:
                        before = counted.get(scope)
                        counted[scope] = counts if before is None else before | counts
                        counts = counts if before is None else counts & ~before
                    total[:, column] += self.total(terms, codes) * counts
        return total

    def needed(self, codes: Codes) -> dict[NodeId, Flags]:
        """For each node that some row needs, which do."""
        everywhere = np.ones(len(codes), bool)
        found: dict[NodeId, Flags] = dict.fromkeys(self.graph.outputs.values(), everywhere)
        found |= dict.fromkeys(self.graph.inputs.values(), everywhere)
        for number in reversed(list(self.graph)):
            if number not in found:
                continue
            op, operands = self.graph[number].op, self.graph.operands(number)
            chosen = None
            if isinstance(op, Select):
                chosen = np.array(op.cases)[np.maximum(codes[:, self.order[op.choice]], 0)]
            for position, operand in enumerate(operands):
                reads = found[number] if chosen is None else found[number] & (chosen == position)
                if operand in found:
                    found[operand] = found[operand] | reads
                elif reads.any():
                    found[operand] = reads
        return found


class Networks:
    """A cost of one architecture after another: that of the network that each stands for."""

    def __init__(self, graph: Graph, paths: Sequence[str], of: Callable[[Graph], int]) -> None:
        self.graph, self.paths, self.of = graph, paths, of

    def at(self, codes: Codes) -> Numbers:
        """The cost of each row of outcomes, in one column; exact."""
        different, places = np.unique(codes, axis=0, return_inverse=True)
        costs = np.array([self._cost(row) for row in different.tolist()], np.int64)
        return costs[places.reshape(-1)][:, None]

    def _cost(self, row: Sequence[int]) -> int:
        spend(WORK_A_NODE * len(self.graph))
        outcomes = {path: code for path, code in zip(self.paths, row, strict=True) if code >= 0}
        return self.of(specialize(self.graph, outcomes))

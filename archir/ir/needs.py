"""Which nodes are needed by an output, and under which condition."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Set
from functools import cached_property, reduce
from weakref import WeakKeyDictionary

from archir.diagnostics.work import current
from archir.diagrams.cases import Choice, EntangledError, Value, size, support, when
from archir.diagrams.conditions import both, either, hull
from archir.ir.graph import Graph, NodeId
from archir.ir.structure import Select

MOST_TOLD, A_NODE = 50_000, 50
"""Cases of the conditions that are told exactly, all together: so many, and as many for each node."""
MOST_FOLLOWED = 20
"""Outcomes on the ways to nodes that are followed for each node, where it is only to be told that it is needed."""
MOST_SEEN_THROUGH = 20_000
"""Nodes of a graph in which what every architecture needs is followed through choices."""
SHARE = 1 / 2
"""Of the work that is left, what telling them may take."""


class Needs(dict[NodeId, Value]):
    """The condition under which each node is needed by an output; nodes that never are, are missing.

    The conditions of nodes in `loose` are too large to be told: theirs hold wherever the node is needed, and may hold
    elsewhere.
    """

    def __init__(self) -> None:
        super().__init__()
        self.loose: set[NodeId] = set()


_known: WeakKeyDictionary[Graph, tuple[Hashable, Needs]] = WeakKeyDictionary()


def needs(graph: Graph, patiently: bool = False) -> Needs:
    """The conditions under which nodes are needed; if `patiently`, told exactly as long as any work is left."""
    state = len(graph), *graph.outputs.values(), *(id(decision.choice) for decision in graph.decisions.values())
    before = _known.get(graph)
    if before is None or before[0] != state or (patiently and before[1].loose):
        before = _known[graph] = state, _Needing(graph, patiently).result()
    return before[1]


def surely_needed(graph: Graph) -> Set[NodeId] | None:
    """The nodes that are needed for some outcomes, without telling for which; None where that cannot be found quickly.

    Outcomes that lead from an output to each node are enough. Only one way there is tried.
    """
    ways: dict[NodeId, Mapping[str, int]] = {number: {} for number in graph.outputs.values()}
    missed: set[NodeId] = set()
    left = MOST_FOLLOWED * len(graph)
    for number in reversed(list(graph)):
        if number not in ways:
            if number in missed:
                return None
            continue
        op, way = graph[number].op, ways[number]
        for position, operand in enumerate(graph.operands(number)):
            if operand in ways or (isinstance(op, Select) and position not in op.cases):
                continue
            if not isinstance(op, Select) or (op.choice in way and op.cases[way[op.choice]] == position):
                ways[operand] = way
            elif op.choice in way:
                missed.add(operand)
            else:
                left -= len(way)
                if left < 0:
                    return None
                ways[operand] = {**way, op.choice: op.cases.index(position)}
    return ways.keys()


def always_needed(graph: Graph) -> set[NodeId]:
    """Nodes that outputs read whatever is chosen; of a large graph, only those that are not behind any choice."""
    if len(graph) > MOST_SEEN_THROUGH:
        always = set(graph.outputs.values())
        for number in reversed(list(graph)):
            if number in always and not isinstance(graph[number].op, Select):
                always.update(graph.operands(number))
        return always
    reads: dict[NodeId, int] = {}  # what is read in any case, a bit for each node
    for number in graph:
        below = [reads[operand] for operand in graph.operands(number)]
        if isinstance(graph[number].op, Select):
            together = reduce(lambda one, other: one & other, below)
        else:
            together = reduce(lambda one, other: one | other, below, 0)
        reads[number] = together | 1 << number
    read = reduce(lambda one, other: one | other, (reads[number] for number in graph.outputs.values()), 0)
    return {number for number in graph if read >> number & 1}


class _Needing:
    def __init__(self, graph: Graph, patiently: bool) -> None:
        self.graph, self.patiently = graph, patiently
        self.found = Needs()
        self.sizes: dict[Value, int] = {}
        self._hulls: dict[Value, Value] = {}
        self.told = 0
        self.until = current().left * (1 - SHARE)

    def result(self) -> Needs:
        for output in self.graph.outputs.values():
            self.found[output] = True
        for number in reversed(list(self.graph)):
            if number in self.found:
                op = self.graph[number].op
                for position, operand in enumerate(self.graph.operands(number)):
                    outcomes = [o for o, p in enumerate(op.cases) if p == position] if isinstance(op, Select) else None
                    self._read(number, operand, op.choice if isinstance(op, Select) else "", outcomes)
        if self.found.loose:
            always = always_needed(self.graph)
            self.found |= dict.fromkeys(always, True)
            self.found.loose -= always
        return self.found

    def _read(self, number: NodeId, operand: NodeId, path: str, outcomes: list[int] | None) -> None:
        """`operand` is needed where `number` is, and the choice has one of these outcomes."""
        needed, loose = self.found[number], self.found.loose
        known = self.found.get(operand, False)
        if known is True:
            return
        if needed is True and outcomes is None and number not in loose:
            self.found[operand] = True
            loose.discard(operand)
            return
        reads = True if outcomes is None else when(self.graph.decisions[path].choice, outcomes)
        few = current().left >= self.until and self.told < MOST_TOLD + A_NODE * len(self.graph)
        if operand not in loose and number not in loose and (few or self.patiently):
            try:
                self._note(operand, either(known, both(needed, reads)))
                return
            except EntangledError:
                pass
        weak = self._loosely(lambda: both(self._loosened(needed), reads))
        if weak is not False:
            loose.add(operand)
            self.found[operand] = self._loosely(lambda: either(self._loosened(known), weak))

    def _note(self, operand: NodeId, condition: Value) -> None:
        if condition is not False:
            if condition not in self.sizes:
                self.sizes[condition] = size(condition)
            self.told += self.sizes[condition]
            self.found[operand] = condition

    def _loosely(self, rule: Callable[[], Value]) -> Value:
        try:
            return self._loosened(rule())
        except EntangledError:
            return True

    def _loosened(self, condition: Value) -> Value:
        """A weaker condition, of choices that attributes depend on: of what rules are asked, nothing else decides.

        Where not even that leaves enough work for what comes after, it always holds.
        """
        if current().left < self.until / 2:
            return condition is not False
        if condition not in self._hulls:
            self._hulls[condition] = hull(condition, self._telling)
        return self._hulls[condition]

    @cached_property
    def _telling(self) -> frozenset[Choice]:
        return frozenset(c for number in self.graph for c in support(*self.graph[number].op.varied.values()))

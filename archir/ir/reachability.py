"""Reachability: which nodes the outputs need, and under which condition on the choices."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Set
from functools import cached_property, reduce
from weakref import WeakKeyDictionary

from archir.diagnostics.work import current_budget
from archir.diagrams.conditions import conjoin, disjoin, project
from archir.diagrams.diagram import Choice, DiagramSizeError, Value, diagram_size, outcome_in, support
from archir.ir.graph import Graph, NodeId
from archir.ir.structure import Select

MAX_EXACT_SIZE, MAX_EXACT_SIZE_PER_NODE = 50_000, 50
"""Maximum total size of the exact conditions of a graph, in diagram nodes.

The maximum is `MAX_EXACT_SIZE` plus `MAX_EXACT_SIZE_PER_NODE` for each node of the graph.
"""
MAX_OUTCOMES_PER_NODE = 20
"""Maximum number of outcomes that `reachable_nodes` copies along its paths, per node of the graph."""
MAX_SELECT_NODES = 20_000
"""Maximum size of a graph, in nodes, for which `always_reachable` analyses `select` nodes."""
WORK_FRACTION = 1 / 2
"""Fraction of the units left in the work budget that the computation of exact conditions may use."""


class Reachability(dict[NodeId, Value]):
    """The condition under which an output needs each node; nodes that are never needed are missing.

    For nodes in `overapproximated` the exact condition exceeded the size limit: the stored one holds wherever the node
    is needed, but may also hold where the node is not needed.
    """

    def __init__(self) -> None:
        super().__init__()
        self.overapproximated: set[NodeId] = set()


_cache: WeakKeyDictionary[Graph, tuple[Hashable, Reachability]] = WeakKeyDictionary()


def reachability_state(graph: Graph) -> Hashable:
    """Return a cache key made of what conditions depend on and callers may change: nodes, outputs and choices."""
    return len(graph), *graph.outputs.values(), *(id(decision.choice) for decision in graph.decisions.values())


def reachability_conditions(graph: Graph, exact: bool = False) -> Reachability:
    """Return the conditions under which the nodes of a graph are needed (cached by graph).

    Conditions are exact as long as they are small. With `exact`, they stay exact until the work budget is spent or a
    diagram exceeds its size limit.
    """
    state = reachability_state(graph)
    cached = _cache.get(graph)
    if cached is None or cached[0] != state or (exact and cached[1].overapproximated):
        cached = _cache[graph] = state, _ReachabilityAnalysis(graph, exact).run()
    return cached[1]


def reachable_nodes(graph: Graph) -> Set[NodeId] | None:
    """Return the nodes that some architecture needs, or None if this cannot be decided quickly.

    A node is needed if some outcomes of the choices connect an output to it. The function searches for such a path
    without computing conditions, and tries only one path for each node.
    """
    assignments: dict[NodeId, Mapping[str, int]] = {number: {} for number in graph.outputs.values()}
    undecided: set[NodeId] = set()
    outcomes_left = MAX_OUTCOMES_PER_NODE * len(graph)
    for number in reversed(list(graph)):
        if number not in assignments:
            if number in undecided:
                return None
            continue
        op, assignment = graph[number].op, assignments[number]
        for position, operand in enumerate(graph.operands(number)):
            if operand in assignments or (isinstance(op, Select) and position not in op.cases):
                continue
            if not isinstance(op, Select) or (op.choice in assignment and op.cases[assignment[op.choice]] == position):
                assignments[operand] = assignment
            elif op.choice in assignment:
                undecided.add(operand)
            else:
                outcomes_left -= len(assignment)
                if outcomes_left < 0:
                    return None
                assignments[operand] = {**assignment, op.choice: op.cases.index(position)}
    return assignments.keys()


def always_reachable(graph: Graph) -> set[NodeId]:
    """Return nodes that every architecture needs.

    In a graph of more than `MAX_SELECT_NODES` nodes, needed nodes that are connected to the outputs only through
    `select` nodes are missing from the result.
    """
    if len(graph) > MAX_SELECT_NODES:
        always = set(graph.outputs.values())
        for number in reversed(list(graph)):
            if number in always and not isinstance(graph[number].op, Select):
                always.update(graph.operands(number))
        return always
    reads: dict[NodeId, int] = {}  # the nodes that each node reads whatever is chosen, as a bit set
    for number in graph:
        operand_reads = [reads[operand] for operand in graph.operands(number)]
        if isinstance(graph[number].op, Select):
            read_by_node = reduce(lambda left, right: left & right, operand_reads)
        else:
            read_by_node = reduce(lambda left, right: left | right, operand_reads, 0)
        reads[number] = read_by_node | 1 << number
    output_reads = reduce(lambda left, right: left | right, (reads[number] for number in graph.outputs.values()), 0)
    return {number for number in graph if output_reads >> number & 1}


def has_constants(graph: Graph) -> bool:
    """Return whether some operation's result does not depend on the values of its operands, as that of `zero`."""
    return any(graph[number].op.constant and graph.operands(number) for number in graph)


def conditions_of_reads(graph: Graph, reads: Mapping[tuple[NodeId, int], Value]) -> Reachability:
    """Return the conditions under which an output needs each node, if nodes do not always read their operands.

    `reads` maps nodes and positions of operands to the conditions under which the node reads this operand.
    """
    return _ReachabilityAnalysis(graph, exact=False, reads=reads).run()


class _ReachabilityAnalysis:
    """Computation of reachability conditions, in one backward pass over a graph.

    For `reads`, see `conditions_of_reads`.
    """

    def __init__(self, graph: Graph, exact: bool, reads: Mapping[tuple[NodeId, int], Value] | None = None) -> None:
        self.graph, self.exact, self._reads = graph, exact, reads or {}
        self.reachability = Reachability()
        self.sizes: dict[Value, int] = {}
        self._hulls: dict[Value, Value] = {}
        self.exact_size = 0
        self.reserved_work = current_budget().left * (1 - WORK_FRACTION)

    def run(self) -> Reachability:
        for output in self.graph.outputs.values():
            self.reachability[output] = True
        for number in reversed(list(self.graph)):
            if number in self.reachability:
                for position, operand in enumerate(self.graph.operands(number)):
                    self._add_consumer(number, operand, self._reading_condition(number, position))
        if self.reachability.overapproximated and not self._reads:
            always = always_reachable(self.graph)
            self.reachability |= dict.fromkeys(always, True)
            self.reachability.overapproximated -= always
        return self.reachability

    def _reading_condition(self, number: NodeId, position: int) -> Value:
        """Return the condition under which a node, if it is needed, reads the operand at `position`."""
        op = self.graph[number].op
        if isinstance(op, Select):
            outcomes = [outcome for outcome, chosen in enumerate(op.cases) if chosen == position]
            return outcome_in(self.graph.decisions[op.choice].choice, outcomes)
        return self._reads.get((number, position), True)

    def _add_consumer(self, number: NodeId, operand: NodeId, reads: Value) -> None:
        """Record that node `number` reads `operand` where `reads` holds, which adds to where `operand` is needed."""
        condition, loose = self.reachability[number], self.reachability.overapproximated
        previous = self.reachability.get(operand, False)
        if previous is True:
            return
        if condition is True and reads is True and number not in loose:
            self.reachability[operand] = True
            loose.discard(operand)
            return
        is_small = (
            current_budget().left >= self.reserved_work
            and self.exact_size < MAX_EXACT_SIZE + MAX_EXACT_SIZE_PER_NODE * len(self.graph)
        )
        if operand not in loose and number not in loose and (is_small or self.exact):
            try:
                self._record(operand, disjoin(previous, conjoin(condition, reads)))
                return
            except DiagramSizeError:
                pass
        weakened = self._overapproximate(lambda: conjoin(self._weaken(condition), reads))
        if weakened is not False:
            loose.add(operand)
            self.reachability[operand] = self._overapproximate(lambda: disjoin(self._weaken(previous), weakened))

    def _record(self, operand: NodeId, condition: Value) -> None:
        if condition is not False:
            if condition not in self.sizes:
                self.sizes[condition] = diagram_size(condition)
            self.exact_size += self.sizes[condition]
            self.reachability[operand] = condition

    def _overapproximate(self, compute: Callable[[], Value]) -> Value:
        """Return the condition that `compute` returns, weakened by `_weaken`; True if it exceeds the size limit."""
        try:
            return self._weaken(compute())
        except DiagramSizeError:
            return True

    def _weaken(self, condition: Value) -> Value:
        """Return the projection of a condition onto the choices that attributes depend on.

        Rules depend on no other choices.

        To save time, returns True for every satisfiable condition once less than half of the reserved work is left.
        """
        if current_budget().left < self.reserved_work / 2:
            return condition is not False
        if condition not in self._hulls:
            self._hulls[condition] = project(condition, self._attribute_choices)
        return self._hulls[condition]

    @cached_property
    def _attribute_choices(self) -> frozenset[Choice]:
        return frozenset(
            c for number in self.graph for c in support(*self.graph[number].op.varying_attributes.values())
        )


def approximate_reachability(graph: Graph) -> Reachability:
    """Return over-approximated reachability conditions: those under which the program creates each node.

    This is fast however many choices interact. Only nodes that every architecture needs have an exact condition.
    """
    always = always_reachable(graph)
    reachability = Reachability()
    for number in _read_by_outputs(graph):
        reachability[number] = True if number in always else graph.creation_conditions.get(number, True)
        if number not in always:
            reachability.overapproximated.add(number)
    return reachability


def _read_by_outputs(graph: Graph) -> list[NodeId]:
    """Return the nodes from which some alternatives of choices give a path to an output, in graph order."""
    reached = set(graph.outputs.values())
    for number in reversed(list(graph)):
        if number in reached:
            reached.update(graph.operands(number))
    return [number for number in graph if number in reached]

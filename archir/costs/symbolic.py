"""Costs of a space's nodes as functions of its choices.

Each node that some architecture needs contributes a value, which depends on the few choices that determine the node's
attributes, its operands' types, and whether it is needed. Totals are sums of such values. Peak memory is the maximum,
over the nodes, of the bytes that are alive while the node runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from archir.costs.sums import Terms, expand_terms, restrict_terms, symbols_to_polynomials
from archir.diagnostics.errors import exceeds
from archir.diagrams.conditions import conjoin, disjoin, if_else, negate
from archir.diagrams.diagram import Value, outcome_in
from archir.diagrams.lifting import lift
from archir.ir.graph import Graph, NodeId
from archir.ir.op import Op
from archir.ir.reachability import approximate_reachability, has_constants, reachability_conditions
from archir.ir.structure import Input, Select
from archir.ir.types import TensorType
from archir.ir.typing import infer, infer_reachable, lift_rule
from archir.passes.cost import ADDITIVE_COSTS, cost_of, element_bytes
from archir.passes.fold import execution_conditions


@dataclass(frozen=True)
class Rule:
    """Rule that computes an additive cost other than the built-in ones."""

    op_cost: Callable[..., int]
    """Cost of an operation, called as `op_cost(op, *operand_types)`."""
    base: int = 0
    """Constant cost of every network."""
    share_key: Callable[[Graph, NodeId], tuple[Hashable, tuple[NodeId, ...]]] | None = None
    """Function that returns a node's sharing key: a hashable value and some operands. None: no shared costs.

    Nodes share a cost if the values of their keys are equal and the operands of their keys are the same nodes. The cost
    counts once, at the first of these nodes that an architecture contains.
    """
    simplified: bool = False
    """Whether operations cost nothing that simplified networks do not execute (see `execution_conditions`)."""
    tokens: int | None = None
    """Number of tokens in the network's input at which the cost is computed; None for the network's own number."""


class SymbolicCosts:
    """Costs of a graph's nodes: `total_terms` has the terms of totals, `live_bytes` the bytes alive at each node.

    With `approximate`, the condition under which a node is needed is over-approximated by the condition under which the
    program creates it.
    """

    def __init__(self, graph: Graph, approximate: bool = False) -> None:
        """Infer the types and reachability conditions of all nodes; for `approximate`, see the class."""
        self.graph = graph
        needed = approximate_reachability(graph) if approximate else reachability_conditions(graph)
        self.overapproximated = needed.overapproximated - set(graph.inputs.values())
        """Nodes with an over-approximated condition: a node may be needed where it holds, but not elsewhere."""
        self.types = infer_reachable(graph, needed) if approximate else infer(graph)
        self.needed = {number: condition for number, condition in needed.items() if number in self.types}
        self.needed |= dict.fromkeys(graph.inputs.values(), True)
        self._terms_cache: dict[tuple[Op, tuple[TensorType, ...], TensorType, Value], tuple[Terms, ...]] = {}

    def total_terms(self, lower_bound: bool = False) -> Mapping[str, Terms]:
        """Return the terms that add up to each additive cost.

        If the conditions of some nodes are over-approximated, the sum is an upper bound; with `lower_bound`, these
        nodes are left out, and the sum is a lower bound.
        """
        totals: dict[str, Terms] = {name: Counter() for name in ADDITIVE_COSTS}
        for number, costs in self.contributions():
            if not lower_bound or number not in self.overapproximated:
                for name, terms in costs.items():
                    totals[name].update(terms)
        return totals

    def own_terms(self) -> dict[str, dict[NodeId, Terms]]:
        """Return, for each additive cost, each node's terms where the node is needed.

        The cost of shared weights is included at every node that uses them.
        """
        own: dict[str, dict[NodeId, Terms]] = {name: {} for name in ADDITIVE_COSTS}
        for number in self._executed_nodes():
            for name, terms in zip(ADDITIVE_COSTS, self._node_terms(number), strict=True):
                if terms:
                    own[name][number] = terms
        return own

    def contributions(self) -> Iterator[tuple[NodeId, dict[str, Terms]]]:
        """Yield each node with its non-zero terms of each additive cost; shared weights count at the first needed
        node."""
        counted: dict[str, Value] = {}
        for number in self._executed_nodes():
            scope, needed = self.graph[number].scope, self.needed[number]
            costs = dict(zip(ADDITIVE_COSTS, self._node_terms(number), strict=True))
            if costs["params"]:
                before = counted.get(scope, False)
                counted[scope] = disjoin(before, needed)
                if before is not False:
                    costs["params"] = restrict_terms(costs["params"], conjoin(needed, negate(before)))
            yield number, {name: terms for name, terms in costs.items() if terms}

    def rule_costs(self, rule: Rule) -> Iterator[tuple[NodeId, Value]]:
        """Yield each node with its contribution to a rule's cost; shared costs count at the first needed node."""
        if rule.share_key is None:
            yield from self.own_rule_costs(rule)
            return
        counted: dict[Hashable, Value] = {}
        for number, value in self.own_rule_costs(rule):
            counts: Value = False
            for shared, condition in self._sharing_keys(*rule.share_key(self.graph, number)) if value != 0 else ():
                here, before = conjoin(self.needed[number], condition), counted.get(shared, False)
                counts = disjoin(counts, conjoin(here, negate(before)))
                counted[shared] = disjoin(before, here)
            yield number, if_else(counts, value, 0)

    def _sharing_keys(self, value: Hashable, operands: Sequence[NodeId]) -> Iterator[tuple[Hashable, Value]]:
        """Yield the possible sharing keys of a node, each with the condition under which it is the key.

        A key consists of `value` and the nodes that the operands actually come from, after selects are resolved.
        """
        for sources in product(*map(self._sources, operands)):
            condition: Value = True
            for _, source_condition in sources:
                condition = conjoin(condition, source_condition)
            yield (value, *(source for source, _ in sources)), condition

    def own_rule_costs(self, rule: Rule) -> Iterator[tuple[NodeId, Value]]:
        """Yield each node with its own cost by a rule where the node is needed; shared costs count at every node."""
        memo: dict[tuple[Op, tuple[TensorType, ...], Value], Value] = {}
        conditions = self._execution_conditions() if rule.simplified else self.needed
        for number in self._executed_nodes():
            op, needed = self.graph[number].op, conditions.get(number, False)
            if not isinstance(op, Input) and needed is not False:
                operands = tuple([self.types[operand] for operand in self.graph.operands(number)])
                key = op, operands, needed
                if key not in memo:
                    memo[key] = if_else(
                        needed, lift_rule(rule.op_cost, op, operands, needed, self.graph.assumptions), 0
                    )
                yield number, memo[key]

    def _execution_conditions(self) -> Mapping[NodeId, Value]:
        """Return the conditions under which simplified networks execute nodes. Raises ArchError (A1602)."""
        if not has_constants(self.graph):
            return self.needed
        conditions = execution_conditions(self.graph)
        if self.overapproximated or conditions.overapproximated:
            raise exceeds("A1602", "the operations that a network executes depend on too many choices at once")
        return conditions

    def _executed_nodes(self) -> Iterator[NodeId]:
        """Yield the nodes that are executed: all needed nodes except selects, which only pass on an operand."""
        for number in self.graph:
            if number in self.needed and not isinstance(self.graph[number].op, Select):
                yield number

    def _node_terms(self, number: NodeId) -> tuple[Terms, ...]:
        """Return the terms that a node adds to each additive cost; the terms are 0 where the node is not needed."""
        op, needed = self.graph[number].op, self.needed[number]
        operands = tuple([self.types[operand] for operand in self.graph.operands(number)])
        key = (op, operands, self.types[number], needed)
        if key not in self._terms_cache:

            def summed(op: Op, *types: TensorType) -> tuple[int, ...]:
                *operands, result = types
                op_cost = cost_of(op, operands, result)
                return tuple([getattr(op_cost, name) for name in ADDITIVE_COSTS])

            types = (*operands, self.types[number])
            costs = if_else(
                needed,
                lift_rule(summed, op, types, needed, self.graph.assumptions, symbols_to_polynomials, 0),
                _ZERO_COSTS,
            )
            kinds: dict[Value, int] = {}
            kind = lift(lambda leaf: kinds.setdefault(leaf, len(kinds)), costs)
            cost_tuples = list(kinds)
            self._terms_cache[key] = tuple(
                expand_terms(lift(lambda kind, i=i: cost_tuples[kind][i], kind)) for i in range(len(ADDITIVE_COSTS))
            )
        return self._terms_cache[key]

    def live_bytes(self, eight_bit: bool = False) -> Iterator[Terms]:
        """Yield, for each node, the terms of the bytes that are alive while it runs.

        Where the node does not run, these are the bytes that stay alive after the previous node. With `eight_bit`,
        results are stored in 8 bits, and an operation that can run in place overwrites an operand that no other
        operation reads.
        """
        readers = self._readers()
        sizes: dict[NodeId, tuple[Value, Value]] = {}  # the size of a result, and its bytes that are alive at this step
        terms: Terms = Counter()

        def dropped(numbers: Iterable[NodeId], after: NodeId) -> None:
            """Free the results of nodes wherever no node after `after` reads them."""
            for result in numbers:
                size, live = sizes[result]
                pending = readers[result]
                while pending and pending[-1][0] <= after:
                    pending.pop()
                still_live = if_else(pending[-1][1] if pending else False, size, 0)
                terms[live] -= 1
                terms[still_live] += 1
                sizes[result] = size, still_live

        for number in self._executed_nodes():
            result_bytes = self._result_bytes(number, eight_bit)
            read = [x for operand in self.graph.operands(number) for x, _ in self._sources(operand)]
            if eight_bit and self.graph[number].op.in_place:
                dropped(dict.fromkeys(read), number)
            terms[result_bytes] += 1
            terms[0] = 0
            yield +terms
            sizes[number] = result_bytes, result_bytes
            dropped(dict.fromkeys([number, *read]), number)

    def _result_bytes(self, number: NodeId, eight_bit: bool = False) -> Value:
        """Return the bytes of a node's result; 0 where the node is not needed."""
        x = self.types[number]
        size: Value = element_bytes(x.dtype, eight_bit)
        for dim in x.dims:
            size = lift(_multiply, size, dim)
        return if_else(self.needed[number], size, 0)

    def _readers(self) -> dict[NodeId, list[tuple[NodeId, Value]]]:
        """Return, for each executed node, its readers, i.e. nodes that read its result, the last one first.

        A reader may read the result through selects. Each comes with the condition that this reader or a later one
        reads the result. Outputs count as read after all nodes.
        """
        readers: dict[NodeId, list[tuple[NodeId, Value]]] = {number: [] for number in self._executed_nodes()}
        end = max(self.graph, default=0) + 1
        reads = [(end, operand, True) for operand in self.graph.outputs.values()]
        for number in reversed(list(readers)):
            reads += [(number, operand, self.needed[number]) for operand in self.graph.operands(number)]
        for number, operand, needed in reads:
            for source, condition in self._sources(operand):
                read_later = readers[source][-1][1] if readers[source] else False
                readers[source].append((number, disjoin(read_later, conjoin(needed, condition))))
        return readers

    def _sources(self, number: NodeId) -> list[tuple[NodeId, Value]]:
        """Return the nodes that a node may stand for after selects are resolved, each with its condition."""
        op = self.graph[number].op
        if not isinstance(op, Select):
            return [(number, True)]
        choice = self.graph.decisions[op.choice].choice
        sources: dict[NodeId, Value] = {}
        for position, operand in enumerate(self.graph.operands(number)):
            outcomes = [outcome for outcome, case in enumerate(op.cases) if case == position]
            for source, condition in self._sources(operand) if outcomes else ():  # no outcome selects the operand
                sources[source] = disjoin(sources.get(source, False), conjoin(outcome_in(choice, outcomes), condition))
        return list(sources.items())


_ZERO_COSTS = (0,) * len(ADDITIVE_COSTS)


def _multiply(left: int, right: int) -> int:
    return left * right


def network_cost(network: Graph, rule: Rule) -> int:
    """Return the cost, by a rule, of a network without choices at the network's own sequence length."""
    return rule.base + sum(int(value) for _, value in SymbolicCosts(network).rule_costs(rule))

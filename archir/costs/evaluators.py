"""Evaluators that compute costs row by row, for spaces whose cost tables would be too large.

For each row of outcomes, the decision diagrams of the costs are followed. If the conditions under which nodes are
needed are too large, the needed nodes are found for each row by walking the graph from its outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from archir.costs.sums import Term, Terms, factors, is_varying, max_magnitude
from archir.costs.tables import BLOCK_ROWS, MAX_SUM, Codes, Numbers, too_large_cost
from archir.diagnostics.work import require_work, spend
from archir.diagrams.diagram import Value, varies
from archir.ir.graph import Graph, NodeId
from archir.ir.structure import Select
from archir.passes.specialize import specialize

Flags: TypeAlias = NDArray[np.bool_]
CELLS_PER_UNIT = 256
"""Number of cells (rows times nodes) that are evaluated for one work unit."""
WORK_PER_NODE = 40
"""Work units for specialising one node and computing its cost."""


class FlatDiagram:
    """Decision diagram of integers as arrays: for each inner node, the successor for each outcome of its choice."""

    def __init__(self, value: Value, order: Mapping[str, int]) -> None:
        """Flatten the diagram `value`; `order` maps each choice to its position.

        Raises ArchError (A1601) if a value exceeds 64 bits.
        """
        node_index: dict[Value, int] = {}
        leaves: dict[int, int] = {}
        stack = [value]
        while stack:
            node = stack.pop()
            if varies(node) and node not in node_index:
                node_index[node] = 0
                stack.extend(branch for branch in node.branches if varies(branch))
        ordered = sorted(node_index, key=lambda node: node.choice.order)
        starts = np.cumsum([0, *(node.choice.outcome_count for node in ordered)])
        node_index = {node: int(start) for node, start in zip(ordered, starts, strict=False)}

        def place(branch: Value) -> int:
            """Return the index of an inner node in `successors`; -1 - i for leaf i."""
            if varies(branch):
                return node_index[branch]
            if abs(branch) >= MAX_SUM:
                raise too_large_cost()
            return -1 - leaves.setdefault(branch, len(leaves))

        self.successors = np.array([place(branch) for node in ordered for branch in node.branches], np.int64)
        self.root = place(value)
        self.leaves = np.array(list(leaves), np.int64)
        first_by_position = {order[node.choice.path]: node_index[node] for node in reversed(ordered)}
        firsts = sorted(first_by_position.items(), key=lambda level: level[1])
        level_ends = [*(first for _, first in firsts), len(self.successors)][1:]
        self.levels = {position: (first, end) for (position, first), end in zip(firsts, level_ends, strict=True)}
        """Maps the position of each tested choice to the index range of its nodes: first, end (exclusive)."""

    def at(self, codes: Codes) -> Numbers:
        """Return the value for each row of outcomes; for an inactive choice, its first outcome is used."""
        nodes = np.full(len(codes), self.root, np.int64)
        for position in self.levels:
            self.advance(nodes, position, codes[:, position])
        values: Numbers = self.leaves[-1 - nodes]
        return values

    def advance(self, nodes: Numbers, position: int, outcomes: NDArray[np.int16]) -> None:
        """Move the rows that are at nodes testing the choice at `position` to the successors.

        `nodes` is updated in place.
        """
        first, end = self.levels.get(position, (0, 0))
        (rows,) = np.nonzero((nodes >= first) & (nodes < end))
        nodes[rows] = self.successors[nodes[rows] + np.maximum(outcomes[rows], 0)]


class TermSums:
    """Evaluator of costs that are sums of terms; it has the interface of a `Table`."""

    def __init__(self, terms: Mapping[str, Mapping[Term, int]], order: Mapping[str, int]) -> None:
        """Raises ArchError (A1601) if a sum may exceed 64 bits."""
        for cost_terms in terms.values():
            if sum(max_magnitude(term) * abs(times) for term, times in cost_terms.items()) >= MAX_SUM:
                raise too_large_cost()
        self.terms = terms
        self.order = order
        self.diagrams: dict[Value, FlatDiagram] = {}

    def at(self, codes: Codes) -> Numbers:
        """Return the exact costs [n, costs] of rows of outcomes."""
        total = np.zeros((len(codes), len(self.terms)), np.int64)
        for column, terms in enumerate(self.terms.values()):
            total[:, column] += self.total(terms, codes)
        return total

    def total(self, terms: Mapping[Term, int], codes: Codes) -> Numbers | int:
        """Return the sum of terms for each row of outcomes [n]; a single integer if no term depends on choices."""
        return sum(
            times * (prod(self._value(factor, codes) for factor in factors(term)) if is_varying(term) else int(term))
            for term, times in terms.items()
        )

    def _value(self, value: Value, codes: Codes) -> Numbers:
        """Return a diagram's value for each row of outcomes."""
        if value not in self.diagrams:
            self.diagrams[value] = FlatDiagram(value, self.order)
        return self.diagrams[value].at(codes)


class NodeSums(TermSums):
    """Evaluator of costs that are sums over the nodes that each row needs; weights count once per scope."""

    def __init__(
        self,
        graph: Graph,
        owns: Mapping[str, Mapping[NodeId, Terms]],
        order: Mapping[str, int],
        bases: Mapping[str, int] | None = None,
    ) -> None:
        """Initialize the evaluator.

        `owns` has the costs that each node itself contributes if it is needed; `bases` has the constant costs of every
        network.
        """
        super().__init__({name: {(bases or {}).get(name, 0): 1} for name in owns}, order)
        self.graph, self.owns = graph, owns

    def at(self, codes: Codes) -> Numbers:
        """Return the exact costs [n, costs] of rows of outcomes."""
        parts = [self._block_costs(codes[start : start + BLOCK_ROWS]) for start in range(0, len(codes), BLOCK_ROWS)]
        return np.concatenate(parts) if parts else np.zeros((0, len(self.owns)), np.int64)

    def _block_costs(self, codes: Codes) -> Numbers:
        """Return the costs of one block of rows. Raises WorkError if the work budget is exhausted."""
        work = len(codes) * len(self.graph) * len(self.owns) / CELLS_PER_UNIT
        require_work(work)
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
                        counted_before = counted.get(scope)
                        counted[scope] = counts if counted_before is None else counted_before | counts
                        counts = counts if counted_before is None else counts & ~counted_before
                    total[:, column] += self.total(terms, codes) * counts
        return total

    def needed(self, codes: Codes) -> dict[NodeId, Flags]:
        """Return, for each node that some row needs, a mask [n] of the rows that need it."""
        everywhere = np.ones(len(codes), bool)
        needing: dict[NodeId, Flags] = dict.fromkeys(self.graph.outputs.values(), everywhere)
        needing |= dict.fromkeys(self.graph.inputs.values(), everywhere)
        for number in reversed(list(self.graph)):
            if number not in needing:
                continue
            op, operands = self.graph[number].op, self.graph.operands(number)
            chosen = None
            if isinstance(op, Select):
                chosen = np.array(op.cases)[np.maximum(codes[:, self.order[op.choice]], 0)]
            for position, operand in enumerate(operands):
                reading = needing[number] if chosen is None else needing[number] & (chosen == position)
                if operand in needing:
                    needing[operand] = needing[operand] | reading
                elif reading.any():
                    needing[operand] = reading
        return needing


class PerNetworkCost:
    """Evaluator that computes a cost network by network: each row is specialised to its network."""

    def __init__(self, graph: Graph, paths: Sequence[str], network_cost: Callable[[Graph], int]) -> None:
        """`network_cost` returns the cost of a network; `paths` are the paths of the choices, in column order."""
        self.graph, self.paths, self.network_cost = graph, paths, network_cost

    def at(self, codes: Codes) -> Numbers:
        """Return the exact cost [n, 1] of rows of outcomes."""
        distinct, inverse = np.unique(codes, axis=0, return_inverse=True)
        costs = np.array([self._cost(row) for row in distinct.tolist()], np.int64)
        return costs[inverse.reshape(-1)][:, None]

    def _cost(self, row: Sequence[int]) -> int:
        """Return the cost of the network of one row."""
        spend(WORK_PER_NODE * len(self.graph))
        outcomes = {path: code for path, code in zip(self.paths, row, strict=True) if code >= 0}
        return self.network_cost(specialize(self.graph, outcomes))

"""Finds which weight scopes of two equal graphs correspond to each other."""

from __future__ import annotations

from archir.equivalence.algebra import FactTable
from archir.ir.graph import Graph, NodeId
from archir.ir.typing import Types, infer
from archir.ops.activation import Identity


def match_scopes(graph: Graph, other: Graph) -> dict[str, str] | None:
    """Map each scope with weights in `graph` to the corresponding scope in `other`.

    Returns None unless the graphs are equal node by node; identities and the order of commutative operands are
    ignored.
    """
    return _ScopeMatcher(graph, other).scopes()


class _ScopeMatcher:
    """Compares two graphs node by node; in its methods, `side` 0 is the first graph and 1 the second."""

    def __init__(self, graph: Graph, other: Graph) -> None:
        self.graphs = graph, other
        self.types: tuple[Types, Types] = infer(graph), infer(other)
        self.facts = FactTable()
        self.labels: dict[object, int] = {}
        self.node_numbers = self._number_nodes(0), self._number_nodes(1)

    def _number_nodes(self, side: int) -> dict[NodeId, int]:
        """Number the nodes of one graph; nodes of both graphs have equal numbers if they compute the same function.

        Weights count as equal whatever their scope.
        """
        graph = self.graphs[side]
        numbers: dict[NodeId, int] = {}
        for number in self.types[side]:
            operands = graph.operands(number)
            if isinstance(graph[number].op, Identity):
                numbers[number] = numbers[operands[0]]
                continue
            operand_numbers = [numbers[operand] for operand in operands]
            if graph[number].op.commutative:
                operand_numbers.sort()
            key = self._label(side, number), *operand_numbers
            numbers[number] = self.labels.setdefault(key, len(self.labels))
        return numbers

    def _label(self, side: int, number: NodeId) -> bytes:
        """Return a hashable label for the operation of a node and its operand types."""
        graph, types = self.graphs[side], self.types[side]
        return self.facts.lookup(graph[number].op, tuple([types[o] for o in graph.operands(number)])).label

    def scopes(self) -> dict[str, str] | None:
        """Return the corresponding scope for each scope with weights, or None if the graphs differ."""
        graph, other = self.graphs
        stack = [(graph.outputs[name], other.outputs[name]) for name in graph.outputs]
        matched: dict[NodeId, NodeId] = {}
        matching: dict[str, str] = {}
        while stack:
            node, other_node = (self._skip_identities(side, number) for side, number in enumerate(stack.pop()))
            if self.node_numbers[0][node] != self.node_numbers[1][other_node]:
                return None
            if node in matched:
                if matched[node] != other_node and not self._are_equal(matched[node], other_node):
                    return None
                continue
            matched[node] = other_node
            if graph[node].op.weights(*(self.types[0][o] for o in graph.operands(node))):
                here, there = graph[node].scope, other[other_node].scope
                if matching.setdefault(here, there) != there:
                    return None
            operands, other_operands = graph.operands(node), other.operands(other_node)
            swapped = (
                graph[node].op.commutative
                and len(operands) == 2
                and self._node_number(0, operands[0]) != self._node_number(1, other_operands[0])
            )
            stack += zip(operands, other_operands[::-1] if swapped else other_operands, strict=True)
        return matching

    def _node_number(self, side: int, number: NodeId) -> int:
        return self.node_numbers[side][number]

    def _skip_identities(self, side: int, number: NodeId) -> NodeId:
        """Follow a chain of identity nodes upwards to the first node that is not an identity."""
        graph = self.graphs[side]
        while isinstance(graph[number].op, Identity):
            (number,) = graph.operands(number)
        return number

    def _are_equal(self, first: NodeId, second: NodeId) -> bool:
        """Return True if two nodes of the second graph compute the same function with the same weights."""
        other = self.graphs[1]
        stack, seen = [(first, second)], set()
        while stack:
            a, b = stack.pop()
            if a == b or (a, b) in seen:
                continue
            seen.add((a, b))
            if self.node_numbers[1][a] != self.node_numbers[1][b]:
                return False
            if other[a].scope != other[b].scope and other[a].op.weights(*(self.types[1][o] for o in other.operands(a))):
                return False
            stack += zip(other.operands(a), other.operands(b), strict=True)
        return True

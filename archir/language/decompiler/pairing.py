"""Which weights of one graph are which of another that computes the same."""

from __future__ import annotations

from archir.equivalence.algebra import Facts
from archir.ir.graph import Graph, NodeId
from archir.ir.typing import Types, infer
from archir.ops.activation import Identity


def pair(graph: Graph, other: Graph) -> dict[str, str] | None:
    """For each scope of a graph that has weights, the scope in the other; None if the graphs are not alike, node by
    node, up to identities and the order of what is added and multiplied."""
    return _Pairing(graph, other).scopes()


class _Pairing:
    def __init__(self, graph: Graph, other: Graph) -> None:
        self.graphs = graph, other
        self.types: tuple[Types, Types] = infer(graph), infer(other)
        self.facts = Facts()
        self.labels: dict[object, int] = {}
        self.forms = self._forms(0), self._forms(1)

    def _forms(self, side: int) -> dict[NodeId, int]:
        """A number for each node, equal for those that compute the same but for their weights."""
        graph = self.graphs[side]
        found: dict[NodeId, int] = {}
        for number in self.types[side]:
            operands = graph.operands(number)
            if isinstance(graph[number].op, Identity):
                found[number] = found[operands[0]]
                continue
            below = [found[operand] for operand in operands]
            if graph[number].op.commutative:
                below.sort()
            key = self._label(side, number), *below
            found[number] = self.labels.setdefault(key, len(self.labels))
        return found

    def _label(self, side: int, number: NodeId) -> bytes:
        graph, types = self.graphs[side], self.types[side]
        return self.facts.of(graph[number].op, tuple([types[o] for o in graph.operands(number)])).label

    def scopes(self) -> dict[str, str] | None:
        graph, other = self.graphs
        stack = [(graph.outputs[name], other.outputs[name]) for name in graph.outputs]
        known: dict[NodeId, NodeId] = {}
        found: dict[str, str] = {}
        while stack:
            one, two = (self._real(side, number) for side, number in enumerate(stack.pop()))
            if self.forms[0][one] != self.forms[1][two]:
                return None
            if one in known:
                if known[one] != two and not self._same(known[one], two):
                    return None
                continue
            known[one] = two
            if graph[one].op.weights(*(self.types[0][o] for o in graph.operands(one))):
                here, there = graph[one].scope, other[two].scope
                if found.setdefault(here, there) != there:
                    return None
            ours, theirs = graph.operands(one), other.operands(two)
            swapped = (
                graph[one].op.commutative and len(ours) == 2 and self._form(0, ours[0]) != self._form(1, theirs[0])
            )
            stack += zip(ours, theirs[::-1] if swapped else theirs, strict=True)
        return found

    def _form(self, side: int, number: NodeId) -> int:
        return self.forms[side][number]

    def _real(self, side: int, number: NodeId) -> NodeId:
        graph = self.graphs[side]
        while isinstance(graph[number].op, Identity):
            (number,) = graph.operands(number)
        return number

    def _same(self, one: NodeId, two: NodeId) -> bool:
        """Whether two nodes of the other graph compute the same with the same weights."""
        other = self.graphs[1]
        stack, seen = [(one, two)], set()
        while stack:
            a, b = stack.pop()
            if a == b or (a, b) in seen:
                continue
            seen.add((a, b))
            if self.forms[1][a] != self.forms[1][b]:
                return False
            if other[a].scope != other[b].scope and other[a].op.weights(*(self.types[1][o] for o in other.operands(a))):
                return False
            stack += zip(other.operands(a), other.operands(b), strict=True)
        return True

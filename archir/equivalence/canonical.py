"""Canonical forms: one text for all networks that compute the same, whatever they were written like."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from hashlib import sha256

from archir.diagnostics.errors import fail
from archir.diagrams.cases import support
from archir.equivalence.algebra import Facts, Terms
from archir.ir.graph import Graph, Node, NodeId
from archir.ir.structure import Select
from archir.ops.norm import BatchNorm
from archir.passes.specialize import reached

DIGITS = 16
"""Hexadecimal digits of a hash: among a hundred million networks, two share one with a probability of 0.0003."""


def canonical_hash(graph: Graph) -> str:
    """A short name of what a network without choices computes, the same in every process.

    Equal for networks that differ in numbering, names of scopes, dead code, operations that do nothing, order and
    brackets of sums and products, factors and constants, expressions computed twice, terms that are zero, or where data
    is moved. Sharing of weights is kept apart: one convolution used twice is not two; nor are calls of a batch norm
    with shared statistics added, dropped or shifted. Networks with one hash compute the same; some with two do, too.

    Raises ArchError (A0708) if choices are left.
    """
    if not isinstance(graph, Graph):
        raise TypeError(f"expected a graph, such as `space.specialize(architecture)`, and got {type(graph).__name__}")
    for number in graph:
        node = graph[number]
        if isinstance(node.op, Select) or node.op.varied:
            raise fail("A0708", "a space has no canonical form: name an architecture", node.span)
    return Canonical(graph).hash({})


class Canonical:
    """Canonical forms of the architectures of one graph."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._facts = Facts()
        self._nodes = {number: graph[number] for number in graph}
        varied = {number: graph[number].op.varied for number in graph}
        self._varied = {
            number: {choice.path for choice in support(*values.values())} for number, values in varied.items() if values
        }
        """By node, the paths of the choices that its attributes depend on."""
        self._norms = {number: graph[number].scope for number in graph if isinstance(graph[number].op, BatchNorm)}

    def hash(self, outcomes: Mapping[str, int]) -> str:
        """The hash of the architecture of these outcomes, by path."""
        return sha256(self.text(outcomes).encode()).hexdigest()[:DIGITS]

    def live(self, outcomes: Mapping[str, int]) -> set[str]:
        """The paths of the choices that the network of these outcomes depends on: other outcomes of the remaining
        choices give the same network."""
        graph, found = self._graph, set[str]()
        for number in (*reached(graph, outcomes), *graph.inputs.values()):
            while isinstance(op := graph[number].op, Select):
                found.add(op.choice)
                number = graph.operands(number)[op.cases[outcomes.get(op.choice, 0)]]
            found |= self._varied.get(number, set())
        return found

    def text(self, outcomes: Mapping[str, int]) -> str:
        """The text of the architecture of these outcomes: equal for equal networks, and for no others."""
        terms, roots = self._written(outcomes)
        return terms.text(roots)

    def _written(self, outcomes: Mapping[str, int]) -> tuple[Terms, dict[str, NodeId]]:
        graph = self._graph
        standing = reached(graph, outcomes)
        numbers = sorted({*standing.values(), *graph.inputs.values()})
        times = Counter(self._norms[number] for number in numbers if number in self._norms)
        terms = Terms(self._facts, {scope for scope, count in times.items() if count > 1})
        moved: dict[NodeId, NodeId] = {}
        for number in numbers:
            node = self._nodes[number]
            if number in self._varied:
                node = Node(node.op.at(outcomes), node.span, node.scope)
            operands = tuple([moved[standing[operand]] for operand in graph.operands(number)])
            moved[number] = terms.put(node, *operands)
        roots = {f"output {name}": moved[standing[number]] for name, number in graph.outputs.items()}
        roots |= {f"input {name}": moved[number] for name, number in graph.inputs.items()}
        calls = [moved[number] for number in numbers if self._norms.get(number) in terms.shared_norms]
        if calls:
            roots["statistics"] = terms.calls(Counter(calls))
        return terms, roots

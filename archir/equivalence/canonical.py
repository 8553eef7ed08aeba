"""Canonical forms: equal texts for networks that compute the same function, however they are written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from hashlib import sha256

from archir.diagnostics.errors import fail
from archir.diagrams.diagram import support
from archir.equivalence.algebra import FactTable, Terms
from archir.ir.graph import Graph, Node, NodeId
from archir.ir.structure import Select
from archir.ops.norm import BatchNorm
from archir.passes.specialize import resolve_selects

DIGITS = 16
"""Number of hexadecimal digits of a hash.

The probability that any two of 100 million different networks have equal hashes is 0.0003.
"""


def canonical_hash(graph: Graph) -> str:
    """Return a short hash of the function that a network without choices computes, the same in every process.

    Networks with equal hashes compute the same function; some networks that compute the same function have different
    hashes. The hash does not depend on:

    - the numbering of nodes, names of scopes, dead code, and operations without effect;
    - the order and bracketing of sums and products, and where factors and constants are applied;
    - repeated expressions, terms that are zero, and the place where data is moved.

    The hash depends on the sharing of weights: one convolution used twice differs from two convolutions. It also
    changes if calls of a batch norm with shared statistics are added or dropped, or their operands shifted.

    Args:
        graph: The network.

    Returns:
        The hash, as hexadecimal digits.

    Raises:
        ArchError: A0708: the graph has choices.

    Examples:
        >>> archir.canonical_hash(network) == space.canonical(space.sample(seed=0))
        True
    """
    if not isinstance(graph, Graph):
        raise TypeError(f"expected a graph, such as `space.specialize(architecture)`, and got {type(graph).__name__}")
    for number in graph:
        node = graph[number]
        if isinstance(node.op, Select) or node.op.varying_attributes:
            raise fail("A0708", "a space has no canonical form: specialize it to an architecture first", node.span)
    return Canonical(graph).hash({})


class Canonical:
    """Canonical forms of the architectures of one graph; facts about operations are computed once for all of them."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._facts = FactTable()
        self._nodes = {number: graph[number] for number in graph}
        varied = {number: graph[number].op.varying_attributes for number in graph}
        self._varied = {
            number: {choice.path for choice in support(*values.values())} for number, values in varied.items() if values
        }
        """For each node, the paths of the choices on which its attributes depend."""
        self._norms = {number: graph[number].scope for number in graph if isinstance(graph[number].op, BatchNorm)}

    def hash(self, outcomes: Mapping[str, int]) -> str:
        """Return the hash of an architecture, which is given as outcomes by the paths of its choices."""
        return sha256(self.text(outcomes).encode()).hexdigest()[:DIGITS]

    def live(self, outcomes: Mapping[str, int]) -> set[str]:
        """Return the paths of the choices on which an architecture's network depends.

        Changing the outcomes of all other choices gives the same network.
        """
        graph, paths = self._graph, set[str]()
        for number in (*resolve_selects(graph, outcomes), *graph.inputs.values()):
            while isinstance(op := graph[number].op, Select):
                paths.add(op.choice)
                number = graph.operands(number)[op.cases[outcomes.get(op.choice, 0)]]
            paths |= self._varied.get(number, set())
        return paths

    def text(self, outcomes: Mapping[str, int]) -> str:
        """Return the canonical text of an architecture; networks with equal texts compute the same function."""
        terms, roots = self._terms(outcomes)
        return terms.text(roots)

    def _terms(self, outcomes: Mapping[str, int]) -> tuple[Terms, dict[str, NodeId]]:
        """Return the terms of an architecture, and the terms' roots by name: outputs, inputs and norm calls.

        Only the calls of norms with shared statistics are roots.
        """
        graph = self._graph
        replacements = resolve_selects(graph, outcomes)
        numbers = sorted({*replacements.values(), *graph.inputs.values()})
        call_counts = Counter(self._norms[number] for number in numbers if number in self._norms)
        terms = Terms(self._facts, {scope for scope, count in call_counts.items() if count > 1})
        term_numbers: dict[NodeId, NodeId] = {}
        for number in numbers:
            node = self._nodes[number]
            if number in self._varied:
                node = Node(node.op.at(outcomes), node.span, node.scope)
            operands = tuple([term_numbers[replacements[operand]] for operand in graph.operands(number)])
            term_numbers[number] = terms.put(node, *operands)
        roots = {f"output {name}": term_numbers[replacements[number]] for name, number in graph.outputs.items()}
        roots |= {f"input {name}": term_numbers[number] for name, number in graph.inputs.items()}
        calls = [term_numbers[number] for number in numbers if self._norms.get(number) in terms.shared_norms]
        if calls:
            roots["statistics"] = terms.calls(Counter(calls))
        return terms, roots

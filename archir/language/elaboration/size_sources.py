"""Finds the operations that produce mismatched sizes, by tracing each size back through operations that preserve
it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from archir.diagnostics.errors import NO_SPAN, Note, RuleError
from archir.diagrams.diagram import value_at
from archir.diagrams.lifting import CombinationError
from archir.ir.graph import Graph, NodeId
from archir.ir.structure import Select
from archir.ir.types import TensorType

_MAX_STEPS = 1_000
"""Maximum number of nodes to trace back through."""


def size_source_notes(
    graph: Graph, types: Mapping[NodeId, TensorType], operands: Sequence[NodeId], error: RuleError
) -> list[Note]:
    """Return notes on the nodes that produce the first size in which two operands differ, for the outcomes in
    `error`."""
    outcomes = {choice.path: o for choice, o in error.assignment.items()} if isinstance(error, CombinationError) else {}
    return list(_SizeTracer(graph, types, outcomes).notes(operands))


class _SizeTracer:
    """Traces sizes back through a graph, for fixed outcomes of the choices."""

    def __init__(self, graph: Graph, types: Mapping[NodeId, TensorType], outcomes: Mapping[str, int]) -> None:
        self.graph, self.types, self.outcomes = graph, types, outcomes

    def sizes(self, number: NodeId) -> list[object]:
        return [value_at(dim, self.outcomes) for dim in self.types[number].dims]

    def notes(self, operands: Sequence[NodeId]) -> Iterator[Note]:
        shapes = [self.sizes(operand) for operand in operands]
        other = next((i for i, shape in enumerate(shapes) if shape != shapes[0]), 0)
        if len(shapes[0]) != len(shapes[other]):
            return
        for axis, pair in enumerate(zip(shapes[0], shapes[other], strict=True)):
            if pair[0] != pair[1]:
                for operand, size in zip((operands[0], operands[other]), pair, strict=True):
                    node = self.graph[self.size_source(operand, axis, size)]
                    if node.span is not NO_SPAN:
                        yield Note(f"the {size} is made here", node.span)
                return

    def size_source(self, number: NodeId, axis: int, size: object) -> NodeId:
        """Trace a size of a tensor back to the node that produces the size.

        That is a node without an operand of the same size on that axis.
        """
        rank = self.types[number].rank
        for _ in range(_MAX_STEPS):
            op, operands = self.graph[number].op, self.graph.operands(number)
            if isinstance(op, Select):
                operands = (operands[op.cases[self.outcomes.get(op.choice, 0)]],)
            same_size = [
                operand
                for operand in operands
                if self.types[operand].rank == rank and self.sizes(operand)[axis] == size
            ]
            if not same_size:
                return number
            number = same_size[0]
        return number

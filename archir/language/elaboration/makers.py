"""Which operations make sizes that do not go together: each is followed back through what leaves it as it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from archir.diagnostics.errors import NOWHERE, Note, RuleError
from archir.diagrams.cases import at
from archir.diagrams.lifting import CaseError
from archir.ir.graph import Graph, NodeId
from archir.ir.structure import Select
from archir.ir.types import TensorType

_FAR = 1_000
"""Nodes that are passed on the way back."""


def makers(
    graph: Graph, types: Mapping[NodeId, TensorType], operands: Sequence[NodeId], error: RuleError
) -> list[Note]:
    """Notes on where two operands get the first size in which they differ, for the choices that a rule refuses."""
    outcomes = {choice.path: o for choice, o in error.assignment.items()} if isinstance(error, CaseError) else {}
    return list(_Back(graph, types, outcomes).notes(operands))


class _Back:
    def __init__(self, graph: Graph, types: Mapping[NodeId, TensorType], outcomes: Mapping[str, int]) -> None:
        self.graph, self.types, self.outcomes = graph, types, outcomes

    def sizes(self, number: NodeId) -> list[object]:
        return [at(dim, self.outcomes) for dim in self.types[number].dims]

    def notes(self, operands: Sequence[NodeId]) -> Iterator[Note]:
        shapes = [self.sizes(operand) for operand in operands]
        other = next((i for i, shape in enumerate(shapes) if shape != shapes[0]), 0)
        if len(shapes[0]) != len(shapes[other]):
            return
        for axis, pair in enumerate(zip(shapes[0], shapes[other], strict=True)):
            if pair[0] != pair[1]:
                for operand, size in zip((operands[0], operands[other]), pair, strict=True):
                    node = self.graph[self.maker(operand, axis, size)]
                    if node.span is not NOWHERE:
                        yield Note(f"the {size} is made here", node.span)
                return

    def maker(self, number: NodeId, axis: int, size: object) -> NodeId:
        """The node that makes a size of a tensor: no operand has it at this axis."""
        rank = self.types[number].rank
        for _ in range(_FAR):
            op, operands = self.graph[number].op, self.graph.operands(number)
            if isinstance(op, Select):
                operands = (operands[op.cases[self.outcomes.get(op.choice, 0)]],)
            alike = [one for one in operands if self.types[one].rank == rank and self.sizes(one)[axis] == size]
            if not alike:
                return number
            number = alike[0]
        return number

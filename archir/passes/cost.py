"""What a network costs: parameters and multiply-accumulates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from archir.errors import ArchError, Diagnostic
from archir.ir.graph import Graph, NodeId
from archir.ir.structure import Select
from archir.ir.typing import Types
from archir.ir.verify import typed
from archir.types import DTYPES


@dataclass(frozen=True)
class Cost:
    """Trainable parameters, multiply-accumulates of one sample, and bytes of all activations of one sample."""

    params: int
    macs: int
    activation_bytes: int

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.params + other.params, self.macs + other.macs, self.activation_bytes + other.activation_bytes)


def costs(graph: Graph, types: Types | None = None) -> Mapping[NodeId, Cost]:
    """The cost of every node of a graph without choices; weights that several nodes share count at the first.

    Raises ArchError (A0901) if choices are left.
    """
    types = types or typed(graph)
    found: dict[NodeId, Cost] = {}
    scopes: set[str] = set()
    for number in graph:
        node = graph[number]
        if isinstance(node.op, Select) or node.op.varied:
            message = "the cost of a space is not one number: name an architecture"
            raise ArchError(Diagnostic("A0901", message, node.span))
        operands = [types[operand] for operand in graph.operands(number)]
        weights = node.op.weights(*operands)
        params = sum(weight.elements for weight in weights.values() if not weight.buffer)
        if weights and node.scope in scopes:
            params = 0
        if weights:
            scopes.add(node.scope)
        result = types[number]
        found[number] = Cost(params, node.op.macs(*operands), result.elements * DTYPES[result.dtype])
    return found


def cost(graph: Graph) -> Cost:
    """The cost of a network."""
    return sum(costs(graph).values(), Cost(0, 0, 0))

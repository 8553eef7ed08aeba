"""What a network costs: parameters and multiply-accumulates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from archir.errors import ArchError, Diagnostic
from archir.ir.graph import Graph, NodeId
from archir.ir.op import Op
from archir.ir.structure import Select
from archir.ir.typing import Types
from archir.ir.verify import typed
from archir.types import DTYPES, TensorType


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
        own = cost_of(node.op, operands, types[number])
        if own.params:
            found[number] = replace(own, params=0) if node.scope in scopes else own
            scopes.add(node.scope)
        else:
            found[number] = own
    return found


def cost_of(op: Op, operands: Sequence[TensorType], result: TensorType) -> Cost:
    """The cost of an operation on operands of these types, of which none depends on choices."""
    params = sum(weight.elements for weight in op.weights(*operands).values() if not weight.buffer)
    return Cost(params, op.macs(*operands), result.elements * DTYPES[result.dtype])


def cost(graph: Graph) -> Cost:
    """The cost of a network."""
    return sum(costs(graph).values(), Cost(0, 0, 0))

"""Costs of a network: parameters, multiply-accumulates, activation memory and kernel launches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from archir.diagnostics.errors import ArchError, Diagnostic
from archir.ir.graph import Graph, NodeId
from archir.ir.op import Op
from archir.ir.structure import Select
from archir.ir.types import DTYPES, INTEGER_DTYPES, TensorType
from archir.ir.typing import Types
from archir.ir.verify import checked_types


@dataclass(frozen=True)
class Cost:
    """Costs of a network or of a part of it; all except `params` are for one sample.

    `params` is the number of trainable parameters, `macs` the number of multiply-accumulates, `activation_bytes` the
    total size of all activations, and `kernels` the number of kernels launched in evaluation. `peak_bytes` is the
    maximum size of the activations alive at the same time. A result is alive until the last operation that reads it has
    run, an output until the end.
    """

    params: int
    macs: int
    activation_bytes: int
    kernels: int = 0
    peak_bytes: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.params + other.params,
            self.macs + other.macs,
            self.activation_bytes + other.activation_bytes,
            self.kernels + other.kernels,
            max(self.peak_bytes, other.peak_bytes),
        )


ADDITIVE_COSTS = ("params", "macs", "activation_bytes", "kernels")
"""Costs that add up over the parts of a network, unlike `peak_bytes`, which is the maximum over the parts."""


def costs(graph: Graph, types: Types | None = None) -> Mapping[NodeId, Cost]:
    """Return the cost of every node of a graph without choices.

    The cost of shared weights counts at the first node that uses them. Raises ArchError (A0901) if the graph has
    choices.
    """
    for number in graph:
        if isinstance(graph[number].op, Select) or graph[number].op.varying_attributes:
            message = "a space has no single cost: specialize it to an architecture first"
            raise ArchError(Diagnostic("A0901", message, graph[number].span))
    types = types or checked_types(graph)
    node_costs: dict[NodeId, Cost] = {}
    peaks = live_bytes(graph, types)
    scopes: set[str] = set()
    for number in graph:
        node = graph[number]
        operands = [types[operand] for operand in graph.operands(number)]
        own = replace(cost_of(node.op, operands, types[number]), peak_bytes=peaks[number])
        if own.params:
            node_costs[number] = replace(own, params=0) if node.scope in scopes else own
            scopes.add(node.scope)
        else:
            node_costs[number] = own
    return node_costs


def live_bytes(graph: Graph, types: Types, eight_bit: bool = False) -> dict[NodeId, int]:
    """Return, for each node, the size in bytes of the activations that are alive while it runs.

    With `eight_bit`, floating-point results take one byte per element, and in-place operations overwrite operands that
    no other operation reads.
    """
    last_readers = {operand: number for number in graph for operand in graph.operands(number)}
    last_readers |= dict.fromkeys(graph.outputs.values(), len(graph))
    freed: dict[NodeId, int] = {}
    current, live = 0, {}
    for number in graph:
        size = _bytes(types[number], eight_bit)
        in_place = eight_bit and graph[number].op.in_place
        released = freed.get(number, 0)
        live[number] = current + size - (released if in_place else 0)
        current += size - released
        end = last_readers.get(number, number)
        if end == number:
            current -= size
        else:
            freed[end] = freed.get(end, 0) + size
    return live


def peak_memory(graph: Graph, eight_bit: bool = False) -> int:
    """Return the maximum size in bytes of the activations alive at the same time; see `live_bytes`."""
    return max(live_bytes(graph, checked_types(graph), eight_bit).values(), default=0)


def _bytes(x: TensorType, eight_bit: bool = False) -> int:
    """Return the size of a tensor in bytes."""
    return x.elements * element_bytes(x.dtype, eight_bit)


def element_bytes(dtype: str, eight_bit: bool = False) -> int:
    """Return the size of one element in bytes; with `eight_bit`, 1 for floating-point numbers."""
    return 1 if eight_bit and dtype not in INTEGER_DTYPES else DTYPES[dtype]


def cost_of(op: Op, operands: Sequence[TensorType], result: TensorType) -> Cost:
    """Return the cost of an operation for operands and a result of these types, which must not depend on choices."""
    params = sum(weight.elements for weight in op.weights(*operands).values() if not weight.buffer)
    return Cost(params, op.macs(*operands), _bytes(result), op.kernels(*operands))


def cost(graph: Graph) -> Cost:
    """Return the total cost of a network."""
    return sum(costs(graph).values(), Cost(0, 0, 0))

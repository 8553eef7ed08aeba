"""What a network costs: parameters, multiply-accumulates, memory, kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from archir.diagnostics.errors import ArchError, Diagnostic
from archir.ir.graph import Graph, NodeId
from archir.ir.op import Op
from archir.ir.structure import Select
from archir.ir.types import DTYPES, INTEGERS, TensorType
from archir.ir.typing import Types
from archir.ir.verify import typed


@dataclass(frozen=True)
class Cost:
    """Trainable parameters, and of one sample multiply-accumulates, bytes of all activations, kernels launched in
    evaluation, and bytes that are alive at once: results from when they are made until the last operation that reads
    them, outputs until the end."""

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


SUMMED = ("params", "macs", "activation_bytes", "kernels")
"""The costs that add up; of `peak_bytes`, parts have a maximum."""


def costs(graph: Graph, types: Types | None = None) -> Mapping[NodeId, Cost]:
    """The cost of every node of a graph without choices; weights that several nodes share count at the first.

    Raises ArchError (A0901) if choices are left.
    """
    for number in graph:
        if isinstance(graph[number].op, Select) or graph[number].op.varied:
            message = "the cost of a space is not one number: name an architecture"
            raise ArchError(Diagnostic("A0901", message, graph[number].span))
    types = types or typed(graph)
    found: dict[NodeId, Cost] = {}
    peaks = alive(graph, types)
    scopes: set[str] = set()
    for number in graph:
        node = graph[number]
        operands = [types[operand] for operand in graph.operands(number)]
        own = replace(cost_of(node.op, operands, types[number]), peak_bytes=peaks[number])
        if own.params:
            found[number] = replace(own, params=0) if node.scope in scopes else own
            scopes.add(node.scope)
        else:
            found[number] = own
    return found


def alive(graph: Graph, types: Types, small: bool = False) -> dict[NodeId, int]:
    """Bytes that are alive while each node runs. If `small`, results are in 8 bits, and take the place of what they are
    made of where nothing else reads it."""
    last = {operand: number for number in graph for operand in graph.operands(number)}
    last |= dict.fromkeys(graph.outputs.values(), len(graph))
    leaving: dict[NodeId, int] = {}
    now, found = 0, {}
    for number in graph:
        size = _bytes(types[number], small)
        in_place = small and graph[number].op.in_place
        left = leaving.get(number, 0)
        found[number] = now + size - (left if in_place else 0)
        now += size - left
        end = last.get(number, number)
        if end == number:
            now -= size
        else:
            leaving[end] = leaving.get(end, 0) + size
    return found


def peak(graph: Graph, small: bool = False) -> int:
    """The most bytes that are alive at once; see `alive`."""
    return max(alive(graph, typed(graph), small).values(), default=0)


def _bytes(x: TensorType, small: bool = False) -> int:
    return x.elements * stored(x.dtype, small)


def stored(dtype: str, small: bool = False) -> int:
    """Bytes of a number; if `small`, floating-point numbers are in 8 bits."""
    return 1 if small and dtype not in INTEGERS else DTYPES[dtype]


def cost_of(op: Op, operands: Sequence[TensorType], result: TensorType) -> Cost:
    """The cost of an operation on operands of these types, of which none depends on choices."""
    params = sum(weight.elements for weight in op.weights(*operands).values() if not weight.buffer)
    return Cost(params, op.macs(*operands), _bytes(result), op.kernels(*operands))


def cost(graph: Graph) -> Cost:
    """The cost of a network."""
    return sum(costs(graph).values(), Cost(0, 0, 0))

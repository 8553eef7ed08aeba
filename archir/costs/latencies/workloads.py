"""Workloads of a space: its distinct operations on operands of fixed types, which can be timed individually."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from archir.diagnostics.errors import RuleError, fail
from archir.ir.graph import Graph, Node, NodeId
from archir.ir.op import Composite, Op
from archir.ir.printer import ValueWriter
from archir.ir.reachability import Reachability, reachability_conditions
from archir.ir.structure import Input, Select
from archir.ir.types import TensorType
from archir.ir.typing import infer_op, lift_rule
from archir.ir.verify import checked_types
from archir.ops.activation import Sigmoid
from archir.ops.calibration import AsGate, AsKernel
from archir.passes.fold import execution_conditions

_CONVERSIONS: dict[object, type[Op]] = {"gate": AsGate, "kernel": AsKernel}
"""Operations that convert an input to a gate, or to a bank of convolution kernels."""


@dataclass(frozen=True)
class Workload:
    """An operation on operands of these types, which do not depend on choices.

    Composite operations are already expanded.
    """

    op: Op
    types: tuple[TensorType, ...]

    @cached_property
    def key(self) -> str:
        """Text that identifies the workload in any network, such as `linear(f32[8], channels=4, bias=true)`."""
        writer = ValueWriter()
        attributes = [f"{name}={writer.write(value)}" for name, value in self.op.attributes().items()]
        return f"{self.op.name}({', '.join([*map(str, self.types), *attributes])})"

    def graph(self) -> Graph:
        """Return the network that consists of only this operation.

        If the operation has no operands, the network has an unused input, which determines the batch size.
        """
        graph = Graph("workload")
        operands = [_add_input(graph, i, x) for i, x in enumerate(self.types)]
        if not operands:
            _add_input(graph, 0, TensorType((1,)))
        graph.outputs["result"] = graph.add(Node(self.op, scope="op"), *operands)
        return graph


def _add_input(graph: Graph, position: int, x: TensorType) -> NodeId:
    """Add an input to a graph, and return the node that provides it as a tensor of type `x`."""
    number = graph.add(Node(Input(f"x{position}", x.shape, x.dtype)))
    return number if x.kind == "feature" else graph.add(Node(_CONVERSIONS[x.kind]()), number)


def chain_network(length: int) -> Graph:
    """Return a network of `length` equal, cheap operations; the times of two lengths give the overhead of a call."""
    graph = Graph("chain")
    last = _add_input(graph, 0, TensorType((1,)))
    for _ in range(length):
        last = graph.add(Node(Sigmoid()), last)
    graph.outputs["result"] = last
    return graph


def expand_op(op: Op, types: Sequence[TensorType]) -> list[Workload]:
    """Return the workloads that an operation executes.

    These are the operation itself or, for a composite operation, the operations that it expands into.
    """
    if not isinstance(op, Composite):
        return [Workload(op, tuple(types))]
    value_types = list(types)
    expansion: list[Workload] = []

    def add(op: Op, *operands: int) -> int:
        """Add an operation to the expansion, and return the number of its result; operands are such numbers, too."""
        operand_types = [value_types[operand] for operand in operands]
        expansion.extend(expand_op(op, operand_types))
        value_types.append(infer_op(op, operand_types))
        return len(value_types) - 1

    op.expand(add, range(len(types)), types)
    return expansion


def space_workloads(graph: Graph, simplified: bool = False) -> dict[str, Workload]:
    """Return the workloads, by key, of every operation that some architecture executes.

    All combinations of attributes and operand types are included; no architecture is enumerated. Bounds on costs
    (`require` and `where` lines) are ignored, so that a table can be used for other bounds, too. With `simplified`,
    the operations are left out that no simplified network executes (see `execution_conditions`).
    """
    types = checked_types(graph)
    by_key: dict[str, Workload] = {}

    def meet(op: Op, *operands: TensorType) -> None:
        """Record the workloads of one operation on operands of these types."""
        by_key.update((workload.key, workload) for workload in expand_op(op, operands))

    for number, needed in sorted(_conditions(graph, simplified).items()):
        op = graph[number].op
        if isinstance(op, Input | Select):
            continue
        try:
            lift_rule(meet, op, [types[operand] for operand in graph.operands(number)], needed, graph.assumptions)
        except RuleError as error:
            raise fail(error.code, f"%{number} ({op.name}): {error.message}", graph[number].span, error.hint) from None
    return by_key


def _conditions(graph: Graph, simplified: bool) -> Reachability:
    """Return the conditions under which a device executes the nodes of a graph."""
    return execution_conditions(graph) if simplified else reachability_conditions(graph)


def network_workloads(graph: Graph, simplified: bool = False) -> Iterator[Workload]:
    """Yield the workloads of a network in order; with `simplified`, those that `execution_conditions` leaves in.

    Raises ArchError (A0901) if the network has choices.
    """
    types = checked_types(graph)
    for number in _conditions(graph, simplified):
        node = graph[number]
        if isinstance(node.op, Select) or node.op.varying_attributes:
            raise fail("A0901", "a space has no single latency: specify an architecture", node.span)
        if not isinstance(node.op, Input):
            yield from expand_op(node.op, [types[operand] for operand in graph.operands(number)])

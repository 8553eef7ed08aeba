"""What there is to time in a space: its operations on operands of plain types, each once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from archir.diagnostics.errors import RuleError, fail
from archir.ir.graph import Graph, Node, NodeId
from archir.ir.needs import needs
from archir.ir.op import Composite, Op
from archir.ir.printer import ValueWriter
from archir.ir.structure import Input, Select
from archir.ir.types import TensorType
from archir.ir.typing import Types, infer_op, lifted
from archir.ir.verify import typed
from archir.ops.activation import Sigmoid
from archir.ops.calibration import AsGate, AsKernel

_KINDS: dict[object, type[Op]] = {"gate": AsGate, "kernel": AsKernel}


@dataclass(frozen=True)
class Workload:
    """An operation on operands of these types; nothing in it depends on choices, and it stands for itself."""

    op: Op
    types: tuple[TensorType, ...]

    @cached_property
    def key(self) -> str:
        """Its text, such as `linear(f32[8], channels=4, bias=true)`: the same for equal operations anywhere."""
        writer = ValueWriter()
        attributes = [f"{name}={writer.write(value)}" for name, value in self.op.kept_attributes().items()]
        return f"{self.op.name}({', '.join([*map(str, self.types), *attributes])})"

    def graph(self) -> Graph:
        """The network that does this and nothing else. Without operands, an input says how large the batch is."""
        graph = Graph("workload")
        operands = [_given(graph, i, x) for i, x in enumerate(self.types)]
        if not operands:
            _given(graph, 0, TensorType((1,)))
        graph.outputs["result"] = graph.add(Node(self.op, scope="op"), *operands)
        return graph


def _given(graph: Graph, position: int, x: TensorType) -> NodeId:
    number = graph.add(Node(Input(f"x{position}", x.shape, x.dtype)))
    return number if x.kind == "feature" else graph.add(Node(_KINDS[x.kind]()), number)


def chain(length: int) -> Graph:
    """So many cheap operations in a row: how their time grows with the length tells what a call costs without any."""
    graph = Graph("chain")
    last = _given(graph, 0, TensorType((1,)))
    for _ in range(length):
        last = graph.add(Node(Sigmoid()), last)
    graph.outputs["result"] = last
    return graph


def parts(op: Op, types: Sequence[TensorType]) -> list[Workload]:
    """What is run for an operation: itself, or what a composite operation is written out as."""
    if not isinstance(op, Composite):
        return [Workload(op, tuple(types))]
    known = list(types)
    found: list[Workload] = []

    def add(op: Op, *operands: int) -> int:
        read = [known[operand] for operand in operands]
        found.extend(parts(op, read))
        known.append(infer_op(op, read))
        return len(known) - 1

    op.expand(add, range(len(types)), types)
    return found


def workloads(graph: Graph, types: Types | None = None) -> dict[str, Workload]:
    """Every operation, on every combination of attributes and operand types, that some architecture runs, by key.

    No architecture is enumerated. `require` and `where` lines are not looked at, so that other budgets find everything.
    """
    types = types or typed(graph)
    found: dict[str, Workload] = {}

    def meet(op: Op, *operands: TensorType) -> None:
        found.update((one.key, one) for one in parts(op, operands))

    for number, needed in sorted(needs(graph).items()):
        op = graph[number].op
        if isinstance(op, Input | Select):
            continue
        try:
            lifted(meet, op, [types[operand] for operand in graph.operands(number)], needed, graph.given)
        except RuleError as error:
            raise fail(error.code, f"%{number} ({op.name}): {error.message}", graph[number].span, error.hint) from None
    return found


def steps(graph: Graph) -> Iterator[Workload]:
    """What a network without choices runs, in order. Raises ArchError (A0901) if choices are left."""
    types = typed(graph)
    for number in needs(graph):
        node = graph[number]
        if isinstance(node.op, Select) or node.op.varied:
            raise fail("A0901", "a space has no single latency: name an architecture", node.span)
        if not isinstance(node.op, Input):
            yield from parts(node.op, [types[operand] for operand in graph.operands(number)])

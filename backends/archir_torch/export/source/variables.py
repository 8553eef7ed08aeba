"""Statements of a block's forward function, and the variables that hold their results."""

from __future__ import annotations

import builtins
import keyword
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, count

from archir.ir.graph import Graph, NodeId
from archir.ir.structure import Input
from archir.ir.typing import Types
from archir.ops.shape import Slice
from archir_torch.export.source.calls import Call
from archir_torch.lowering.rules import RULES

RESERVED = {"F", "Path", "Tensor", "torch", "nn", "Any", "annotations", "json", "sys", "self", "layer", *dir(builtins)}
"""Names that emitted files already use, so that variables cannot have them."""


@dataclass
class Step:
    """One statement of a forward function: a block call, a node, or several slices that together split a tensor."""

    item: Call | NodeId
    reads: list[NodeId]
    writes: list[NodeId]

    @property
    def chunks(self) -> int:
        """Number of equal parts into which the statement splits a tensor; 0 for other statements."""
        return 0 if isinstance(self.item, Call) or len(self.writes) == 1 else len(self.writes)


def steps(graph: Graph, types: Types, call: Call) -> list[Step]:
    """Return the statements for the contents of a call, in order."""
    result: list[Step] = []
    parts = _chunks(graph, types, [item for item in call.items if not isinstance(item, Call)])
    for item in call.items:
        if isinstance(item, Call):
            result.append(Step(item, item.inputs, item.outputs))
        elif item not in parts:
            result.append(Step(item, list(graph.operands(item)), [item]))
        elif parts[item][0] == item:
            result.append(Step(item, list(graph.operands(item)), parts[item]))
    return result


def _chunks(graph: Graph, types: Types, nodes: Sequence[NodeId]) -> dict[NodeId, list[NodeId]]:
    """Find groups of slices that together split a tensor into equal parts, in order.

    Returns a dict from each slice in a group to all slices of its group.
    """
    groups: dict[tuple[NodeId, int], list[tuple[int, int, NodeId]]] = {}
    for number in nodes:
        op = graph[number].op
        if isinstance(op, Slice):
            (operand,) = graph.operands(number)
            axis, start, stop = op.bounds(types[operand])
            groups.setdefault((operand, axis), []).append((start, stop, number))
    chunks: dict[NodeId, list[NodeId]] = {}
    for (operand, axis), parts in groups.items():
        size = types[operand].shape[axis]
        width = parts[0][1] - parts[0][0]
        expected = [(start, start + width) for start in range(0, size, width)] if size % width == 0 else []
        if len(parts) > 1 and [(start, stop) for start, stop, _ in parts] == expected:
            chunks |= {number: [n for *_, n in parts] for *_, number in parts}
    return chunks


class Variables:
    """Assigns variable names to the values in a call; a name is reused after its value was read for the last time."""

    def __init__(self, graph: Graph, call: Call, steps: Sequence[Step]) -> None:
        self.last = {number: position for position, step in enumerate(steps) for number in step.reads}
        self.last |= dict.fromkeys(call.outputs, len(steps))
        self.reads = [number for step in steps for number in step.reads] + call.outputs
        self.names: dict[NodeId, str] = {}
        self.position = 0
        self._reserved = RESERVED | {RULES[kind].function.__name__ for kind in RULES}
        for number in call.inputs:
            op = graph[number].op
            wanted = op.label if isinstance(op, Input) and call.scope == "" else "x"
            self.names[number] = self._free_name(
                wanted if wanted.isidentifier() and not keyword.iskeyword(wanted) else "x"
            )

    def _free_name(self, wanted: str) -> str:
        """Return `wanted` if it is unused, otherwise the next unused variable name."""
        taken = set(self.names.values()) | self._reserved
        names = chain((wanted, "x", "y", "z"), (f"x{i}" for i in count(1)))
        return next(name for name in names if name not in taken)

    def name_of(self, number: NodeId) -> str:
        """Return the name of the variable that holds a value."""
        return self.names[number]

    def batch(self) -> str:
        """Return an expression that gives the batch size."""
        return f"{next(iter(self.names.values()))}.shape[0]" if self.names else "1"

    def allocate(self, results: Sequence[NodeId]) -> list[str]:
        """Assign variables to the results of a step, after releasing variables whose values are not read any more."""
        expired = [number for number in self.names if self.last.get(number, -1) <= self.position]
        free = {self.names.pop(number) for number in expired} & {"x", "y", "z"}
        for number in results:
            self.names[number] = free.pop() if len(free) == 1 else self._free_name("x")
        self.position += 1
        return [self.names[number] for number in results]

    def only_next(self, step: Step) -> bool:
        """Return whether a step's result is read only once, by the next step. Must be called after `allocate`."""
        (number, *others) = step.writes
        return not others and self.reads.count(number) == 1 and self.last[number] == self.position

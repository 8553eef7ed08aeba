"""The steps of a call and the variables of its forward function."""

from __future__ import annotations

import keyword
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, count

from archir.ir.graph import Graph, NodeId
from archir.ir.structure import Input
from archir.ir.typing import Types
from archir.ops.shape import Slice
from archir_torch.export.source.calls import Call

RESERVED = {"F", "Path", "Tensor", "torch", "nn", "Any", "annotations", "json", "sys", "self"}
"""Names that files use themselves."""


@dataclass
class Step:
    """One statement: a call, a node, or several slices that are all of one tensor."""

    item: Call | NodeId
    reads: list[NodeId]
    writes: list[NodeId]

    @property
    def chunks(self) -> int:
        """How many equal parts a tensor is taken apart into, if that is what happens."""
        return 0 if isinstance(self.item, Call) or len(self.writes) == 1 else len(self.writes)


def steps(graph: Graph, types: Types, call: Call) -> list[Step]:
    """What is done in a call, in order."""
    made: list[Step] = []
    parts = _chunks(graph, types, [item for item in call.items if not isinstance(item, Call)])
    for item in call.items:
        if isinstance(item, Call):
            made.append(Step(item, item.inputs, item.outputs))
        elif item not in parts:
            made.append(Step(item, list(graph.operands(item)), [item]))
        elif parts[item][0] == item:
            made.append(Step(item, list(graph.operands(item)), parts[item]))
    return made


def _chunks(graph: Graph, types: Types, nodes: Sequence[NodeId]) -> dict[NodeId, list[NodeId]]:
    """Slices that take a tensor apart into equal parts, each with all of them in order, the first of which is first."""
    groups: dict[tuple[NodeId, int], list[tuple[int, int, NodeId]]] = {}
    for number in nodes:
        op = graph[number].op
        if isinstance(op, Slice):
            (operand,) = graph.operands(number)
            axis, start, stop = op.bounds(types[operand])
            groups.setdefault((operand, axis), []).append((start, stop, number))
    found: dict[NodeId, list[NodeId]] = {}
    for (operand, axis), parts in groups.items():
        size = types[operand].shape[axis]
        width = parts[0][1] - parts[0][0]
        whole = [(start, start + width) for start in range(0, size, width)] if size % width == 0 else []
        if len(parts) > 1 and [(start, stop) for start, stop, _ in parts] == whole:
            found |= {number: [n for *_, n in parts] for *_, number in parts}
    return found


class Variables:
    """The variables that hold the values of a call: the name of what is read for the last time is used again."""

    def __init__(self, graph: Graph, call: Call, steps: Sequence[Step]) -> None:
        self.last = {number: position for position, step in enumerate(steps) for number in step.reads}
        self.last |= dict.fromkeys(call.outputs, len(steps))
        self.reads = [number for step in steps for number in step.reads] + call.outputs
        self.names: dict[NodeId, str] = {}
        self.position = 0
        for number in call.inputs:
            op = graph[number].op
            wanted = op.label if isinstance(op, Input) and call.scope == "" else "x"
            self.names[number] = self._free(wanted if wanted.isidentifier() and not keyword.iskeyword(wanted) else "x")

    def _free(self, wanted: str) -> str:
        busy = set(self.names.values()) | RESERVED
        names = chain((wanted, "x", "y", "z"), (f"x{i}" for i in count(1)))
        return next(name for name in names if name not in busy)

    def of(self, number: NodeId) -> str:
        """The variable that holds a value."""
        return self.names[number]

    def batch(self) -> str:
        """The batch size, as an expression."""
        return f"{next(iter(self.names.values()))}.shape[0]" if self.names else "1"

    def give(self, made: Sequence[NodeId]) -> list[str]:
        """Variables for the values of a step, after what it reads for the last time is forgotten."""
        over = [number for number in self.names if self.last.get(number, -1) <= self.position]
        free = {self.names.pop(number) for number in over} & {"x", "y", "z"}
        for number in made:
            self.names[number] = free.pop() if len(free) == 1 else self._free("x")
        self.position += 1
        return [self.names[number] for number in made]

    def only_next(self, step: Step) -> bool:
        """Whether what a step makes is read once, by the next one. To be asked after `give`."""
        (number, *others) = step.writes
        return not others and self.reads.count(number) == 1 and self.last[number] == self.position

"""Nodes and graphs: the narrow waist that everything stands on.

A node is a frozen value; a graph holds one `networkx.MultiDiGraph` of them, whose edges carry operand positions.
Values computed at run time, types among them, live in whoever computes them, never on nodes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archir.diagnostics.errors import NOWHERE, Span
from archir.diagnostics.visible import one_line
from archir.diagrams.cases import Choice, Value
from archir.ir.op import Op
from archir.ir.structure import Input
from archir.ir.types import TensorType

if TYPE_CHECKING:
    from networkx import MultiDiGraph  # a quarter of what a short command takes

NodeId = int


@dataclass(frozen=True, slots=True)
class Node:
    """An operation at a place. `scope` is its path, such as `layer[2][0].op.conv3`; equal scopes share weights."""

    op: Op
    span: Span = field(default=NOWHERE, compare=False, repr=False)
    scope: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """A choice of a graph and the condition under which it is there to be made."""

    choice: Choice
    active: Value = True


@dataclass(frozen=True, slots=True)
class Constraint:
    """A condition on architectures. `where` conditions are part of the space; `require` conditions narrow it.

    A constraint with a `cost` says that, where the condition holds, the cost stands in `relation` to `limit`.
    """

    condition: Value
    word: str = "require"
    text: str = ""
    span: Span = field(default=NOWHERE, compare=False, repr=False)
    cost: str | None = None
    relation: str = ""
    limit: Value = 0
    table: Path | None = field(default=None, compare=False, repr=False)
    """The file that a cost is looked up in, if there is one."""


@dataclass(frozen=True, slots=True)
class Together:
    """The scopes of the nodes that one stands for, under which their weights are kept.

    Each has its part of the node's weights, in this order along their first axis; if `same`, each has them all.
    """

    scopes: tuple[str, ...]
    same: bool = False


class Graph:
    """A directed acyclic graph of nodes, with named inputs and outputs and the choices it depends on.

    Nodes are numbered in an order in which operands come first; `add` is the only way in.
    """

    def __init__(self, name: str = "graph") -> None:
        self.name = name
        self.decisions: dict[str, Decision] = {}
        self.constraints: list[Constraint] = []
        self.outputs: dict[str, NodeId] = {}
        self.blocks: dict[str, str] = {}
        """Scope to the name of the block or cell that was called there."""
        self.parameters: dict[str, Any] = {}
        """The net's parameters as they were given."""
        self.together: dict[str, Together] = {}
        """Scope of a node that stands for several to theirs."""
        self.made: dict[NodeId, Value] = {}
        """The conditions under which the program makes nodes, of those that are known; no node is needed elsewhere."""
        self._inputs: dict[str, NodeId] = {}
        self._nodes: dict[NodeId, Node] = {}
        self._operands: dict[NodeId, tuple[NodeId, ...]] = {}
        self._nx: MultiDiGraph[NodeId] | None = None
        self._next = 0

    def __repr__(self) -> str:
        choices = f", {len(self.decisions):,} choices" * bool(self.decisions)
        return one_line(f"<Graph {self.name}: {len(self):,} nodes{choices}, {self.signature}>")

    @property
    def signature(self) -> str:
        """Inputs with their types and outputs: `image f32[3, 32, 32] -> logits`."""
        ops = [node.op for node in map(self._nodes.__getitem__, self._inputs.values())]
        inputs = [f"{op.label} {TensorType(op.axes, op.dtype)}" for op in ops if isinstance(op, Input)]
        return f"{', '.join(inputs)} -> {', '.join(self.outputs)}"

    def add(self, node: Node, *operands: NodeId) -> NodeId:
        """Append a node that reads `operands`; the number it gets."""
        number = self._next
        self._next += 1
        self._nodes[number] = node
        self._operands[number] = operands
        if self._nx is not None:
            self._draw(self._nx, number)
        if isinstance(node.op, Input):
            self._inputs[node.op.label] = number
        return number

    @property
    def nx(self) -> MultiDiGraph[NodeId]:
        """The graph as networkx has it, made when it is first asked for: it takes more memory than all else."""
        if self._nx is None:
            from networkx import MultiDiGraph

            self._nx = MultiDiGraph()
            for number in self:
                self._draw(self._nx, number)
        return self._nx

    def _draw(self, drawn: MultiDiGraph[NodeId], number: NodeId) -> None:
        drawn.add_node(number, node=self._nodes[number])
        for position, operand in enumerate(self._operands[number]):
            drawn.add_edge(operand, number, key=position)

    def __getitem__(self, number: NodeId) -> Node:
        return self._nodes[number]

    def __iter__(self) -> Iterator[NodeId]:
        return iter(self._operands)

    def __len__(self) -> int:
        return len(self._operands)

    def __contains__(self, number: object) -> bool:
        return number in self._operands

    def operands(self, number: NodeId) -> tuple[NodeId, ...]:
        """What a node reads, by position."""
        return self._operands[number]

    def consumers(self, number: NodeId) -> list[NodeId]:
        """The nodes that read `number`, each once per position it reads it at."""
        return [consumer for _, consumer in self.nx.out_edges(number)]

    @property
    def given(self) -> tuple[Value, ...]:
        """What holds for every architecture of the space: the constraints that are conditions on choices."""
        return tuple(one.condition for one in self.constraints if one.cost is None and one.condition is not True)

    @property
    def inputs(self) -> dict[str, NodeId]:
        """The input nodes by name, in the order they were declared in."""
        return dict(self._inputs)

    def empty(self) -> Graph:
        """A graph of the same name, choices and constraints, with no nodes yet."""
        other = Graph(self.name)
        other.decisions = dict(self.decisions)
        other.constraints = list(self.constraints)
        other.blocks = self.blocks
        other.parameters = dict(self.parameters)
        other.together = dict(self.together)
        return other


Step = Callable[[Graph, Node, tuple[NodeId, ...]], NodeId]


def rebuild(graph: Graph, step: Step) -> Graph:
    """A copy in which every node went through `step(copy, node, operands)`, operands first.

    The step adds what it wants to the copy and returns the number that stands for the node from then on.
    """
    copy = graph.empty()
    moved: dict[NodeId, NodeId] = {}
    for number in graph:
        moved[number] = step(copy, graph[number], tuple([moved[operand] for operand in graph.operands(number)]))
    copy.outputs = {name: moved[number] for name, number in graph.outputs.items()}
    return copy


def keep(out: Graph, node: Node, operands: tuple[NodeId, ...]) -> NodeId:
    """The step that changes nothing."""
    return out.add(node, *operands)


def state_name(scope: str, weight: str) -> str:
    """A weight's name in state dicts and models: `layer[2].op.conv3`, `weight` -> `layer.2.op.conv3.weight`."""
    return _path(scope) + weight


@lru_cache(maxsize=65_536)
def _path(scope: str) -> str:
    return "".join(f"{part}." for part in re.findall(r"[^.\[\]]+", scope))

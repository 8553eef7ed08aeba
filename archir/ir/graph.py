"""Nodes and graphs: the central data structure of the front end, the passes and the backends.

A node is immutable. A graph stores nodes with their operands, and is also available as a `networkx.MultiDiGraph` whose
edge keys are operand positions. Derived values such as types are stored by the code that computes them, never on nodes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archir.diagnostics.errors import NO_SPAN, Span
from archir.diagnostics.escaping import escape_to_line
from archir.diagrams.diagram import Choice, Value
from archir.ir.op import Op
from archir.ir.structure import Input
from archir.ir.types import TensorType

if TYPE_CHECKING:
    from networkx import MultiDiGraph  # importing it takes a quarter of the time of a short command

NodeId = int


@dataclass(frozen=True, slots=True)
class Node:
    """An operation in a scope: a path such as `layer[2][0].op.conv3`. Nodes with equal scopes share weights."""

    op: Op
    span: Span = field(default=NO_SPAN, compare=False, repr=False)
    scope: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """A choice in a graph, with the condition on other choices under which it is active."""

    choice: Choice
    active: Value = True


@dataclass(frozen=True, slots=True)
class Constraint:
    """A condition that architectures must satisfy: `where` defines the space, `require` narrows the space.

    If `cost` is set, the constraint means that wherever the condition holds, the cost is in `relation` (such as `<=`)
    to `limit`.
    """

    condition: Value
    keyword: str = "require"
    text: str = ""
    span: Span = field(default=NO_SPAN, compare=False, repr=False)
    cost: str | None = None
    relation: str = ""
    limit: Value = 0
    table: Path | None = field(default=None, compare=False, repr=False)
    """The path of the table file in which the cost is looked up, or None."""


@dataclass(frozen=True, slots=True)
class MergedScopes:
    """The scopes of the original nodes that a merged node replaces, under which their weights are saved.

    The merged node's weights are the original weights concatenated along the first axis in this order. If `is_shared`
    is set, nothing is concatenated: each original node has all of the merged node's weights.
    """

    scopes: tuple[str, ...]
    is_shared: bool = False


class Graph:
    """A directed acyclic graph of nodes, with named inputs and outputs, choices and constraints.

    Nodes are numbered so that operands come before their consumers; `add` is the only way to insert a node. Iteration
    yields the numbers, and `graph[number]` is a node with `op`, `scope` and `span`.

    Examples:
        >>> ops = [network[number].op.name for number in network]
        >>> ops[0], len(network.operands(network.inputs["image"])), list(network.outputs)
        ('input', 0, ['logits'])
    """

    def __init__(self, name: str = "graph") -> None:
        self.name = name
        self.decisions: dict[str, Decision] = {}
        self.constraints: list[Constraint] = []
        self.outputs: dict[str, NodeId] = {}
        self.blocks: dict[str, str] = {}
        """Name of the block or cell that was called in each scope, by scope."""
        self.parameters: dict[str, Any] = {}
        """Values of the net's parameters, by name."""
        self.merged_scopes: dict[str, MergedScopes] = {}
        """Maps the scope of each merged node (one that replaces several) to the scopes of its original nodes."""
        self.creation_conditions: dict[NodeId, Value] = {}
        """Condition under which the elaborated program creates each node, if recorded.

        Wherever this condition does not hold, the node is not needed.
        """
        self._inputs: dict[str, NodeId] = {}
        self._nodes: dict[NodeId, Node] = {}
        self._operands: dict[NodeId, tuple[NodeId, ...]] = {}
        self._nx: MultiDiGraph[NodeId] | None = None
        self._next = 0

    def __repr__(self) -> str:
        choices = f", {len(self.decisions):,} choices" * bool(self.decisions)
        return escape_to_line(f"<Graph {self.name}: {len(self):,} nodes{choices}, {self.signature}>")

    @property
    def signature(self) -> str:
        """Inputs with their types, and names of the outputs: `image f32[3, 32, 32] -> logits`."""
        ops = [node.op for node in map(self._nodes.__getitem__, self._inputs.values())]
        inputs = [f"{op.label} {TensorType(op.axes, op.dtype)}" for op in ops if isinstance(op, Input)]
        return f"{', '.join(inputs)} -> {', '.join(self.outputs)}"

    def add(self, node: Node, *operands: NodeId) -> NodeId:
        """Append a node that reads the nodes `operands`, and return its number."""
        number = self._next
        self._next += 1
        self._nodes[number] = node
        self._operands[number] = operands
        if self._nx is not None:
            self._add_to_networkx(self._nx, number)
        if isinstance(node.op, Input):
            self._inputs[node.op.label] = number
        return number

    @property
    def nx(self) -> MultiDiGraph[NodeId]:
        """The graph as a networkx graph, built on first access because it takes more memory than all the rest."""
        if self._nx is None:
            from networkx import MultiDiGraph

            self._nx = MultiDiGraph()
            for number in self:
                self._add_to_networkx(self._nx, number)
        return self._nx

    def _add_to_networkx(self, nx_graph: MultiDiGraph[NodeId], number: NodeId) -> None:
        nx_graph.add_node(number, node=self._nodes[number])
        for position, operand in enumerate(self._operands[number]):
            nx_graph.add_edge(operand, number, key=position)

    def __getitem__(self, number: NodeId) -> Node:
        return self._nodes[number]

    def __iter__(self) -> Iterator[NodeId]:
        return iter(self._operands)

    def __len__(self) -> int:
        return len(self._operands)

    def __contains__(self, number: object) -> bool:
        return number in self._operands

    def operands(self, number: NodeId) -> tuple[NodeId, ...]:
        """Return the nodes that a node reads, by operand position."""
        return self._operands[number]

    def consumers(self, number: NodeId) -> list[NodeId]:
        """Return the nodes that read node `number`, each once per operand position at which it reads the node."""
        return [consumer for _, consumer in self.nx.out_edges(number)]

    @property
    def assumptions(self) -> tuple[Value, ...]:
        """Conditions on choices that hold in every architecture: those of the constraints without a cost."""
        return tuple(
            constraint.condition
            for constraint in self.constraints
            if constraint.cost is None and constraint.condition is not True
        )

    @property
    def inputs(self) -> dict[str, NodeId]:
        """The input nodes by name, in the order of their declaration."""
        return dict(self._inputs)

    def empty_copy(self) -> Graph:
        """Return a graph with the same name, choices and constraints, but without nodes."""
        copy = Graph(self.name)
        copy.decisions = dict(self.decisions)
        copy.constraints = list(self.constraints)
        copy.blocks = self.blocks
        copy.parameters = dict(self.parameters)
        copy.merged_scopes = dict(self.merged_scopes)
        return copy


Step = Callable[[Graph, Node, tuple[NodeId, ...]], NodeId]
"""Rewrite step: adds nodes to the new graph for one original node, and returns the replacement's number."""


def rebuild(graph: Graph, step: Step) -> Graph:
    """Return a rewritten copy of a graph: `step(copy, node, operands)` is called for every node, operands first.

    The step adds nodes to the copy, and returns the number of the node that replaces the original one.
    """
    copy = graph.empty_copy()
    new_numbers: dict[NodeId, NodeId] = {}
    for number in graph:
        new_numbers[number] = step(
            copy, graph[number], tuple([new_numbers[operand] for operand in graph.operands(number)])
        )
    copy.outputs = {name: new_numbers[number] for name, number in graph.outputs.items()}
    return copy


def copy_node(out: Graph, node: Node, operands: tuple[NodeId, ...]) -> NodeId:
    """Rewrite step that copies the node unchanged."""
    return out.add(node, *operands)


def scope_path(scope: str) -> tuple[str, ...]:
    """Return the names and indices that a scope consists of: `a.b[0]` -> (`a`, `b`, `0`)."""
    return tuple(re.findall(r"[^.\[\]]+", scope))


def enclosing_scopes(scope: str, *, indexed: bool = False) -> Iterator[str]:
    """Yield a scope and the scopes around it, outermost first: `a`, `a.b[0]`, `a.b[0].c`.

    With `indexed`, also yield the scopes that end before an index: `a`, `a.b`, `a.b[0]`, `a.b[0].c`.
    """
    for i, char in enumerate(scope):
        if char == "." or (indexed and char == "["):
            yield scope[:i]
    yield scope


def state_name(scope: str, weight: str) -> str:
    """Return the name of a weight in state dicts.

    For scope `layer[2].op.conv3` and name `weight`, it is `layer.2.op.conv3.weight`.
    """
    return _path(scope) + weight


@lru_cache(maxsize=65_536)
def _path(scope: str) -> str:
    return "".join(f"{part}." for part in scope_path(scope))

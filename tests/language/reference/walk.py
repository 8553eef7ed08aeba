"""The state of one run of a net: its choices, the calls in progress and the graph."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from archir.ir.graph import Graph, Node
from archir.ir.op import Op
from archir.ir.types import TensorType
from archir.language.syntax import ast
from tests.language.reference.operands import inferred
from tests.language.reference.values import Tensor, Wrong

MAX_STEPS = 50_000


class Excluded(Exception):  # noqa: N818
    """Raised if a `where` excludes the current choices."""


@dataclass
class Walk:
    """The result of one run: the choices, and the graph or the mistake."""

    decisions: list[tuple[str, str]] = field(default_factory=list)
    """Names of the choices within the innermost call, and their labels."""
    graph: Graph | None = None
    wrong: str | None = None
    kept: bool = True
    """True if every requirement held."""
    vague: bool = False
    """True if the run does not decide which architectures exist: a mistake follows a violated requirement, or a choice
    is made only after a requirement that is violated whenever it is reached."""
    met: list[tuple[Hashable, bool]] = field(default_factory=list)
    """The choices, each by its place in the program and the calls around it, and True if every requirement held."""

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of the outputs."""
        assert self.graph is not None
        return tuple(self.types[number].shape for number in self.graph.outputs.values())

    types: dict[int, TensorType] = field(default_factory=dict)


class Returned(Exception):  # noqa: N818
    def __init__(self, value: Any) -> None:
        self.value = value


@dataclass
class Frame:
    """A call in progress."""

    env: dict[str, Any]
    loops: tuple[int, ...] = ()
    cell: str | None = None
    chain: tuple[Hashable, ...] = ()
    """The calls since the innermost cell."""
    depth: int = 0
    definition: ast.Definition | None = None
    outer: Frame | None = None
    names: Mapping[str, Any] = field(default_factory=dict)
    """Names of the file in which the called block is defined."""


class State:
    """The state in the middle of a run."""

    def __init__(self, imported: ast.File, file: ast.File, prefix: Sequence[int]) -> None:
        self.imported, self.file, self.prefix = imported, file, prefix
        self.answers: list[int] = []
        self.sizes: list[int] = []
        self.cells: dict[Hashable, int] = {}
        self.walk = Walk()
        self.graph = Graph()
        self.types: dict[int, TensorType] = {}
        self.frame = Frame({})
        self.left = MAX_STEPS

    def decide(self, key: Hashable, name: str, labels: Sequence[str], outcomes: int) -> int:
        """Return the outcome of a choice; a cell's choices are made once."""
        label = name + "".join(f"[{i}]" for i in self.frame.loops)
        if self.frame.cell is not None:
            cell_key = (self.frame.cell, self.frame.chain, label)
            if cell_key in self.cells:
                return self.cells[cell_key]
        position = len(self.answers)
        outcome = self.prefix[position] if position < len(self.prefix) else 0
        self.answers.append(outcome)
        self.sizes.append(outcomes)
        self.walk.decisions.append((label, labels[outcome] if labels else ""))
        self.walk.met.append(((key, self.frame.cell, self.frame.chain, self.frame.loops), self.walk.kept))
        if self.frame.cell is not None:
            self.cells[cell_key] = outcome
        return outcome

    def label(self, tree: ast.Choose, label: str | None) -> str:
        if tree.label is None and label is None:
            raise Wrong("this choice has no name")
        return tree.label.text if tree.label is not None else str(label)

    def add(self, op: Op, *operands: Tensor) -> Tensor:
        type_ = inferred(op, tuple([operand.type for operand in operands]))
        node = self.graph.add(Node(op, scope=f"w{len(self.graph)}"), *(operand.node for operand in operands))
        self.types[node] = type_
        return Tensor(node, type_)

    def tensor(self, value: Any) -> Tensor:
        if not isinstance(value, Tensor):
            raise Wrong("a tensor is needed")
        return value

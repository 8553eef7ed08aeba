"""The text form of graphs: deterministic, and read back exactly by `archir.ir.reader`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import fields
from fractions import Fraction

from archir.diagnostics.errors import ArchError
from archir.diagrams.cases import Label, Value, same, varies
from archir.ir.graph import Constraint, Decision, Graph, Node, NodeId
from archir.ir.spelling import Writer
from archir.ir.structure import Input, Select
from archir.ir.types import TensorType
from archir.ir.typing import Types
from archir.ir.verify import typed

_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_.\[\]]*")
_RESERVED = {"true", "false", "case"}


def print_graph(graph: Graph, types: Types | None = None) -> str:
    """The text of a graph. Types are those given, by default those inferred, none if a rule refuses."""
    if not isinstance(graph, Graph):
        raise TypeError(f"expected a graph, such as `space.graph`, and got {type(graph).__name__}")
    return "\n".join(_Printer(graph, _types(graph) if types is None else types).lines()) + "\n"


def _types(graph: Graph) -> Types:
    try:
        return typed(graph)
    except (ArchError, LookupError):  # broken graphs are printed, too
        return {}


def quoted(text: str) -> str:
    """A string as JSON writes it, with nothing in it that does not print."""
    return json.dumps(text, ensure_ascii=not text.isprintable())


def named(name: str) -> str:
    """A name, quoted if it is not made of letters, digits, `_`, `.` and indices."""
    return name if _BARE.fullmatch(name) and name not in _RESERVED else quoted(name)


def enclosing(scope: str) -> Iterator[str]:
    """The scopes around a scope, and itself: `a`, `a.b`, `a.b.c`."""
    for i, char in enumerate(scope):
        if char == ".":
            yield scope[:i]
    yield scope


class ValueWriter(Writer[str]):
    """Writes values as text."""

    def plain(self, value: Value) -> str:
        """`none`, `true`, `3`, `1/4`, `0.5`, `"same"`, `(1, 2)`, `0..4`, `<block>`."""
        match value:
            case None | bool():
                return str(value).lower()
            case str():
                return quoted(value)
            case int() | float():
                return repr(value)
            case Fraction():
                return f"{value.numerator}/{value.denominator}"
            case tuple():
                items = [self.write(item) for item in value]
                return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"
            case range():
                return f"{value.start}..{value.stop}"
        return f"<{getattr(value, 'name', type(value).__name__)}>"

    def inline(self, path: str, branches: list[str]) -> str:
        """`case(layer[0].op: 3, 5)`."""
        return f"case({named(path)}: {', '.join(branches)})"

    def reference(self, number: int) -> str:
        """`$0`."""
        return f"${number}"

    def type(self, of: TensorType) -> str:
        """`f32[16, 32, 32]`."""
        kind = "" if of.kind == "feature" else f"{self.write(of.kind) if varies(of.kind) else of.kind} "
        return f"{kind}{of.dtype}[{', '.join(self.write(dim) for dim in of.dims)}]"


class _Printer(ValueWriter):
    def __init__(self, graph: Graph, types: Types) -> None:
        super().__init__()
        self.graph, self.types = graph, types
        self._lines: list[str] = []
        self._defined = 0

    def lines(self) -> list[str]:
        graph = self.graph
        parameters = ", ".join(f"{named(name)}={self.write(value)}" for name, value in graph.parameters.items())
        for decision in sorted(graph.decisions.values(), key=lambda decision: decision.choice.order):
            self._add(self._choice(decision))
        for constraint in graph.constraints:
            self._add(self._constraint(constraint))
        blocks = dict(graph.blocks)
        for number in graph:
            for scope in enclosing(graph[number].scope):
                if scope in blocks:
                    self._add(f"block {named(scope)} = {named(blocks.pop(scope))}")
            self._add(self._node(number, graph[number]))
        for name, number in graph.outputs.items():
            self._add(f"output {named(name)} = %{number}")
        self._add_definitions()
        head = f"net {named(graph.name)}" + (f"({parameters})" if parameters else "")
        return [head + " {", *self._lines, "}"]

    def _add(self, line: str) -> None:
        self._add_definitions()
        self._lines.append(f"  {line}")

    def _add_definitions(self) -> None:
        """Large cases stand before the line that is the first to mention them."""
        for number, definition in enumerate(self.definitions[self._defined :], self._defined):
            self._lines.append(f"  {self.reference(number)} = {definition}")
        self._defined = len(self.definitions)

    def _choice(self, decision: Decision) -> str:
        choice, active = decision.choice, decision.active
        take = "" if choice.take is None else f" {choice.take} of"
        tags = "".join(f" @{named(tag)}" for tag in sorted(choice.tags))
        alternatives = ", ".join(_label(label) for label in choice.alternatives)
        when = "" if active is True else f" when {self.write(active)}"
        return f"choice {named(choice.path)}{take} {{{alternatives}}}{tags}{when}"

    def _constraint(self, constraint: Constraint) -> str:
        text = f" {quoted(constraint.text)}" if constraint.text else ""
        if constraint.cost is None:
            return f"{constraint.word} {self.write(constraint.condition)}{text}"
        when = "" if constraint.condition is True else f" when {self.write(constraint.condition)}"
        limit = self.write(constraint.limit)
        return f"{constraint.word} {named(constraint.cost)} {constraint.relation} {limit}{when}{text}"

    def _node(self, number: NodeId, node: Node) -> str:
        op, operands = node.op, [f"%{operand}" for operand in self.graph.operands(number)]
        usual, type_ = "", self.types.get(number)
        match op:
            case Input():
                usual, type_ = op.label, None
                text = f"input {quoted(op.label)} {self.type(TensorType(op.axes, op.dtype))}"
            case Select():
                usual = op.choice
                text = f"select({', '.join(operands)}) by {named(op.choice)} [{', '.join(map(str, op.cases))}]"
            case _:
                text = f"{op.name}({', '.join([*operands, *self._attributes(node)])})"
        scope = "" if node.scope == usual else f" @ {named(node.scope)}"
        return f"%{number} = {text}{scope}" + (f" : {self.type(type_)}" if type_ is not None else "")

    def _attributes(self, node: Node) -> Iterator[str]:
        for field in fields(node.op):
            value = getattr(node.op, field.name)
            if not same(value, field.default):
                yield f"{field.name}={self.write(value)}"


def _label(label: Label) -> str:
    return str(label) if type(label) is int else named(str(label))

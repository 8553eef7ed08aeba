"""Printer of the text form of graphs.

The output is deterministic, and `archir.ir.reader` parses it without loss.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import fields
from fractions import Fraction

from archir.diagnostics.errors import ArchError
from archir.diagrams.diagram import Label, Value, same, varies
from archir.ir.graph import Constraint, Decision, Graph, Node, NodeId, enclosing_scopes
from archir.ir.structure import Input, Select
from archir.ir.types import TensorType
from archir.ir.typing import Types
from archir.ir.value_io import Writer
from archir.ir.verify import checked_types

_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_.\[\]]*")
_RESERVED = {"true", "false", "case"}


def print_graph(graph: Graph, types: Types | None = None) -> str:
    """Return the text form of a graph, with nodes annotated by their types; archir can read it back.

    Args:
        graph: The graph.
        types: Types of the nodes, by default the inferred ones; if inference fails, nodes have no annotations.

    Returns:
        The text, one line per node.

    Examples:
        >>> print(archir.print_graph(archir.block(archir.load("fixed.arch"), "unit@unit")))
        net ...
    """
    if not isinstance(graph, Graph):
        raise TypeError(f"expected a graph, such as `space.graph`, and got {type(graph).__name__}")
    return "\n".join(_Printer(graph, _inferred_types(graph) if types is None else types).lines()) + "\n"


def _inferred_types(graph: Graph) -> Types:
    try:
        return checked_types(graph)
    except (ArchError, LookupError):  # invalid graphs can be printed, too
        return {}


def quote(text: str) -> str:
    """Return a text as a JSON string in which unprintable characters are escaped."""
    return json.dumps(text, ensure_ascii=not text.isprintable())


def quote_name(name: str) -> str:
    """Return a name; quoted as a JSON string unless it consists of letters, digits, `_`, `.` and indices only."""
    return name if _BARE.fullmatch(name) and name not in _RESERVED else quote(name)


class ValueWriter(Writer[str]):
    """Writer of values in the text form."""

    def plain(self, value: Value) -> str:
        """Write a value that is not a diagram: `none`, `true`, `3`, `1/4`, `0.5`, `"same"`, `(1, 2)`, `0..4`,
        `<block>`."""
        match value:
            case None | bool():
                return str(value).lower()
            case str():
                return quote(value)
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
        """Write a diagram at the place where it is used: `case(layer[0].op: 3, 5)`."""
        return f"case({quote_name(path)}: {', '.join(branches)})"

    def reference(self, number: int) -> str:
        """Write a reference to a diagram that has a numbered definition: `$0`."""
        return f"${number}"

    def type(self, type_: TensorType) -> str:
        """Write a type: `f32[16, 32, 32]`."""
        kind = "" if type_.kind == "feature" else f"{self.write(type_.kind) if varies(type_.kind) else type_.kind} "
        return f"{kind}{type_.dtype}[{', '.join(self.write(dim) for dim in type_.dims)}]"


class _Printer(ValueWriter):
    def __init__(self, graph: Graph, types: Types) -> None:
        super().__init__()
        self.graph, self.types = graph, types
        self._lines: list[str] = []
        self._defined = 0

    def lines(self) -> list[str]:
        graph = self.graph
        parameters = ", ".join(f"{quote_name(name)}={self.write(value)}" for name, value in graph.parameters.items())
        for decision in sorted(graph.decisions.values(), key=lambda decision: decision.choice.order):
            self._add(self._choice(decision))
        for constraint in graph.constraints:
            self._add(self._constraint(constraint))
        blocks = dict(graph.blocks)
        for number in graph:
            for scope in enclosing_scopes(graph[number].scope):
                if scope in blocks:
                    self._add(f"block {quote_name(scope)} = {quote_name(blocks.pop(scope))}")
            self._add(self._node(number, graph[number]))
        for name, number in graph.outputs.items():
            self._add(f"output {quote_name(name)} = %{number}")
        self._add_definitions()
        head = f"net {quote_name(graph.name)}" + (f"({parameters})" if parameters else "")
        return [head + " {", *self._lines, "}"]

    def _add(self, line: str) -> None:
        self._add_definitions()
        self._lines.append(f"  {line}")

    def _add_definitions(self) -> None:
        """Print the definitions of large diagrams that have not been printed yet; the next line refers to them."""
        for number, definition in enumerate(self.definitions[self._defined :], self._defined):
            self._lines.append(f"  {self.reference(number)} = {definition}")
        self._defined = len(self.definitions)

    def _choice(self, decision: Decision) -> str:
        choice, active = decision.choice, decision.active
        subset = "" if choice.k is None else f" {choice.k} of"
        tags = "".join(f" @{quote_name(tag)}" for tag in sorted(choice.tags))
        alternatives = ", ".join(_label(label) for label in choice.alternatives)
        when = "" if active is True else f" when {self.write(active)}"
        return f"choice {quote_name(choice.path)}{subset} {{{alternatives}}}{tags}{when}"

    def _constraint(self, constraint: Constraint) -> str:
        text = f" {quote(constraint.text)}" if constraint.text else ""
        if constraint.cost is None:
            return f"{constraint.keyword} {self.write(constraint.condition)}{text}"
        when = "" if constraint.condition is True else f" when {self.write(constraint.condition)}"
        limit = self.write(constraint.limit)
        return f"{constraint.keyword} {quote_name(constraint.cost)} {constraint.relation} {limit}{when}{text}"

    def _node(self, number: NodeId, node: Node) -> str:
        op, operands = node.op, [f"%{operand}" for operand in self.graph.operands(number)]
        default_scope, type_ = "", self.types.get(number)
        match op:
            case Input():
                default_scope, type_ = op.label, None
                text = f"input {quote(op.label)} {self.type(TensorType(op.axes, op.dtype))}"
            case Select():
                default_scope = op.choice
                text = f"select({', '.join(operands)}) by {quote_name(op.choice)} [{', '.join(map(str, op.cases))}]"
            case _:
                text = f"{op.name}({', '.join([*operands, *self._attributes(node)])})"
        scope = "" if node.scope == default_scope else f" @ {quote_name(node.scope)}"
        return f"%{number} = {text}{scope}" + (f" : {self.type(type_)}" if type_ is not None else "")

    def _attributes(self, node: Node) -> Iterator[str]:
        for field in fields(node.op):
            value = getattr(node.op, field.name)
            if not same(value, field.default):
                yield f"{field.name}={self.write(value)}"


def _label(label: Label) -> str:
    return str(label) if type(label) is int else quote_name(str(label))

"""The JSON form of graphs, for other programs. It has the same content as the text form, but no types.

    {"schema": 1, "name": "tiny", "parameters": {}, "choices": [...], "values": [...], "constraints": [...],
     "nodes": [{"op": "relu", "operands": [0], "scope": "relu", "attributes": {}}, ...],
     "outputs": {"y": 1}, "blocks": {}}

`values` are large diagrams, to which other values refer by index. Operations must be registered (`import archir.ops`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from math import inf, isfinite, nan
from typing import Any

from archir.diagnostics.errors import RuleError
from archir.diagnostics.hints import suggest
from archir.diagrams.conditions import is_condition
from archir.diagrams.diagram import Choice, Label, Value, leaves
from archir.ir.attributes import new_op, node_errors
from archir.ir.cursor import Cursor
from archir.ir.graph import Constraint, Decision, Graph, Node, NodeId, enclosing_scopes
from archir.ir.names import is_name, is_scope
from archir.ir.structure import Input
from archir.ir.value_io import MAX_NESTING, Definition, Writer, new_choice, new_diagram

SCHEMA = 1
"""Version of the JSON form."""

Json = Any

_SPECIAL_FLOATS = {"inf": inf, "-inf": -inf, "nan": nan}


def to_json(graph: Graph) -> dict[str, Json]:
    """Return a graph as a JSON object."""
    writer = _Writer()
    decisions = sorted(graph.decisions.values(), key=lambda decision: decision.choice.order)
    scopes = (scope for number in graph for scope in enclosing_scopes(graph[number].scope))
    return {
        "schema": SCHEMA,
        "name": graph.name,
        "parameters": {name: writer.write(value) for name, value in graph.parameters.items()},
        "choices": [writer.choice(decision) for decision in decisions],
        "values": writer.definitions,
        "constraints": [writer.constraint(constraint) for constraint in graph.constraints],
        "nodes": [writer.node(graph[number], graph.operands(number)) for number in graph],
        "outputs": dict(graph.outputs),
        "blocks": {scope: graph.blocks[scope] for scope in scopes if scope in graph.blocks},
    }


def from_json(data: Json) -> Graph:
    """Build a graph from a JSON value. Raises ArchError (A0705) with the JSON path of the invalid part."""
    return _Reader().read(Cursor(data))


class _Writer(Writer[Json]):
    def plain(self, value: Value) -> Json:
        match value:
            case float() if not isfinite(value):
                return {"float": repr(value)}
            case None | bool() | int() | float() | str():
                return value
            case Fraction():
                return {"rational": [value.numerator, value.denominator]}
            case tuple():
                return [self.write(item) for item in value]
            case range():
                return {"range": [value.start, value.stop]}
        return {"definition": getattr(value, "name", type(value).__name__)}

    def inline(self, path: str, branches: list[Json]) -> Json:
        return {"case": path, "branches": branches}

    def reference(self, number: int) -> Json:
        return {"value": number}

    def choice(self, decision: Decision) -> Json:
        choice = decision.choice
        data = {"path": choice.path, "alternatives": list(choice.alternatives), "take": choice.k}
        return data | {"tags": sorted(choice.tags), "active": self.write(decision.active)}

    def constraint(self, constraint: Constraint) -> Json:
        data = {"word": constraint.keyword, "text": constraint.text, "condition": self.write(constraint.condition)}
        if constraint.cost is None:
            return data
        return data | {"cost": constraint.cost, "relation": constraint.relation, "limit": self.write(constraint.limit)}

    def node(self, node: Node, operands: tuple[NodeId, ...]) -> Json:
        attributes = {name: self.write(value) for name, value in node.op.attributes().items()}
        return {"op": node.op.name, "operands": list(operands), "scope": node.scope, "attributes": attributes}


class _Reader:
    def __init__(self) -> None:
        self.graph = Graph()
        self._choices: dict[str, Choice] = {}
        self._values: list[Value] = []
        self._inputs: set[str] = set()

    def read(self, data: Cursor) -> Graph:
        graph, entries = self.graph, data.entries()
        schema = entries.get("schema", Cursor(None, "$.schema"))
        if schema.integer() != SCHEMA:
            raise schema.error(f"this archir reads schema {SCHEMA}", "was this written by another version?")
        optional = {"name": graph.name, "choices": [], "values": [], "constraints": [], "blocks": {}, "parameters": {}}
        parts = data.fields("schema", "nodes", "outputs", **optional)
        graph.name = _name(parts["name"])
        conditions = [self._choice(item) for item in parts["choices"].items()]
        for item in parts["values"].items():
            self._values.append(self._value(item))
        for choice, active in zip(self._choices.values(), conditions, strict=True):
            graph.decisions[choice.path] = Decision(choice, self._condition(active))
        graph.constraints = [self._constraint(item) for item in parts["constraints"].items()]
        for item in parts["nodes"].items():
            self._node(item)
        graph.outputs = {name: self._operand(item) for name, item in _checked_entries(parts["outputs"], is_name)}
        graph.blocks = {scope: _name(item) for scope, item in _checked_entries(parts["blocks"], is_scope)}
        graph.parameters = {name: self._value(item) for name, item in _checked_entries(parts["parameters"], is_name)}
        return graph

    def _choice(self, item: Cursor) -> Cursor:
        """Declare a choice; return a cursor to its condition, to be read once all values are defined."""
        parts = item.fields("path", "alternatives", take=None, tags=[], active=True)
        path = _scope(parts["path"])
        if path in self._choices:
            raise parts["path"].error(f"two choices are named `{path}`")
        k = None if parts["take"].value is None else parts["take"].integer()
        labels = [_label(label) for label in parts["alternatives"].items()]
        tags = [_name(tag) for tag in parts["tags"].items()]
        with item.report_rule_errors():
            self._choices[path] = new_choice(path, labels, len(self._choices), k, tags)
        return parts["active"]

    def _constraint(self, item: Cursor) -> Constraint:
        parts = item.fields("word", "condition", text="", cost=None, relation=None, limit=None)
        word, text = parts["word"].one_of("require", "where"), parts["text"].text()
        condition = self._condition(parts["condition"])
        if parts["cost"].value is None:
            return Constraint(condition, word, text)
        relation, limit = parts["relation"].one_of("<", "<=", ">", ">=", "==", "!="), self._value(parts["limit"])
        if not all(type(leaf) is int for leaf in leaves(limit)):
            raise parts["limit"].error("a bound on a cost must be an integer")
        return Constraint(condition, word, text, cost=parts["cost"].text(), relation=relation, limit=limit)

    def _node(self, item: Cursor) -> None:
        parts = item.fields("op", operands=[], scope="", attributes={})
        name = parts["op"].text()
        scope = _scope(parts["scope"]) if parts["scope"].value != "" else ""
        operands = [self._operand(operand) for operand in parts["operands"].items()]
        attributes = {attribute: self._value(value) for attribute, value in parts["attributes"].entries().items()}
        with item.report_rule_errors():
            op = new_op(name, attributes)
            for error in node_errors(op, len(operands), self.graph.decisions):
                raise RuleError(error)
        if isinstance(op, Input):
            if not is_name(op.label):
                raise item.error(f"{op.label[:100]!r} is not a valid name of an input")
            if op.label in self._inputs:
                raise item.error(f"there are two inputs `{op.label}`")
            self._inputs.add(op.label)
        self.graph.add(Node(op, scope=scope), *operands)

    def _operand(self, item: Cursor) -> NodeId:
        if item.integer() not in self.graph:
            raise item.error("there is no such node before this")
        return item.integer()

    def _condition(self, item: Cursor) -> Value:
        value = self._value(item)
        if not is_condition(value):
            raise item.error("a condition must be true or false, whatever is chosen")
        return value

    def _value(self, item: Cursor, nesting: int = 0) -> Value:
        if nesting > MAX_NESTING:
            raise item.error(f"values nest deeper than {MAX_NESTING} levels")
        match item.value:
            case dict():
                return self._special(item, nesting)
            case list():
                return tuple([self._value(part, nesting + 1) for part in item.items()])
            case bool() | float() | str() | None:
                return item.value
        return item.integer()

    def _special(self, item: Cursor, nesting: int) -> Value:
        """Return a value that JSON has no literal for; it is encoded as an object with one key, or is a diagram."""
        parts = item.entries()
        match sorted(parts):
            case ["branches", "case"]:
                return self._case(item, nesting)
            case ["value"]:
                number = parts["value"].integer()
                if not 0 <= number < len(self._values):
                    raise item.error("there is no such value before this")
                return self._values[number]
            case ["rational"]:
                numbers = [number.integer() for number in parts["rational"].items()]
                if len(numbers) == 2 and numbers[1] != 0:
                    return Fraction(*numbers)
            case ["range"]:
                bounds = [bound.integer() for bound in parts["range"].items()]
                if len(bounds) == 2:
                    return range(*bounds)
            case ["definition"] if is_name(name := parts["definition"].text()):
                return Definition(name)
            case ["float"]:
                return _SPECIAL_FLOATS[parts["float"].one_of(*_SPECIAL_FLOATS)]
        raise item.error("this object is not a value")

    def _case(self, item: Cursor, nesting: int) -> Value:
        parts = item.entries()
        path = parts["case"].text()
        if path not in self._choices:
            raise parts["case"].error(f"there is no choice `{path}`", suggest(path, self._choices))
        branches = [self._value(branch, nesting + 1) for branch in parts["branches"].items()]
        with item.report_rule_errors():
            return new_diagram(self._choices[path], branches)


def _label(item: Cursor) -> Label:
    return item.text() if isinstance(item.value, str) else item.integer()


def _name(item: Cursor) -> str:
    if not is_name(item.text()):
        raise item.error(f"{item.text()[:100]!r} is not a valid name")
    return item.text()


def _scope(item: Cursor) -> str:
    if not is_scope(item.text()):
        raise item.error(f"{item.text()[:100]!r} is not a valid scope", "such as `stage[0].layer[1].conv`")
    return item.text()


def _checked_entries(item: Cursor, is_valid: Callable[[str], bool]) -> Iterator[tuple[str, Cursor]]:
    """Yield the entries of an object whose keys must all be valid names or scopes, as checked by `is_valid`."""
    for name, part in item.entries().items():
        if not is_valid(name):
            raise item.error(f"{name[:100]!r} is not a valid {'name' if is_valid is is_name else 'scope'}")
        yield name, part

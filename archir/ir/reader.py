"""Parser of the text form of graphs, the inverse of `archir.ir.printer`.

Operations are looked up in `archir.ir.op.OPS`, so `archir.ops`, which registers them, must be imported first.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from functools import cache
from importlib.resources import files
from math import inf, nan
from typing import Any

from lark import Lark, Token, Tree, UnexpectedCharacters, UnexpectedToken

from archir.diagnostics.errors import ArchError, Diagnostic, RuleError, Source, Span, fail, require
from archir.diagnostics.hints import suggest
from archir.diagrams.conditions import is_condition
from archir.diagrams.diagram import Choice, Value, leaves
from archir.ir.attributes import new_op, node_errors
from archir.ir.graph import Constraint, Decision, Graph, Node, NodeId
from archir.ir.op import Op
from archir.ir.printer import ValueWriter
from archir.ir.structure import Input, Select
from archir.ir.types import DTYPES, KINDS, TensorType
from archir.ir.value_io import MAX_BITS, MAX_NESTING, Definition, new_choice, new_diagram
from archir.ir.verify import checked_types

MAX_CHARACTERS = 2**24
"""Maximum length of a text, in characters."""
MAX_DIAGNOSTICS = 50
"""Maximum number of diagnostics; once it is reached, reading stops."""

_SPECIAL_FLOATS = {
    "inf": inf,
    "-inf": -inf,
    "nan": nan,
}  # always the same nan object: nan only equals itself by identity
_TOKEN_WORDS = {
    "WORD": "a name", "STRING": "a string", "INT": "an integer", "FLOAT": "a number", "RATIONAL": "a fraction",
    "NODE": "a node such as `%0`", "REFERENCE": "a reference such as `$0`", "DEFINITION": "a name such as `<relu>`",
    "DTYPE": "an element type", "KIND": "a kind", "$END": "the end of the text",
}  # fmt: skip
"""Names of the grammar's terminals in error messages."""

Part = Any
"""A node of the syntax tree: a `Token`, or a `Tree` of parts."""


def parse_graph(text: str, name: str = "<ir>") -> Graph:
    """Parse the text form of a graph.

    Raises ArchError: A0701 (syntax), A0702 (operations and values), A0703 (names), A0704 (annotated types that differ
    from the inferred ones).
    """
    source = Source(name, text)
    if len(text) > MAX_CHARACTERS:
        raise fail("A0701", f"the text is longer than {MAX_CHARACTERS} characters", Span(source, 0, 1))
    try:
        tree = _parser().parse(text)
    except UnexpectedCharacters as error:
        at: int = error.pos_in_stream  # type: ignore[assignment]
        message = "this string does not end on its line" if text[at] == '"' else f"unexpected character {text[at]!r}"
        raise fail("A0701", message, Span(source, at, at + 1)) from None
    except UnexpectedToken as error:
        raise ArchError(_unexpected(source, error)) from None
    return _Reader(source).read(tree)


@cache
def _parser() -> Lark:
    grammar = (files("archir_grammar") / "ir.lark").read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", propagate_positions=True, maybe_placeholders=True)


def _unexpected(source: Source, error: UnexpectedToken) -> Diagnostic:
    token = error.token
    if token.type == "$END":
        end = len(source.text.rstrip())
        span, message = Span(source, max(0, end - 1), end), "the text ends too early"
    else:
        start = token.start_pos or 0
        span, message = Span(source, start, start + len(token)), f"unexpected `{token[:40]}`"
    spelled = {t.name: f"`{t.pattern.value}`" for t in _parser().terminals if t.pattern.type == "str"}
    expected = sorted(
        {_TOKEN_WORDS.get(name) or spelled.get(name, name.lower()) for name in error.accepts or error.expected}
    )
    shown = [*expected[:6], "..."] if len(expected) > 6 else expected
    return Diagnostic("A0701", f"{message}: expected {' or '.join(shown)}", span)


class _Reader:
    """Builder of the graph, statement by statement; collects diagnostics.

    A statement that refers to a definition with an error is skipped, without a diagnostic of its own.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.graph = Graph()
        self.problems: list[Diagnostic] = []
        self._choices: dict[str, Choice] = {}
        self._nodes: dict[str, NodeId | None] = {}
        self._inputs: set[str] = set()
        self._values: dict[str, Value] = {}
        self._types: list[tuple[NodeId, TensorType, Span]] = []

    def read(self, tree: Part) -> Graph:
        """Build and return the graph. Raises ArchError with all diagnostics."""
        name, parameters, *statements = tree.children
        self.graph.name = self._name(name)
        with self._checked():
            for statement in statements:
                if statement.data == "choice":
                    self._attempt(self._declare, statement)  # first, as conditions may refer to choices declared below
            for statement in statements:
                self._attempt(getattr(self, f"_read_{statement.data}"), statement)
            for parameter in parameters.children if parameters else ():
                self._attempt(self._read_parameter, parameter)
        with self._checked():
            self._compare_types()
        return self.graph

    @contextmanager
    def _checked(self) -> Iterator[None]:
        yield
        if self.problems:
            raise ArchError(*self.problems)

    def _attempt(self, read: Callable[[Part], None], statement: Part) -> None:
        try:
            with self._at(statement):
                read(statement)
        except ArchError as error:
            self.problems += error.diagnostics
        if len(self.problems) >= MAX_DIAGNOSTICS:
            raise ArchError(*self.problems)

    @contextmanager
    def _at(self, part: Part, code: str = "A0702") -> Iterator[None]:
        """Convert a RuleError that the `with` block raises into an ArchError located at a part of the text."""
        try:
            yield
        except RuleError as error:
            raise fail(code, error.message, self._span(part), error.hint) from None

    def _span(self, part: Part) -> Span:
        location: Any = part if isinstance(part, Token) else part.meta
        return Span(self.source, location.start_pos, location.end_pos)

    # choices, blocks and constraints

    def _declare(self, tree: Part) -> None:
        name, size_token, alternatives, tags, _ = tree.children
        path = self._name(name)
        if path in self._choices:
            raise fail("A0703", f"two choices are named `{path}`", self._span(name))
        labels = [self._value(label) if label.type == "INT" else self._name(label) for label in alternatives.children]
        k = None if size_token is None else self._value(size_token)
        tag_names = [self._name(tag) for tag in tags.children]
        self._choices[path] = new_choice(path, labels, len(self._choices), k, tag_names, self._span(name))

    def _read_choice(self, tree: Part) -> None:
        name, *_, active = tree.children
        if (choice := self._choices.get(self._name(name))) is None:
            raise ArchError
        self.graph.decisions[choice.path] = Decision(choice)  # set even if reading the condition fails below
        self.graph.decisions[choice.path] = Decision(choice, self._condition(active))

    def _read_definition(self, tree: Part) -> None:
        name, definition = tree.children
        if name in self._values:
            raise fail("A0703", f"`{name}` is defined twice", self._span(name))
        self._values[str(name)] = self._value(definition)

    def _read_condition(self, tree: Part) -> None:
        word, condition, text = tree.children
        constraint = Constraint(self._condition(condition), str(word), self._text(text), self._span(tree))
        self.graph.constraints.append(constraint)

    def _read_bound(self, tree: Part) -> None:
        word, cost, relation, limit, condition, text = tree.children
        bound = self._value(limit)
        if not all(type(leaf) is int for leaf in leaves(bound)):
            raise fail("A0702", "a bound on a cost must be an integer", self._span(limit))
        holds, label, span = self._condition(condition), self._text(text), self._span(tree)
        self.graph.constraints.append(Constraint(holds, str(word), label, span, self._name(cost), str(relation), bound))

    def _read_block(self, tree: Part) -> None:
        scope, name = map(self._name, tree.children)
        if scope in self.graph.blocks:
            raise fail("A0703", f"the block at `{scope}` is named twice", self._span(tree))
        self.graph.blocks[scope] = name

    def _read_parameter(self, tree: Part) -> None:
        token, value = tree.children
        if (name := self._name(token)) in self.graph.parameters:
            raise fail("A0703", f"the parameter `{name}` is given twice", self._span(token))
        self.graph.parameters[name] = self._value(value)

    # nodes

    def _read_node(self, tree: Part) -> None:
        name, expression, scope, type_ = tree.children
        if name in self._nodes:
            raise fail("A0703", f"`{name}` is defined twice", self._span(name))
        self._nodes[str(name)] = None
        op, default_scope = getattr(self, f"_{expression.data}")(expression)
        operands = [
            self._operand(part) for part in expression.children if isinstance(part, Token) and part.type == "NODE"
        ]
        with self._at(expression, "A0703" if isinstance(op, Select) else "A0702"):
            for error in node_errors(op, len(operands), self.graph.decisions):
                raise RuleError(error)
        node = Node(op, self._span(tree), default_scope if scope is None else self._name(scope))
        expected = None if type_ is None else self._type(type_)
        self._nodes[str(name)] = number = self.graph.add(node, *operands)
        if expected is not None:
            self._types.append((number, expected, self._span(type_)))

    def _operand(self, name: Token) -> NodeId:
        if name not in self._nodes:
            raise fail("A0703", f"there is no node `{name}` before this", self._span(name))
        number = self._nodes[name]
        if number is None:
            raise ArchError
        return number

    def _input(self, tree: Part) -> tuple[Op, str]:
        label, type_tree = tree.children
        name = self._name(label)
        if name in self._inputs:
            raise fail("A0703", f"there are two inputs `{name}`", self._span(label))
        self._inputs.add(name)
        type_ = self._type(type_tree)
        with self._at(type_tree):
            require(type_.kind == "feature", "an input is a feature")
            return new_op("input", {"label": name, "dims": Input.of(name, type_.dims).dims, "dtype": type_.dtype}), name

    def _select(self, tree: Part) -> tuple[Op, str]:
        name = next(part for part in tree.children if part.type in ("WORD", "STRING"))
        cases = tuple(self._value(part) for part in tree.children if part.type == "INT")
        choice = self._choice(name)
        return Select(choice.path, cases), choice.path

    def _call(self, tree: Part) -> tuple[Op, str]:
        name, *arguments = tree.children
        attributes: dict[str, Value] = {}
        for part in arguments:
            if isinstance(part, Token) and attributes:
                raise fail("A0701", "operands stand before attributes", self._span(part))
            if isinstance(part, Tree):
                attribute, value = part.children
                if attribute in attributes:
                    raise fail("A0702", f"`{attribute}` is given twice", self._span(part))
                attributes[str(attribute)] = self._value(value)
        with self._at(tree):
            return new_op(str(name), attributes), ""

    def _read_output(self, tree: Part) -> None:
        name, node = tree.children
        if (output := self._name(name)) in self.graph.outputs:
            raise fail("A0703", f"the output `{output}` is defined twice", self._span(name))
        self.graph.outputs[output] = self._operand(node)

    # types

    def _type(self, tree: Part) -> TensorType:
        kind, dtype, *dims = tree.children
        if dtype not in DTYPES:
            raise fail("A0702", f"there is no element type `{dtype}`", self._span(dtype), suggest(dtype, DTYPES))
        kind_value: Any = (
            "feature"
            if kind is None
            else str(kind)
            if isinstance(kind, Token) and kind.type == "KIND"
            else self._value(kind)
        )
        values = tuple(self._value(dim) for dim in dims)
        if not all(type(leaf) is int for value in values for leaf in leaves(value)):
            raise fail("A0702", "dimensions must be integers", self._span(tree))
        if not all(type(leaf) is str and leaf in KINDS for leaf in leaves(kind_value)):
            raise fail("A0702", f"a kind is one of {', '.join(KINDS)}", self._span(tree))
        return TensorType(values, str(dtype), kind_value)

    def _compare_types(self) -> None:
        """Report annotated types that differ from the inferred ones; annotations are only for human readers."""
        if not self._types:
            return
        types = checked_types(self.graph, "A0704")
        for number, expected, span in self._types:
            inferred = types.get(number, expected)
            if inferred != expected:
                message = f"%{number} is declared {ValueWriter().type(expected)}, but is {ValueWriter().type(inferred)}"
                self.problems.append(Diagnostic("A0704", message, span))

    # names and values

    def _name(self, token: Token) -> str:
        return self._text(token) if token.type == "STRING" else str(token)

    def _text(self, token: Token | None) -> str:
        try:
            text: str = json.loads(token) if token is not None else ""
        except ValueError:
            assert token is not None
            raise fail("A0701", "strings are escaped as in JSON", self._span(token)) from None
        return text

    def _choice(self, name: Token) -> Choice:
        path = self._name(name)
        if path not in self._choices:
            raise fail("A0703", f"there is no choice `{path}`", self._span(name), suggest(path, self._choices))
        return self._choices[path]

    def _condition(self, part: Part) -> Value:
        value = True if part is None else self._value(part)
        if not is_condition(value):
            raise fail("A0702", "a condition must be true or false, whatever is chosen", self._span(part))
        return value

    def _value(self, part: Part, nesting: int = 0) -> Value:
        if isinstance(part, Token):
            return self._plain(part)
        if nesting > MAX_NESTING:
            raise fail("A0701", f"values nest deeper than {MAX_NESTING} levels", self._span(part))
        if part.data == "range":
            return range(*(self._value(bound) for bound in part.children))
        if part.data == "tuple":
            return tuple([self._value(item, nesting + 1) for item in part.children])
        name, *branches = part.children
        choice = self._choice(name)
        with self._at(part):
            return new_diagram(choice, [self._value(branch, nesting + 1) for branch in branches])

    def _plain(self, token: Token) -> Value:
        match token.type:
            case "TRUE" | "FALSE":
                return token.type == "TRUE"
            case "NONE":
                return None
            case "STRING":
                return self._text(token)
            case "DEFINITION":
                return Definition(token[1:-1])
            case "REFERENCE" if token in self._values:
                return self._values[token]
            case "REFERENCE":
                raise fail("A0703", f"`{token}` is not defined before this", self._span(token))
            case "FLOAT":
                return _SPECIAL_FLOATS[token] if token in _SPECIAL_FLOATS else float(token)
        return self._number(token)

    def _number(self, token: Token) -> int | Fraction:
        with self._at(token):
            require(len(token) * 3 <= MAX_BITS, "this number is too long")
            if token.type == "INT":
                return int(token)
            require(int(token.split("/")[1]) != 0, "this divides by zero")
            return Fraction(token)

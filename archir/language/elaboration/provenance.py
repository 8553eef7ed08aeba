"""Finds the cause of an error: where a number is written in the program, and which operations produce a size.

Numbers are traced backwards through names and calls, sizes through operations that preserve them.

An error inside a block often has its cause in the net, several calls up. The search uses only the syntax, along the
calls that led to the error, and also traces arguments. It reports the literals whose common factor with the number is
largest; for example, `263/4` comes from `channels = 263`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from math import gcd
from typing import TYPE_CHECKING

from archir.diagnostics.errors import NO_SPAN, Note, RuleError, Span
from archir.diagrams.diagram import value_at
from archir.diagrams.lifting import CombinationError
from archir.ir.graph import Graph, NodeId
from archir.ir.structure import Select
from archir.ir.types import TensorType
from archir.language.elaboration.name_analysis import walk
from archir.language.syntax import ast

if TYPE_CHECKING:
    from archir.language.elaboration.frame import Frame

_NUMBER = re.compile(r"(?<![\w./])\d{1,18}(?![\w.])")
_SHAPE = re.compile(r"\[[\d, ]*\]")
_MAX_STEPS = 2_000
"""Maximum number of syntax nodes to visit."""
_UNRELATED = 100
"""Value of `_distance` at or above which two numbers count as unrelated."""
_MAX_NODES = 20_000
"""Maximum number of syntax nodes to index per definition."""
_MAX_NOTES = 2
"""Maximum number of notes to return."""
_MIN_NUMBER = 3
"""Smallest literal that is traced; smaller numbers occur too often to be evidence."""


def provenance_notes(
    frame: Frame, span: Span, message: str, other_notes: Sequence[Note] = (), has_sources: bool = False
) -> tuple[Note, ...]:
    """Return notes on the literals from which the numbers in a message come.

    If there are none, the shapes differ and `has_sources` is False, the notes say where the tensors were
    assigned. Lines that the diagnostic shows already, by its span or by `other_notes`, are omitted.
    """
    shapes = [set(_NUMBER.findall(shape)) for shape in _SHAPE.findall(message)]
    differ = "shapes differ" in message and len(shapes) == 2
    plain = _SHAPE.sub("", message) if "expected" in message else message
    wanted = {int(number) for number in (shapes[0] ^ shapes[1] if differ else _NUMBER.findall(plain))}
    tracer = _Tracer()
    trees = tracer.at(frame, span)
    distances: dict[Span, int] = {}
    for literal in tracer.literals(frame, trees):
        if isinstance(literal.value, int) and literal.value >= _MIN_NUMBER:
            distances.setdefault(
                literal.span, min((_distance(literal.value, number) for number in wanted), default=_UNRELATED)
            )
    min_distance = min(distances.values(), default=_UNRELATED)
    shown = {
        _line_key(place)
        for place in (frame.user_span(span), span, *(note.span for note in other_notes))
        if place is not None
    }
    places = [
        place for place, distance in distances.items() if distance == min_distance < (2 if differ else _UNRELATED)
    ]
    if any(_line_key(place) in shown for place in places):
        return ()
    notes = [Note(f"`{place.text}` is written here", place) for place in places[:_MAX_NOTES]]
    return (
        tuple(notes)
        if notes or has_sources or not differ
        else tuple(tracer.assignment_notes(frame, trees, shown))[:_MAX_NOTES]
    )


def _distance(value: int, number: int) -> int:
    """Return the product of two numbers divided by their greatest common divisor each; 1 if they are equal.

    Returns `_UNRELATED` if the greatest common divisor is smaller than _MIN_NUMBER.
    """
    shared = gcd(value, number)
    return value // shared * (number // shared) if shared >= _MIN_NUMBER else _UNRELATED


def _line_key(span: Span) -> str:
    return f"{span.source.name}:{span.line}"


class _Tracer:
    """Traces names back to their definitions in the syntax tree, for a limited number of steps."""

    def __init__(self) -> None:
        self.left = _MAX_STEPS
        self.seen: set[tuple[int, int]] = set()
        self.indices: dict[int, _DefinitionIndex] = {}

    def parts(self, tree: object) -> Iterator[ast.Tree]:
        """Yield the nodes of a syntax tree until the step limit is reached."""
        for part in walk(tree):
            self.left -= 1
            if self.left < 0:
                return
            yield part

    def index(self, frame: Frame, span: Span) -> _DefinitionIndex:
        """Return the index of the definition that contains a span."""
        definition = frame.block.definition if frame.block is not None else _definition_at(frame, span)
        if id(definition) not in self.indices:
            self.indices[id(definition)] = _DefinitionIndex.of(definition)
        return self.indices[id(definition)]

    def at(self, frame: Frame, span: Span) -> list[ast.Tree]:
        """Return the outermost expression with exactly this span, as a list of at most one item."""
        return self.index(frame, span).trees.get((span.start, span.end), [])[:1]

    def literals(self, frame: Frame, trees: Sequence[ast.Tree]) -> Iterator[ast.Literal]:
        """Yield the integer literals on which the expressions depend, fewest steps away first."""
        queue = [(frame, tree) for tree in trees]
        while queue and self.left > 0:
            frame, tree = queue.pop(0)
            if (id(frame), id(tree)) in self.seen:
                continue
            self.seen.add((id(frame), id(tree)))
            for part in self.parts(tree):
                if isinstance(part, ast.Literal) and type(part.value) is int and not frame.module.library:
                    yield part
                elif isinstance(part, ast.Name):
                    queue += self.definitions(frame, part)

    def definitions(self, frame: Frame, name: ast.Name) -> Iterator[tuple[Frame, ast.Tree]]:
        """Yield the expressions that may have given a name its value, each with the frame it belongs to."""
        home = self.index(frame, name.span)
        values = home.values.get(name.text, [])
        yield from ((frame, value) for start, value in values if start < name.span.start)
        for number, param in enumerate(home.params):
            if param.name.text == name.text:
                yield from self._argument(frame, param, number)
                return
        for const in () if values else frame.module.constants():
            if const.name.text == name.text:
                yield frame, const.value

    def _argument(self, frame: Frame, param: ast.Param, number: int) -> Iterator[tuple[Frame, ast.Tree]]:
        caller, called = frame.caller, frame.call_span
        if caller is not None and called is not None:
            home = self.index(caller, called)
            for call in home.trees.get((called.start, called.end), []):
                arguments = call.arguments if isinstance(call, ast.Call) else ()
                pipe = home.pipes.get(id(call))
                positional = [argument.value for argument in arguments if argument.name is None]
                position = number - (pipe is not None)
                named = [
                    argument.value
                    for argument in arguments
                    if argument.name is not None and argument.name.text == param.name.text
                ]
                value = named[0] if named else positional[position] if 0 <= position < len(positional) else None
                value = pipe.first if value is None and pipe is not None and position < 0 else value
                if value is not None:
                    yield caller, value
                    return
        if param.default is not None:
            yield frame, param.default

    def assignment_notes(self, frame: Frame, trees: Sequence[ast.Tree], shown: set[str]) -> Iterator[Note]:
        """Yield notes on the last assignment to each name in the expressions."""
        for part in [part for tree in trees for part in self.parts(tree)]:
            if isinstance(part, ast.Name):
                assignments = self.index(frame, part.span).assignments.get(part.text, [])
                places = [target for target, end in assignments if end <= part.span.start]
                if places and _line_key(places[-1]) not in shown:
                    yield Note(f"`{part.text}` is made here", places[-1])


class _DefinitionIndex:
    """Index of the syntax nodes of a definition by position, and of the assignments in it by name."""

    def __init__(self) -> None:
        self.params: tuple[ast.Param, ...] = ()
        self.trees: dict[tuple[int, int], list[ast.Tree]] = {}
        """Syntax nodes by (start, end) offsets, outermost first."""
        self.values: dict[str, list[tuple[int, ast.Tree]]] = {}
        """For each name: (start offset of the assignment or loop, assigned or iterated expression) pairs."""
        self.assignments: dict[str, list[tuple[Span, int]]] = {}
        """For each name assigned without unpacking: (span of the name, end offset of the assignment) pairs."""
        self.pipes: dict[int, ast.Pipe] = {}
        """Maps the `id` of each expression that receives a piped value to the pipe."""

    @staticmethod
    def of(definition: ast.Definition | None) -> _DefinitionIndex:
        """Build the index of a definition, from its first `_MAX_NODES` nodes."""
        index = _DefinitionIndex()
        if definition is None:
            return index
        index.params = definition.params
        for tree in islice(walk(definition), _MAX_NODES):
            index.trees.setdefault((tree.span.start, tree.span.end), []).append(tree)
            if isinstance(tree, (ast.Assign, ast.ForLoop)):
                for target in tree.targets:
                    value = tree.value if isinstance(tree, ast.Assign) else tree.items
                    index.values.setdefault(target.text, []).append((tree.span.start, value))
                if isinstance(tree, ast.Assign) and len(tree.targets) == 1:
                    index.assignments.setdefault(tree.targets[0].text, []).append((tree.targets[0].span, tree.span.end))
            elif isinstance(tree, ast.Pipe):
                index.pipes.update((id(fed_tree), tree) for fed_tree in _pipe_targets(tree))
        return index


def _definition_at(frame: Frame, span: Span) -> ast.Definition | None:
    definitions = frame.module.definitions()
    return next(
        (definition for definition in definitions if definition.span.start <= span.start < definition.span.end), None
    )


def _pipe_targets(pipe: ast.Pipe) -> Iterator[ast.Tree]:
    """Yield all expressions that receive the value of a pipe, including alternatives, match arms and branches."""
    stack: list[ast.Tree] = list(pipe.targets)
    while stack:
        tree = stack.pop()
        yield tree
        match tree:
            case ast.Pipe():
                stack.append(tree.first)
            case ast.ChooseOne():
                stack += [option.value for option in tree.alternatives]
            case ast.Match():
                stack += [option.value for option in tree.arms]
            case ast.IfElse():
                stack += [tree.then, tree.orelse]


_MAX_TRACED_NODES = 1_000
"""Maximum number of nodes to trace back through."""


def size_source_notes(
    graph: Graph, types: Mapping[NodeId, TensorType], operands: Sequence[NodeId], error: RuleError
) -> list[Note]:
    """Return notes on the nodes that produce the first size in which two operands differ, for the outcomes in
    `error`."""
    outcomes = {choice.path: o for choice, o in error.assignment.items()} if isinstance(error, CombinationError) else {}
    return list(_SizeTracer(graph, types, outcomes).notes(operands))


class _SizeTracer:
    """Traces sizes back through a graph, for fixed outcomes of the choices."""

    def __init__(self, graph: Graph, types: Mapping[NodeId, TensorType], outcomes: Mapping[str, int]) -> None:
        self.graph, self.types, self.outcomes = graph, types, outcomes

    def sizes(self, number: NodeId) -> list[object]:
        return [value_at(dim, self.outcomes) for dim in self.types[number].dims]

    def notes(self, operands: Sequence[NodeId]) -> Iterator[Note]:
        shapes = [self.sizes(operand) for operand in operands]
        other = next((i for i, shape in enumerate(shapes) if shape != shapes[0]), 0)
        if len(shapes[0]) != len(shapes[other]):
            return
        for axis, pair in enumerate(zip(shapes[0], shapes[other], strict=True)):
            if pair[0] != pair[1]:
                for operand, size in zip((operands[0], operands[other]), pair, strict=True):
                    node = self.graph[self.size_source(operand, axis, size)]
                    if node.span is not NO_SPAN:
                        yield Note(f"the {size} is made here", node.span)
                return

    def size_source(self, number: NodeId, axis: int, size: object) -> NodeId:
        """Trace a size of a tensor back to the node that produces the size.

        That is a node without an operand of the same size on that axis.
        """
        rank = self.types[number].rank
        for _ in range(_MAX_TRACED_NODES):
            op, operands = self.graph[number].op, self.graph.operands(number)
            if isinstance(op, Select):
                operands = (operands[op.cases[self.outcomes.get(op.choice, 0)]],)
            same_size = [
                operand
                for operand in operands
                if self.types[operand].rank == rank and self.sizes(operand)[axis] == size
            ]
            if not same_size:
                return number
            number = same_size[0]
        return number

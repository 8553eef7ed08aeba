"""Graphs without choices as programs that a person would write."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from archir.diagnostics.errors import ArchError, RuleError, fail
from archir.equivalence.canonical import canonical_hash
from archir.ir.graph import Graph, NodeId
from archir.ir.names import is_name
from archir.ir.op import OPS
from archir.ir.structure import Input
from archir.ir.typing import Types, infer
from archir.language.decompiler import operations as idioms
from archir.language.decompiler.blocks import Program
from archir.language.decompiler.imported import Imported
from archir.language.decompiler.pairing import pair
from archir.language.decompiler.programs import block, net
from archir.language.decompiler.regions import tree
from archir.language.decompiler.spelling import RESERVED, snake
from archir.language.decompiler.usual import calls_of, defaults_of, library_defaults
from archir.language.elaboration.elaborate import elaborate
from archir.language.formatter import canonical
from archir.language.source import to_source
from archir.ops.activation import Identity


@dataclass(frozen=True)
class Written:
    """A program, and for each scope of the graph the scope that its weights have there."""

    text: str
    scopes: Mapping[str, str]


def write(imported: Imported) -> Written:
    """The program of a network that was imported, with blocks for its modules.

    What it elaborates to has the same canonical hash, which is looked at each time; a graph for which no blocks are
    found is written node by node. Raises RuleError or ArchError for what cannot be written.
    """
    graph = imported.graph
    wanted = canonical_hash(graph)
    for plain in (False, True):
        try:
            text = program(graph, imported.classes, plain)
        except ArchError as error:
            if any(one.code == "A0908" for one in error.diagnostics):
                raise
            continue  # the text is no program: another one is tried, as if it were of another network
        found = _proved(graph, text, wanted)
        if found is not None:
            return found
    found = _proved(graph, to_source(graph), wanted)
    if found is None:
        raise RuleError(f"`{graph.name}` was not written as it is: this is a mistake in archir")
    return found


def _proved(graph: Graph, text: str, wanted: str) -> Written | None:
    """A program, if it is one of the same network."""
    try:
        made = elaborate(text, graph.name)
    except ArchError:
        return None
    if canonical_hash(made) != wanted:
        return None
    scopes = pair(graph, made)
    return None if scopes is None else Written(text, scopes)


def program(graph: Graph, classes: Mapping[str, str], plain: bool = False) -> str:
    """The text, laid out; `plain` does without the library and without options."""
    for label in (*graph.inputs, *graph.outputs):
        if not is_name(label) or label in RESERVED:
            raise fail("A0908", f"{label[:100]!r} is no name: no input or output of a program can have it")
    graph = _needed(graph)
    types = infer(graph)
    shared = _shared(graph, types)
    root = tree(graph, classes, shared)
    found = Program(graph, types, shared, plain)
    body = found.of(root)
    bodies = [body.items, *(one.body.items for one in found.definitions.values())]
    defaults = library_defaults()
    parameters = {}
    for name, definition in found.definitions.items():
        calls = calls_of(name, bodies)
        parameters[name] = defaults[name] = defaults_of(name, definition.parameters, calls)
    taken = {*found.definitions, *idioms.LIBRARY}
    imports = sorted({idioms.LIBRARY[name] for items in bodies for name in idioms.uses(items)})
    texts = ["\n".join(f"import {library}" for library in imports)] if imports else []
    for name, definition in found.definitions.items():
        texts.append(block(name, definition.body, parameters[name], defaults, taken))
    inputs = {label: (number, _declared(graph, number)) for label, number in graph.inputs.items()}
    title = snake(graph.name)
    while title in taken or title in OPS:
        title += "_net"
    texts.append(net(title, inputs, graph.outputs, body.items, defaults, taken))
    return canonical("\n\n".join(texts) + "\n", graph.name)


def _declared(graph: Graph, number: NodeId) -> str:
    op = graph[number].op
    assert isinstance(op, Input)
    return f"{op.dtype}[{', '.join(map(str, op.dims))}]"


def _needed(graph: Graph) -> Graph:
    """What the outputs need, and the inputs, without identities."""
    live: set[NodeId] = {*graph.inputs.values()}
    stack = list(graph.outputs.values())
    while stack:
        number = stack.pop()
        if number not in live:
            live.add(number)
            stack += graph.operands(number)
    made = graph.empty()
    moved: dict[NodeId, NodeId] = {}
    for number in graph:
        if number in live:
            operands = [moved[operand] for operand in graph.operands(number)]
            idle = isinstance(graph[number].op, Identity)
            moved[number] = operands[0] if idle else made.add(graph[number], *operands)
    made.outputs = {name: moved[number] for name, number in graph.outputs.items()}
    return made


def _shared(graph: Graph, types: Types) -> dict[NodeId, str]:
    """The nodes that share weights with others, and what these are called."""
    weighing = [n for n in graph if graph[n].op.weights(*(types[o] for o in graph.operands(n)))]
    often = Counter(graph[number].scope for number in weighing)
    names: dict[str, str] = {}
    for scope, times in often.items():
        if times > 1:
            base = name = f"shared_{snake(scope.rpartition('.')[2])}"
            number = 1
            while name in names.values():
                number += 1
                name = f"{base}_{number}"
            names[scope] = name
    return {number: names[graph[number].scope] for number in weighing if graph[number].scope in names}

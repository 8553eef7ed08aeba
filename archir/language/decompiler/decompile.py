"""Decompiles graphs without choices into readable `.arch` programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from archir.diagnostics.errors import ArchError, RuleError, fail
from archir.equivalence.canonical import canonical_hash
from archir.ir.graph import Graph, NodeId, enclosing_scopes
from archir.ir.names import is_name
from archir.ir.op import OPS
from archir.ir.structure import Input
from archir.ir.typing import infer
from archir.language.decompiler import fusion_patterns as idioms
from archir.language.decompiler.blocks import ProgramBuilder
from archir.language.decompiler.flat_program import shared_weights, to_source
from archir.language.decompiler.imported import Imported
from archir.language.decompiler.parameters import calls_in, infer_defaults, library_defaults
from archir.language.decompiler.program_text import block_text, net_text
from archir.language.decompiler.regions import region_tree
from archir.language.decompiler.scope_matching import match_scopes
from archir.language.decompiler.spelling import RESERVED, snake
from archir.language.elaboration.elaborate import elaborate
from archir.language.formatter import canonical
from archir.ops.activation import Identity


@dataclass(frozen=True)
class DecompiledProgram:
    """Source text of a decompiled network, and the correspondence of its weight scopes with those of the original
    graph."""

    text: str
    scopes: Mapping[str, str]
    """Maps each scope of the graph that has weights to the scope of the same weights in the program."""


def decompile(imported: Imported) -> DecompiledProgram:
    """Decompile an imported network to a program with blocks for its modules.

    Each candidate program is elaborated, and its canonical hash is compared with that of the graph. The first candidate
    uses library blocks and options, the second uses neither. If both candidates fail, the program has one statement per
    node. Raises RuleError or ArchError if the graph cannot be written as a program.
    """
    graph = imported.graph
    decompiled = _with_blocks(graph, imported.classes) or _verified(graph, to_source(graph), canonical_hash(graph))
    if decompiled is None:
        raise RuleError(f"the program that was written for `{graph.name}` is another network: this is a bug in archir")
    return decompiled


def network_source(network: Graph) -> str:
    """Write a network of a space as a program with the blocks of the space that the network uses.

    If no such program is equal to the network, the program has one statement per node. Raises RuleError if the graph
    has choices, ArchError (A0908) if a name is not valid in programs.
    """
    decompiled = _with_blocks(network, _main_blocks(network))
    return to_source(network) if decompiled is None else decompiled.text


def _main_blocks(network: Graph) -> dict[str, str]:
    """Return the names of a network's blocks by scope, without each block that another block does nothing but call.

    In DARTS, `normal` and `reduction` only call `searched` with other strides, and their names say more.
    """
    nodes: Counter[str] = Counter()
    outer: dict[str, str] = {}
    for number in network:
        scopes = [scope for scope in enclosing_scopes(network[number].scope) if scope in network.blocks]
        nodes.update(scopes)
        outer |= dict(pairwise(reversed(scopes)))
    content = {around: scope for scope, around in outer.items() if nodes[scope] == nodes[around]}
    called: dict[str, set[str | None]] = {}
    for scope in nodes:
        called.setdefault(network.blocks[scope], set()).add(network.blocks.get(content.get(scope, "")))
    hidden = {scope for around, scope in content.items() if len(called[network.blocks[around]]) == 1}
    return {scope: network.blocks[scope] for scope in nodes if scope not in hidden}


def _with_blocks(graph: Graph, classes: Mapping[str, str]) -> DecompiledProgram | None:
    """Return the first candidate program with blocks that equals the graph, or None.

    Raises ArchError (A0908) if the label of an input or output is not a valid name.
    """
    expected_hash = canonical_hash(graph)
    for plain in (False, True):
        try:
            text = program_source(graph, classes, plain)
        except ArchError as error:
            if any(diagnostic.code == "A0908" for diagnostic in error.diagnostics):
                raise
            continue  # the text is not a valid program: try the next form, as for a text of another network
        if (decompiled := _verified(graph, text, expected_hash)) is not None:
            return decompiled
    return None


def _verified(graph: Graph, text: str, expected_hash: str) -> DecompiledProgram | None:
    """Elaborate a candidate program; return it with its weight scopes if it equals the graph, None otherwise."""
    try:
        elaborated = elaborate(text, graph.name)
    except ArchError:
        return None
    if canonical_hash(elaborated) != expected_hash:
        return None
    scopes = match_scopes(graph, elaborated)
    return None if scopes is None else DecompiledProgram(text, scopes)


def program_source(graph: Graph, classes: Mapping[str, str], plain: bool = False) -> str:
    """Return the formatted source text of a graph; if `plain`, use neither library blocks nor options.

    Raises ArchError (A0908) if the label of an input or output is not a valid name.
    """
    for label in (*graph.inputs, *graph.outputs):
        if not is_name(label) or label in RESERVED:
            raise fail("A0908", f"an input or output is called {label[:100]!r}, which is not a valid name in a program")
    graph = _simplified(graph)
    types = infer(graph)
    shared = shared_weights(graph, types)
    root = region_tree(graph, classes, shared)
    builder = ProgramBuilder(graph, types, shared, plain)
    body = builder.net_body(root)
    bodies = [body.items, *(entry.body.items for entry in builder.definitions.values())]
    defaults = library_defaults()
    parameters = {}
    for name, definition in builder.definitions.items():
        calls = calls_in(name, bodies)
        parameters[name] = defaults[name] = infer_defaults(name, definition.parameters, calls)
    taken = {*builder.definitions, *idioms.LIBRARY}
    imports = sorted({idioms.LIBRARY[name] for items in bodies for name in idioms.called_library_blocks(items)})
    texts = ["\n".join(f"import {library}" for library in imports)] if imports else []
    for name, definition in builder.definitions.items():
        texts.append(block_text(name, definition.body, parameters[name], defaults, taken))
    inputs = {label: (number, _input_type(graph, number)) for label, number in graph.inputs.items()}
    title = snake(graph.name)
    while title in taken or title in OPS:
        title += "_net"
    texts.append(net_text(title, inputs, graph.outputs, body.items, defaults, taken))
    return canonical("\n\n".join(texts) + "\n", graph.name)


def _input_type(graph: Graph, number: NodeId) -> str:
    """Return the type of an input in the syntax of declarations, such as `f32[1, 3, 32, 32]`."""
    op = graph[number].op
    assert isinstance(op, Input)
    return f"{op.dtype}[{', '.join(map(str, op.dims))}]"


def _simplified(graph: Graph) -> Graph:
    """Return the graph without identity nodes and dead nodes (on which no output depends); all inputs stay."""
    live: set[NodeId] = {*graph.inputs.values()}
    stack = list(graph.outputs.values())
    while stack:
        number = stack.pop()
        if number not in live:
            live.add(number)
            stack += graph.operands(number)
    simplified = graph.empty_copy()
    new_numbers: dict[NodeId, NodeId] = {}
    for number in graph:
        if number in live:
            operands = [new_numbers[operand] for operand in graph.operands(number)]
            is_identity = isinstance(graph[number].op, Identity)
            new_numbers[number] = operands[0] if is_identity else simplified.add(graph[number], *operands)
    simplified.outputs = {name: new_numbers[number] for name, number in graph.outputs.items()}
    return simplified

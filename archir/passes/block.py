"""Extraction of one block of a network as a separate network."""

from __future__ import annotations

from archir.diagnostics.errors import ArchError, fail, join_names
from archir.diagnostics.hints import suggest
from archir.ir.graph import Graph, Node, NodeId, enclosing_scopes
from archir.ir.op import Op
from archir.ir.printer import print_graph
from archir.ir.structure import Input, Select
from archir.ir.typing import infer
from archir.ops.calibration import AsGate, AsKernel

_KIND_CASTS: dict[str, type[Op]] = {"gate": AsGate, "kernel": AsKernel}
"""Maps each kind other than feature to the operation that converts an input (a feature) to this kind."""


def block(graph: Graph, name: str) -> Graph:
    """Return the block `name` of a graph without choices as a separate net, with the block's inputs and outputs.

    If the block is called several times and the calls differ, `name@scope` selects one. Scopes in the result are
    relative to the call, so that weights have the same names as in a file that contains only the block. Raises
    ArchError (A0906).
    """
    nets = {scope: _extract(graph, scope) for scope in calls(graph, name)}
    distinct = {print_graph(net): scope for scope, net in reversed(nets.items())}
    if len(distinct) > 1:
        raise ambiguous(name, graph.name, sorted(distinct.values()))
    return next(iter(nets.values()))


def calls(graph: Graph, name: str) -> list[str]:
    """Return the scopes of all calls of a block, given as `name`, or of one call, given as `name@scope`.

    Raises ArchError: A0906 if there are no such calls, A0901 if the graph has choices.
    """
    if open_ := sorted({choice for number in graph for choice in _choices(graph[number])}):
        raise fail("A0901", f"{join_names(open_)} must be chosen before a block is extracted")
    requested, _, call_scope = name.partition("@")
    used_scopes = {scope for number in graph for scope in enclosing_scopes(graph[number].scope)}
    called = {scope: block_name for scope, block_name in graph.blocks.items() if scope in used_scopes}
    scopes = [scope for scope, block_name in called.items() if block_name == requested]
    if not scopes:
        names = sorted({*called.values()})
        hint = suggest(requested, names) or (f"blocks are {join_names(names, 20)}" if names else None)
        raise fail("A0906", f"`{graph.name}` has no block `{requested}`", None, hint)
    if not call_scope:
        return scopes
    if call_scope not in scopes:
        hint = suggest(call_scope, scopes) or f"it is called at {join_names(scopes, 3)}"
        raise fail("A0906", f"`{requested}` is not called at `{call_scope}`", None, hint)
    return [call_scope]


def ambiguous(name: str, net: str, scopes: list[str]) -> ArchError:
    """Return the error (A0906) that the calls of a block in these scopes differ, so that one must be selected."""
    text = f"`{net}` has {len(scopes)} different calls of `{name}`: those at {join_names(scopes, 3)}"
    return fail("A0906", text, None, f"say which one: `{name}@{scopes[0]}`")


def only_call(graph: Graph, name: str) -> str:
    """Return the scope of the only call of a block, or of the call selected by `name@scope`.

    Raises ArchError (A0906) if there is no such call, or several.
    """
    scopes = calls(graph, name)
    if len(scopes) > 1:
        text = (
            f"`{graph.name}` has {len(scopes)} calls of `{name}`, with weights of their own: at {join_names(scopes, 3)}"
        )
        raise fail("A0906", text, None, f"say which one: `{name}@{scopes[0]}`")
    return scopes[0]


def _choices(node: Node) -> set[str]:
    """Return the paths of the choices that a node depends on."""
    return node.op.choices | ({node.op.choice} if isinstance(node.op, Select) else set())


def _extract(graph: Graph, scope: str) -> Graph:
    """Return the nodes inside a scope as a graph.

    Tensors that the nodes read from outside become inputs, and tensors that are read outside become outputs.
    """
    types = infer(graph)
    inside = {number: None for number in graph if graph[number].scope.startswith(f"{scope}.")}
    result = Graph(graph.blocks[scope])
    result.blocks = {
        other[len(scope) + 1 :]: name for other, name in graph.blocks.items() if other.startswith(f"{scope}.")
    }
    result.parameters = dict(graph.parameters)
    copies: dict[NodeId, NodeId] = {}
    for operand in sorted({o for number in inside for o in graph.operands(number)} - inside.keys()):
        label, kind = f"x{len(copies) + 1}" if copies else "x", types[operand]
        copies[operand] = result.add(Node(Input(label, kind.shape, kind.dtype), graph[operand].span, label))
        if kind.kind in _KIND_CASTS:
            copies[operand] = result.add(Node(_KIND_CASTS[kind.kind](), graph[operand].span), copies[operand])
    for number in inside:
        node = graph[number]
        relative = Node(node.op, node.span, node.scope[len(scope) + 1 :])
        copies[number] = result.add(relative, *(copies[operand] for operand in graph.operands(number)))
    used = {n for n in inside if any(reader not in inside for reader in graph.consumers(n))}
    results = [n for n in inside if n in used or n in graph.outputs.values()]
    result.outputs = {"y" if not i else f"y{i + 1}": copies[number] for i, number in enumerate(results)}
    return result

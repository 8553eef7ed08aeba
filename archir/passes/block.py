"""One block of a network as a network of its own."""

from __future__ import annotations

from archir.diagnostics.errors import ArchError, fail, listed, suggest
from archir.ir.graph import Graph, Node, NodeId
from archir.ir.op import Op
from archir.ir.printer import enclosing, print_graph
from archir.ir.structure import Input, Select
from archir.ir.typing import infer
from archir.ops.calibration import AsGate, AsKernel

_AS: dict[str, type[Op]] = {"gate": AsGate, "kernel": AsKernel}
"""What makes an input be of a kind."""


def block(graph: Graph, name: str) -> Graph:
    """The block `name` of a graph without choices: a net whose inputs and outputs are what the block reads and gives.

    Where several calls of it differ, `name@scope` says which one is meant. Scopes in the result begin below the call's,
    so that weights have the names that they have in a file of the block. Raises ArchError (A0906).
    """
    made = {scope: _cut(graph, scope) for scope in calls(graph, name)}
    different = {print_graph(one): scope for scope, one in reversed(made.items())}
    if len(different) > 1:
        raise ambiguous(name, graph.name, sorted(different.values()))
    return next(iter(made.values()))


def calls(graph: Graph, name: str) -> list[str]:
    """The scopes of the calls that `name` or `name@scope` means. Raises ArchError (A0906) if there are none."""
    if open_ := sorted({choice for number in graph for choice in _choices(graph[number])}):
        raise fail("A0901", f"{listed(open_)} must be chosen before a block is taken out")
    wanted, _, place = name.partition("@")
    standing = {scope for number in graph for scope in enclosing(graph[number].scope)}
    called = {scope: known for scope, known in graph.blocks.items() if scope in standing}
    scopes = [scope for scope, known in called.items() if known == wanted]
    if not scopes:
        names = sorted({*called.values()})
        hint = suggest(wanted, names) or (f"blocks are {listed(names, 20)}" if names else None)
        raise fail("A0906", f"`{graph.name}` has no block `{wanted}`", None, hint)
    if not place:
        return scopes
    if place not in scopes:
        hint = suggest(place, scopes) or f"it is called at {listed(scopes, 3)}"
        raise fail("A0906", f"`{wanted}` is not called at `{place}`", None, hint)
    return [place]


def ambiguous(name: str, net: str, scopes: list[str]) -> ArchError:
    """The error for a block whose calls at these scopes differ, so that they cannot be meant all at once."""
    text = f"`{net}` has {len(scopes)} different calls of `{name}`: those at {listed(scopes, 3)}"
    return fail("A0906", text, None, f"say which one: `{name}@{scopes[0]}`")


def only_call(graph: Graph, name: str) -> str:
    """The scope of a block that is called once, or of the call that is named. Raises ArchError (A0906)."""
    scopes = calls(graph, name)
    if len(scopes) > 1:
        text = f"`{graph.name}` has {len(scopes)} calls of `{name}`, with weights of their own: at {listed(scopes, 3)}"
        raise fail("A0906", text, None, f"say which one: `{name}@{scopes[0]}`")
    return scopes[0]


def _choices(node: Node) -> set[str]:
    return node.op.choices | ({node.op.choice} if isinstance(node.op, Select) else set())


def _cut(graph: Graph, scope: str) -> Graph:
    types = infer(graph)
    inside = {number: None for number in graph if graph[number].scope.startswith(f"{scope}.")}
    result = Graph(graph.blocks[scope])
    result.blocks = {
        other[len(scope) + 1 :]: name for other, name in graph.blocks.items() if other.startswith(f"{scope}.")
    }
    result.parameters = dict(graph.parameters)
    moved: dict[NodeId, NodeId] = {}
    for operand in sorted({o for number in inside for o in graph.operands(number)} - inside.keys()):
        label, kind = f"x{len(moved) + 1}" if moved else "x", types[operand]
        moved[operand] = result.add(Node(Input(label, kind.shape, kind.dtype), graph[operand].span, label))
        if kind.kind in _AS:
            moved[operand] = result.add(Node(_AS[kind.kind](), graph[operand].span), moved[operand])
    for number in inside:
        node = graph[number]
        below = Node(node.op, node.span, node.scope[len(scope) + 1 :])
        moved[number] = result.add(below, *(moved[operand] for operand in graph.operands(number)))
    used = {n for n in inside if any(reader not in inside for reader in graph.consumers(n))}
    given = [n for n in inside if n in used or n in graph.outputs.values()]
    result.outputs = {"y" if not i else f"y{i + 1}": moved[number] for i, number in enumerate(given)}
    return result

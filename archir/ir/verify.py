"""The verifier: what must hold of every graph, whoever made it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from archir.diagnostics.errors import ArchError, Diagnostic, RuleError, Span
from archir.diagrams.cases import Choice, Value, leaves, support
from archir.diagrams.conditions import both, is_condition
from archir.diagrams.lifting import lift
from archir.diagrams.symbols import value_of
from archir.ir.attributes import complaint, misfits
from archir.ir.graph import Graph, Node, NodeId
from archir.ir.needs import needs
from archir.ir.op import OPS, Op
from archir.ir.structure import Input
from archir.ir.types import TensorType
from archir.ir.typing import NodeError, infer, lifted


class BrokenGraph(ArchError):  # noqa: N818  (an error, as its base says)
    """A graph that breaks the rules of graphs; a diagnostic (A0706) for each violation."""


def verify(graph: Graph) -> None:
    """Raise BrokenGraph with all violations, if there are any. Types are looked at once everything else is right."""
    found = [*_nodes(graph), *_edges(graph), *_outputs(graph)]
    if not found:
        found = [*_operations(graph), *_choices(graph)]
    if not found:
        try:
            found = list(_weights(graph, typed(graph, "A0706")))
        except ArchError as error:
            found = list(error.diagnostics)
    if found:
        raise BrokenGraph(*found)


def typed(graph: Graph, code: str | None = None) -> dict[NodeId, TensorType]:
    """The types of all nodes that are needed. ArchError, of this code or the rule's own, if a rule refuses."""
    try:
        return infer(graph)
    except NodeError as refusal:
        node, error = graph[refusal.number], refusal.error
        notes = refusal.notes
        message = f"%{refusal.number} ({node.op.name}): {error.message}"
        diagnostic = Diagnostic(code or error.code, message, node.span, error.hint, notes)
    except RuleError as error:
        diagnostic = Diagnostic(code or error.code, error.message, None, error.hint)
    except ArithmeticError:
        diagnostic = Diagnostic(code or "A0401", "a dimension is too large to compute with")
    raise ArchError(diagnostic)


def weighs(op: Op, types: list[TensorType], under: Value = True) -> bool:
    """Whether an operation has weights, for some combination of choices at least."""
    return any(leaves(lifted(lambda op, *x: bool(op.weights(*x)), op, types, under, told=lambda leaf: leaf)))


def _broken(message: str, span: Span | None = None) -> Diagnostic:
    return Diagnostic("A0706", message, span)


def _nodes(graph: Graph) -> Iterator[Diagnostic]:
    for number in graph:
        if not isinstance(graph.nx.nodes.get(number, {}).get("node"), Node):
            yield _broken(f"%{number} has no node")
    for number in graph.nx:
        if number not in graph:
            yield _broken(f"%{number} was not added by `add`")


def _edges(graph: Graph) -> Iterator[Diagnostic]:
    before: set[NodeId] = set()
    edges: set[tuple[NodeId, NodeId, int]] = set()
    for number in graph:
        for position, operand in enumerate(graph.operands(number)):
            edges.add((operand, number, position))
            if operand not in before:
                problem = "comes after it" if operand in graph else "does not exist"
                yield _broken(f"%{number} reads %{operand}, which {problem}")
        before.add(number)
    actual = set(graph.nx.edges(keys=True))
    for operand, number, position in sorted(edges ^ actual, key=str):
        here = "has" if (operand, number, position) in actual else "lacks"
        yield _broken(f"networkx {here} an edge from %{operand} to %{number} at position {position}")
    if edges != actual:
        from networkx import is_directed_acyclic_graph

        if not is_directed_acyclic_graph(graph.nx):
            yield _broken("there is a cycle")


def _outputs(graph: Graph) -> Iterator[Diagnostic]:
    for name, number in graph.outputs.items():
        if number not in graph:
            yield _broken(f"the output `{name}` is %{number}, which does not exist")


def _operations(graph: Graph) -> Iterator[Diagnostic]:
    labels: set[str] = set()
    for number in graph:
        node = graph[number]
        op, place = node.op, f"%{number} ({node.op.name})"
        if OPS.get(op.name) is not type(op):
            yield _broken(f"{place}: there is no such operation", node.span)
            continue
        wrong = [complaint(type(op), f.name, getattr(op, f.name)) for f in fields(op)]
        if not any(wrong):
            wrong = [*misfits(op, len(graph.operands(number)), graph.decisions)]
        yield from (_broken(f"{place}: {text}", node.span) for text in wrong if text)
        yield from (_broken(f"{place}: {text}", node.span) for text in _strangers(graph, *op.varied.values()))
        if isinstance(op, Input) and not any(wrong):
            if op.label in labels:
                yield _broken(f"{place}: there are two inputs `{op.label}`", node.span)
            labels.add(op.label)


def _choices(graph: Graph) -> Iterator[Diagnostic]:
    orders: dict[int, Choice] = {}
    for path, decision in graph.decisions.items():
        choice, active = decision.choice, decision.active
        if choice.path != path:
            yield _broken(f"the choice `{choice}` is filed under `{path}`", choice.span)
        if choice.order in orders:
            yield _broken(f"`{choice}` and `{orders[choice.order]}` have the same place in the order", choice.span)
        orders[choice.order] = choice
        if not is_condition(active):
            yield _broken(f"the condition of `{path}` is not a condition", choice.span)
        if choice in support(active):
            yield _broken(f"the condition of `{path}` depends on `{path}` itself", choice.span)
        yield from (_broken(f"the condition of `{path}`: {text}", choice.span) for text in _strangers(graph, active))
    for constraint in graph.constraints:
        place = f"`{constraint.word} {constraint.text}`"
        if not is_condition(constraint.condition):
            yield _broken(f"{place} is not a condition", constraint.span)
        for text in _strangers(graph, constraint.condition, constraint.limit):
            yield _broken(f"{place}: {text}", constraint.span)


def _strangers(graph: Graph, *values: Value) -> Iterator[str]:
    """Choices that values depend on, and that the graph does not have."""
    for choice in support(*values):
        decision = graph.decisions.get(choice.path)
        if decision is None:
            yield f"there is no choice `{choice}`"
        elif decision.choice is not choice:
            yield f"depends on another choice `{choice}` than the graph has"


def _weights(graph: Graph, types: dict[NodeId, TensorType]) -> Iterator[Diagnostic]:
    """Nodes with weights have a scope; nodes that share a scope have weights of the same names and shapes."""
    needed = needs(graph)
    first: dict[str, tuple[NodeId, Value]] = {}
    for number in types:
        node = graph[number]
        if type(node.op).weights is Op.weights:
            continue
        place = f"%{number} ({node.op.name})"
        operands = [types[operand] for operand in graph.operands(number)]
        try:
            shapes = lifted(weight_shapes, node.op, operands, needed[number], graph.given, told)
        except (RuleError, ArithmeticError, LookupError):
            yield _broken(f"{place}: has no weights for its operands", node.span)
            continue
        if not any(leaves(shapes)):
            continue
        if not node.scope:
            yield _broken(f"{place}: has weights but no scope", node.span)
            continue
        other, known = first.setdefault(node.scope, (number, shapes))
        if needed.loose.isdisjoint((number, other)):
            together = both(needed[number], needed[other])
            if together is not False and False in leaves(lift(lambda a, b: a == b, shapes, known, under=together)):
                yield _broken(f"{place}: weights `{node.scope}` have other shapes than at %{other}", node.span)


def told(shapes: tuple[Any, ...]) -> tuple[Any, ...]:
    """Shapes without symbols."""
    return tuple((name, tuple(map(value_of, shape))) for name, shape in shapes)


def weight_shapes(op: Op, *operands: Any) -> tuple[Any, ...]:
    """The names and shapes of an operation's weights."""
    return tuple((name, weight.shape) for name, weight in op.weights(*operands).items())

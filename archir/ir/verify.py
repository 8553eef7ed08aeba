"""The verifier: checks that a graph satisfies the invariants of the IR, whatever code built it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from archir.diagnostics.errors import ArchError, Diagnostic, RuleError, Span
from archir.diagrams.conditions import conjoin, is_condition
from archir.diagrams.diagram import Choice, Value, leaves, support
from archir.diagrams.lifting import lift
from archir.diagrams.symbols import concrete_value
from archir.ir.attributes import attribute_error, node_errors
from archir.ir.graph import Graph, Node, NodeId
from archir.ir.op import OPS, Op
from archir.ir.reachability import reachability_conditions
from archir.ir.structure import Input
from archir.ir.types import TensorType
from archir.ir.typing import NodeError, Types, infer, lift_rule


class BrokenGraph(ArchError):  # noqa: N818  (its base class has the suffix)
    """A graph that violates invariants of the IR; carries a diagnostic (A0706) for each violation."""


def verify(graph: Graph) -> None:
    """Check all invariants of a graph. Raises BrokenGraph with all violations.

    Types and weights are checked only if there are no other violations.
    """
    violations = [*_check_nodes(graph), *_check_edges(graph), *_check_outputs(graph)]
    if not violations:
        violations = [*_check_operations(graph), *_check_choices(graph)]
    if not violations:
        try:
            violations = list(_check_weights(graph, checked_types(graph, "A0706")))
        except ArchError as error:
            violations = list(error.diagnostics)
    if violations:
        raise BrokenGraph(*violations)


def checked_types(graph: Graph, code: str | None = None) -> Types:
    """Infer the types of all needed nodes.

    Raises ArchError if a rule fails, with the code of the rule's error or, if that has none, with `code`.
    """
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


def has_parameters(op: Op, types: list[TensorType], under: Value = True) -> bool:
    """Return whether an operation has weights for at least one combination of choices."""
    return any(leaves(lift_rule(lambda op, *x: bool(op.weights(*x)), op, types, under, resolve=lambda leaf: leaf)))


def _broken(message: str, span: Span | None = None) -> Diagnostic:
    return Diagnostic("A0706", message, span)


def _check_nodes(graph: Graph) -> Iterator[Diagnostic]:
    for number in graph:
        if not isinstance(graph.nx.nodes.get(number, {}).get("node"), Node):
            yield _broken(f"%{number} has no node")
    for number in graph.nx:
        if number not in graph:
            yield _broken(f"%{number} was not added by `add`")


def _check_edges(graph: Graph) -> Iterator[Diagnostic]:
    earlier: set[NodeId] = set()
    edges: set[tuple[NodeId, NodeId, int]] = set()
    for number in graph:
        for position, operand in enumerate(graph.operands(number)):
            edges.add((operand, number, position))
            if operand not in earlier:
                problem = "comes after it" if operand in graph else "does not exist"
                yield _broken(f"%{number} reads %{operand}, which {problem}")
        earlier.add(number)
    networkx_edges = set(graph.nx.edges(keys=True))
    for operand, number, position in sorted(edges ^ networkx_edges, key=str):
        state = "has" if (operand, number, position) in networkx_edges else "lacks"
        yield _broken(f"networkx {state} an edge from %{operand} to %{number} at position {position}")
    if edges != networkx_edges:
        from networkx import is_directed_acyclic_graph

        if not is_directed_acyclic_graph(graph.nx):
            yield _broken("there is a cycle")


def _check_outputs(graph: Graph) -> Iterator[Diagnostic]:
    for name, number in graph.outputs.items():
        if number not in graph:
            yield _broken(f"the output `{name}` is %{number}, which does not exist")


def _check_operations(graph: Graph) -> Iterator[Diagnostic]:
    labels: set[str] = set()
    for number in graph:
        node = graph[number]
        op, label = node.op, f"%{number} ({node.op.name})"
        if OPS.get(op.name) is not type(op):
            yield _broken(f"{label}: there is no such operation", node.span)
            continue
        errors = [attribute_error(type(op), f.name, getattr(op, f.name)) for f in fields(op)]
        if not any(errors):
            errors = [*node_errors(op, len(graph.operands(number)), graph.decisions)]
        yield from (_broken(f"{label}: {text}", node.span) for text in errors if text)
        yield from (
            _broken(f"{label}: {text}", node.span) for text in _unknown_choices(graph, *op.varying_attributes.values())
        )
        if isinstance(op, Input) and not any(errors):
            if op.label in labels:
                yield _broken(f"{label}: there are two inputs `{op.label}`", node.span)
            labels.add(op.label)


def _check_choices(graph: Graph) -> Iterator[Diagnostic]:
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
        yield from (
            _broken(f"the condition of `{path}`: {text}", choice.span) for text in _unknown_choices(graph, active)
        )
    for constraint in graph.constraints:
        label = f"`{constraint.keyword} {constraint.text}`"
        if not is_condition(constraint.condition):
            yield _broken(f"{label} is not a condition", constraint.span)
        for text in _unknown_choices(graph, constraint.condition, constraint.limit):
            yield _broken(f"{label}: {text}", constraint.span)


def _unknown_choices(graph: Graph, *values: Value) -> Iterator[str]:
    """Yield a message for each choice that values depend on but that the graph does not have."""
    for choice in support(*values):
        decision = graph.decisions.get(choice.path)
        if decision is None:
            yield f"there is no choice `{choice}`"
        elif decision.choice is not choice:
            yield f"depends on another choice `{choice}` than the graph has"


def _check_weights(graph: Graph, types: Types) -> Iterator[Diagnostic]:
    """Check that nodes with weights have a scope, and that equal scopes have weights of equal names and shapes."""
    needed = reachability_conditions(graph)
    first: dict[str, tuple[NodeId, Value]] = {}
    for number in types:
        node = graph[number]
        if type(node.op).weights is Op.weights:
            continue
        label = f"%{number} ({node.op.name})"
        operands = [types[operand] for operand in graph.operands(number)]
        try:
            shapes = lift_rule(weight_shapes, node.op, operands, needed[number], graph.assumptions, resolve_shapes)
        except (RuleError, ArithmeticError, LookupError):
            yield _broken(f"{label}: has no weights for its operands", node.span)
            continue
        if not any(leaves(shapes)):
            continue
        if not node.scope:
            yield _broken(f"{label}: has weights but no scope", node.span)
            continue
        first_number, first_shapes = first.setdefault(node.scope, (number, shapes))
        if needed.overapproximated.isdisjoint((number, first_number)):
            both_needed = conjoin(needed[number], needed[first_number])
            if both_needed is not False and False in leaves(
                lift(lambda a, b: a == b, shapes, first_shapes, under=both_needed)
            ):
                yield _broken(f"{label}: weights `{node.scope}` have other shapes than at %{first_number}", node.span)


def resolve_shapes(shapes: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return weight shapes with symbolic integers replaced by their values."""
    return tuple((name, tuple(map(concrete_value, shape))) for name, shape in shapes)


def weight_shapes(op: Op, *operands: Any) -> tuple[Any, ...]:
    """Return the name and shape of each weight of an operation."""
    return tuple((name, weight.shape) for name, weight in op.weights(*operands).items())

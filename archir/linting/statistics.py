"""Lint rule for batch norms whose running statistics are shared by several alternatives."""

from __future__ import annotations

from collections.abc import Iterator

from archir.diagnostics.errors import Diagnostic, Note, join_names
from archir.diagrams.diagram import Choice
from archir.ir.graph import Graph, NodeId
from archir.ir.structure import Select
from archir.linting.subject import Subject, more_note
from archir.ops.norm import BatchNorm


def shared_statistics(subject: Subject) -> Iterator[Diagnostic]:
    """A1405: warn about a batch norm whose operand is chosen from the results of different operations.

    In a supernet, the running statistics of such a batch norm mix those of all alternatives and are wrong for each one.
    """
    graph = subject.graph
    operations = _operation_names(graph)
    norms: dict[str, list[tuple[NodeId, NodeId, list[str]]]] = {}
    for node_id in graph:
        if isinstance(graph[node_id].op, BatchNorm) and node_id in subject.needed:
            (operand,) = graph.operands(node_id)
            names = sorted(operations[operand])
            if len(names) > 1 and subject.searched(_choice_of(subject, operand), "shared"):
                norms.setdefault(str(graph[node_id].span), []).append((node_id, operand, names))
    for places in norms.values():
        node_id, operand, names = places[0]
        choice = _choice_of(subject, operand)
        yield Diagnostic(
            "A1405",
            f"the statistics of this batch norm are shared by results of {join_names(names)}, by `{choice.path}`",
            graph[node_id].span,
            "put a batch norm into each alternative, or recompute the statistics for each architecture",
            (Note("the choice", choice.span), *more_note(len(places) - 1)),
            "warning",
        )


def _choice_of(subject: Subject, select: NodeId) -> Choice:
    """Return the choice of a `Select` node."""
    op = subject.graph[select].op
    assert isinstance(op, Select)
    return subject.graph.decisions[op.choice].choice


def _operation_names(graph: Graph) -> dict[NodeId, frozenset[str]]:
    """Return, for each node, the names of the operations that may produce its value, depending on choices."""
    names: dict[NodeId, frozenset[str]] = {}
    for number in graph:
        op = graph[number].op
        names[number] = (
            frozenset[str]().union(*(names[operand] for operand in graph.operands(number)))
            if isinstance(op, Select)
            else frozenset([op.name])
        )
    return names

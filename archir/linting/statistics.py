"""Batch norms that alternatives share."""

from __future__ import annotations

from collections.abc import Iterator

from archir.diagnostics.errors import Diagnostic, Note, listed
from archir.diagrams.cases import Choice
from archir.ir.graph import NodeId
from archir.ir.structure import Select
from archir.linting.subject import Subject, others
from archir.ops.norm import BatchNorm


def shared_statistics(subject: Subject) -> Iterator[Diagnostic]:
    """A1405: a batch norm of what a choice selects from results of different operations.

    In a supernet its running statistics are those of no alternative.
    """
    graph = subject.graph
    found: dict[str, list[tuple[NodeId, NodeId, list[str]]]] = {}
    for number in graph:
        if isinstance(graph[number].op, BatchNorm) and number in subject.needed:
            (operand,) = graph.operands(number)
            kinds = sorted(_kinds(subject, operand))
            if len(kinds) > 1 and subject.searched(_chooser(subject, operand), "shared"):
                found.setdefault(str(graph[number].span), []).append((number, operand, kinds))
    for places in found.values():
        number, operand, kinds = places[0]
        choice = _chooser(subject, operand)
        yield Diagnostic(
            "A1405",
            f"the statistics of this batch norm are shared by results of {listed(kinds)}, by `{choice.path}`",
            graph[number].span,
            "put a batch norm into each alternative, or compute the statistics anew for each architecture",
            (Note("the choice", choice.span), *others(len(places) - 1)),
            "warning",
        )


def _chooser(subject: Subject, select: NodeId) -> Choice:
    op = subject.graph[select].op
    assert isinstance(op, Select)
    return subject.graph.decisions[op.choice].choice


def _kinds(subject: Subject, number: NodeId) -> set[str]:
    """The names of the operations whose results a node may stand for."""
    op = subject.graph[number].op
    if not isinstance(op, Select):
        return {op.name}
    return {name for operand in subject.graph.operands(number) for name in _kinds(subject, operand)}

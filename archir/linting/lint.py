"""Runs the lint rules listed here, which warn about valid programs that make searches fail or waste time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from archir.diagnostics.errors import Diagnostic, RuleError
from archir.ir.graph import Graph
from archir.language.elaboration.module import Module
from archir.linting.alternatives import equivalent_alternatives, skip_collapse
from archir.linting.shapes import channels_last, uneven_padding, unlike_shapes
from archir.linting.statistics import shared_statistics
from archir.linting.subject import Purpose, Subject
from archir.linting.tags import misspelled_tags
from archir.linting.unbalanced import unbalanced_costs
from archir.linting.unused import (
    choices_of_absent_loops,
    idle_requirements,
    unread_results,
    unused_choices,
    unused_definitions,
    unused_imports,
    unused_parameters,
)

RULES: list[Callable[[Subject], Iterator[Diagnostic]]] = [
    unbalanced_costs,
    equivalent_alternatives,
    unused_choices,
    skip_collapse,
    shared_statistics,
    idle_requirements,
    uneven_padding,
    unlike_shapes,
    channels_last,
]
"""Rules that check the graph of a net."""
FILE_RULES: list[Callable[[Module], Iterator[Diagnostic]]] = [
    unused_parameters,
    unused_imports,
    unread_results,
    unused_definitions,
    misspelled_tags,
    choices_of_absent_loops,
]
"""Rules that check the syntax tree of a file."""


def lint(module: Module, graphs: Iterable[Graph], purpose: Purpose | None = None) -> list[Diagnostic]:
    """Return the warnings about a file and the graphs of its nets, in source order, at most one per code and span."""
    warnings = [diagnostic for rule in FILE_RULES for diagnostic in rule(module)]
    for graph in graphs:
        subject = Subject(graph, purpose)
        for graph_rule in RULES:
            try:
                warnings += graph_rule(subject)
            except RuleError as error:  # a value depends on too many choices, or the cost of an operation is unknown
                text = f"`{graph.name}` was not fully checked: {error.message}"
                span = graph[next(iter(graph.outputs.values()))].span
                warnings.append(Diagnostic(error.code, text, span, error.hint, (), "warning"))
    distinct = {(diagnostic.code, str(diagnostic.span)): diagnostic for diagnostic in reversed(warnings)}
    return sorted(distinct.values(), key=_sort_key)


def _sort_key(diagnostic: Diagnostic) -> tuple[str, int, str]:
    """Return the sort key of a warning: file, position, code."""
    assert diagnostic.span is not None, "every warning has a place"
    return diagnostic.span.source.name, diagnostic.span.start, diagnostic.code

"""Lint: warnings of what a well-formed space says that wrecks searches. Each rule is a function that is listed here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from archir.diagnostics.errors import Diagnostic, RuleError
from archir.ir.graph import Graph
from archir.language.elaboration.files import Module
from archir.linting.dead import unread_results, unused_definitions
from archir.linting.requirements import idle_requirements
from archir.linting.shapes import channels_last, uneven_padding, unlike_shapes
from archir.linting.siblings import collapse, equivalent
from archir.linting.statistics import shared_statistics
from archir.linting.subject import Purpose, Subject
from archir.linting.tags import lonely_tags
from archir.linting.unbalanced import spread
from archir.linting.unused import unused_choices, unused_imports, unused_parameters

RULES: list[Callable[[Subject], Iterator[Diagnostic]]] = [
    spread,
    equivalent,
    unused_choices,
    collapse,
    shared_statistics,
    idle_requirements,
    uneven_padding,
    unlike_shapes,
    channels_last,
]
"""Rules that look at a net's graph."""
FILE_RULES: list[Callable[[Module], Iterator[Diagnostic]]] = [
    unused_parameters,
    unused_imports,
    unread_results,
    unused_definitions,
    lonely_tags,
]
"""Rules that look at a file."""


def lint(module: Module, graphs: Iterable[Graph], purpose: Purpose | None = None) -> list[Diagnostic]:
    """Warnings about a file and its nets, in the order of their places; one of a code for a place."""
    found = [diagnostic for of_file in FILE_RULES for diagnostic in of_file(module)]
    for graph in graphs:
        subject = Subject(graph, purpose)
        for of_graph in RULES:
            try:
                found += of_graph(subject)
            except RuleError as error:  # a value that depends on too many choices, an operation of unknown cost
                text = f"`{graph.name}` was not looked at in full: {error.message}"
                place = graph[next(iter(graph.outputs.values()))].span
                found.append(Diagnostic(error.code, text, place, error.hint, (), "warning"))
    distinct = {(diagnostic.code, str(diagnostic.span)): diagnostic for diagnostic in reversed(found)}
    return sorted(distinct.values(), key=_place)


def _place(diagnostic: Diagnostic) -> tuple[str, int, str]:
    assert diagnostic.span is not None, "every warning has a place"
    return diagnostic.span.source.name, diagnostic.span.start, diagnostic.code

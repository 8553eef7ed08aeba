"""Evaluates an expression at the end of a net, for all combinations of choices."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from archir.diagnostics.errors import ArchError, Diagnostic, Note, Source, Span, fail
from archir.diagnostics.work import work_budget
from archir.diagrams.conditions import conjoin, disjoin
from archir.diagrams.diagram import Value, leaf_conditions
from archir.diagrams.lifting import lift
from archir.ir.graph import Graph
from archir.ir.types import TensorType
from archir.language.elaboration.context import Context, Limits
from archir.language.elaboration.elaborate import net_graph, relocated
from archir.language.elaboration.files import Loader
from archir.language.elaboration.module import Block
from archir.language.elaboration.recursion import with_deep_recursion
from archir.language.elaboration.values import Tensor, hoist_choices, kind, show
from archir.language.syntax import ast
from archir.language.syntax.parse import parse

NAME = "<expression>"
"""Source name of the expression in diagnostics."""
_PREFIX, _SUFFIX = "block asked() {\n    asked = ", "\n    return asked\n}\n"
"""Program text before and after the expression, which turns the expression into a statement of a block."""
_EMPTY_NET = "net asked {\n    input asked: f32[1]\n    output said = asked\n}\n"
"""Net in which the expression is evaluated if the file has no nets."""


@dataclass(frozen=True)
class ExpressionValues:
    """All values that an expression may have, depending on choices."""

    values: tuple[tuple[str, str, Value], ...]
    """For each value: its text, its kind (such as `integer` or `tensor`), and the condition on choices under which
    it occurs."""
    graph: Graph
    """Graph of the net in which the expression was evaluated."""


def evaluate_expression(
    expression: str, text: str, path: str, *, folder: Path | None = None, root: Path | None = None,
    net: str | None = None, parameters: Mapping[str, Value] | None = None, limits: Limits | None = None,
) -> ExpressionValues:  # fmt: skip
    """Evaluate an expression after the last statement of a net, where all variables of the net are visible.

    If the file has no nets, constants, blocks and imports are visible. For the other parameters, see `elaborate`.
    Raises ArchError for errors in the program or in the expression; errors in the expression have spans in the
    expression alone.
    """
    limits = limits or Limits()
    values: list[tuple[str, str, Value]] = []

    def observe(context: Context, span: Span, statement: Value) -> None:
        if span.source.name == NAME:
            values[:] = _describe(context, statement)

    try:
        with work_budget(limits.work):
            statement = _parse_expression(expression)
            loader = Loader(root if root is not None else folder)
            if folder is not None:
                loader.mark_open(folder / Path(path).name)
            module = loader.load(text, path, folder)
            if net is None and not module.nets:
                (empty_net,) = parse(_EMPTY_NET, NAME).items
                assert isinstance(empty_net, ast.Definition)
                module.nets[empty_net.name.text] = empty_net
            if net is None and len(module.nets) == 1:
                (net,) = module.nets
            if net in module.nets:
                definition = module.nets[net]
                module.nets[net] = replace(definition, body=(*definition.body, statement))
            graph = with_deep_recursion(lambda: net_graph(module, loader, net, dict(parameters or {}), limits, observe))
            return ExpressionValues(tuple(values), graph)
    except ArchError as error:
        raise ArchError(*(_relocate(problem, expression) for problem in error.diagnostics)) from None


def _parse_expression(expression: str) -> ast.Assign:
    """Parse an expression as a statement that assigns it to a name. Raises ArchError."""
    if not expression.strip() or len(expression.splitlines()) != 1:
        raise fail("A0101", "an expression is one line, such as `width * 2`")
    text = f"{_PREFIX}{expression}{_SUFFIX}"
    if (closing := _unmatched_brace(expression)) is not None:
        at = len(_PREFIX) + closing
        raise fail("A0102", "this `}` closes no `{`", Span(Source(NAME, text), at, at + 1), "one value: `width * 2`")
    (block,) = parse(text, NAME).items
    assert isinstance(block, ast.Definition)
    statement = block.body[0]
    assert isinstance(statement, ast.Assign)
    return statement


def _unmatched_brace(expression: str) -> int | None:
    """Return the offset of the first `}` without a matching `{`; None if there is none."""
    depth = 0
    for match in re.finditer(r'"[^"]*"|[{}]', expression):
        depth += {"{": 1, "}": -1}.get(match[0], 0)
        if depth < 0:
            return match.start()
    return None


def _describe(context: Context, value: Value) -> list[tuple[str, str, Value]]:
    """Return text, kind and condition for each possible value; the text of a tensor is its type, which may vary as
    well."""
    conditions: dict[tuple[str, str], Value] = {}
    for leaf, condition in leaf_conditions(hoist_choices(value)):
        if isinstance(leaf, Tensor):
            descriptions = [
                ((text, "tensor"), when) for text, when in leaf_conditions(_type_text(context.types[leaf.node]))
            ]
        elif isinstance(leaf, Block):
            params = ", ".join(param.span.text for param in leaf.definition.params)
            descriptions = [((f"{leaf.definition.word} {leaf.name}({params})", leaf.definition.word), True)]
        else:
            descriptions = [((show(leaf), kind(leaf).removeprefix("a ").removeprefix("an ")), True)]
        for description, when in descriptions:
            conditions[description] = disjoin(conditions.get(description, False), conjoin(condition, when))
    return [(text, kind, when) for (text, kind), when in conditions.items() if when is not False]


def _type_text(type_: TensorType) -> Value:
    """Return the text of a tensor type, as a value that depends on the same choices."""
    return lift(lambda kind, *dims: str(TensorType(dims, type_.dtype, kind)), type_.kind, *type_.dims)


def _relocate(problem: Diagnostic, expression: str) -> Diagnostic:
    """Map the span of a problem in the expression to the text of the expression alone.

    Problems outside of the expression are returned with unchanged span.
    """
    source = Source(NAME, expression)
    if problem.span is not None and problem.span.source.name == NAME:
        problem = relocated(problem, source, len(_PREFIX))
    notes = (
        Note(note.text, None, note.outcomes) if note.span is not None and note.span.source.name == NAME else note
        for note in problem.notes
    )
    return replace(problem, notes=tuple(notes))

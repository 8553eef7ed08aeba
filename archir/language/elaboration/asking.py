"""What an expression comes to where a net ends: its values there, whichever choices are made."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from archir.diagnostics.errors import ArchError, Diagnostic, Note, Source, Span, fail
from archir.diagnostics.work import bounded
from archir.diagrams.cases import Value, parted
from archir.diagrams.conditions import both, either
from archir.diagrams.lifting import lift
from archir.ir.graph import Graph
from archir.ir.types import TensorType
from archir.language.elaboration.context import Context, Limits
from archir.language.elaboration.elaborate import moved, net_graph
from archir.language.elaboration.files import Loader
from archir.language.elaboration.network import Network
from archir.language.elaboration.recursion import deeply
from archir.language.elaboration.values import Block, Tensor, flat, kind, show
from archir.language.syntax import ast
from archir.language.syntax.parse import parse

NAME = "<expression>"
_BEFORE, _BEHIND = "block asked() {\n    asked = ", "\n    return asked\n}\n"
_ALONE = "net asked {\n    input asked: f32[1]\n    output said = asked\n}\n"
"""The net of files that have none."""


@dataclass(frozen=True)
class Answer:
    """What an expression may come to, each value with what it is and the condition under which it comes to that."""

    values: tuple[tuple[str, str, Value], ...]
    """Texts, kinds such as `integer` or `tensor`, and conditions on choices."""
    graph: Graph
    """The net that it was asked of."""


def asked(
    expression: str, text: str, path: str, *, folder: Path | None = None, root: Path | None = None,
    net: str | None = None, parameters: Mapping[str, Value] | None = None, limits: Limits | None = None,
) -> Answer:  # fmt: skip
    """The values of an expression behind the last statement of a net, where its variables are known.

    Of a file without nets, constants, blocks and imports are. `folder`, `root` and the others are those of
    `elaborate`. Raises ArchError with what is wrong with the text, or with the expression (at its place in that).
    """
    limits = limits or Limits()
    found: list[tuple[str, str, Value]] = []

    def seen(context: Context, span: Span, value: Value) -> None:
        if span.source.name == NAME:
            found[:] = _described(context, value)

    try:
        with bounded(limits.work):
            value = _parsed(expression)
            loader = Loader(root if root is not None else folder)
            if folder is not None:
                loader.opened(folder / Path(path).name)
            module = loader.load(text, path, folder)
            if net is None and not module.nets:
                (alone,) = parse(_ALONE, NAME).items
                assert isinstance(alone, ast.Definition)
                module.nets[alone.name.text] = alone
            if net is None and len(module.nets) == 1:
                (net,) = module.nets
            if net in module.nets:
                whole = module.nets[net]
                module.nets[net] = replace(whole, body=(*whole.body, value))
            graph = deeply(lambda: net_graph(module, loader, net, dict(parameters or {}), limits, seen))
            return Answer(tuple(found), graph)
    except ArchError as error:
        raise ArchError(*(_placed(one, expression) for one in error.diagnostics)) from None


def _parsed(expression: str) -> ast.Assign:
    """The statement that gives the expression a name. Raises ArchError."""
    if not expression.strip() or len(expression.splitlines()) != 1:
        raise fail("A0101", "an expression is one line, such as `width * 2`")
    text = f"{_BEFORE}{expression}{_BEHIND}"
    if (closing := _closing(expression)) is not None:
        at = len(_BEFORE) + closing
        raise fail("A0102", "this `}` closes no `{`", Span(Source(NAME, text), at, at + 1), "one value: `width * 2`")
    (block,) = parse(text, NAME).items
    assert isinstance(block, ast.Definition)
    statement = block.body[0]
    assert isinstance(statement, ast.Assign)
    return statement


def _closing(expression: str) -> int | None:
    """Where a brace closes more than the expression opened, if one does."""
    depth = 0
    for found in re.finditer(r'"[^"]*"|[{}]', expression):
        depth += {"{": 1, "}": -1}.get(found[0], 0)
        if depth < 0:
            return found.start()
    return None


def _described(context: Context, value: Value) -> list[tuple[str, str, Value]]:
    """What a value is, in words, with the condition of each: tensors by their types, which may vary, too."""
    assert isinstance(context, Network)
    found: dict[tuple[str, str], Value] = {}
    for leaf, condition in parted(flat(value)):
        if isinstance(leaf, Tensor):
            said = [((text, "tensor"), when) for text, when in parted(_typed(context.types[leaf.node]))]
        elif isinstance(leaf, Block):
            params = ", ".join(param.span.text for param in leaf.definition.params)
            said = [((f"{leaf.definition.word} {leaf.name}({params})", leaf.definition.word), True)]
        else:
            said = [((show(leaf), kind(leaf).removeprefix("a ").removeprefix("an ")), True)]
        for words, when in said:
            found[words] = either(found.get(words, False), both(condition, when))
    return [(text, kind, when) for (text, kind), when in found.items() if when is not False]


def _typed(type_: TensorType) -> Value:
    """A tensor's type as a text, which depends on the choices that the type does."""
    return lift(lambda kind, *dims: str(TensorType(dims, type_.dtype, kind)), type_.kind, *type_.dims)


def _placed(problem: Diagnostic, expression: str) -> Diagnostic:
    """A problem with the expression, at its place in that alone."""
    source = Source(NAME, expression)
    if problem.span is not None and problem.span.source.name == NAME:
        problem = moved(problem, source, len(_BEFORE))
    notes = (
        Note(note.text, None, note.outcomes) if note.span is not None and note.span.source.name == NAME else note
        for note in problem.notes
    )
    return replace(problem, notes=tuple(notes))

"""Adds alternatives to trained operations, which stay the last alternative and keep their scopes.

`y = x |> conv(64) |> relu` becomes

    after = x |> conv(64)
    y = choose operator { none: x, separable: x |> own conv(x.channels, groups=x.channels) |> ..., kept: after } |> relu

so that trained weights keep their names. As for choices of numbers, the checker decides which alternatives give valid
networks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import pairwise
from typing import NamedTuple

from archir.diagnostics.errors import ArchError, Span, fail, join_names
from archir.diagnostics.hints import suggest
from archir.diagrams.diagram import same
from archir.ir.graph import Graph
from archir.ir.op import OPS, Op
from archir.ir.structure import Select
from archir.ir.types import TensorType
from archir.ir.typing import infer
from archir.language.elaboration.module import Block
from archir.language.elaboration.name_analysis import walk
from archir.language.elastic.edit import unused_name
from archir.language.elastic.flow import CallSite, Flow, constant
from archir.language.syntax import ast
from archir.utils.edits import apply_edits

NONE, SEPARABLE, KEPT = "none", "separable", "kept"
"""Names of the alternatives: no operation, a separable convolution, and the trained operation."""
LABEL = "operator"
"""Label of the choices; numbers are appended to make it unique."""
_SPATIAL_ARGUMENTS = ("kernel", "stride", "padding", "dilation", "groups")
"""Convolution arguments that the pointwise convolution (kernel 1) of an alternative does not take over."""


@dataclass(eq=False)
class Operator:
    """Call with weights in a pipe, for which alternatives are tried.

    `offered` lists the alternatives to the call, `rejected` the rejected ones with the reasons.
    """

    use: CallSite
    statement: ast.Statement
    pipe: ast.Pipe
    offered: list[str]
    label: str = ""
    rejected: list[str] = field(default_factory=list)

    @property
    def span(self) -> Span:
        """Span of the call."""
        return self.use.call.span

    @property
    def alternatives(self) -> list[str]:
        """Names of all alternatives, the trained operation last."""
        return [*self.offered, KEPT]

    def drop(self, name: str, reason: str) -> None:
        """Move an alternative from `offered` to `rejected`."""
        self.offered.remove(name)
        self.rejected.append(f"{name}: {reason}")


class OfferedOperators(NamedTuple):
    """Edited text, its graph, the operators that became choices (`opened`), and those that did not (`left`)."""

    text: str
    graph: Graph
    opened: list[Operator]
    left: list[Operator]


def offer_operators(
    text: str, flow: Flow, graph: Graph, where: str | None, build: Callable[[str], Graph]
) -> OfferedOperators:
    """Add alternatives to the operators in a program text, as many as give a valid space. `graph` is the graph of
    `text`.

    Raises the errors of `build` if the text is invalid even without alternatives.
    """
    operators = list(_operators_of(flow))
    while True:
        remaining = [operator for operator in operators if operator.offered]
        edited = _edit(text, remaining)
        try:
            space = build(edited) if remaining else graph
        except ArchError as error:
            _drop_invalid(error, remaining)
            continue
        if not _drop_mismatched(space, remaining, where):
            return OfferedOperators(
                edited, space, remaining, [operator for operator in operators if not operator.offered]
            )


# operators of the text


def _operators_of(flow: Flow) -> Iterator[Operator]:
    """Yield the calls with weights that can be turned into choices."""
    by_call = {
        id(use.call): use for use in flow.uses if use.home.module is flow.homes[0].module and _has_layer(use, flow)
    }
    for home in flow.homes:
        for statement in walk(home.definition.body):
            for pipe in _pipes(statement):
                for target in pipe.targets:
                    use = by_call.get(id(target))
                    if use is not None and isinstance(statement, ast.Statement) and _begins_line(statement):
                        offered = [NONE, *([SEPARABLE] if _is_dense_convolution(use) else [])]
                        operator = Operator(use, statement, pipe, offered)
                        for name in [*offered] if _has_comment(pipe) else ():
                            operator.drop(name, "the comments inside the pipe would get lost")
                        yield operator


def _pipes(statement: ast.Tree) -> list[ast.Pipe]:
    """Return the pipe that a statement assigns, outputs or returns, as a list of one; [] for other statements."""
    match statement:
        case ast.Assign(targets=(_,), value=ast.Pipe() as pipe) | ast.Output(value=ast.Pipe() as pipe):
            return [pipe]
        case ast.Return(values=(ast.Pipe() as pipe,)):
            return [pipe]
    return []


def _has_comment(pipe: ast.Pipe) -> bool:
    """Return True if there is a comment between two parts of a pipe."""
    parts, text = (pipe.first, *pipe.targets), pipe.span.source.text
    return any("#" in text[part.span.end : after.span.start] for part, after in pairwise(parts))


def _begins_line(statement: ast.Statement) -> bool:
    """Return True if a statement is the first on its line, so that other statements can be inserted above it."""
    span = statement.span
    text = span.source.text
    return not text[text.rfind("\n", 0, span.start) + 1 : span.start].strip()


def _has_layer(use: CallSite, flow: Flow) -> bool:
    """Return True if a call runs, directly or in blocks, an operation with weights and an argument `channels`."""
    if not isinstance(use.callee, Block):
        return _makes_channels(use.callee)
    visited, pending = {id(use.callee.definition)}, [use.callee.definition]
    while pending:
        definition = pending.pop()
        for inner_use in flow.uses:
            if inner_use.home.definition is definition:
                if not isinstance(inner_use.callee, Block):
                    if _makes_channels(inner_use.callee):
                        return True
                elif id(inner_use.callee.definition) not in visited:
                    visited.add(id(inner_use.callee.definition))
                    pending.append(inner_use.callee.definition)
    return False


def _makes_channels(op: type[Op]) -> bool:
    """Return True if an operation has weights and an attribute `channels`."""
    return op.weights is not Op.weights and "channels" in op.__dataclass_fields__


def _is_dense_convolution(use: CallSite) -> bool:
    """Return True if a call is a convolution, or a block with the same parameters, with default `groups` and a
    kernel larger than 1."""
    if isinstance(use.callee, Block):
        defaults = {param.name.text: param.default for param in use.callee.definition.params}
    elif use.callee is OPS["conv"]:
        defaults = dict.fromkeys(("channels", *_SPATIAL_ARGUMENTS))
    else:
        return False
    if not {"channels", "kernel", "groups"} <= defaults.keys() or "groups" in use.arguments:
        return False
    kernel = use.arguments.get("kernel", defaults["kernel"])
    return "channels" in use.arguments and (kernel is None or constant(kernel) != 1)


# edits of the text


def _edit(text: str, operators: list[Operator]) -> str:
    """Return the program text with each operator turned into a choice."""
    taken = set(re.findall(r"[A-Za-z_]\w*", text))
    by_statement: dict[int, list[Operator]] = {}
    for operator in operators:
        operator.label = unused_name(LABEL, taken)
        taken.add(operator.label)
        by_statement.setdefault(operator.statement.span.start, []).append(operator)
    changes = []
    for several in by_statement.values():
        span, pipe = several[0].statement.span, several[0].pipe.span
        indent = text[text.rfind("\n", 0, span.start) + 1 : span.start]
        *before, value = _statements_of(text, several, taken)
        lines = [*before, text[span.start : pipe.start] + value]
        changes.append((span.start, pipe.end, f"\n{indent}".join(lines)))
    return apply_edits(text, changes)


def _statements_of(text: str, several: list[Operator], taken: set[str]) -> list[str]:
    """Return the lines that replace a statement with operators.

    These are the assignments to insert above the statement, followed by the statement's new value.
    """
    pipe, lines = several[0].pipe, []
    by_target = {id(operator.use.call): operator for operator in several}
    value, is_name = _source(text, pipe.first.span), isinstance(pipe.first, ast.Name)
    for target in pipe.targets:
        operator = by_target.get(id(target))
        if operator is None:
            value, is_name = f"{value} |> {_source(text, target.span)}", False
            continue
        if not is_name:
            before = unused_name("before", taken)
            taken.add(before)
            lines.append(f"{before} = {value}")
            value = before
        after = unused_name("after", taken)
        taken.add(after)
        lines.append(f"{after} = {value} |> {_source(text, target.span)}")
        offered = {NONE: value, SEPARABLE: _separable_text(text, operator.use, value, after), KEPT: after}
        alternatives = ", ".join(f"{name}: {offered[name]}" for name in operator.alternatives)
        value, is_name = f"choose {operator.label} {{ {alternatives} }}", False
    return [*lines, value]


def _source(text: str, span: Span) -> str:
    return text[span.start : span.end]


def _separable_text(text: str, use: CallSite, x: str, trained: str) -> str:
    """Return the text of a depthwise and a pointwise convolution that has as many output channels as the trained
    call."""
    if "channels" not in use.arguments:
        return x
    assert isinstance(use.call, ast.Call), "a call with arguments"
    callee = _source(text, use.call.callee.span)
    arguments = {name: _source(text, expr.span) for name, expr in use.arguments.items() if name != "channels"}
    depthwise = [f"{x}.channels", *(f"{name}={value}" for name, value in arguments.items()), f"groups={x}.channels"]
    unslid = [f"{name}={value}" for name, value in arguments.items() if name not in _SPATIAL_ARGUMENTS]
    pointwise = [f"{trained}.channels", "kernel=1", *unslid]
    return f"{x} |> own {callee}({', '.join(depthwise)}) |> own {callee}({', '.join(pointwise)})"


# errors of the checker


def _drop_invalid(error: ArchError, operators: list[Operator]) -> None:
    """Reject the alternatives in the combinations that the checker found invalid.

    If the errors name no combination, `none` is rejected everywhere; if it was rejected before, `separable` is.
    """
    by_label, changed = {operator.label: operator for operator in operators}, False
    for diagnostic in error.diagnostics:
        candidates = [
            (operator, operator.offered[code])
            for path, code in (outcome for note in diagnostic.notes for outcome in note.outcomes)
            if (operator := by_label.get(label_of(path))) is not None and code < len(operator.offered)
        ]
        if candidates:  # `none` keeps shapes, so it is rarely the cause
            operator, name = min(candidates, key=lambda pair: pair[1] != NONE)
            operator.drop(name, diagnostic.message)
            changed = True
    if not changed:
        if not operators:
            raise error
        name = NONE if any(NONE in operator.offered for operator in operators) else SEPARABLE
        for operator in operators:
            if name in operator.offered:
                operator.drop(name, error.diagnostics[0].message)


def _drop_mismatched(graph: Graph, operators: list[Operator], where: str | None) -> bool:
    """Reject valid alternatives whose output shape differs, and operators outside of `where`; return True if any was
    rejected."""
    types, by_label, changed = infer(graph), {operator.label: operator for operator in operators}, False
    names = {operator.label: operator.alternatives for operator in operators}
    for number in graph:
        op = graph[number].op
        operator = by_label.get(label_of(op.choice)) if isinstance(op, Select) else None
        if operator is None or not isinstance(op, Select):
            continue
        operands = graph.operands(number)
        offered = dict(zip(names[operator.label], (operands[case] for case in op.cases), strict=False))
        scope = graph[offered[KEPT]].scope if KEPT in offered else ""
        if where is not None and operator.offered and not matches_scope(scope, where):
            operator.offered, operator.rejected, changed = [], [f"`{scope}` is not in {where}"], True
        for name in [*operator.offered]:
            if name in offered and not _is_same_shape(types[offered[name]], types[offered[KEPT]]):
                shapes = f"{types[offered[name]]} and {types[offered[KEPT]]}"
                operator.drop(name, f"shapes differ: {shapes}")
                changed = True
    return changed


def _is_same_shape(left: TensorType, right: TensorType) -> bool:
    """Return True if two tensor types have equal shapes for all choices."""
    return left.rank == right.rank and all(same(a, b) for a, b in zip(left.dims, right.dims, strict=True))


def matches_scope(scope: str, where: str) -> bool:
    """Return True if the pattern `where` matches a scope or one of its ancestors."""
    plain = where.replace("[", "[[]")  # scopes have brackets of their own
    return any(fnmatchcase(scope, form) for form in (plain, f"{plain}.*", f"{plain}[[]*"))


def require_scope(network: Graph, where: str) -> None:
    """Raise ArchError (A3230) if the pattern `where` matches no scope of a network."""
    inputs = {*network.inputs.values()}
    scopes = [network[number].scope for number in network if number not in inputs]
    if any(scope and matches_scope(scope, where) for scope in scopes):
        return
    outermost = list(dict.fromkeys(re.split(r"[.\[]", scope)[0] for scope in scopes if scope))
    hint = f"there are {join_names(outermost)}: see `archir show`" if outermost else None
    raise fail("A3230", f"`{network.name}` has no scope `{where}`", None, suggest(where, outermost) or hint)


def label_of(path: str) -> str:
    """Return the label of a choice: the last component of its path, without loop indices."""
    return re.sub(r"\[\d+\]", "", path).rpartition(".")[2]

"""Other operations offered beside trained ones: each stays the last alternative, under the name that it has.

`y = x |> conv(64) |> relu` becomes

    after = x |> conv(64)
    y = choose operator { none: x, separable: x |> own conv(x.channels, groups=x.channels) |> ..., kept: after } |> relu

so that trained weights keep their names. As with numbers, the checker is asked which of it is a network.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from archir.diagnostics.errors import ArchError, Span
from archir.diagrams.cases import same
from archir.ir.graph import Graph
from archir.ir.op import OPS, Op
from archir.ir.structure import Select
from archir.ir.types import TensorType
from archir.ir.typing import infer
from archir.language.elaboration.locals import walk
from archir.language.elaboration.values import Block
from archir.language.elastic.edit import applied, fresh
from archir.language.elastic.flow import Flow, Use, constant
from archir.language.elastic.scopes import label_of, within
from archir.language.syntax import ast

NONE, SEPARABLE, KEPT = "none", "separable", "kept"
WORD = "operator"
_SLID = ("kernel", "stride", "padding", "dilation", "groups")
"""What a convolution of one position does not have."""


@dataclass(eq=False)
class Operator:
    """A call with weights in a pipe, and what may stand in its place. `left` says what may not, and why."""

    use: Use
    statement: ast.Statement
    pipe: ast.Pipe
    others: list[str]
    label: str = ""
    left: list[str] = field(default_factory=list)

    @property
    def span(self) -> Span:
        """The call's."""
        return self.use.call.span

    @property
    def alternatives(self) -> list[str]:
        """By name, what was trained last."""
        return [*self.others, KEPT]

    def drop(self, name: str, reason: str) -> None:
        """Offer one less."""
        self.others.remove(name)
        self.left.append(f"{name}: {reason}")


class Offered(NamedTuple):
    """A text in which operators are choices, its graph, and the operators: those that are open, and the others."""

    text: str
    graph: Graph
    opened: list[Operator]
    left: list[Operator]


def offer(text: str, flow: Flow, graph: Graph, where: str | None, made: Callable[[str], Graph]) -> Offered:
    """Others beside the operators of a text, where the checker has nothing against them. `graph` is that of the text.
    Raises what `made` raises of the text as it is."""
    found = list(_found(flow))
    while True:
        still = [one for one in found if one.others]
        edited = _edited(text, still)
        try:
            space = made(edited) if still else graph
        except ArchError as error:
            _learn(error, still)
            continue
        if not _unfit(space, still, where):
            return Offered(edited, space, still, [one for one in found if not one.others])


# what there is


def _found(flow: Flow) -> Iterator[Operator]:
    by_call = {id(use.call): use for use in flow.uses if use.home.module is flow.homes[0].module and _weighs(use, flow)}
    for home in flow.homes:
        for statement in walk(home.definition.body):
            for pipe in _pipes(statement):
                for target in pipe.targets:
                    use = by_call.get(id(target))
                    if use is not None and isinstance(statement, ast.Statement) and _alone(statement):
                        yield Operator(use, statement, pipe, [NONE, *([SEPARABLE] if _dense(use) else [])])


def _pipes(statement: ast.Tree) -> list[ast.Pipe]:
    match statement:
        case ast.Assign(targets=(_,), value=ast.Pipe() as pipe) | ast.Output(value=ast.Pipe() as pipe):
            return [pipe]
        case ast.Return(values=(ast.Pipe() as pipe,)):
            return [pipe]
    return []


def _alone(statement: ast.Statement) -> bool:
    """Whether a statement begins its line, so that others can stand above it."""
    span = statement.span
    text = span.source.text
    return not text[text.rfind("\n", 0, span.start) + 1 : span.start].strip()


def _weighs(use: Use, flow: Flow) -> bool:
    """Whether a call has a layer inside: something with weights that makes channels."""
    if not isinstance(use.callee, Block):
        return _makes_channels(use.callee)
    reached, ahead = {id(use.callee.definition)}, [use.callee.definition]
    while ahead:
        definition = ahead.pop()
        for one in flow.uses:
            if one.home.definition is definition:
                if not isinstance(one.callee, Block):
                    if _makes_channels(one.callee):
                        return True
                elif id(one.callee.definition) not in reached:
                    reached.add(id(one.callee.definition))
                    ahead.append(one.callee.definition)
    return False


def _makes_channels(op: type[Op]) -> bool:
    return op.weights is not Op.weights and "channels" in op.__dataclass_fields__


def _dense(use: Use) -> bool:
    """Whether a call is a convolution, or a block around one, of one group and more than one position."""
    if isinstance(use.callee, Block):
        defaults = {param.name.text: param.default for param in use.callee.definition.params}
    elif use.callee is OPS["conv"]:
        defaults = dict.fromkeys(("channels", *_SLID))
    else:
        return False
    if not {"channels", "kernel", "groups"} <= defaults.keys() or "groups" in use.arguments:
        return False
    kernel = use.arguments.get("kernel", defaults["kernel"])
    return "channels" in use.arguments and (kernel is None or constant(kernel) != 1)


# the text


def _edited(text: str, operators: list[Operator]) -> str:
    taken = set(re.findall(r"[A-Za-z_]\w*", text))
    by_statement: dict[int, list[Operator]] = {}
    for one in operators:
        one.label = fresh(WORD, taken)
        taken.add(one.label)
        by_statement.setdefault(one.statement.span.start, []).append(one)
    changes = []
    for several in by_statement.values():
        span, pipe = several[0].statement.span, several[0].pipe.span
        indent = text[text.rfind("\n", 0, span.start) + 1 : span.start]
        *before, value = _lines(text, several, taken)
        lines = [*before, text[span.start : pipe.start] + value]
        changes.append((span.start, pipe.end, f"\n{indent}".join(lines)))
    return applied(text, changes)


def _lines(text: str, several: list[Operator], taken: set[str]) -> list[str]:
    """Statements above one that has operators, and what is left of its value."""
    pipe, lines = several[0].pipe, []
    by_target = {id(one.use.call): one for one in several}
    value, plain = _source(text, pipe.first.span), isinstance(pipe.first, ast.Name)
    for target in pipe.targets:
        one = by_target.get(id(target))
        if one is None:
            value, plain = f"{value} |> {_source(text, target.span)}", False
            continue
        if not plain:
            before = fresh("before", taken)
            taken.add(before)
            lines.append(f"{before} = {value}")
            value = before
        after = fresh("after", taken)
        taken.add(after)
        lines.append(f"{after} = {value} |> {_source(text, target.span)}")
        offered = {NONE: value, SEPARABLE: _separable(text, one.use, value, after), KEPT: after}
        told = ", ".join(f"{name}: {offered[name]}" for name in one.alternatives)
        value, plain = f"choose {one.label} {{ {told} }}", False
    return [*lines, value]


def _source(text: str, span: Span) -> str:
    return text[span.start : span.end]


def _separable(text: str, use: Use, x: str, trained: str) -> str:
    """A convolution of each channel, and one of each position, as wide as the trained one."""
    if "channels" not in use.arguments:
        return x
    assert isinstance(use.call, ast.Call), "it has arguments"
    callee = _source(text, use.call.callee.span)
    given = {name: _source(text, expr.span) for name, expr in use.arguments.items() if name != "channels"}
    each = [f"{x}.channels", *(f"{name}={value}" for name, value in given.items()), f"groups={x}.channels"]
    rest = [f"{name}={value}" for name, value in given.items() if name not in _SLID]
    wide = [f"{trained}.channels", "kernel=1", *rest]
    return f"{x} |> own {callee}({', '.join(each)}) |> own {callee}({', '.join(wide)})"


# what the checker says


def _learn(error: ArchError, operators: list[Operator]) -> None:
    """Drop what is in the combinations that break the network; if none is shown, what is offered most."""
    by_label, changed = {one.label: one for one in operators}, False
    for diagnostic in error.diagnostics:
        combined = [
            (one, one.others[code])
            for path, code in (outcome for note in diagnostic.notes for outcome in note.outcomes)
            if (one := by_label.get(label_of(path))) is not None and code < len(one.others)
        ]
        if combined:  # what leaves shapes as they are is seldom what is wrong
            one, name = min(combined, key=lambda pair: pair[1] != NONE)
            one.drop(name, diagnostic.message)
            changed = True
    if not changed:
        if not operators:
            raise error
        name = NONE if any(NONE in one.others for one in operators) else SEPARABLE
        for one in operators:
            if name in one.others:
                one.drop(name, error.diagnostics[0].message)


def _unfit(graph: Graph, operators: list[Operator], where: str | None) -> bool:
    """Drop what is a network, and not one of the same trained channels: other shapes, other scopes."""
    types, by_label, changed = infer(graph), {one.label: one for one in operators}, False
    names = {one.label: one.alternatives for one in operators}
    for number in graph:
        op = graph[number].op
        one = by_label.get(label_of(op.choice)) if isinstance(op, Select) else None
        if one is None or not isinstance(op, Select):
            continue
        operands = graph.operands(number)
        offered = dict(zip(names[one.label], (operands[case] for case in op.cases), strict=False))
        scope = graph[offered[KEPT]].scope if KEPT in offered else ""
        if where is not None and one.others and not within(scope, where):
            one.others, one.left, changed = [], [f"`{scope}` is not in {where}"], True
        for name in [*one.others]:
            if name in offered and not _alike(types[offered[name]], types[offered[KEPT]]):
                shapes = f"{types[offered[name]]} and {types[offered[KEPT]]}"
                one.drop(name, f"shapes differ: {shapes}")
                changed = True
    return changed


def _alike(one: TensorType, other: TensorType) -> bool:
    return one.rank == other.rank and all(same(a, b) for a, b in zip(one.dims, other.dims, strict=True))

"""Elaborates a net to a graph: executes its statements, turns `require`s into constraints, and reports all
errors at once."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from archir.diagnostics.errors import ArchError, Diagnostic, Note, Source, Span, fail
from archir.diagnostics.hints import suggest
from archir.diagnostics.work import WorkError, work_budget
from archir.diagrams.diagram import Value, varies
from archir.diagrams.lifting import Excluded
from archir.ir.contradictions import contradiction, is_contradictory
from archir.ir.graph import Constraint, Graph
from archir.ir.typing import record_types
from archir.language.elaboration.context import Context, LimitError, Limits, ignore_value
from archir.language.elaboration.evaluators import EVALUATORS
from archir.language.elaboration.files import Loader
from archir.language.elaboration.frame import Frame
from archir.language.elaboration.module import Module
from archir.language.elaboration.name_analysis import assigned, walk
from archir.language.elaboration.name_checks import check_names
from archir.language.elaboration.net_arguments import bind_net_arguments
from archir.language.elaboration.recursion import with_deep_recursion
from archir.language.elaboration.statements import execute
from archir.language.syntax import ast
from archir.passes.prune import prune, prune_excluded

_STRING = re.compile(r'"[^"]*"')


def evaluate_constants(context: Context, module: Module) -> None:
    """Evaluate the constants of a module and store them among its names."""
    caller, context.frame = context.frame, Frame(module)
    try:
        for const in module.constants():
            if const.name.text in module.names:
                continue  # defined twice, which was reported
            value = context.eval(const.value)
            if varies(value):
                value = context.error("A0506", "a constant cannot depend on a choice", const.value.span)
            module.names[const.name.text] = value
    finally:
        context.frame = caller


def elaborate(
    text: str,
    path: str = "<input>",
    *,
    folder: Path | None = None,
    root: Path | None = None,
    net: str | None = None,
    parameters: Mapping[str, Value] | None = None,
    limits: Limits | None = None,
    observer: Callable[[Context, Span, Value], None] = ignore_value,
) -> Graph:
    """Parse a program and elaborate a net to a graph.

    Relative imports are resolved in `folder` and must stay inside `root`. `observer` is called with the value of
    each pipe target and each assigned variable. Raises ArchError with all errors of the program.
    """
    limits = limits or Limits()
    loader = Loader(root if root is not None else folder)
    if folder is not None:
        loader.mark_open(folder / Path(path).name)
    with work_budget(limits.work):
        module = loader.load(text, path, folder)
        return with_deep_recursion(lambda: net_graph(module, loader, net, dict(parameters or {}), limits, observer))


def elaborate_bounds(text: str, name: str = "<where>") -> list[Constraint]:
    """Parse cost bounds in the syntax of `require`, such as `macs <= 600M and params < 5M`; return them as
    constraints.

    Latency files are resolved in the current folder. Raises ArchError.
    """
    source = Source(name, text)
    lines = text.splitlines()
    if len(lines) != 1 or "#" in _STRING.sub("", text):
        raise fail("A0509", "bounds are one line, such as `macs <= 600M and params < 5M`", Span(source, 0, len(text)))
    before = "net bounded {\n    input x: f32[1]\n    require "
    try:
        loader = Loader(Path.cwd(), anywhere=True)
        with work_budget():
            module = loader.load(f"{before}{text}\n    output y = x\n}}\n", name, Path.cwd())
            graph = with_deep_recursion(lambda: net_graph(module, loader, None, {}, Limits()))
    except ArchError as error:
        raise ArchError(*(relocated(problem, source, len(before)) for problem in error.diagnostics)) from None
    plain = [constraint.span for constraint in graph.constraints if constraint.cost is None]
    if plain or not graph.constraints:
        raise fail("A0509", "a bound compares a cost with a number, such as `macs <= 600M`", Span(source, 0, len(text)))
    return [replace(bound, span=_shifted(bound.span, source, len(before))) for bound in graph.constraints]


def relocated(problem: Diagnostic, source: Source, by: int) -> Diagnostic:
    """Map the span of a problem to `source`, given that `by` characters were prepended before parsing."""
    return replace(problem, span=_shifted(problem.span, source, by) if problem.span else None)


def _shifted(span: Span, source: Source, by: int) -> Span:
    size = len(source.text)
    return Span(source, min(max(span.start - by, 0), size), min(max(span.end - by, 0), size))


def survey(
    text: str, path: str = "<input>", *, folder: Path | None = None, root: Path | None = None
) -> tuple[list[str], list[Diagnostic]]:
    """Return the names of the nets in a program, possibly none, and the problems with its names and constants.

    Raises ArchError if the program cannot be parsed.
    """
    loader = Loader(root if root is not None else folder)
    if folder is not None:
        loader.mark_open(folder / Path(path).name)
    with work_budget():
        module = loader.load(text, path, folder)
        context = with_deep_recursion(lambda: _prepare(module, loader, Limits(), module.path))
    try:
        context.problems.raise_any()
    except ArchError as error:
        return list(module.nets), list(error.diagnostics)
    return list(module.nets), []


def _prepare(module: Module, loader: Loader, limits: Limits, name: str) -> Context:
    """Return a context for a module.

    The constants of the module are evaluated, and the names in it and in its imports are checked.
    """
    context = Context(limits, module, name, loader, EVALUATORS)
    for problem in loader.problems:
        context.problems.add(problem)
    try:
        for other in [*loader.modules, module]:
            evaluate_constants(context, other)
            for name_problem in check_names(other):
                context.problems.add(name_problem)
    except LimitError:
        context.problems.raise_any()
    except WorkError as error:
        context.problems.add(error.with_span(module.tree.span).diagnostics[0])
        context.problems.raise_any()
    return context


def net_graph(
    module: Module,
    loader: Loader,
    net: str | None,
    parameters: dict[str, Value],
    limits: Limits,
    observer: Callable[[Context, Span, Value], None] = ignore_value,
) -> Graph:
    """Elaborate a net of a loaded module to a graph. Raises ArchError with all errors."""
    context = _prepare(module, loader, limits, net or module.path)
    context.observer = observer
    try:
        definition = _find_net(module, net)
    except ArchError as error:
        for problem in error.diagnostics:
            context.problems.add(problem)
        context.problems.raise_any()
        raise
    context.graph.name = definition.name.text
    context.frame.local_names = frozenset(assigned(definition.body))
    try:
        bind_net_arguments(context, definition, parameters)
        execute(context, definition.body)
    except LimitError:
        context.problems.raise_any()
    except WorkError as error:
        context.problems.add(error.with_span(definition.name.span).diagnostics[0])
        context.problems.raise_any()
    except Excluded:
        context.problems.raise_any()
        raise ArchError(contradiction(context.graph.constraints, is_contradictory)) from None
    except RecursionError:
        context.problems.add(Diagnostic("A0602", "the program nests too deep", definition.name.span))
        context.problems.raise_any()
    has_return = any(isinstance(statement, ast.Return) for statement in walk(definition.body))
    if not has_return and not any(isinstance(statement, ast.Output) for statement in definition.body):
        notes = [
            Note("is this the output?", assignment.span)
            for assignment in definition.body[-1:]
            if isinstance(assignment, ast.Assign)
        ]
        text = f"net `{definition.name}` has no output"
        context.report("A0209", text, definition.name.span, "`output logits = x`", *notes)
    if not any(isinstance(statement, ast.Input) for statement in definition.body):
        context.report(
            "A0209", f"net `{definition.name}` has no input", definition.name.span, "`input image: f32[3, 32, 32]`"
        )
    context.problems.raise_any()
    try:
        graph = prune_excluded(context.graph, context.valid_if_required)
        if graph is context.graph:
            record_types(graph, context.types)
        return prune(graph)
    except WorkError as error:
        raise error.with_span(definition.name.span) from None


def _find_net(module: Module, net: str | None) -> ast.Definition:
    """Return the definition of the net named `net`, or of the only net if None. Raises ArchError (A0808)."""
    if net is not None and net not in module.nets:
        raise fail("A0808", f"{module.path} has no net `{net}`", None, suggest(net, module.nets))
    if net is not None:
        return module.nets[net]
    if len(module.nets) != 1:
        names = ", ".join(module.nets) or "none"
        hint = f"name one: {module.path}:{next(iter(module.nets))}" if module.nets else "`net name { ... }`"
        raise fail("A0808", f"{module.path} must have one net, or one must be named; it has {names}", None, hint)
    return next(iter(module.nets.values()))

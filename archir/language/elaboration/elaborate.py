"""Elaborates a net to a graph: executes its statements, turns `require`s into constraints, and reports all
errors at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from pathlib import Path

from archir.diagnostics.errors import ArchError, Diagnostic, Note, RuleError, Source, Span, fail
from archir.diagnostics.hints import suggest
from archir.diagnostics.work import WorkError, work_budget
from archir.diagrams.conditions import conjoin, if_else, negate
from archir.diagrams.diagram import Value, same, varies
from archir.diagrams.lifting import Excluded
from archir.ir.contradictions import contradiction, is_contradictory
from archir.ir.graph import Constraint, Graph
from archir.ir.structure import Input
from archir.ir.types import DTYPES
from archir.ir.typing import record_types
from archir.language.elaboration import static
from archir.language.elaboration.choose import ChoiceEvaluator
from archir.language.elaboration.context import Context, LimitError, Limits, ignore_value
from archir.language.elaboration.cost_names import (
    COST_DEFAULTS,
    COSTS,
    LATENCY,
    cost_call,
    cost_call_text,
    latency_name,
)
from archir.language.elaboration.files import Loader
from archir.language.elaboration.frame import Frame
from archir.language.elaboration.module import Module
from archir.language.elaboration.name_analysis import assigned, names_read, walk
from archir.language.elaboration.name_checks import check_names
from archir.language.elaboration.net_arguments import bind_net_arguments
from archir.language.elaboration.recursion import with_deep_recursion
from archir.language.elaboration.values import POISON, UNBOUND
from archir.language.syntax import ast
from archir.passes.prune import prune, prune_excluded

_SWAPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
"""Maps each comparison operator to the one that is equivalent when the sides are swapped."""


class Elaborator(ChoiceEvaluator):
    """Executes the statements of blocks and nets."""

    def __init__(self, limits: Limits, module: Module, name: str, loader: Loader) -> None:
        super().__init__(limits, module, name)
        self.loader = loader

    def execute(self, body: ast.Body) -> None:
        """Execute statements, each under the condition that the current call has not returned yet."""
        before = len(self.frame.returned)
        path = self.guard
        try:
            for statement in body:
                self.step(statement.span)
                self.guard = conjoin(self.guard, self.unreturned(before))
                before = len(self.frame.returned)
                if self.guard is False:
                    return
                try:
                    self._run(statement)
                except RuleError as error:
                    self.report_rule_error(error, statement.span)
                except Excluded:
                    if self.guard is path:
                        raise
                    # all outcomes that the requirements allow have returned before this statement
                    self.frame.returned.append((self.guard, UNBOUND))
                    return
        finally:
            self.guard = path

    def unreturned(self, since: int) -> Value:
        """Return the condition that none of the call's `return`s, except the first `since` of them, was executed."""
        return reduce(conjoin, (negate(condition) for condition, _ in self.frame.returned[since:]), True)

    def _run(self, statement: ast.Statement) -> None:
        match statement:
            case ast.Assign():
                direct = isinstance(statement.value, (ast.Choose, ast.Match, ast.Pipe)) and len(statement.targets) == 1
                self.assigned = statement.targets[0] if direct else None
                value = self.eval(statement.value)
                self.assigned = None
                self.bind(statement.targets, value)
                if len(statement.targets) == 1:
                    self.observer(self, statement.targets[0].span, value)
            case ast.Return():
                values = [self.eval(value) for value in statement.values]
                if self.frame.block is None:
                    text = "a net cannot return a value: it has outputs"
                    self.error("A0208", text, statement.span, "`output logits = x`")
                    return
                value = values[0] if len(values) == 1 else self.items(values, statement.span)
                self.frame.returned.append((self.guard, value))
            case ast.ForLoop():
                items = self.checked(statement.items.span, static.sequence, self.eval(statement.items))
                self._loop(statement.targets, items, statement.items.span, statement.body)
            case ast.Repeat():
                self.assigned = statement.index
                times = self.eval(statement.times)
                self.assigned = None
                items = self.lift(
                    statement.times.span,
                    lambda n: static.integer_range(0, static.integer(n, "a number of times")),
                    times,
                )
                targets = (statement.index,) if statement.index else ()
                self._loop(targets, items, statement.times.span, statement.body)
            case ast.If():
                self._if(statement)
            case ast.Input():
                self._input(statement)
            case ast.Output():
                self._output(statement)
            case ast.Require():
                self._require(statement.condition)

    # control flow

    def _loop(self, targets: tuple[ast.Name, ...], items: Value, span: Span, body: ast.Body) -> None:
        if items is POISON:
            for target in targets:
                self.frame.env[target.text] = POISON
            return
        min_nodes = self.node_bounds.body(body, self.frame.module, {})
        if not varies(items) and len(self.graph) + min_nodes * len(items) > self.limits.nodes:
            self.too_many_nodes(span)
        outer_loops, returned = self.scope.loops, len(self.frame.returned)
        try:
            for position, (exists, item) in enumerate(self.each(items, span)):
                self.step(span)
                self.spend(len(self.frame.env) / 32, span)
                before = dict(self.frame.env)
                self.scope.loops = (*outer_loops, position)
                not_returned = self.unreturned(returned)
                with self.under(conjoin(exists, not_returned)) as possible:
                    if not possible or (targets and not self.bind(targets, item())):
                        return
                    self.execute(body)
                    self._merge(exists, self.frame.env, before, span)
                    continue
                self.frame.env = before
        finally:
            self.scope.loops = outer_loops

    def _if(self, statement: ast.If) -> None:
        condition = self.condition(statement.condition)
        if condition is POISON:
            return
        condition = self.restricted(condition)
        if not varies(condition):
            self.execute(statement.then if condition else statement.orelse)
            return
        self.spend(len(self.frame.env) / 32, statement.span)
        before = self.frame.env
        envs: dict[bool, dict[str, Value]] = {}
        for holds, body in ((True, statement.then), (False, statement.orelse)):
            self.frame.env = dict(before)
            with self.under(condition if holds else negate(condition)):
                self.execute(body)
                envs[holds] = self.frame.env
        self.frame.env = before if len(envs) == 2 else self.first_or_excluded(envs.values())
        if len(envs) == 2:
            self._merge(condition, envs[True], envs[False], statement.span)

    def _merge(self, condition: Value, then: dict[str, Value], orelse: dict[str, Value], span: Span) -> None:
        """Merge the variables after a branch: those of `then` where `condition` holds, those of `orelse` elsewhere."""
        if condition is True:
            self.frame.env = then
            return
        self.spend(len(then) / 4, span)
        merged: dict[str, Value] = {}
        for name in [*then, *(name for name in orelse if name not in then)]:
            then_value, else_value = then.get(name, UNBOUND), orelse.get(name, UNBOUND)
            if then_value is POISON or else_value is POISON:
                merged[name] = POISON
            else:
                merged[name] = (
                    then_value if same(then_value, else_value) else self.merge(condition, then_value, else_value, span)
                )
        self.frame.env = merged

    # nets

    def _input(self, statement: ast.Input) -> None:
        if self.frame.block is not None or self.guard is not True:
            self.error("A0208", "inputs are only allowed at the top level of a net", statement.span)
            return
        name, dtype = statement.name.text, statement.type.dtype
        if dtype.text not in DTYPES:
            from archir.language.elaboration.unknown_names import dtype_hint

            self.error("A0212", f"there is no element type `{dtype}`", dtype.span, dtype_hint(dtype.text, DTYPES))
        if name in self.graph.inputs:
            self.error("A0202", f"the input `{name}` is defined twice", statement.name.span)
            return
        dims = [self.lift(d.span, lambda leaf: _dimension(leaf), self.eval(d)) for d in statement.type.dims]
        self.frame.env[name] = POISON
        if POISON not in dims and dtype.text in DTYPES:
            self.scope.used.add(name)
            op = Input.of(name, dims, dtype.text)
            self.frame.env[name] = self.add(op, (), statement.name.span, name)

    def _output(self, statement: ast.Output) -> None:
        name = statement.name.text
        if self.frame.block is not None or self.guard is not True:
            self.error("A0208", "outputs are only allowed at the top level of a net", statement.span)
            return
        if name in self.graph.outputs:
            self.error("A0202", f"the output `{name}` is defined twice", statement.name.span)
            return
        self.assigned = statement.name
        node = self.node(self.eval(statement.value), statement.value.span, f"the output `{name}`")
        self.assigned = None
        if node is not None:
            self.graph.outputs[name] = node

    def _require(self, tree: ast.Expr) -> None:
        if isinstance(tree, ast.Logical) and tree.word == "and":
            for operand in tree.operands:
                self._require(operand)
        elif not names_read(tree).isdisjoint(self._costs()):
            self._require_cost(tree)
        else:
            condition = self.condition(tree)
            if condition is POISON:
                return
            holds = if_else(self.guard, condition, True)
            if holds is False:
                self.error("A0510", "no architecture satisfies this", tree.span)
            self.constrain(Constraint(holds, "require", tree.span.text, tree.span))

    def _require_cost(self, tree: ast.Expr) -> None:
        """Add a cost bound as a constraint; such constraints are checked on complete architectures only."""
        sides = [tree.first, *(operand for _, operand in tree.links)] if isinstance(tree, ast.Comparison) else []
        costs = [i for i, side in enumerate(sides) if self._is_cost(side)]
        others = [side for i, side in enumerate(sides) if i not in costs]
        is_plain = all(names_read(side).isdisjoint(self._costs()) for side in others)
        if not isinstance(tree, ast.Comparison) or len(sides) != 2 or len(costs) != 1 or not is_plain:
            hint = 'latency("cpu.json") <= 5ms' if LATENCY in names_read(tree) else "macs <= 600M"
            text = "a bound must compare a single cost, without arithmetic, with a number"
            self.error("A0509", text, tree.span, f"such as `require {hint}`")
            return
        cost, relation = sides[costs[0]], tree.links[0][0]
        other = sides[1 - costs[0]]
        if relation not in _SWAPPED:
            self.error("A0509", f"a cost cannot be compared by `{relation}`", tree.span)
            return
        limit = self.lift(other.span, lambda leaf: static.integer(leaf, "a bound on a cost"), self.eval(other))
        name_and_table = self._cost(cost)
        if limit is POISON or name_and_table is None:
            return
        name, table = name_and_table
        relation = relation if costs[0] == 0 else _SWAPPED[relation]
        bound = Constraint(self.guard, "require", tree.span.text, tree.span, name, relation, limit, table)
        self.constrain(bound)

    def _costs(self) -> list[str]:
        """Return the cost names that no variable in the current frame hides."""
        return [name for name in (*COSTS, LATENCY) if name not in self.frame.env]

    def _is_cost(self, tree: ast.Expr) -> bool:
        match tree:
            case ast.Name(text=name):
                return name in self._costs() and name != LATENCY
            case ast.Call(callee=ast.Name(text=name)):
                return name in self._costs() and (name == LATENCY or name in COST_DEFAULTS)
        return False

    def _cost(self, tree: ast.Expr) -> tuple[str, Path | None] | None:
        """Return the name of a cost and, for latencies, the path of its latency table; None after an error."""
        if isinstance(tree, ast.Name):
            return tree.text, None
        assert isinstance(tree, ast.Call)
        if isinstance(tree.callee, ast.Name) and tree.callee.text in COST_DEFAULTS:
            return self._further_cost(tree.callee.text, tree)
        file, confidence = self._latency(tree)
        if isinstance(file, str) and (confidence is None or isinstance(confidence, int | float | Fraction)):
            try:
                name = latency_name(file, None if confidence is None else float(confidence))
                return name, self.loader.locate(file, self.frame.module.folder, tree.span)[0]
            except ArchError as error:
                self.problems.add(error.diagnostics[0])
        elif POISON not in (file, confidence):
            hint = '`latency("cpu.json") <= 5ms` or `latency("model.json", confidence=0.95) <= 5ms`'
            text = "`latency` takes the file of a table, or the file of a model and a confidence"
            self.error("A0509", text, tree.span, hint)
        return None

    def _latency(self, tree: ast.Call) -> tuple[Value, Value]:
        """Return the file and the confidence in a call of `latency`; (None, None) if the arguments do not have that
        form."""
        names = [argument.name.text if argument.name else None for argument in tree.arguments]
        if names not in ([None], [None, "confidence"]):
            return None, None
        file, confidence = [self.eval(argument.value) for argument in tree.arguments] + [None] * (2 - len(names))
        return file, confidence

    def _further_cost(self, name: str, tree: ast.Call) -> tuple[str, None] | None:
        """Return the text of a cost with arguments, and None because it has no table. A single None after an error."""
        arguments = [
            (argument.name.text if argument.name else None, self.eval(argument.value)) for argument in tree.arguments
        ]
        if any(value is POISON for _, value in arguments):
            return None
        if any(varies(value) for _, value in arguments):
            self.error("A3321", f"the arguments of `{name}` cannot depend on a choice", tree.span)
            return None
        try:
            cost_call(name, arguments)
        except ArchError as error:
            self.problems.add(replace(error.diagnostics[0], span=tree.span))
            return None
        return cost_call_text(name, arguments), None

    def constants(self, module: Module) -> None:
        """Evaluate the constants of a module and store them among its names."""
        caller, self.frame = self.frame, Frame(module)
        try:
            for const in module.constants():
                if const.name.text in module.names and not isinstance(module.names[const.name.text], ast.Const):
                    continue
                value = self.eval(const.value)
                if varies(value):
                    value = self.error("A0506", "a constant cannot depend on a choice", const.value.span)
                module.names[const.name.text] = value
        finally:
            self.frame = caller


def _dimension(value: Value) -> int:
    size = static.integer(value, "a dimension")
    if size < 1:
        raise RuleError(f"a dimension must be at least 1, got {size}", code="A0406")
    return size


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
    if len(lines) != 1 or "#" in text:
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


def _prepare(module: Module, loader: Loader, limits: Limits, name: str) -> Elaborator:
    """Return an elaborator for a module.

    The constants of the module are evaluated, and the names in it and in its imports are checked.
    """
    context = Elaborator(limits, module, name, loader)
    for problem in loader.problems:
        context.problems.add(problem)
    try:
        for other in [*loader.modules, module]:
            context.constants(other)
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
        context.execute(definition.body)
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

"""Nets to graphs: statements are run, costs are related to `require`s, everything wrong is reported together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from pathlib import Path

from archir.diagnostics.errors import ArchError, Diagnostic, Note, RuleError, Source, Span, fail, suggest
from archir.diagnostics.work import WorkError, bounded
from archir.diagrams.cases import Value, same, varies
from archir.diagrams.conditions import both, if_else, negate
from archir.diagrams.lifting import Excluded
from archir.ir.contradictions import contradiction, together
from archir.ir.graph import Constraint, Graph
from archir.ir.structure import Input
from archir.ir.types import DTYPES
from archir.ir.typing import prove
from archir.language.elaboration import static
from archir.language.elaboration.choose import Chooser
from archir.language.elaboration.context import Context, Frame, LimitError, Limits, unseen
from archir.language.elaboration.costs import completed, spelled
from archir.language.elaboration.files import Loader, Module
from archir.language.elaboration.foreign import about_dtype
from archir.language.elaboration.given import give
from archir.language.elaboration.locals import COSTS, FURTHER, LATENCY, assigned, latency_name, names_read, walk
from archir.language.elaboration.recursion import deeply
from archir.language.elaboration.unused_bodies import check_names
from archir.language.elaboration.values import POISON, UNBOUND
from archir.language.syntax import ast
from archir.passes.prune import prune, prune_excluded

_RELATIONS = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}


class Elaborator(Chooser):
    """Runs the statements of a net."""

    def __init__(self, limits: Limits, module: Module, name: str, loader: Loader) -> None:
        super().__init__(limits, module, name)
        self.loader = loader

    def execute(self, body: ast.Body) -> None:
        """Run statements, each under the condition that nothing was returned before."""
        before = len(self.frame.returned)
        path = self.path
        try:
            for statement in body:
                self.step(statement.span)
                self.path = both(self.path, self.unreturned(before))
                before = len(self.frame.returned)
                if self.path is False:
                    return
                try:
                    self._run(statement)
                except RuleError as error:
                    self.refuse(error, statement.span)
                except Excluded:
                    if self.path is path:
                        raise
                    self.frame.returned.append((self.path, UNBOUND))  # what the requirements leave has returned before
                    return
        finally:
            self.path = path

    def unreturned(self, since: int) -> Value:
        """The condition under which the call at hand has not returned by any `return` after the first `since`."""
        return reduce(both, (negate(condition) for condition, _ in self.frame.returned[since:]), True)

    def _run(self, statement: ast.Statement) -> None:
        match statement:
            case ast.Assign():
                direct = isinstance(statement.value, (ast.Choose, ast.Match, ast.Pipe)) and len(statement.targets) == 1
                self.assigned = statement.targets[0] if direct else None
                value = self.eval(statement.value)
                self.assigned = None
                self.bind(statement.targets, value)
                if len(statement.targets) == 1:
                    self.seen(self, statement.targets[0].span, value)
            case ast.Return():
                values = [self.eval(value) for value in statement.values]
                if self.frame.block is None:
                    self.error("A0208", "a net returns nothing: it has outputs", statement.span, "`output logits = x`")
                    return
                value = values[0] if len(values) == 1 else self.items(values, statement.span)
                self.frame.returned.append((self.path, value))
            case ast.ForLoop():
                items = self.checked(statement.items.span, static.sequence, self.eval(statement.items))
                self._loop(statement.targets, items, statement.items.span, statement.body)
            case ast.Repeat():
                self.assigned = statement.index
                times = self.eval(statement.times)
                self.assigned = None
                items = self.lift(
                    statement.times.span, lambda n: static.interval(0, static.integer(n, "a number of times")), times
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
        least = self.bounds.body(body, self.frame.module, {})
        if not varies(items) and len(self.graph) + least * len(items) > self.limits.nodes:
            self.too_many_nodes(span)
        outer, returned = self.scope.loops, len(self.frame.returned)
        try:
            for position, (exists, item) in enumerate(self.each(items, span)):
                self.step(span)
                self.spend(len(self.frame.env) / 32, span)
                before = dict(self.frame.env)
                self.scope.loops = (*outer, position)
                still = self.unreturned(returned)
                with self.under(both(exists, still)) as possible:
                    if not possible or (targets and not self.bind(targets, item())):
                        return
                    self.execute(body)
                    self._merge(exists, self.frame.env, before, span)
                    continue
                self.frame.env = before
        finally:
            self.scope.loops = outer

    def _if(self, statement: ast.If) -> None:
        condition = self.condition(statement.condition)
        if condition is POISON:
            return
        condition = self.here(condition)
        if not varies(condition):
            self.execute(statement.then if condition else statement.otherwise)
            return
        self.spend(len(self.frame.env) / 32, statement.span)
        before = self.frame.env
        ends: dict[bool, dict[str, Value]] = {}
        for holds, body in ((True, statement.then), (False, statement.otherwise)):
            self.frame.env = dict(before)
            with self.under(condition if holds else negate(condition)):
                self.execute(body)
                ends[holds] = self.frame.env
        self.frame.env = before if len(ends) == 2 else self.only(ends.values())
        if len(ends) == 2:
            self._merge(condition, ends[True], ends[False], statement.span)

    def _merge(self, condition: Value, then: dict[str, Value], otherwise: dict[str, Value], span: Span) -> None:
        """Variables after a branch: from `then` where the condition holds, from `otherwise` elsewhere."""
        if condition is True:
            self.frame.env = then
            return
        self.spend(len(then) / 4, span)
        merged: dict[str, Value] = {}
        for name in [*then, *(name for name in otherwise if name not in then)]:
            one, other = then.get(name, UNBOUND), otherwise.get(name, UNBOUND)
            if one is POISON or other is POISON:
                merged[name] = POISON
            else:
                merged[name] = one if same(one, other) else self.merged(condition, one, other, span)
        self.frame.env = merged

    # nets

    def _input(self, statement: ast.Input) -> None:
        if self.frame.block is not None or self.path is not True:
            self.error("A0208", "inputs stand at the top of a net", statement.span)
            return
        name, dtype = statement.name.text, statement.type.dtype
        if dtype.text not in DTYPES:
            self.error("A0212", f"there is no element type `{dtype}`", dtype.span, about_dtype(dtype.text, DTYPES))
        if name in self.graph.inputs:
            self.error("A0202", f"the input `{name}` is defined twice", statement.name.span)
            return
        dims = [self.lift(d.span, lambda leaf: _dimension(leaf), self.eval(d)) for d in statement.type.dims]
        self.frame.env[name] = POISON
        if POISON not in dims and dtype.text in DTYPES:
            self.scope.used.add(name)
            made = Input.of(name, dims, dtype.text)
            self.frame.env[name] = self.add(made, (), statement.name.span, name)

    def _output(self, statement: ast.Output) -> None:
        name = statement.name.text
        if self.frame.block is not None or self.path is not True:
            self.error("A0208", "outputs stand at the top level of a net", statement.span)
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
            holds = if_else(self.path, condition, True)
            if holds is False:
                self.error("A0510", "no architecture satisfies this", tree.span)
            self.constrain(Constraint(holds, "require", tree.span.text, tree.span))

    def _require_cost(self, tree: ast.Expr) -> None:
        """A bound on a cost; what an architecture costs is known only when it is complete."""
        sides = [tree.first, *(operand for _, operand in tree.rest)] if isinstance(tree, ast.Comparison) else []
        costs = [i for i, side in enumerate(sides) if self._is_cost(side)]
        others = [side for i, side in enumerate(sides) if i not in costs]
        plain = all(names_read(side).isdisjoint(self._costs()) for side in others)
        if not isinstance(tree, ast.Comparison) or len(sides) != 2 or len(costs) != 1 or not plain:
            hint = 'latency("cpu.json") <= 5ms' if LATENCY in names_read(tree) else "macs <= 600M"
            self.error("A0509", "a cost is compared, by itself, with a number", tree.span, f"such as `require {hint}`")
            return
        cost, relation = sides[costs[0]], tree.rest[0][0]
        other = sides[1 - costs[0]]
        if relation not in _RELATIONS:
            self.error("A0509", f"a cost cannot be compared by `{relation}`", tree.span)
            return
        limit = self.lift(other.span, lambda leaf: static.integer(leaf, "a bound on a cost"), self.eval(other))
        named = self._cost(cost)
        if limit is POISON or named is None:
            return
        name, table = named
        relation = relation if costs[0] == 0 else _RELATIONS[relation]
        bound = Constraint(self.path, "require", tree.span.text, tree.span, name, relation, limit, table)
        self.constrain(bound)

    def _costs(self) -> list[str]:
        """The names that mean costs here, and no variables."""
        return [name for name in (*COSTS, LATENCY) if name not in self.frame.env]

    def _is_cost(self, tree: ast.Expr) -> bool:
        match tree:
            case ast.Name(text=name):
                return name in self._costs() and name != LATENCY
            case ast.Call(callee=ast.Name(text=name)):
                return name in self._costs() and (name == LATENCY or name in FURTHER)
        return False

    def _cost(self, tree: ast.Expr) -> tuple[str, Path | None] | None:
        """A cost's name, and the file of its table; None, with a complaint, if there is none."""
        if isinstance(tree, ast.Name):
            return tree.text, None
        assert isinstance(tree, ast.Call)
        if isinstance(tree.callee, ast.Name) and tree.callee.text in FURTHER:
            return self._further_cost(tree.callee.text, tree)
        file, confidence = self._latency(tree)
        if isinstance(file, str) and (confidence is None or isinstance(confidence, int | float | Fraction)):
            try:
                name = latency_name(file, None if confidence is None else float(confidence))
                return name, self.loader.located(file, self.frame.module.folder, tree.span)[0]
            except ArchError as error:
                self.problems.add(error.diagnostics[0])
        elif POISON not in (file, confidence):
            hint = '`latency("cpu.json") <= 5ms` or `latency("model.json", confidence=0.95) <= 5ms`'
            self.error("A0509", "`latency` takes the file of a table, or of a model and a confidence", tree.span, hint)
        return None

    def _latency(self, tree: ast.Call) -> tuple[Value, Value]:
        """The file and the confidence that a latency is given; for other arguments, no file."""
        names = [one.name.text if one.name else None for one in tree.arguments]
        if names not in ([None], [None, "confidence"]):
            return None, None
        file, confidence = [self.eval(one.value) for one in tree.arguments] + [None] * (2 - len(names))
        return file, confidence

    def _further_cost(self, name: str, tree: ast.Call) -> tuple[str, None] | None:
        """A cost that takes arguments, by its name and these."""
        given = [(one.name.text if one.name else None, self.eval(one.value)) for one in tree.arguments]
        if any(value is POISON for _, value in given):
            return None
        if any(varies(value) for _, value in given):
            self.error("A3321", f"what `{name}` takes cannot depend on a choice", tree.span)
            return None
        try:
            completed(name, given)
        except ArchError as error:
            self.problems.add(replace(error.diagnostics[0], span=tree.span))
            return None
        return spelled(name, given), None

    def constants(self, module: Module) -> None:
        """Evaluate the constants of a file."""
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
    seen: Callable[[Context, Span, Value], None] = unseen,
) -> Graph:
    """The graph of a net of a text. `folder` is where relative imports start, `root` the folder they must stay in.

    `seen` is told what pipes and names come to. Raises ArchError with everything that is wrong with the text.
    """
    limits = limits or Limits()
    loader = Loader(root if root is not None else folder)
    if folder is not None:
        loader.opened(folder / Path(path).name)
    with bounded(limits.work):
        module = loader.load(text, path, folder)
        return deeply(lambda: net_graph(module, loader, net, dict(parameters or {}), limits, seen))


def elaborate_bounds(text: str, name: str = "<where>") -> list[Constraint]:
    """Bounds on costs, as `require` takes them: `macs <= 600M and params < 5M`. Raises ArchError.

    Tables of latencies are looked for from the current folder on.
    """
    source = Source(name, text)
    lines = text.splitlines()
    if len(lines) != 1 or "#" in text:
        raise fail("A0509", "bounds are one line, such as `macs <= 600M and params < 5M`", Span(source, 0, len(text)))
    before = "net bounded {\n    input x: f32[1]\n    require "
    try:
        loader = Loader(Path.cwd(), anywhere=True)
        with bounded():
            module = loader.load(f"{before}{text}\n    output y = x\n}}\n", name, Path.cwd())
            graph = deeply(lambda: net_graph(module, loader, None, {}, Limits()))
    except ArchError as error:
        raise ArchError(*(moved(problem, source, len(before)) for problem in error.diagnostics)) from None
    plain = [constraint.span for constraint in graph.constraints if constraint.cost is None]
    if plain or not graph.constraints:
        raise fail("A0509", "a bound compares a cost with a number, such as `macs <= 600M`", Span(source, 0, len(text)))
    return [replace(one, span=_shifted(one.span, source, len(before))) for one in graph.constraints]


def moved(problem: Diagnostic, source: Source, by: int) -> Diagnostic:
    """A problem of a text that was read behind `by` characters of another one, at its place in its own source."""
    return replace(problem, span=_shifted(problem.span, source, by) if problem.span else None)


def _shifted(span: Span, source: Source, by: int) -> Span:
    size = len(source.text)
    return Span(source, min(max(span.start - by, 0), size), min(max(span.end - by, 0), size))


def survey(
    text: str, path: str = "<input>", *, folder: Path | None = None, root: Path | None = None
) -> tuple[list[str], list[Diagnostic]]:
    """The nets of a text, which need not have any, and what is wrong with its names and constants.

    Raises ArchError where nothing can be known: it cannot be read.
    """
    loader = Loader(root if root is not None else folder)
    if folder is not None:
        loader.opened(folder / Path(path).name)
    with bounded():
        module = loader.load(text, path, folder)
        context = deeply(lambda: _prepared(module, loader, Limits(), module.path))
    try:
        context.problems.raise_any()
    except ArchError as error:
        return list(module.nets), list(error.diagnostics)
    return list(module.nets), []


def _prepared(module: Module, loader: Loader, limits: Limits, name: str) -> Elaborator:
    context = Elaborator(limits, module, name, loader)
    for problem in loader.problems:
        context.problems.add(problem)
    try:
        for other in [*loader.modules, module]:
            context.constants(other)
            for found in check_names(other):
                context.problems.add(found)
    except LimitError:
        context.problems.raise_any()
    except WorkError as error:
        raise error.at(module.tree.span) from None
    return context


def net_graph(
    module: Module,
    loader: Loader,
    net: str | None,
    parameters: dict[str, Value],
    limits: Limits,
    seen: Callable[[Context, Span, Value], None] = unseen,
) -> Graph:
    """The graph of a net of a module. Raises ArchError with everything that is wrong."""
    context = _prepared(module, loader, limits, net or module.path)
    context.seen = seen
    try:
        definition = _pick(module, net)
    except ArchError as error:
        for problem in error.diagnostics:
            context.problems.add(problem)
        context.problems.raise_any()
        raise
    context.graph.name = definition.name.text
    context.frame.local = frozenset(assigned(definition.body))
    try:
        give(context, definition, parameters)
        context.execute(definition.body)
    except LimitError:
        context.problems.raise_any()
    except WorkError as error:
        raise error.at(definition.name.span) from None
    except Excluded:
        context.problems.raise_any()
        raise ArchError(contradiction(context.graph.constraints, together)) from None
    except RecursionError:
        raise fail("A0602", "the program nests too deep", definition.name.span) from None
    said = any(isinstance(statement, ast.Return) for statement in walk(definition.body))
    if not said and not any(isinstance(statement, ast.Output) for statement in definition.body):
        last = [Note("is it this?", one.span) for one in definition.body[-1:] if isinstance(one, ast.Assign)]
        said_so = f"net `{definition.name}` has no output"
        context.complain("A0209", said_so, definition.name.span, "`output logits = x`", *last)
    if not any(isinstance(statement, ast.Input) for statement in definition.body):
        context.complain(
            "A0209", f"net `{definition.name}` has no input", definition.name.span, "`input image: f32[3, 32, 32]`"
        )
    context.problems.raise_any()
    try:
        graph = prune_excluded(context.graph, context.excused)
        if graph is context.graph:
            prove(graph, context.types)
        return prune(graph)
    except WorkError as error:
        raise error.at(definition.name.span) from None


def _pick(module: Module, net: str | None) -> ast.Definition:
    if net is not None and net not in module.nets:
        raise fail("A0808", f"{module.path} has no net `{net}`", None, suggest(net, module.nets))
    if net is not None:
        return module.nets[net]
    if len(module.nets) != 1:
        names = ", ".join(module.nets) or "none"
        hint = f"name one: {module.path}:{next(iter(module.nets))}" if module.nets else "`net name { ... }`"
        raise fail("A0808", f"{module.path} must have one net, or one must be named; it has {names}", None, hint)
    return next(iter(module.nets.values()))

"""Lint rules for what has no effect: choices, requirements, parameters, imports, values and definitions."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from archir.diagnostics.errors import ArchError, Diagnostic, Note
from archir.diagrams.conditions import negate
from archir.diagrams.diagram import Value, support, varies
from archir.ir.graph import Constraint
from archir.language.elaboration.module import Module
from archir.language.elaboration.name_analysis import names_read, walk
from archir.language.syntax import ast
from archir.linting.subject import Subject, more_note
from archir.spaces.counting import compile_program, relevant_decisions
from archir.spaces.space import Space


def unused_choices(subject: Subject) -> Iterator[Diagnostic]:
    """A1403: warn about a choice without effect.

    Such a choice has a single outcome, or affects no node, no constraint and no other effective choice.

    There is no warning about a single outcome if the same source line also makes choices with several outcomes. For
    example, the first node of a cell that chooses two of its inputs may have only two inputs.
    """
    graph = subject.graph
    used = subject.attribute_choices | subject.selects.keys()
    for constraint in graph.constraints:
        used |= {choice.path for choice in support(constraint.condition, constraint.limit)}
    for path, decision in reversed(graph.decisions.items()):  # a choice's condition depends on earlier choices only
        if path in used:
            used |= {choice.path for choice in support(decision.active)}
    for choices in subject.choices_by_place:
        single = all(choice.outcome_count == 1 for choice in choices)
        idle = [choice for choice in choices if single or (choice.outcome_count > 1 and choice.path not in used)]
        if idle:
            reason = "there is one outcome" if single else "no operation depends on it"
            yield Diagnostic(
                "A1403",
                f"`{idle[0].path}` changes nothing: {reason}",
                idle[0].span,
                "use its value, or drop the choice",
                more_note(len(idle) - 1),
                "warning",
            )


def unused_parameters(module: Module) -> Iterator[Diagnostic]:
    """A1406: warn about an unread parameter of a net, or of a block that is called in this file.

    Blocks passed as values are left out, since the callee determines which parameters they must have.
    """
    called, passed = _uses(module)
    for definition in module.definitions():
        name = definition.name.text
        if definition.word != "net" and (name not in called or name in passed):
            continue
        read = names_read((definition.params, definition.body))
        for parameter in definition.params:
            if parameter.name.text not in read:
                text = f"{definition.word} `{name}` does not read its parameter `{parameter.name}`"
                yield Diagnostic("A1406", text, parameter.name.span, "drop it", (), "warning")


def unused_imports(module: Module) -> Iterator[Diagnostic]:
    """A1407: warn about an import none of whose names is used in the file."""
    read = names_read(module.tree)
    imports = [item for item in module.tree.items if isinstance(item, ast.Import)]
    for item, imported_module in zip(imports, module.imports, strict=True):
        imported_names = {item.alias.text} if item.alias is not None else set(imported_module.exported_names())
        if not imported_names & read:
            yield Diagnostic("A1407", f"nothing of `{item.path}` is used", item.span, "drop the import", (), "warning")


def choices_of_absent_loops(module: Module) -> Iterator[Diagnostic]:
    """A1415: warn about a choice whose value is read only inside a `repeat` that some architectures leave out.

    In these architectures the choice has no effect, so that several architectures are the same network.
    """
    for definition in module.definitions():
        choices = {
            statement.targets[0].text: (statement.targets[0], statement.value)
            for statement in definition.body
            if isinstance(statement, ast.Assign)
            and len(statement.targets) == 1
            and isinstance(statement.value, ast.Choose)
        }
        loops = [statement for statement in definition.body if isinstance(statement, ast.Repeat)]
        for name, (target, _) in choices.items():
            around = [loop for loop in loops if _reads(loop.body, name)]
            if len(around) != 1 or _reads(definition.body, name) != _reads(around[0].body, name):
                continue
            times = around[0].times
            count = choices[times.text][1] if isinstance(times, ast.Name) and times.text in choices else times
            if isinstance(count, ast.ChooseValue) and any(
                isinstance(value, ast.Literal) and value.value == 0 for value in count.values
            ):
                yield Diagnostic(
                    "A1415",
                    f"the choice `{name}` has no effect in architectures without the `repeat` that reads it",
                    target.span,
                    "let the number of rounds begin with 1; or compare architectures by `archir count --unique`",
                    (Note("this may repeat 0 times", times.span),),
                    "warning",
                )


def _uses(module: Module) -> tuple[set[str], set[str]]:
    """Return the names that a file calls, and the names that it passes as values."""
    uses: Counter[str] = Counter()
    called: Counter[str] = Counter()
    for tree in walk(module.tree):
        match tree:
            case ast.Name():
                uses[tree.text] += 1
            case ast.Call(callee=ast.Name() as callee):
                called[callee.text] += 1
            case ast.Pipe():
                called.update(target.text for target in tree.targets if isinstance(target, ast.Name))
    return set(called), set(uses - called)


def _reads(tree: object, name: str) -> int:
    """Return how often a name is read in a syntax tree."""
    return sum(isinstance(part, ast.Name) and part.text == name for part in walk(tree))


def unread_results(module: Module) -> Iterator[Diagnostic]:
    """A1409: warn about an input or assigned value that is not read before the name is reassigned.

    Also warns if every iteration of a loop assigns a new value that no iteration reads, so that only the last one
    matters. For a statement that assigns several names, reading one of them suffices. Assignments of a `choose`
    are left to A1403.
    """
    for definition in module.definitions():
        flow = _Liveness()
        flow.body(definition.body, frozenset())
        for assign in flow.overwritten:
            text = f"each iteration of the loop overwrites `{assign.targets[0]}`, and only its last value is read"
            hint = "should each iteration use the value of the one before, as in `x = x |> unit`?"
            yield Diagnostic("A1409", text, assign.targets[0].span, hint, (), "warning")
        for statement in flow.unread:
            match statement:
                case ast.Assign(targets=(name, *_), value=value) if not _chooses(value):
                    hint = "drop it, or use it" if len(statement.targets) == 1 else "drop them, or use one"
                    names = "` and `".join(target.text for target in statement.targets)
                    verb = "is" if len(statement.targets) == 1 else "are"
                    yield Diagnostic("A1409", f"`{names}` {verb} never read", name.span, hint, (), "warning")
                case ast.Input(name=name):
                    text = f"the input `{name}` is never read"
                    yield Diagnostic("A1409", text, name.span, "drop it, or use it", (), "warning")


Names = frozenset[str]
"""Names live at some point of the program, that is, whose current values may be read later."""


class _Liveness:
    """Liveness analysis: processes the statements of a body backwards, tracking the names that are live after each."""

    def __init__(self) -> None:
        self._assigned: dict[int, ast.Assign | ast.Input] = {}
        self._read: set[int] = set()
        self._reads: dict[int, Names] = {}
        self.overwritten: list[ast.Assign] = []
        """Assignments in loops whose values are read only after the loop."""

    @property
    def unread(self) -> list[ast.Assign | ast.Input]:
        """Assignments and inputs whose values are never read, in source order."""
        statements = [statement for key, statement in self._assigned.items() if key not in self._read]
        return sorted(statements, key=lambda statement: statement.span.start)

    def body(self, body: ast.Body, live: Names) -> Names:
        """Return the names live before a body, given those live after it."""
        for statement in reversed(body):
            live = self._statement(statement, live)
        return live

    def _statement(self, statement: ast.Statement, live: Names) -> Names:
        """Return the names live before a statement, given those live after it."""
        match statement:
            case ast.Assign(targets=targets, value=value):
                self._assign(statement, {target.text for target in targets}, live)
                return (live - {target.text for target in targets}) | names_read(value)
            case ast.Input(name=name, type=type_):
                self._assign(statement, {name.text}, live)
                return (live - {name.text}) | names_read(type_)
            case ast.ForLoop(items=head, body=body) | ast.Repeat(times=head, body=body):
                for inner in body:
                    names = {target.text for target in inner.targets} if isinstance(inner, ast.Assign) else set()
                    if isinstance(inner, ast.Assign) and names & live and not names & self._read_in(statement):
                        self.overwritten.append(inner)
                return live | self.body(body, live | self._read_in(statement)) | names_read(head)
            case ast.If(condition=condition, then=then, orelse=otherwise):
                return self.body(then, live) | self.body(otherwise, live) | names_read(condition)
            case ast.Return():
                return names_read(statement)
            case _:
                return live | names_read(statement)

    def _read_in(self, statement: ast.Statement) -> Names:
        """Return the names read in a statement; in a loop, they may have been assigned in the previous iteration."""
        if id(statement) not in self._reads:
            inner: tuple[ast.Statement, ...] = ()
            match statement:
                case ast.ForLoop(items=head, body=inner) | ast.Repeat(times=head, body=inner):
                    names = names_read(head)
                case ast.If(condition=condition, then=then, orelse=otherwise):
                    inner, names = (*then, *otherwise), names_read(condition)
                case _:
                    names = names_read(statement)
            self._reads[id(statement)] = names.union(*(self._read_in(child) for child in inner))
        return self._reads[id(statement)]

    def _assign(self, statement: ast.Assign | ast.Input, names: set[str], live: Names) -> None:
        """Record an assignment. It counts as read if one of its names is live or all of them start with `_`."""
        self._assigned[id(statement)] = statement
        if names & live or all(name.startswith("_") for name in names):
            self._read.add(id(statement))


def _chooses(tree: ast.Expr) -> bool:
    """Return True if an expression contains a `choose`."""
    return any(isinstance(part, ast.Choose) for part in walk(tree))


def unused_definitions(module: Module) -> Iterator[Diagnostic]:
    """A1410: warn about an unused block, cell or constant in a file with nets.

    No warning if another file in the folder imports this one, since that may use it.
    """
    if not module.nets or _is_imported(module):
        return
    items = [item for item in module.tree.items if isinstance(item, ast.Definition | ast.Const)]
    read = {id(item): names_read(item) - {item.name.text} for item in items}
    for item in items:
        name, word = item.name, item.word if isinstance(item, ast.Definition) else "constant"
        if word != "net" and not any(name.text in names for names in read.values()):
            yield Diagnostic("A1410", f"nothing uses {word} `{name}`", name.span, "drop it, or call it", (), "warning")


def _imported_files(text: str) -> set[str]:
    """Return the file names of all imports by path in a program text."""
    return {Path(name).name for name in re.findall(r'^import[ \t]+"([^"\n]*)"', text, re.MULTILINE)}


def _is_imported(module: Module) -> bool:
    """Return True if another file in the folder imports this one."""
    name = Path(module.path).name
    return any(name in _imported_files(text) for text in module.sibling_programs.values())


def idle_requirements(subject: Subject) -> Iterator[Diagnostic]:
    """A1408: warn about a `require`, or an operand of `and` in one, that every architecture satisfies.

    A `require` in a loop is reported only if every architecture satisfies it in all iterations. Requirements that
    mention a parameter of the net are not reported, since they may exclude architectures for other parameter values.
    """
    space = Space(subject.graph)
    wheres = [constraint.condition for constraint in subject.graph.constraints if constraint.keyword == "where"]
    parts_by_place: dict[str, list[Constraint]] = defaultdict(list)
    for constraint in subject.graph.constraints:
        if constraint.keyword == "require" and not _identifiers(constraint) & set(subject.graph.parameters):
            parts_by_place[str(constraint.span)].append(constraint)
    for parts in parts_by_place.values():
        reasons: list[str] = []
        for constraint in parts:
            reason = _idle_reason(space, wheres, constraint)
            if reason is None:
                break
            reasons.append(reason)
        else:
            text = f"`require {parts[0].text}` excludes nothing: {reasons[0]}"
            yield Diagnostic("A1408", text, parts[0].span, "drop it, or make it narrower", (), "warning")


def _idle_reason(space: Space, wheres: Sequence[Value], constraint: Constraint) -> str | None:
    """Return why no architecture violates a requirement; None if one does or may."""
    if constraint.cost is not None:
        return _idle_bound_reason(space, constraint)
    if constraint.condition is True:
        labels = {path.split(".")[-1].partition("[")[0] for path in space.graph.decisions}
        may_break = (
            not _identifiers(constraint) & labels
        )  # without a choice, the requirement is an assertion about parameters
    else:
        conditions = [*wheres, negate(constraint.condition)]
        may_break = compile_program(relevant_decisions(space.order, conditions), conditions).size > 0
    return None if may_break else "every architecture satisfies it"


def _idle_bound_reason(space: Space, bound: Constraint) -> str | None:
    """Return why no architecture violates a cost bound; None if one does or may."""
    name = str(bound.cost)
    if bound.condition is not True or varies(bound.limit) or name not in space.bounds.account.summed:
        return None
    try:
        minimum, maximum = (extreme.value for extreme in space.bounds.account.extremes(name))
    except ArchError:  # the diagram exceeds the size limit, or there are too many different sums
        return None
    if bound.relation in ("<", "<=") and maximum < int(bound.limit) + (bound.relation == "<="):
        return f"the maximum of `{name}` is {maximum:,}"
    if bound.relation in (">", ">=") and minimum > int(bound.limit) - (bound.relation == ">="):
        return f"the minimum of `{name}` is {minimum:,}"
    return None


def _identifiers(constraint: Constraint) -> set[str]:
    """Return the identifiers in the text of a constraint."""
    return set(re.findall(r"[A-Za-z_]\w*", constraint.text))

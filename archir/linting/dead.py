"""Lint rules for unread values and unused definitions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from archir.diagnostics.errors import Diagnostic
from archir.language.elaboration.module import Module
from archir.language.elaboration.name_analysis import names_read, walk
from archir.language.syntax import ast


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

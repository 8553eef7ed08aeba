"""What is computed or defined, and never read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from archir.diagnostics.errors import Diagnostic
from archir.language.elaboration.files import Module
from archir.language.elaboration.locals import names_read, walk
from archir.language.syntax import ast


def unread_results(module: Module) -> Iterator[Diagnostic]:
    """A1409: an input, or a value that is given to a variable, which nothing reads before it gets another one.

    What every round of a loop gives anew, and none reads, is read of the last round alone; that is said, too. Of
    several variables that are given values together, one is enough. Values that choose are left to A1403.
    """
    for definition in module.definitions():
        flow = _Flow()
        flow.body(definition.body, frozenset())
        for assign in flow.overwritten:
            text = f"every round gives `{assign.targets[0]}` another value, and only the last one is read"
            hint = f"is `{assign.targets[0]}` to go through all rounds, as in `x = x |> unit`?"
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


Live = frozenset[str]


class _Flow:
    """The statements of a body from its end to its start, with the names that are read behind each."""

    def __init__(self) -> None:
        self._given: dict[int, ast.Assign | ast.Input] = {}
        self._read: set[int] = set()
        self._reads: dict[int, Live] = {}
        self.overwritten: list[ast.Assign] = []
        """Statements in loops whose values are read behind the loop alone."""

    @property
    def unread(self) -> list[ast.Assign | ast.Input]:
        """The statements that give values which nothing reads, in order."""
        found = [statement for key, statement in self._given.items() if key not in self._read]
        return sorted(found, key=lambda statement: statement.span.start)

    def body(self, body: ast.Body, live: Live) -> Live:
        """The names that are read from the start of a body on, given those that are behind it."""
        for statement in reversed(body):
            live = self._statement(statement, live)
        return live

    def _statement(self, statement: ast.Statement, live: Live) -> Live:
        match statement:
            case ast.Assign(targets=targets, value=value):
                self._give(statement, {target.text for target in targets}, live)
                return (live - {target.text for target in targets}) | names_read(value)
            case ast.Input(name=name, type=type_):
                self._give(statement, {name.text}, live)
                return (live - {name.text}) | names_read(type_)
            case ast.ForLoop(items=head, body=body) | ast.Repeat(times=head, body=body):
                for one in body:
                    given = {target.text for target in one.targets} if isinstance(one, ast.Assign) else set()
                    if isinstance(one, ast.Assign) and given & live and not given & self._read_in(statement):
                        self.overwritten.append(one)
                return live | self.body(body, live | self._read_in(statement)) | names_read(head)
            case ast.If(condition=condition, then=then, otherwise=otherwise):
                return self.body(then, live) | self.body(otherwise, live) | names_read(condition)
            case ast.Return():
                return names_read(statement)
            case _:
                return live | names_read(statement)

    def _read_in(self, statement: ast.Statement) -> Live:
        """The names that are read in a statement: what a loop reads may have been given a value the round before."""
        if id(statement) not in self._reads:
            inner: tuple[ast.Statement, ...] = ()
            match statement:
                case ast.ForLoop(items=head, body=inner) | ast.Repeat(times=head, body=inner):
                    found = names_read(head)
                case ast.If(condition=condition, then=then, otherwise=otherwise):
                    inner, found = (*then, *otherwise), names_read(condition)
                case _:
                    found = names_read(statement)
            self._reads[id(statement)] = found.union(*(self._read_in(one) for one in inner))
        return self._reads[id(statement)]

    def _give(self, statement: ast.Assign | ast.Input, names: set[str], live: Live) -> None:
        self._given[id(statement)] = statement
        if names & live or all(name.startswith("_") for name in names):
            self._read.add(id(statement))


def _chooses(tree: ast.Expr) -> bool:
    return any(isinstance(part, ast.Choose) for part in walk(tree))


def unused_definitions(module: Module) -> Iterator[Diagnostic]:
    """A1410: a block, cell or constant of a file with nets, which nothing in it uses.

    Not where another file of the folder imports this one: there they may be used.
    """
    if not module.nets or _imported(module):
        return
    items = [item for item in module.tree.items if isinstance(item, ast.Definition | ast.Const)]
    read = {id(item): names_read(item) - {item.name.text} for item in items}
    for item in items:
        name, word = item.name, item.word if isinstance(item, ast.Definition) else "constant"
        if word != "net" and not any(name.text in names for names in read.values()):
            yield Diagnostic("A1410", f"nothing uses {word} `{name}`", name.span, "drop it, or call it", (), "warning")


def _quoted(text: str) -> set[str]:
    return {Path(name).name for name in re.findall(r'^import[ \t]+"([^"\n]*)"', text, re.MULTILINE)}


def _imported(module: Module) -> bool:
    """Whether a file beside this one imports it."""
    name = Path(module.path).name
    return any(name in _quoted(text) for text in module.beside.values())

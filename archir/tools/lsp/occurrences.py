"""Every name in a file, with what it means: who defines it, and of what kind it is."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from archir.ir.op import OPS
from archir.language.elaboration import static
from archir.language.elaboration.files import Module
from archir.language.elaboration.values import Block, Library
from archir.language.syntax import ast

Target = tuple[str, str, str, str]
"""The file that a name is of, the definition that it is local to, its kind, and the name."""


@dataclass(frozen=True)
class Occurrence:
    """A name at `start:end`. `kind` says what it is the name of; `gives` whether it is given here."""

    start: int
    end: int
    name: str
    kind: str
    target: Target
    gives: bool = False
    module: Module | None = None
    """The file that it is defined in, where that is a file."""


def occurrences(module: Module) -> list[Occurrence]:
    """The names of a file, in the order of the text."""
    found = _Names(module)
    for item in module.tree.items:
        found.item(item)
    return sorted(found.found.values(), key=lambda one: one.start)


def key(module: Module) -> str:
    """What tells a file from others: the place where it lies, if it does."""
    if module.library or module.folder is None:
        return module.path
    return str(module.folder / Path(module.path).name)


class _Names:
    def __init__(self, module: Module) -> None:
        self.module = module
        self.found: dict[int, Occurrence] = {}
        self.owner = ""
        self.kinds: dict[str, str] = {}

    def item(self, item: ast.Item) -> None:
        if isinstance(item, ast.Definition):
            self.add(item.name, item.word, (key(self.module), "", "item", item.name.text), True, self.module)
            self.owner = item.name.text
            self.kinds = {}
            self.given(item)
            for param in item.params:
                self.tree(param)
            self.tree(item.body)
            self.owner, self.kinds = "", {}
        elif isinstance(item, ast.Const):
            self.add(item.name, "const", (key(self.module), "", "item", item.name.text), True, self.module)
            self.tree(item.value)
        elif isinstance(item, ast.Import) and item.alias is not None:
            other = self.module.imported.get(item.alias.text)
            home = other.module if isinstance(other, Library) else None
            target = (key(self.module), "", "alias", item.alias.text)
            self.add(item.alias, "alias", target, True, home)

    def given(self, definition: ast.Definition) -> None:
        """What names a body gives values to, and of what kind they are."""
        ahead: list[Any] = [definition.params, definition.body]
        while ahead:
            part = ahead.pop()
            if isinstance(part, tuple):
                ahead += part
                continue
            if not isinstance(part, ast.Tree):
                continue
            match part:
                case ast.Param():
                    self.kinds[part.name.text] = "parameter"
                case ast.Input():
                    self.kinds[part.name.text] = "input"
                case ast.Assign() | ast.ForLoop() | ast.For():
                    for target in part.targets:
                        self.kinds.setdefault(target.text, "variable")
                case ast.Repeat(index=ast.Name() as index):
                    self.kinds.setdefault(index.text, "variable")
            ahead += [getattr(part, one.name) for one in fields(part) if one.name != "span"]

    def add(self, name: ast.Name, kind: str, target: Target, gives: bool = False, home: Module | None = None) -> None:
        span = name.span
        one = Occurrence(span.start, span.end, name.text, kind, target, gives, home)
        self.found.setdefault(span.start, one)

    def local(self, name: ast.Name, gives: bool = True) -> None:
        kind = self.kinds.get(name.text, "variable")
        self.add(name, kind, (key(self.module), self.owner, "local", name.text), gives, self.module)

    def tree(self, part: Any) -> None:
        """A piece of syntax and all in it; loops are on the way, for pieces may stand deep."""
        ahead = [part]
        while ahead:
            part = ahead.pop()
            if isinstance(part, tuple):
                ahead += part
            elif isinstance(part, ast.Tree):
                self.names(part)
                ahead += [getattr(part, one.name) for one in fields(part) if one.name != "span"]

    def names(self, part: ast.Tree) -> None:
        match part:
            case ast.Param() | ast.Input():
                self.local(part.name)
            case ast.Assign() | ast.ForLoop() | ast.For():
                for one in part.targets:
                    self.local(one)
            case ast.Repeat(index=ast.Name() as index):
                self.local(index)
            case ast.Output():
                if part.value is not part.name:
                    target = (key(self.module), self.owner, "output", part.name.text)
                    self.add(part.name, "output", target, True, self.module)
            case ast.Type():
                self.add(part.dtype, "type", ("", "", "type", part.dtype.text))
            case ast.Choose():
                self.choice(part)
            case ast.Call():
                for argument in part.arguments:
                    if argument.name is not None:
                        self.argument(part.callee, argument.name)
            case ast.Attribute():
                self.attribute(part)
            case ast.Name():
                self.name(part)

    def choice(self, part: ast.Choose) -> None:
        label = part.label.text if part.label is not None else str(part.span.start)
        if part.label is not None:
            self.add(part.label, "choice", (key(self.module), self.owner, "choice", label), True, self.module)
        for one in part.alternatives if isinstance(part, ast.ChooseOne) else ():
            target = (key(self.module), f"{self.owner}.{label}", "alternative", one.name.text)
            self.add(one.name, "alternative", target, True, self.module)

    def name(self, name: ast.Name) -> None:
        text = name.text
        if text in self.kinds:
            self.local(name, False)
            return
        home = self.module if text in self.module.names or text in self.module.nets else self.module.imported.get(text)
        if isinstance(home, Module):
            kind = _kind(home, text)
            self.add(name, kind, (key(home), "", "item", text), False, home)
        elif isinstance(home, Library):
            self.add(name, "alias", (key(self.module), "", "alias", text), False, home.module)
        elif text in OPS and not OPS[text].internal:
            self.add(name, "operation", ("", "", "operation", text))
        elif text in static.FUNCTIONS or text in static.FOLDS:
            self.add(name, "function", ("", "", "function", text))
        elif any(const.name.text == text for const in self.module.constants()):
            self.add(name, "const", (key(self.module), "", "item", text), False, self.module)
        else:
            self.add(name, "unknown", ("", "", "unknown", text))

    def argument(self, callee: ast.Expr, name: ast.Name) -> None:
        block = self.called(callee)
        if isinstance(block, Block):
            target = (key(block.module), block.name, "local", name.text)
            self.add(name, "parameter", target, False, block.module)
        else:
            self.add(name, "attribute", ("", str(block or ""), "attribute", name.text))

    def called(self, callee: ast.Expr) -> Block | str | None:
        """What is called: a block, or the name of an operation."""
        if isinstance(callee, ast.Name) and callee.text not in self.kinds:
            value = self.module.lookup(callee.text)
            return value if isinstance(value, Block) else callee.text
        if isinstance(callee, ast.Attribute) and isinstance(callee.value, ast.Name):
            home = self.module.imported.get(callee.value.text)
            value = home.module.lookup(callee.name.text) if isinstance(home, Library) else None
            return value if isinstance(value, Block) else None
        return None

    def attribute(self, part: ast.Attribute) -> None:
        home = self.module.imported.get(part.value.text) if isinstance(part.value, ast.Name) else None
        if isinstance(home, Library):
            other = home.module
            self.add(part.name, _kind(other, part.name.text), (key(other), "", "item", part.name.text), False, other)
        else:
            self.add(part.name, "property", ("", "", "property", part.name.text))


def _kind(module: Module, name: str) -> str:
    value = module.names.get(name)
    if isinstance(value, Block):
        return value.definition.word
    return "net" if name in module.nets else "const"

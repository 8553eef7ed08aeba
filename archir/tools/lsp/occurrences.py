"""Occurrences of names in a file, each with its kind and the definition to which it refers."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from archir.ir.op import OPS
from archir.language.elaboration import static
from archir.language.elaboration.module import Block, Library, Module
from archir.language.elaboration.name_analysis import walk
from archir.language.syntax import ast

Target = tuple[str, str, str, str]
"""Key of a definition: its file, the block or net that contains it ("" at module level), its kind, and its name."""


@dataclass(frozen=True)
class Occurrence:
    """Occurrence of a name in the source, at offsets `start:end`.

    `kind` is the kind of the named object, such as "block" or "variable"; `is_definition` is True where the name is
    defined.
    """

    start: int
    end: int
    name: str
    kind: str
    target: Target
    is_definition: bool = False
    module: Module | None = None
    """File that defines the name, or None for built-in names."""


def occurrences(module: Module) -> list[Occurrence]:
    """Return all occurrences of names in a file, ordered by position."""
    collector = _OccurrenceCollector(module)
    for item in module.tree.items:
        collector.visit_item(item)
    return sorted(collector.by_start.values(), key=lambda occurrence: occurrence.start)


def file_key(module: Module) -> str:
    """Return a string that identifies a file.

    It is the full path on disk, or the module's path for libraries and for texts that are not on disk.
    """
    if module.library or module.folder is None:
        return module.path
    return str(module.folder / Path(module.path).name)


class _OccurrenceCollector:
    """Collects the occurrences of names in one file."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.by_start: dict[int, Occurrence] = {}
        self.owner = ""
        self.kinds: dict[str, str] = {}

    def visit_item(self, item: ast.Item) -> None:
        """Collect the names of a top-level item."""
        if isinstance(item, ast.Definition):
            self.add(item.name, item.word, (file_key(self.module), "", "item", item.name.text), True, self.module)
            self.owner = item.name.text
            self.kinds = {}
            self.collect_kinds(item)
            for param in item.params:
                self.visit_tree(param)
            self.visit_tree(item.body)
            self.owner, self.kinds = "", {}
        elif isinstance(item, ast.Const):
            self.add(item.name, "const", (file_key(self.module), "", "item", item.name.text), True, self.module)
            self.visit_tree(item.value)
        elif isinstance(item, ast.Import) and item.alias is not None:
            imported = self.module.imported.get(item.alias.text)
            target_module = imported.module if isinstance(imported, Library) else None
            target = (file_key(self.module), "", "alias", item.alias.text)
            self.add(item.alias, "alias", target, True, target_module)

    def collect_kinds(self, definition: ast.Definition) -> None:
        """Record the kind of each local name of a definition: parameter, input or variable."""
        stack: list[Any] = [definition.params, definition.body]
        while stack:
            part = stack.pop()
            if isinstance(part, tuple):
                stack += part
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
            stack += [getattr(part, attribute.name) for attribute in fields(part) if attribute.name != "span"]

    def add(
        self, name: ast.Name, kind: str, target: Target, is_definition: bool = False, module: Module | None = None
    ) -> None:
        """Record an occurrence; `module` is the file that defines the name."""
        span = name.span
        occurrence = Occurrence(span.start, span.end, name.text, kind, target, is_definition, module)
        self.by_start.setdefault(span.start, occurrence)

    def add_local(self, name: ast.Name, is_definition: bool = True) -> None:
        """Record an occurrence of a local name."""
        kind = self.kinds.get(name.text, "variable")
        self.add(name, kind, (file_key(self.module), self.owner, "local", name.text), is_definition, self.module)

    def visit_tree(self, part: Any) -> None:
        """Collect the names in a syntax tree. The traversal is iterative, as syntax may be nested deeply."""
        stack = [part]
        while stack:
            part = stack.pop()
            if isinstance(part, tuple):
                stack += part
            elif isinstance(part, ast.Tree):
                self.visit(part)
                stack += [getattr(part, attribute.name) for attribute in fields(part) if attribute.name != "span"]

    def visit(self, part: ast.Tree) -> None:
        """Collect the names of a single syntax node, without its children."""
        match part:
            case ast.Param() | ast.Input():
                self.add_local(part.name)
            case ast.Assign() | ast.ForLoop() | ast.For():
                for name in part.targets:
                    self.add_local(name)
            case ast.Repeat(index=ast.Name() as index):
                self.add_local(index)
            case ast.Output():
                if part.value is not part.name:
                    target = (file_key(self.module), self.owner, "output", part.name.text)
                    self.add(part.name, "output", target, True, self.module)
            case ast.Type():
                self.add(part.dtype, "type", ("", "", "type", part.dtype.text))
            case ast.Choose():
                self.add_choice(part)
            case ast.Call():
                for argument in part.arguments:
                    if argument.name is not None:
                        self.add_argument(part.callee, argument.name)
            case ast.Attribute():
                self.add_attribute(part)
            case ast.Name():
                self.add_name(part)

    def add_choice(self, part: ast.Choose) -> None:
        """Record the label and the alternatives of a choice, and where its `where` reads the label."""
        label = part.label.text if part.label is not None else str(part.span.start)
        if part.label is not None:
            target = (file_key(self.module), self.owner, "choice", label)
            self.add(part.label, "choice", target, True, self.module)
            for name in walk(part.where) if isinstance(part, ast.ChooseSubset) else ():
                if isinstance(name, ast.Name) and name.text == label:
                    self.add(name, "choice", target, False, self.module)
        for alternative in part.alternatives if isinstance(part, ast.ChooseOne) else ():
            target = (file_key(self.module), f"{self.owner}.{label}", "alternative", alternative.name.text)
            self.add(alternative.name, "alternative", target, True, self.module)

    def add_name(self, name: ast.Name) -> None:
        """Resolve a name that is used as an expression, and record its occurrence."""
        text = name.text
        if text in self.kinds:
            self.add_local(name, False)
            return
        origin = (
            self.module if text in self.module.names or text in self.module.nets else self.module.imported.get(text)
        )
        if isinstance(origin, Module):
            kind = _kind(origin, text)
            self.add(name, kind, (file_key(origin), "", "item", text), False, origin)
        elif isinstance(origin, Library):
            self.add(name, "alias", (file_key(self.module), "", "alias", text), False, origin.module)
        elif text in OPS and not OPS[text].internal:
            self.add(name, "operation", ("", "", "operation", text))
        elif text in static.FUNCTIONS or text in static.FOLDS:
            self.add(name, "function", ("", "", "function", text))
        elif any(const.name.text == text for const in self.module.constants()):
            self.add(name, "const", (file_key(self.module), "", "item", text), False, self.module)
        else:
            self.add(name, "unknown", ("", "", "unknown", text))

    def add_argument(self, callee: ast.Expr, name: ast.Name) -> None:
        """Record the name of a keyword argument: a parameter of a block, or an attribute of an operation."""
        block = self.callee_of(callee)
        if isinstance(block, Block):
            target = (file_key(block.module), block.name, "local", name.text)
            self.add(name, "parameter", target, False, block.module)
        else:
            self.add(name, "attribute", ("", str(block or ""), "attribute", name.text))

    def callee_of(self, callee: ast.Expr) -> Block | str | None:
        """Return the block that is called, or the name of the called operation; None if it is neither."""
        if isinstance(callee, ast.Name) and callee.text not in self.kinds:
            value = self.module.lookup(callee.text)
            return value if isinstance(value, Block) else callee.text
        if isinstance(callee, ast.Attribute) and isinstance(callee.value, ast.Name):
            library = self.module.imported.get(callee.value.text)
            value = library.module.lookup(callee.name.text) if isinstance(library, Library) else None
            return value if isinstance(value, Block) else None
        return None

    def add_attribute(self, part: ast.Attribute) -> None:
        """Record the name after a dot: a member of a library, or a property of a value."""
        library = self.module.imported.get(part.value.text) if isinstance(part.value, ast.Name) else None
        if isinstance(library, Library):
            other = library.module
            self.add(
                part.name, _kind(other, part.name.text), (file_key(other), "", "item", part.name.text), False, other
            )
        else:
            self.add(part.name, "property", ("", "", "property", part.name.text))


def _kind(module: Module, name: str) -> str:
    """Return the kind of a module-level name: "block", "cell", "net" or "const"."""
    value = module.names.get(name)
    if isinstance(value, Block):
        return value.definition.word
    return "net" if name in module.nets else "const"

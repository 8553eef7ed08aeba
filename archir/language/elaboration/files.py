"""Loads program files and the files that they import."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import Context, ContextVar
from functools import cache
from importlib.resources import files
from pathlib import Path

from archir.diagnostics.errors import ArchError, Diagnostic, Note, Span, describe_error, fail
from archir.diagnostics.hints import suggest, suggest_file, suggest_inside
from archir.language.elaboration.module import MAX_IMPORTS, Block, Library, Module
from archir.language.syntax import ast
from archir.language.syntax.parse import MAX_BYTES, parse
from archir.plugins.libraries import library_file, library_names
from archir.plugins.registry import with_plugin_hint
from archir.utils.files import open_regular

MAX_PATH_LENGTH = 4_096
"""Maximum length of a path in characters.

Operating systems do not open longer paths, and resolving a path takes time quadratic in its length.
"""
_STD = files("archir.language") / "std"
_OVERLAY: ContextVar[Mapping[Path, str] | None] = ContextVar("file_overlay", default=None)


@contextmanager
def file_overlay(texts: Mapping[Path, str]) -> Iterator[None]:
    """Context manager under which reading one of these paths gives the given text, whether the file exists or not.

    Programs can thus import notebook cells.
    """
    token = _OVERLAY.set(texts)
    try:
        yield
    finally:
        _OVERLAY.reset(token)


class Loader:
    """Loads a file and, once each, all files it imports. Collects the problems with imports.

    Files must be below `root`, unless `anywhere` is set, which is meant for paths given on the command line or in
    Python.
    """

    def __init__(self, root: Path | None, max_bytes: int = MAX_BYTES, anywhere: bool = False) -> None:
        self.root = root.resolve() if root is not None else None
        self.anywhere = anywhere
        self.max_bytes = max_bytes
        self.problems: list[Diagnostic] = []
        self._modules: dict[str, Module] = {}
        self._open: list[str] = []

    def load(self, text: str, path: str, folder: Path | None) -> Module:
        """Parse a program text and load its imports. Relative imports are resolved in `folder`; None disallows them."""
        return self.load_tree(parse(text, path, self.max_bytes), path, folder)

    def load_tree(self, tree: ast.File, path: str, folder: Path | None) -> Module:
        """Load the imports of a syntax tree, which may be incomplete after error recovery; return its module."""
        return self._module(tree, path, folder)

    def _module(self, tree: ast.File, path: str, folder: Path | None) -> Module:
        module = Module(path, tree, folder)
        first: dict[str, ast.Name] = {}
        for item in tree.items:
            if isinstance(item, ast.Definition | ast.Const):
                self._define(module, item, first)
        for item in tree.items:
            if isinstance(item, ast.Import):
                try:
                    self._import(module, item, folder)
                except ArchError as error:
                    self.problems += error.diagnostics
                    module.incomplete = True
        return module

    def _define(self, module: Module, item: ast.Definition | ast.Const, first: dict[str, ast.Name]) -> None:
        """Add a definition to a module, and its name to those that were defined `first`. Constants are evaluated, and
        added to the module's names, later."""
        name = item.name.text
        if name in first:
            note = Note("first defined here", first[name].span)
            self.problems.append(Diagnostic("A0202", f"`{name}` is defined twice", item.name.span, None, (note,)))
            return
        first[name] = item.name
        if isinstance(item, ast.Definition):
            if item.word == "net":
                module.nets[name] = item
            else:
                module.names[name] = Block(item, module)

    def _import(self, module: Module, item: ast.Import, folder: Path | None) -> None:
        other = self._relative(item, folder) if item.relative else self._library(item)
        module.imports.append(other)
        if item.alias is not None:
            module.imported[item.alias.text] = Library(other)
            return
        for name in other.exported_names():
            if module.imported.setdefault(name, other) is not other:
                hint = "import one of the two files `as` a name of its own"
                raise fail("A0806", f"`{name}` is imported from two files", item.span, hint)

    def _relative(self, item: ast.Import, folder: Path | None) -> Module:
        path, root = self.locate(item.path, folder, item.span)
        try:
            text = read_program(path, self.max_bytes, item.path)
        except ArchError as error:
            problem = error.diagnostics[0]
            raise fail(problem.code, problem.message, item.span, problem.hint) from None
        name = str(path.relative_to(root))
        return self._load_once(str(path), lambda: parse(text, name, self.max_bytes), name, path.parent, item.span)

    def locate(self, name: str, folder: Path | None, span: Span) -> tuple[Path, Path]:
        """Resolve a relative path of a program; return the absolute path and the root folder.

        Raises ArchError (A0801, A0802, A0803).
        """
        if folder is None or self.root is None:
            raise fail("A0802", "a program that was not read from a file cannot import files by path", span)
        if len(name) > MAX_PATH_LENGTH:
            raise fail("A0801", f"a path of more than {MAX_PATH_LENGTH:,} characters", span)
        try:
            path = (folder / name).resolve()
        except (OSError, ValueError, RuntimeError) as error:
            raise fail("A0801", f"cannot read {name!r}: {describe_error(error)}", span) from None
        if not self.anywhere and (Path(name).is_absolute() or not path.is_relative_to(self.root)):
            raise fail("A0803", f'"{name}" lies outside of the folder {self.root.name or self.root}', span)
        return path, self.root

    def _library(self, item: ast.Import) -> Module:
        first, *parts = item.path.split(".")
        if first != "std" and (plugin_file := library_file(item.path)) is not None:
            text, path = read_program(plugin_file, self.max_bytes), str(plugin_file)
            return self._load_once(item.path, lambda: parse(text, path, self.max_bytes), path, None, item.span)
        libraries = sorted(f"std.{entry.name[:-5]}" for entry in _STD.iterdir() if entry.name.endswith(".arch"))
        if first != "std" or item.path not in libraries:
            libraries += library_names()
            hint = suggest(item.path, libraries) or f"there are {', '.join(libraries)}"
            hint = hint if first == "std" else with_plugin_hint(hint)
            raise fail("A0804", f"there is no library `{item.path}`", item.span, hint)
        name = f"{'/'.join(parts)}.arch"
        module = self._load_once(item.path, lambda: _parse_std(name), f"std/{name}", None, item.span)
        module.library = True
        return module

    def _load_once(self, key: str, tree: Callable[[], ast.File], path: str, folder: Path | None, span: Span) -> Module:
        """Return the module with this key; load it on the first call.

        Raises ArchError for cyclic imports (A0805) or too many files (A0807).
        """
        if key in self._open:
            cycle = " -> ".join(Path(name).name for name in [*self._open[self._open.index(key) :], key])
            raise fail("A0805", f"files import each other in a ring: {cycle}", span)
        if key not in self._modules:
            if len(self._modules) >= MAX_IMPORTS:
                raise fail("A0807", f"more than {MAX_IMPORTS} files are imported", span)
            self._open.append(key)
            try:
                self._modules[key] = self._module(tree(), path, folder)
            finally:
                self._open.pop()
        return self._modules[key]

    def mark_open(self, path: Path) -> Loader:
        """Mark `path` as being loaded, so that importing it counts as a cycle; return this loader."""
        self._open.append(str(path.resolve()))
        return self

    @property
    def modules(self) -> list[Module]:
        """All modules imported so far."""
        return list(self._modules.values())


def split_net(path: str) -> tuple[str, str | None]:
    """Split `FILE:NET` into file path and net name; the net is None if no net is named."""
    file, colon, net = path.rpartition(":")
    return (file, net) if colon and net.isidentifier() and not Path(path).exists() else (path, None)


@cache
def _parse_std(name: str) -> ast.File:
    """Return the syntax tree of one of archir's own libraries; it is parsed only once.

    Parsing is not charged to the work budget, so that errors do not depend on which program imports the library
    first.
    """
    return Context().run(parse, (_STD / name).read_text("utf-8"), f"std/{name}")


def read_program(path: Path, max_bytes: int = MAX_BYTES, shown: str = "") -> str:
    """Return the text of a program file; `shown` is its name in messages. Raises ArchError (A0801, A0105, A0107)."""
    shown = shown or str(path)
    text = (_OVERLAY.get() or {}).get(path)
    if text is not None:
        return text
    try:
        if path.is_dir():
            raise fail("A0801", f"{shown} is a folder", None, suggest_inside(path, ".arch", ".onnx"))
        with open_regular(path) as stream:
            data = stream.read(max_bytes + 1)
    except (OSError, ValueError) as error:
        raise fail("A0801", f"cannot read {shown}: {describe_error(error)}", None, suggest_file(path)) from None
    return _decoded(data, max_bytes, shown)


def read_standard_input(max_bytes: int = MAX_BYTES, shown: str = "<stdin>") -> str:
    """Return the text of standard input; `shown` is its name in messages. Raises ArchError (A0105, A0107)."""
    return _decoded(sys.stdin.buffer.read(max_bytes + 1), max_bytes, shown)


def _decoded(data: bytes, max_bytes: int, shown: str) -> str:
    if len(data) > max_bytes:
        raise fail("A0105", f"{shown} is larger than {max_bytes} bytes")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise fail("A0107", f"{shown} is not UTF-8 text (byte {error.start})") from None

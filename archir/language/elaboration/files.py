"""Files: reading, importing, and what names a file brings along."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import Context, ContextVar
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.resources import files
from pathlib import Path

from archir.diagnostics.errors import ArchError, Diagnostic, Note, Span, fail, suggest
from archir.diagrams.cases import Value
from archir.language.elaboration.values import Block, Library
from archir.language.syntax import ast
from archir.language.syntax.parse import MOST_BYTES, parse
from archir.plugins.libraries import library_file, library_names
from archir.plugins.registry import with_door
from archir.utils.files import read_bytes, reading

MOST_IMPORTS = 64
MOST_PATH = 4_096
"""Characters of a path: systems open no longer ones, and finding out takes as long as the square of their length."""
_SMALL = 2**16
_STD = files("archir.language") / "std"
_INSTEAD: ContextVar[Mapping[Path, str] | None] = ContextVar("instead", default=None)


@contextmanager
def instead(texts: Mapping[Path, str]) -> Iterator[None]:
    """Texts that are read in place of files, which need not be there: cells of notebooks that others import."""
    token = _INSTEAD.set(texts)
    try:
        yield
    finally:
        _INSTEAD.reset(token)


@dataclass(eq=False)
class Module:
    """A parsed file. `names` are its own definitions and constants; `imported` says which file a name comes from.

    Relative paths start at `folder`; without one, there are none.
    """

    path: str
    tree: ast.File
    folder: Path | None
    names: dict[str, Value] = field(default_factory=dict)
    imported: dict[str, Module | Library] = field(default_factory=dict)
    nets: dict[str, ast.Definition] = field(default_factory=dict)
    imports: list[Module] = field(default_factory=list)
    library: bool = False
    """Whether it is one of archir's own, which its users do not mend."""
    incomplete: bool = False
    """Whether an import failed: what is not known may be its."""

    def lookup(self, name: str) -> Value | None:
        """What a name means at the top level of the file."""
        home = self if name in self.names else self.imported.get(name)
        return home.names.get(name) if isinstance(home, Module) else home

    def brings(self) -> Iterator[str]:
        """What an import of the file makes known."""
        yield from self.names
        yield from (const.name.text for const in self.constants() if const.name.text not in self.names)

    @cached_property
    def beside(self) -> dict[str, str]:
        """The texts of the programs in its folder but for itself, by name."""
        return {name: text for name, text in self._texts("*.arch").items() if name != Path(self.path).name}

    @cached_property
    def modules_beside(self) -> dict[str, str]:
        """The texts of the Python files in its folder, by name; they are looked at, and not imported."""
        return self._texts("*.py")

    def _texts(self, pattern: str) -> dict[str, str]:
        """Files of its folder: the first ones, as far as they are small."""
        if self.folder is None:
            return {}
        try:
            paths = sorted(self.folder.glob(pattern))
            small = [path for path in paths[:MOST_IMPORTS] if path.is_file() and path.stat().st_size <= _SMALL]
            return {path.name: read_bytes(path, _SMALL).decode("utf-8") for path in small}
        except (OSError, ValueError):
            return {}

    def definitions(self) -> list[ast.Definition]:
        """All blocks, cells and nets."""
        return [item for item in self.tree.items if isinstance(item, ast.Definition)]

    def constants(self) -> list[ast.Const]:
        """All constants."""
        return [item for item in self.tree.items if isinstance(item, ast.Const)]


class Loader:
    """Reads a file and everything it imports, each file once. Collects problems; raises ArchError at the end.

    Files are those below `root`; with `anywhere`, what is given to the command line or to Python may lie elsewhere.
    """

    def __init__(self, root: Path | None, most_bytes: int = MOST_BYTES, anywhere: bool = False) -> None:
        self.root = root.resolve() if root is not None else None
        self.anywhere = anywhere
        self.most_bytes = most_bytes
        self.problems: list[Diagnostic] = []
        self._modules: dict[str, Module] = {}
        self._open: list[str] = []

    def load(self, text: str, path: str, folder: Path | None) -> Module:
        """The module of a text. `folder` is where its relative imports start; None forbids them."""
        return self.of(parse(text, path, self.most_bytes), path, folder)

    def of(self, tree: ast.File, path: str, folder: Path | None) -> Module:
        """The module of a tree, which may be what could be read of a text."""
        return self._module(tree, path, folder)

    def _module(self, tree: ast.File, path: str, folder: Path | None) -> Module:
        module = Module(path, tree, folder)
        for item in tree.items:
            if isinstance(item, ast.Definition):
                self._define(module, item)
        for item in tree.items:
            if isinstance(item, ast.Import):
                try:
                    self._import(module, item, folder)
                except ArchError as error:
                    self.problems += error.diagnostics
                    module.incomplete = True
        return module

    def _define(self, module: Module, item: ast.Definition) -> None:
        name = item.name.text
        if name in module.nets or name in module.names:
            first = next(d for d in module.definitions() if d.name.text == name)
            note = Note("first defined here", first.name.span)
            self.problems.append(Diagnostic("A0202", f"`{name}` is defined twice", item.name.span, None, (note,)))
        elif item.word == "net":
            module.nets[name] = item
        else:
            module.names[name] = Block(item, module)

    def _import(self, module: Module, item: ast.Import, folder: Path | None) -> None:
        other = self._relative(item, folder) if item.relative else self._library(item)
        module.imports.append(other)
        if item.alias is not None:
            module.imported[item.alias.text] = Library(other)
            return
        for name in other.brings():
            if module.imported.setdefault(name, other) is not other:
                hint = "import one of the two files `as` a name of its own"
                raise fail("A0806", f"`{name}` is imported from two files", item.span, hint)

    def _relative(self, item: ast.Import, folder: Path | None) -> Module:
        path, root = self.located(item.path, folder, item.span)
        try:
            text = read(path, self.most_bytes, item.path)
        except ArchError as error:
            problem = error.diagnostics[0]
            raise fail(problem.code, problem.message, item.span, _near(path)) from None
        name = str(path.relative_to(root))
        return self._once(str(path), lambda: parse(text, name, self.most_bytes), name, path.parent, item.span)

    def located(self, name: str, folder: Path | None, span: Span) -> tuple[Path, Path]:
        """The file of a relative path in a module, and the root folder. Raises ArchError (A0802, A0803)."""
        if folder is None or self.root is None:
            raise fail("A0802", "a text that is no file cannot read other files", span)
        if len(name) > MOST_PATH:
            raise fail("A0801", f"a path of more than {MOST_PATH:,} characters", span)
        try:
            path = (folder / name).resolve()
        except (OSError, ValueError, RuntimeError) as error:
            raise fail("A0801", f"cannot read {name!r}: {error}", span) from None
        if not self.anywhere and (Path(name).is_absolute() or not path.is_relative_to(self.root)):
            raise fail("A0803", f'"{name}" lies outside of the folder {self.root.name or self.root}', span)
        return path, self.root

    def _library(self, item: ast.Import) -> Module:
        first, *rest = item.path.split(".")
        if first != "std" and (brought := library_file(item.path)) is not None:
            text, path = read(brought, self.most_bytes), str(brought)
            return self._once(item.path, lambda: parse(text, path, self.most_bytes), path, None, item.span)
        known = sorted(f"std.{entry.name[:-5]}" for entry in _STD.iterdir() if entry.name.endswith(".arch"))
        if first != "std" or item.path not in known:
            known += library_names()
            hint = suggest(item.path, known) or f"there are {', '.join(known)}"
            hint = hint if first == "std" else with_door(hint)
            raise fail("A0804", f"there is no library `{item.path}`", item.span, hint)
        name = f"{'/'.join(rest)}.arch"
        module = self._once(item.path, lambda: _of_library(name), f"std/{name}", None, item.span)
        module.library = True
        return module

    def _once(self, key: str, tree: Callable[[], ast.File], path: str, folder: Path | None, span: Span) -> Module:
        if key in self._open:
            ring = " -> ".join(Path(name).name for name in [*self._open[self._open.index(key) :], key])
            raise fail("A0805", f"files import each other in a ring: {ring}", span)
        if key not in self._modules:
            if len(self._modules) >= MOST_IMPORTS:
                raise fail("A0807", f"more than {MOST_IMPORTS} files are imported", span)
            self._open.append(key)
            try:
                self._modules[key] = self._module(tree(), path, folder)
            finally:
                self._open.pop()
        return self._modules[key]

    def opened(self, path: Path) -> Loader:
        """This loader, with `path` open, so that importing it again is a ring."""
        self._open.append(str(path.resolve()))
        return self

    @property
    def modules(self) -> list[Module]:
        """Every imported module, once."""
        return list(self._modules.values())


def split(path: str) -> tuple[str, str | None]:
    """A path and the net it names, if it names one."""
    file, colon, net = path.rpartition(":")
    return (file, net) if colon and net.isidentifier() and not Path(path).exists() else (path, None)


@cache
def _of_library(name: str) -> ast.File:
    """A file of archir's own, which is read once, and out of nobody's budget: what is refused does not depend on it."""
    return Context().run(parse, (_STD / name).read_text("utf-8"), f"std/{name}")


def _near(path: Path) -> str | None:
    """Which file beside one that cannot be read may be meant."""
    try:
        return suggest(path.name, [beside.name for beside in path.parent.glob("*.arch")])
    except OSError:
        return None


def read(path: Path, most_bytes: int = MOST_BYTES, shown: str = "") -> str:
    """The text of a file, which messages call `shown`. Raises ArchError (A0801, A0105, A0107)."""
    shown = shown or str(path)
    text = (_INSTEAD.get() or {}).get(path)
    if text is not None:
        return text
    try:
        if path.is_dir():
            raise fail("A0801", f"{shown} is a folder")
        with reading(path) as stream:
            data = stream.read(most_bytes + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise fail("A0801", f"cannot read {shown}: {reason}") from None
    if len(data) > most_bytes:
        raise fail("A0105", f"{shown} is larger than {most_bytes} bytes")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise fail("A0107", f"{shown} is not UTF-8 text (byte {error.start})") from None

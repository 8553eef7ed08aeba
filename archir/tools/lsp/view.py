"""A text as an editor sees it: what could be read, what is wrong, and what each of its names means."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from pathlib import Path

from archir.diagnostics.errors import ArchError, Diagnostic, Source
from archir.diagnostics.work import MOST_WORK, bounded
from archir.language.elaboration.files import Loader, Module
from archir.language.syntax import ast
from archir.language.syntax.parse import partial
from archir.language.syntax.recovery import Recovered
from archir.tools.lsp.occurrences import Occurrence, occurrences


@dataclass(frozen=True, eq=False)
class View:
    """The text of a file. `path` is what it is called in messages; `folder` is where its imports start."""

    text: str
    path: str = "<text>"
    folder: Path | None = None

    @staticmethod
    def of(path: Path, text: str | None = None) -> View:
        """The view of a file on disk, or of another text in its place."""
        return View(path.read_text("utf-8") if text is None else text, str(path), path.resolve().parent)

    @cached_property
    def source(self) -> Source:
        """The text and its name."""
        return Source(self.path, self.text)

    @cached_property
    def read(self) -> Recovered:
        """What could be read of it."""
        try:
            with bounded(MOST_WORK):
                return partial(self.text, self.path)
        except ArchError as error:
            from archir.diagnostics.errors import Span

            return Recovered(ast.File(Span(self.source, 0, 0), 1, ()), error.diagnostics)

    @cached_property
    def module(self) -> Module:
        """The file with what it imports, as far as that can be read."""
        loader = Loader(self.folder)
        try:
            with bounded(MOST_WORK):
                if self.folder is not None:
                    loader.opened(self.folder / Path(self.path).name)
                return loader.of(self.read.file, self.path, self.folder)
        except ArchError:
            return Module(self.path, self.read.file, self.folder)

    @cached_property
    def occurrences(self) -> list[Occurrence]:
        """Every name in the text, in its order, with what it means."""
        return occurrences(self.module)

    def at(self, offset: int) -> Occurrence | None:
        """The name at an offset, if there is one."""
        return next((one for one in self.occurrences if one.start <= offset <= one.end), None)

    def alike(self, wanted: Occurrence) -> list[Occurrence]:
        """All places that mean the same as a name does."""
        return [one for one in self.occurrences if one.target == wanted.target]

    def definition_at(self, offset: int) -> ast.Definition | None:
        """The block, cell or net that an offset is in."""
        for item in self.read.file.items:
            if isinstance(item, ast.Definition) and item.span.start <= offset <= item.span.end:
                return item
        return None

    @property
    def problems(self) -> tuple[Diagnostic, ...]:
        """What is wrong with words and their order."""
        return self.read.problems


def file_of(module: Module) -> Path | None:
    """Where a module's text lies; None for a text that is no file."""
    if module.library and module.path.startswith("std/"):
        return Path(str(files("archir.language") / module.path))
    if module.folder is not None:
        return module.folder / Path(module.path).name
    path = Path(module.path)
    return path if path.is_absolute() else None


def neighbours(folder: Path, most: int = 200) -> list[Path]:
    """The programs in a folder and below it: the first ones."""
    found = []
    for path in sorted(folder.rglob("*.arch")):
        if path.is_file() and path.stat().st_size <= 2**18:
            found.append(path)
        if len(found) == most:
            break
    return found

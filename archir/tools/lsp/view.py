"""Lazily computed analysis of a text for editors: parse result, module and occurrences of names.

The text may have errors.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from itertools import islice
from pathlib import Path

from archir.diagnostics.errors import ArchError, Diagnostic, Source
from archir.diagnostics.work import MAX_WORK, work_budget
from archir.language.elaboration.files import Loader
from archir.language.elaboration.module import Module
from archir.language.program_files import program_files
from archir.language.syntax import ast
from archir.language.syntax.parse import parse_partial
from archir.language.syntax.recovery import ParseResult
from archir.tools.lsp.occurrences import Occurrence, occurrences


@dataclass(frozen=True, eq=False)
class View:
    """Text of a file with its lazily computed analysis.

    `path` is the file's name in messages; relative imports start in `folder`.
    """

    text: str
    path: str = "<text>"
    folder: Path | None = None

    @staticmethod
    def from_file(path: Path, text: str | None = None) -> View:
        """Create the view of a file on disk; `text`, if given, is an unsaved text that replaces the file's content."""
        return View(path.read_text("utf-8") if text is None else text, str(path), path.resolve().parent)

    @cached_property
    def source(self) -> Source:
        """The text as a named source, to which spans refer."""
        return Source(self.path, self.text)

    @cached_property
    def parsed(self) -> ParseResult:
        """Result of parsing with error recovery."""
        try:
            with work_budget(MAX_WORK):
                return parse_partial(self.text, self.path)
        except ArchError as error:
            from archir.diagnostics.errors import Span

            return ParseResult(ast.File(Span(self.source, 0, 0), 1, ()), error.diagnostics)

    @cached_property
    def module(self) -> Module:
        """The parsed file with its imports, as far as they can be loaded."""
        loader = Loader(self.folder)
        try:
            with work_budget(MAX_WORK):
                if self.folder is not None:
                    loader.mark_open(self.folder / Path(self.path).name)
                return loader.load_tree(self.parsed.file, self.path, self.folder)
        except ArchError:
            return Module(self.path, self.parsed.file, self.folder)

    @cached_property
    def occurrences(self) -> list[Occurrence]:
        """All occurrences of names in the text, ordered by position."""
        return occurrences(self.module)

    def occurrence_at(self, offset: int) -> Occurrence | None:
        """Return the occurrence of a name at an offset, or None."""
        return next(
            (occurrence for occurrence in self.occurrences if occurrence.start <= offset <= occurrence.end), None
        )

    def occurrences_of(self, occurrence: Occurrence) -> list[Occurrence]:
        """Return all occurrences in the text that refer to the same definition as the given one."""
        return [candidate for candidate in self.occurrences if candidate.target == occurrence.target]

    def definition_at(self, offset: int) -> ast.Definition | None:
        """Return the block, cell or net that contains an offset, or None."""
        for item in self.parsed.file.items:
            if isinstance(item, ast.Definition) and item.span.start <= offset <= item.span.end:
                return item
        return None

    @property
    def problems(self) -> tuple[Diagnostic, ...]:
        """Syntax errors of the text."""
        return self.parsed.problems


def file_of(module: Module) -> Path | None:
    """Return the path of a module's file, or None if it is not on disk."""
    if module.library and module.path.startswith("std/"):
        return Path(str(files("archir.language") / module.path))
    if module.folder is not None:
        return module.folder / Path(module.path).name
    path = Path(module.path)
    return path if path.is_absolute() else None


def arch_files(folder: Path, limit: int = 200) -> list[Path]:
    """Return at most `limit` `.arch` files of a folder and its subfolders, leaving out files larger than 256 KiB and
    those of hidden folders."""
    return list(islice((path for path in program_files(folder) if path.stat().st_size <= 2**18), limit))

"""Diagnostics of a program's text: all of them, or only errors of syntax and names, which are found quickly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from archir.api.loading import load_checked
from archir.diagnostics.errors import ArchError, Diagnostic
from archir.diagnostics.work import fresh_budget, work_budget
from archir.language.elaboration.context import Limits
from archir.language.elaboration.elaborate import survey
from archir.language.elaboration.files import Loader
from archir.language.elaboration.name_checks import check_names
from archir.language.syntax.parse import parse_partial
from archir.language.syntax.strict_parse import ItemCache


@dataclass(frozen=True)
class Checker:
    """Checker for successive texts of one file.

    `name` is the file's name in messages. Relative imports start in `folder` and must stay inside `root`. `net`,
    `parameters` and `limits` are used to elaborate the text.
    """

    name: str
    folder: Path | None = None
    root: Path | None = None
    net: str | None = None
    limits: Limits = field(default_factory=Limits)
    parameters: Mapping[str, Any] = field(default_factory=dict)
    cache: ItemCache = field(default_factory=ItemCache)
    """Cache of the parsed top-level items of the previous text."""

    def check(self, text: str) -> tuple[Diagnostic, ...]:
        """Return all diagnostics of a text, the same as `archir check` reports."""
        try:
            with work_budget(self.limits.work), fresh_budget():
                load_checked(text, self.folder, self.name, self.net, self.root, self.limits, self.parameters)
        except ArchError as error:
            return error.diagnostics
        return ()

    def check_names(self, text: str) -> tuple[Diagnostic, ...]:
        """Return only the syntax errors of a text, and errors in its names and constants.

        If there are syntax errors, names are checked only in the top-level items that parse.
        """
        try:
            with work_budget(self.limits.work), fresh_budget():
                parsed = parse_partial(text, self.name, cache=self.cache)
                if not parsed.problems:
                    return tuple(survey(text, self.name, folder=self.folder, root=self.root)[1])
                loader = Loader(self.root if self.root is not None else self.folder)
                module = loader.load_tree(parsed.file, self.name, self.folder)
                return (*parsed.problems, *check_names(module))
        except ArchError as error:
            return error.diagnostics

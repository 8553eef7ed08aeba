"""What is wrong with a text at a path: all of it, or what is soon found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from archir.api.loading import proved
from archir.diagnostics.errors import ArchError, Diagnostic
from archir.diagnostics.work import anew, bounded
from archir.language.elaboration.context import Limits
from archir.language.elaboration.elaborate import survey
from archir.language.elaboration.files import Loader
from archir.language.elaboration.unused_bodies import check_names
from archir.language.syntax.parse import partial
from archir.language.syntax.reading import Kept


@dataclass(frozen=True)
class Place:
    """What a text is called in messages, and what its imports and nets are read with."""

    name: str
    folder: Path | None = None
    root: Path | None = None
    net: str | None = None
    limits: Limits = field(default_factory=Limits)
    parameters: Mapping[str, Any] = field(default_factory=dict)
    kept: Kept = field(default_factory=Kept)
    """What was read of the text before this one."""

    def check(self, text: str) -> tuple[Diagnostic, ...]:
        """Everything that is wrong with a text, as `archir check` says it."""
        try:
            with bounded(self.limits.work), anew():
                proved(text, self.folder, self.name, self.net, self.root, self.limits, self.parameters)
        except ArchError as error:
            return error.diagnostics
        return ()

    def check_names(self, text: str) -> tuple[Diagnostic, ...]:
        """What is wrong with its words, their order, and names; where words are wrong, with the names of the rest."""
        try:
            with bounded(self.limits.work), anew():
                found = partial(text, self.name, kept=self.kept)
                if not found.problems:
                    return tuple(survey(text, self.name, folder=self.folder, root=self.root)[1])
                loader = Loader(self.root if self.root is not None else self.folder)
                module = loader.of(found.file, self.name, self.folder)
                return (*found.problems, *check_names(module))
        except ArchError as error:
            return error.diagnostics

"""Mistakes planted into the examples: the file, the replacement, and words of the expected diagnostic."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import archir
from archir.diagnostics.errors import ArchError, Diagnostic
from tests.conftest import EXAMPLES


@dataclass(frozen=True)
class Mistake:
    """A mistake: `old` becomes `new` in `file`. `by` is the file that is checked, `file` by default.

    The reported line must be that of the first differing character, or of `at` in the new text.
    """

    file: str
    old: str
    new: str = ""
    words: str = ""
    by: str = ""
    at: str = ""

    @property
    def text(self) -> str:
        """The text with the mistake."""
        text = (EXAMPLES / self.file).read_text("utf-8")
        assert self.old in text, f"{self.file} has no {self.old!r}"
        return text.replace(self.old, self.new, 1)

    @property
    def line(self) -> int:
        """The line of the mistake."""
        before, after = (EXAMPLES / self.file).read_text("utf-8"), self.text
        if self.at:
            return after[: after.index(self.at)].count("\n") + 1
        same = next(i for i, (a, b) in enumerate(zip(before, f"{after}\0", strict=False)) if a != b)
        return after[:same].count("\n") + 1

    def is_reported(self, folder: Path) -> tuple[bool, str]:
        """Return whether `archir check --lint` reports the line with the expected words, and all diagnostics as
        text."""
        problems = self.diagnose(folder)
        right = any(
            problem.span is not None
            and Path(problem.span.source.name).name == Path(self.file).name
            and problem.span.line == self.line
            and self.words in str(problem)
            for problem in problems
        )
        return right, "\n".join(map(str, problems))

    def diagnose(self, folder: Path) -> list[Diagnostic]:
        """Return the diagnostics of `archir check --lint` for the example with the mistake, in a copy of its folder."""
        source = EXAMPLES / self.file
        copy = folder / f"{abs(hash(self))}"
        copy.mkdir()
        for path in source.parent.glob("*.arch"):
            shutil.copy(path, copy)
        (copy / source.name).write_text(self.text, "utf-8")
        try:
            return archir.lint(copy / Path(self.by or self.file).name)
        except ArchError as error:
            return list(error.diagnostics)


def load_mistakes(table: str) -> list[Mistake]:
    """Return the mistakes of a table of `mistakes.json`."""
    rows = json.loads((Path(__file__).parent / "mistakes.json").read_text("utf-8"))[table]
    return [Mistake(**row) for row in rows]

"""Answer types of the MCP tools: short, with fixed fields. Items that are left out are counted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from archir.diagnostics.errors import NO_SPAN, Diagnostic
from archir.diagnostics.escaping import escape_to_line

MAX_PROBLEMS, MAX_TEXT, MAX_MESSAGE = 20, 20_000, 1_000
"""Maximum number of problems in an answer, of characters in a text, and of characters in a message or hint."""


@dataclass(frozen=True)
class Problem:
    """An error or warning: its code, which `explain` accepts, and its position; lines and columns count from 1."""

    code: str
    message: str
    severity: str = "error"
    file: str | None = None
    line: int | None = None
    column: int | None = None
    source: str | None = None
    """Source line at the position of the problem."""
    hint: str | None = None


@dataclass(frozen=True)
class Answer:
    """Fields that all answers have: `ok` is false if there are errors; `more` is the number of problems left out."""

    ok: bool = True
    problems: list[Problem] = field(default_factory=list)
    more: int = 0


@dataclass(frozen=True)
class Net:
    """A net all of whose architectures were proved well-formed, with its numbers of nodes and choices."""

    name: str
    nodes: int
    choices: int


@dataclass(frozen=True)
class CheckAnswer(Answer):
    """Answer of `check`: the nets of a program all of whose architectures are well-formed."""

    nets: list[Net] = field(default_factory=list)


@dataclass(frozen=True)
class TextAnswer(Answer):
    """Answer that consists of a text, truncated by `cut` characters at its end."""

    text: str | None = None
    cut: int = 0


@dataclass(frozen=True)
class FixAnswer(TextAnswer):
    """Answer of `fix`: the fixed text, and one line in `changes` for each fix.

    `problems` are the errors that remain; `written` is true if the file was written.
    """

    changes: list[str] = field(default_factory=list)
    written: bool = False


@dataclass(frozen=True)
class CountAnswer(Answer):
    """Answer of `count`: exact numbers of architectures, as strings, which may exceed JSON's number range.

    `size` is the number of all architectures. `within` is the number of architectures that satisfy requirements and
    bounds: a single number, or a lower and an upper limit if the number is not known exactly.
    """

    net: str | None = None
    size: str | None = None
    within: list[str] = field(default_factory=list)
    choices: list[dict[str, Any]] = field(default_factory=list)
    more_choices: int = 0


@dataclass(frozen=True)
class Range:
    """Minimum and maximum of a cost over all architectures within the bounds."""

    least: int
    greatest: int


@dataclass(frozen=True)
class CostAnswer(Answer):
    """Answer of `cost`: for one network, its `costs`; for a space, the minimum and maximum of each cost in `ranges`."""

    net: str | None = None
    costs: dict[str, int] = field(default_factory=dict)
    ranges: dict[str, Range] = field(default_factory=dict)


@dataclass(frozen=True)
class SampledArchitecture:
    """An architecture (labels by choice path) and its costs."""

    choices: dict[str, Any]
    costs: dict[str, int]


@dataclass(frozen=True)
class SampleAnswer(Answer):
    """Answer of `sample`: architectures sampled uniformly from those within the bounds."""

    architectures: list[SampledArchitecture] = field(default_factory=list)


@dataclass(frozen=True)
class RunStatus:
    """Progress of a search; `state` is running, interrupted, finished or damaged."""

    name: str
    state: str
    phase: str | None = None
    epoch: int | None = None
    criterion: str | None = None
    score: float | None = None
    validation: float | None = None
    params: int | None = None
    macs: int | None = None
    problem: str | None = None


@dataclass(frozen=True)
class StatusAnswer(Answer):
    """Answer of `status`: the run in a folder, or the runs in its subfolders."""

    runs: list[RunStatus] = field(default_factory=list)
    more_runs: int = 0


def problem_fields(diagnostics: Iterable[Diagnostic]) -> dict[str, Any]:
    """Return the fields `ok`, `problems` and `more` of an answer that reports these diagnostics."""
    problems = [to_problem(item) for item in diagnostics]
    has_errors = any(item.severity == "error" for item in problems)
    return {"ok": not has_errors, "problems": problems[:MAX_PROBLEMS], "more": max(0, len(problems) - MAX_PROBLEMS)}


def to_problem(diagnostic: Diagnostic) -> Problem:
    """Convert a diagnostic to a problem, with its message and hint truncated."""
    message, hint = _shortened(diagnostic.message), _shortened(diagnostic.hint) if diagnostic.hint else None
    result, span = Problem(diagnostic.code, message, diagnostic.severity, hint=hint), diagnostic.span
    if span is None or span is NO_SPAN:
        return result
    return replace(result, file=span.source.name, line=span.line, column=span.column, source=span.excerpt()[0])


def _shortened(text: str) -> str:
    """Return a message as one line, truncated to MAX_MESSAGE characters, since names in it may be arbitrarily long."""
    line = escape_to_line(text)
    return line if len(line) <= MAX_MESSAGE else f"{line[:MAX_MESSAGE]}..."


def text_fields(text: str, max_length: int = MAX_TEXT) -> dict[str, Any]:
    """Return the fields `text` and `cut` of an answer; the text is truncated to `max_length` characters."""
    return {"text": text[:max_length], "cut": max(0, len(text) - max_length)}

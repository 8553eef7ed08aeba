"""Answers of the MCP tools: short, with the same fields each time. What is left out is counted."""

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
    """An error or warning: its code, for `explain`, and its place; lines and columns count from 1."""

    code: str
    message: str
    severity: str = "error"
    file: str | None = None
    line: int | None = None
    column: int | None = None
    source: str | None = None
    """The line of the program at this place."""
    hint: str | None = None


@dataclass(frozen=True)
class Answer:
    """Common fields of all answers: `ok` is false if there are errors; `more` is the number of problems not listed."""

    ok: bool = True
    problems: list[Problem] = field(default_factory=list)
    more: int = 0


@dataclass(frozen=True)
class Net:
    """A net whose architectures were all proved well-formed, with its numbers of nodes and choices."""

    name: str
    nodes: int
    choices: int


@dataclass(frozen=True)
class CheckAnswer(Answer):
    """Nets of a program all of whose architectures are well-formed."""

    nets: list[Net] = field(default_factory=list)


@dataclass(frozen=True)
class TextAnswer(Answer):
    """A text; `cut` is the number of characters left out at its end."""

    text: str | None = None
    cut: int = 0


@dataclass(frozen=True)
class FixAnswer(TextAnswer):
    """The fixed text, with one line in `changes` per fix. `problems` are the remaining errors; `written` is true if the
    file was written."""

    changes: list[str] = field(default_factory=list)
    written: bool = False


@dataclass(frozen=True)
class CountAnswer(Answer):
    """Numbers of architectures. They are exact, and strings, as they may exceed the range of JSON numbers.

    `size` counts all architectures, `within` those that satisfy requirements and bounds: one number, or a lower and an
    upper bound if the exact number is not known.
    """

    net: str | None = None
    size: str | None = None
    within: list[str] = field(default_factory=list)
    choices: list[dict[str, Any]] = field(default_factory=list)
    more_choices: int = 0


@dataclass(frozen=True)
class Range:
    """Smallest and largest value of a cost over all architectures within the bounds."""

    least: int
    greatest: int


@dataclass(frozen=True)
class CostAnswer(Answer):
    """For one network, its `costs`; for a space, the smallest and largest value of each cost in `ranges`."""

    net: str | None = None
    costs: dict[str, int] = field(default_factory=dict)
    ranges: dict[str, Range] = field(default_factory=dict)


@dataclass(frozen=True)
class SampledArchitecture:
    """An architecture (labels by choice) and its costs."""

    choices: dict[str, Any]
    costs: dict[str, int]


@dataclass(frozen=True)
class SampleAnswer(Answer):
    """Architectures sampled uniformly from those within the bounds."""

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
    """The run in a folder, or the runs below it."""

    runs: list[RunStatus] = field(default_factory=list)
    more_runs: int = 0


def problem_fields(diagnostics: Iterable[Diagnostic]) -> dict[str, Any]:
    """Return the fields `ok`, `problems` and `more` of an answer with these diagnostics."""
    problems = [to_problem(item) for item in diagnostics]
    has_errors = any(item.severity == "error" for item in problems)
    return {"ok": not has_errors, "problems": problems[:MAX_PROBLEMS], "more": max(0, len(problems) - MAX_PROBLEMS)}


def to_problem(diagnostic: Diagnostic) -> Problem:
    """Convert a diagnostic, with its message and hint shortened."""
    message, hint = _shortened(diagnostic.message), _shortened(diagnostic.hint) if diagnostic.hint else None
    result, span = Problem(diagnostic.code, message, diagnostic.severity, hint=hint), diagnostic.span
    if span is None or span is NO_SPAN:
        return result
    return replace(result, file=span.source.name, line=span.line, column=span.column, source=span.excerpt()[0])


def _shortened(text: str) -> str:
    """Return a message as one line of at most MAX_MESSAGE characters; names in it may be arbitrarily long."""
    line = escape_to_line(text)
    return line if len(line) <= MAX_MESSAGE else f"{line[:MAX_MESSAGE]}..."


def text_fields(text: str, max_length: int = MAX_TEXT) -> dict[str, Any]:
    """Return the fields `text` and `cut` of an answer, for a text of at most `most` characters."""
    return {"text": text[:max_length], "cut": max(0, len(text) - max_length)}

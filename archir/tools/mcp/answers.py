"""What tools answer: small, and the same fields each time. What is cut off says so."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from archir.diagnostics.errors import NOWHERE, Diagnostic
from archir.diagnostics.visible import one_line

MOST_PROBLEMS, MOST_TEXT, MOST_SAID = 20, 20_000, 1_000


@dataclass(frozen=True)
class Problem:
    """Something that is wrong: its code, for `explain`, and where it stands, from line 1 and column 1."""

    code: str
    message: str
    severity: str = "error"
    file: str | None = None
    line: int | None = None
    column: int | None = None
    source: str | None = None
    """The line that it stands in."""
    hint: str | None = None


@dataclass(frozen=True)
class Answer:
    """`ok` says that nothing is wrong; `more` how many problems are not listed."""

    ok: bool = True
    problems: list[Problem] = field(default_factory=list)
    more: int = 0


@dataclass(frozen=True)
class Net:
    """A net that was proved: its nodes, its choices, and what it takes."""

    name: str
    nodes: int
    choices: int


@dataclass(frozen=True)
class Checked(Answer):
    """Nets of a program all of whose architectures are well-formed."""

    nets: list[Net] = field(default_factory=list)


@dataclass(frozen=True)
class Text(Answer):
    """A text; `cut` characters at the end of it are left out."""

    text: str | None = None
    cut: int = 0


@dataclass(frozen=True)
class Mended(Text):
    """The text with what was mended, one line for each change; `problems` are those that are left."""

    changes: list[str] = field(default_factory=list)
    written: bool = False


@dataclass(frozen=True)
class Counted(Answer):
    """Numbers are exact, and written as texts, for they may be larger than numbers of JSON are read as.

    `size` counts all architectures, `within` those that keep requirements and bounds: one number, or the least and the
    most where it is not known exactly.
    """

    net: str | None = None
    size: str | None = None
    within: list[str] = field(default_factory=list)
    choices: list[dict[str, Any]] = field(default_factory=list)
    more_choices: int = 0


@dataclass(frozen=True)
class Range:
    """The least and the greatest of a cost, over all architectures within bounds."""

    least: int
    greatest: int


@dataclass(frozen=True)
class Costs(Answer):
    """Of one network its `costs`; of a space, in `ranges`, the least and the greatest of each."""

    net: str | None = None
    costs: dict[str, int] = field(default_factory=dict)
    ranges: dict[str, Range] = field(default_factory=dict)


@dataclass(frozen=True)
class Drawn:
    """An architecture: its labels by choice, and what it costs."""

    choices: dict[str, Any]
    costs: dict[str, int]


@dataclass(frozen=True)
class Sampled(Answer):
    """Architectures, drawn uniformly from those within bounds."""

    architectures: list[Drawn] = field(default_factory=list)


@dataclass(frozen=True)
class Run:
    """How far a search came: `state` is running, interrupted, finished or damaged."""

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
class Status(Answer):
    """The runs of a folder, or the run that it is."""

    runs: list[Run] = field(default_factory=list)
    more_runs: int = 0


def told(diagnostics: Iterable[Diagnostic]) -> dict[str, Any]:
    """The fields of an answer that say what is wrong."""
    found = [problem(one) for one in diagnostics]
    failed = any(one.severity == "error" for one in found)
    return {"ok": not failed, "problems": found[:MOST_PROBLEMS], "more": max(0, len(found) - MOST_PROBLEMS)}


def problem(diagnostic: Diagnostic) -> Problem:
    """What a diagnostic says, in a few short texts."""
    message, hint = _short(diagnostic.message), _short(diagnostic.hint) if diagnostic.hint else None
    found, span = Problem(diagnostic.code, message, diagnostic.severity, hint=hint), diagnostic.span
    if span is None or span is NOWHERE:
        return found
    return replace(found, file=span.source.name, line=span.line, column=span.column, source=span.picture()[0])


def _short(text: str) -> str:
    """A line of a message, whatever names are in it."""
    line = one_line(text)
    return line if len(line) <= MOST_SAID else f"{line[:MOST_SAID]}..."


def cut(text: str, most: int = MOST_TEXT) -> dict[str, Any]:
    """The fields of a text."""
    return {"text": text[:most], "cut": max(0, len(text) - most)}

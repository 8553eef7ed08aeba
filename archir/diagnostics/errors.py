"""Source spans, diagnostics, and the exceptions that carry them (ArchError, RuleError)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

from archir.diagnostics.escaping import escape_to_line, escape_unprintable

Severity = Literal["error", "warning"]
StyledText = tuple[str, str]
"""A style name and the text that has this style, as `Diagnostic.styled_text` yields them.

The style is a key of `_COLOURS`; text of any other style stays uncoloured.
"""

_TAB = "    "
_MAX_LINE_WIDTH = 160
_SUGGESTION = re.compile(r"did you mean `([A-Za-z_]\w*)`\?")
_NAME = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True, eq=False)
class Source:
    """A source text, and the label (usually a file name) that messages show for it."""

    name: str
    text: str = field(repr=False)

    @cached_property
    def line_starts(self) -> list[int]:
        """Character offsets at which the lines begin."""
        return [0, *(newline.end() for newline in re.finditer("\n", self.text))]

    def line(self, number: int) -> str:
        """Return the text of line `number`, counted from 1, without its line break."""
        begin = self.line_starts[number - 1]
        end = self.line_starts[number] - 1 if number < len(self.line_starts) else len(self.text)
        return self.text[begin:end].rstrip("\r")


@dataclass(frozen=True, slots=True)
class Span:
    """A range of characters of a source: offsets `start` (inclusive) to `end` (exclusive)."""

    source: Source
    start: int
    end: int

    @property
    def line(self) -> int:
        """Line number of the first character, counted from 1."""
        starts = self.source.line_starts
        low, high = 0, len(starts)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if starts[middle] <= self.start else (low, middle)
        return low + 1

    @property
    def column(self) -> int:
        """Column of the first character, counted from 1."""
        return self.start - self.source.line_starts[self.line - 1] + 1

    @property
    def text(self) -> str:
        """The source text that the span covers."""
        return self.source.text[self.start : self.end]

    def to(self, other: Span) -> Span:
        """Return the span from the start of this one to the end of `other`."""
        return Span(self.source, self.start, other.end)

    def __str__(self) -> str:
        return f"{self.source.name}:{self.line}:{self.column}"

    def excerpt(self) -> list[str]:
        """Return the source line that the span is on, and below it a line of carets that underlines the span.

        If the span covers several lines, only the first is shown; a long line is cropped to the part around the span.
        """
        line, column = self.source.line(self.line), self.column
        width = max(1, min(self.end - self.start, len(line) - column + 1))
        before = line[: column - 1]
        if len(line) > _MAX_LINE_WIDTH:
            begin = max(0, column - 1 - _MAX_LINE_WIDTH // 2)
            line, before = line[begin : begin + _MAX_LINE_WIDTH], line[begin : column - 1]
            width = min(width, len(line) - len(before)) or 1
        carets = "".join(_TAB if char == "\t" else " " for char in before) + "^" * width
        return [_replace_unprintable(line.replace("\t", _TAB)), carets]


def _replace_unprintable(text: str) -> str:
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


NO_SPAN = Span(Source("<none>", ""), 0, 0)
"""Placeholder span of nodes and choices that come from no source text."""


@dataclass(frozen=True)
class Note:
    """An additional remark on a diagnostic, optionally with a second source location."""

    text: str
    span: Span | None = None
    outcomes: tuple[tuple[str, int], ...] = ()
    """The combination of choices that the note is about: pairs of a choice's path and the index of its outcome.

    Empty if the note is not about a combination.
    """


@dataclass(frozen=True)
class Diagnostic:
    r"""One problem: a stable code (explained by `archir explain CODE`), a message, a source span and a hint.

    Examples:
        >>> from pathlib import Path
        >>> _ = Path("wrong.arch").write_text("net n {\n input x: f32[4]\n output y = x |> rleu\n}")
        >>> diagnostic = archir.check("wrong.arch")[0]
        >>> diagnostic.code, diagnostic.span.line, diagnostic.hint
        ('A0201', 3, 'did you mean `relu`?')
    """

    code: str
    message: str
    span: Span | None = None
    hint: str | None = None
    notes: tuple[Note, ...] = ()
    severity: Severity = "error"

    @property
    def edit(self) -> tuple[Span, str] | None:
        """The hint as a text edit (span, replacement), for editors that offer quick fixes.

        None unless the hint is "did you mean `name`?" and the span contains the misspelled name.
        """
        suggestion = _SUGGESTION.fullmatch(self.hint or "")
        is_name = self.span is not None and self.span is not NO_SPAN and _NAME.fullmatch(self.span.text)
        return (self.span, suggestion[1]) if suggestion and is_name and self.span is not None else None

    def styled_text(self) -> Iterator[StyledText]:
        """Yield the rendered diagnostic as styled text: message, source excerpt, notes and hint."""
        if self.span is not None and self.span is not NO_SPAN:
            yield "place", escape_to_line(f"{self.span}: ")
        yield self.severity, f"{self.severity}[{self.code}]"
        yield "message", f": {escape_unprintable(self.message)}\n"
        yield from _styled_excerpt(self.span)
        for note in self.notes:
            place = f"{note.span}: " if note.span is not None else ""
            yield "note", escape_unprintable(f"  {place}{note.text}\n")
            yield from _styled_excerpt(note.span)
        if self.hint:
            yield "hint", escape_unprintable(f"  hint: {self.hint}\n")

    def __str__(self) -> str:
        return "".join(text for _, text in self.styled_text()).rstrip("\n")

    def __repr__(self) -> str:
        place = "" if self.span is None or self.span is NO_SPAN else f" at {self.span}"
        return escape_to_line(f"<{self.severity} {self.code}{place}: {self.message}>")

    def as_json(self) -> dict[str, object]:
        """Return the diagnostic as a JSON object; lines and columns are counted from 1."""
        place: dict[str, object] = {}
        if self.span is not None and self.span is not NO_SPAN:
            place = {"file": self.span.source.name, "line": self.span.line, "column": self.span.column}
        notes = [f"{note.span}: {note.text}" if note.span else note.text for note in self.notes]
        fields: dict[str, object] = {"code": self.code, "severity": self.severity, "message": self.message, **place}
        fields |= {"hint": self.hint, "notes": notes}
        if self.edit is not None:
            fields["edit"] = {"old": self.edit[0].text, "new": self.edit[1]}
        return fields


def _styled_excerpt(span: Span | None) -> Iterator[StyledText]:
    if span is not None and span is not NO_SPAN:
        line, carets = span.excerpt()
        yield "source", f"    {line}\n"
        yield "caret", f"    {carets}\n"


_COLOURS = {
    "place": "1", "error": "1;31", "warning": "1;33", "message": "1", "caret": "31", "note": "34", "hint": "32",
}  # fmt: skip
"""ANSI colour codes by style name; terminals and notebooks both display these."""


def coloured(styled: StyledText) -> str:
    """Return the text wrapped in the ANSI escape codes of its style's colour."""
    style, text = styled
    line = text.rstrip("\n")
    return text if style not in _COLOURS else f"\x1b[{_COLOURS[style]}m{line}\x1b[0m{text[len(line) :]}"


class Diagnostics(list[Diagnostic]):
    """A list of diagnostics that notebooks display in the same form as the command line."""


class ArchError(Exception):
    """An error in the input (program, file or setting): carries every diagnostic found, not only the first.

    Examples:
        >>> try:
        ...     archir.load("missing.arch")
        ... except archir.ArchError as error:
        ...     print([diagnostic.code for diagnostic in error.diagnostics])
        ['A0801']
    """

    def __init__(self, *diagnostics: Diagnostic) -> None:
        super().__init__(*diagnostics)
        self.diagnostics = diagnostics

    def _render_traceback_(self) -> list[str]:
        """Return the lines that IPython prints instead of a traceback: the user's own calls, then the diagnostics."""
        from archir.diagnostics.tracebacks import user_calls

        lines = (
            "".join(coloured(piece) for diagnostic in self.diagnostics for piece in diagnostic.styled_text())
            .rstrip("\n")
            .split("\n")
        )
        codes = sorted({diagnostic.code for diagnostic in self.diagnostics})
        return [*user_calls(self), *lines, *(f"`archir explain {code}` says more" for code in codes[:1])]

    def __str__(self) -> str:
        return "\n".join(str(diagnostic) for diagnostic in self.diagnostics)


class LimitError(ArchError):
    """A space exceeds a limit of an exact method, such as the size of its tables; another method may have an answer."""


class RuleError(ArchError):
    """An error that a rule raises about its operands or attributes: message, hint, code, but usually no span.

    A rule does not know where in the program it is applied, so its caller adds the span (`with_span`). If no caller
    adds a span, the error is reported as a diagnostic without a location, never as a traceback.
    """

    def __init__(self, message: str, hint: str | None = None, code: str = "A0401", span: Span | None = None) -> None:
        super().__init__(Diagnostic(code, message, span, hint))
        self.message, self.hint, self.code, self.span = message, hint, code, span

    def with_span(self, span: Span) -> ArchError:
        """Return this error as an ArchError located at `span`; if the error already has a span, that one is used."""
        return self if self.span is not None else ArchError(replace(self.diagnostics[0], span=span))

    def __reduce__(self) -> Any:
        return _unpickled, (type(self), self.args), self.__dict__

    def __str__(self) -> str:
        return self.message


def _unpickled(kind: type[RuleError], diagnostics: tuple[Diagnostic, ...]) -> RuleError:
    """Return a RuleError with uninitialised attributes, for unpickling.

    `__init__` is not called because that of subclasses takes other arguments.
    """
    return kind.__new__(kind, *diagnostics)


FAULTS = (ArithmeticError, ValueError, LookupError, MemoryError)
"""Exceptions that a rule may raise instead of RuleError if it cannot compute with its numbers."""


def unexpected_error(error: Exception) -> RuleError:
    """Return the RuleError (A0607) that reports one of the exceptions in `FAULTS`."""
    return RuleError(f"this cannot be computed: {error or type(error).__name__}", code="A0607")


class Interrupted(KeyboardInterrupt):
    """The user interrupted a long computation that can be resumed, since its results so far are saved."""


def exceeds(code: str, message: str, span: Span | None = None, hint: str | None = None) -> LimitError:
    """Return a `LimitError` with one diagnostic; used as `raise exceeds(code, message, span, hint)`."""
    return LimitError(Diagnostic(code, message, span, hint))


def fail(code: str, message: str, span: Span | None = None, hint: str | None = None) -> ArchError:
    """Return an `ArchError` with one diagnostic; used as `raise fail(code, message, span, hint)`."""
    return ArchError(Diagnostic(code, message, span, hint))


def require(condition: bool, message: str, hint: str | None = None, code: str = "A0401") -> None:
    """Raise `RuleError(message, hint, code)` unless `condition` holds."""
    if not condition:
        raise RuleError(message, hint, code)


def describe_error(error: BaseException) -> str:
    """Return why a file cannot be used, in words: without the number of a system error, and without its path."""
    if isinstance(error, KeyError):
        return f"it has no {error}"
    return getattr(error, "strerror", None) or str(error)


def join_names(names: Sequence[object], limit: int = 8) -> str:
    """Join names into one phrase.

    After `limit` names, only the number of remaining names is given: "`a`, `b` and 3 more".
    """
    shown = [f"`{name}`" for name in names[:limit]]
    if len(names) > limit:
        return f"{', '.join(shown)} and {len(names) - limit} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else "".join(shown)

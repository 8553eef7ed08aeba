"""Places in source text, problems found there, and the one exception that carries them."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, wraps
from heapq import nsmallest
from typing import Any, Literal, TypeVar, cast

from archir.diagnostics.visible import one_line, visible

Rule = TypeVar("Rule", bound=Callable[..., Any])
Severity = Literal["error", "warning"]
Piece = tuple[str, str]
"""A style name and a text: what `Diagnostic.pieces` yields, so that a terminal can colour it."""

_TAB = "    "
_WIDEST_LINE = 160
_LONGEST_NAME = 64
_MEANT = re.compile(r"did you mean `([A-Za-z_]\w*)`\?")
_NAME = re.compile(r"[A-Za-z_]\w*")
_MOST_NAMES = 1_000
"""Names that one is compared with, those of about its length: it takes a tenth of a second."""


@dataclass(frozen=True, eq=False)
class Source:
    """A text and the name it is shown under."""

    name: str
    text: str = field(repr=False)

    @cached_property
    def starts(self) -> list[int]:
        """Offsets at which the lines begin."""
        return [0, *(found.end() for found in re.finditer("\n", self.text))]

    def line(self, number: int) -> str:
        """The text of line `number`, counted from 1."""
        begin = self.starts[number - 1]
        end = self.starts[number] - 1 if number < len(self.starts) else len(self.text)
        return self.text[begin:end].rstrip("\r")


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch `start:end` (offsets) of a source."""

    source: Source
    start: int
    end: int

    @property
    def line(self) -> int:
        """Line of the first character, from 1."""
        starts = self.source.starts
        low, high = 0, len(starts)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if starts[middle] <= self.start else (low, middle)
        return low + 1

    @property
    def column(self) -> int:
        """Column of the first character, from 1."""
        return self.start - self.source.starts[self.line - 1] + 1

    @property
    def text(self) -> str:
        """The characters themselves."""
        return self.source.text[self.start : self.end]

    def to(self, other: Span) -> Span:
        """The span from the start of this one to the end of `other`."""
        return Span(self.source, self.start, other.end)

    def __str__(self) -> str:
        return f"{self.source.name}:{self.line}:{self.column}"

    def picture(self) -> list[str]:
        """The source line and a line of carets under the span (the first line of it, if there are several)."""
        line, column = self.source.line(self.line), self.column
        width = max(1, min(self.end - self.start, len(line) - column + 1))
        before = line[: column - 1]
        if len(line) > _WIDEST_LINE:
            begin = max(0, column - 1 - _WIDEST_LINE // 2)
            line, before = line[begin : begin + _WIDEST_LINE], line[begin : column - 1]
            width = min(width, len(line) - len(before)) or 1
        carets = "".join(_TAB if char == "\t" else " " for char in before) + "^" * width
        return [_printable(line.replace("\t", _TAB)), carets]


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


NOWHERE = Span(Source("<none>", ""), 0, 0)
"""The span of what was not written by anybody."""


@dataclass(frozen=True)
class Note:
    """A second place, or a remark, that helps to understand a diagnostic."""

    text: str
    span: Span | None = None
    outcomes: tuple[tuple[str, int], ...] = ()
    """If it names a combination of choices: their paths, and which of its alternatives each came to."""


@dataclass(frozen=True)
class Diagnostic:
    """One problem: a stable code (see `archir explain`), what is wrong, where, and what may help."""

    code: str
    message: str
    span: Span | None = None
    hint: str | None = None
    notes: tuple[Note, ...] = ()
    severity: Severity = "error"

    @property
    def edit(self) -> tuple[Span, str] | None:
        """What the hint is as an edit, if it names what was meant: the span, and what it becomes."""
        found = _MEANT.fullmatch(self.hint or "")
        named = self.span is not None and self.span is not NOWHERE and _NAME.fullmatch(self.span.text)
        return (self.span, found[1]) if found and named and self.span is not None else None

    def pieces(self) -> Iterator[Piece]:
        """The rendered text in styled pieces."""
        if self.span is not None and self.span is not NOWHERE:
            yield "place", one_line(f"{self.span}: ")
        yield self.severity, f"{self.severity}[{self.code}]"
        yield "message", f": {visible(self.message)}\n"
        yield from _pictured(self.span)
        for note in self.notes:
            place = f"{note.span}: " if note.span is not None else ""
            yield "note", visible(f"  {place}{note.text}\n")
            yield from _pictured(note.span)
        if self.hint:
            yield "hint", visible(f"  hint: {self.hint}\n")

    def __str__(self) -> str:
        return "".join(text for _, text in self.pieces()).rstrip("\n")

    def __repr__(self) -> str:
        place = "" if self.span is None or self.span is NOWHERE else f" at {self.span}"
        return one_line(f"<{self.severity} {self.code}{place}: {self.message}>")

    def as_json(self) -> dict[str, object]:
        """A JSON object with 1-based line and column."""
        place: dict[str, object] = {}
        if self.span is not None and self.span is not NOWHERE:
            place = {"file": self.span.source.name, "line": self.span.line, "column": self.span.column}
        notes = [f"{note.span}: {note.text}" if note.span else note.text for note in self.notes]
        said: dict[str, object] = {"code": self.code, "severity": self.severity, "message": self.message, **place}
        said |= {"hint": self.hint, "notes": notes}
        if self.edit is not None:
            said["edit"] = {"old": self.edit[0].text, "new": self.edit[1]}
        return said


def _pictured(span: Span | None) -> Iterator[Piece]:
    if span is not None and span is not NOWHERE:
        line, carets = span.picture()
        yield "source", f"    {line}\n"
        yield "caret", f"    {carets}\n"


_COLOURS = {
    "place": "1", "error": "1;31", "warning": "1;33", "message": "1", "caret": "31", "note": "34", "hint": "32",
}  # fmt: skip
"""ANSI colours by style, which terminals and notebooks know."""


def coloured(piece: Piece) -> str:
    """A piece of a diagnostic in its terminal colour."""
    style, text = piece
    line = text.rstrip("\n")
    return text if style not in _COLOURS else f"\x1b[{_COLOURS[style]}m{line}\x1b[0m{text[len(line) :]}"


class Diagnostics(list[Diagnostic]):
    """A list of diagnostics; notebooks show it as the command line does."""


class ArchError(Exception):
    """Everything that is wrong with an input, all of it at once."""

    def __init__(self, *diagnostics: Diagnostic) -> None:
        super().__init__(*diagnostics)
        self.diagnostics = diagnostics

    def _render_traceback_(self) -> list[str]:
        """Lines that IPython prints instead of a traceback: the user's calls, then the diagnostics."""
        from archir.diagnostics.tracebacks import user_calls

        shown = "".join(coloured(piece) for one in self.diagnostics for piece in one.pieces()).rstrip("\n").split("\n")
        codes = sorted({one.code for one in self.diagnostics})
        return [*user_calls(self), *shown, *(f"`archir explain {code}` says more" for code in codes[:1])]

    def __str__(self) -> str:
        return "\n".join(str(diagnostic) for diagnostic in self.diagnostics)


class RuleError(ArchError):
    """A rule's refusal: it says what is wrong; whoever applied the rule knows where.

    One that nobody gave a place is a diagnostic without one: no refusal ends in a traceback.
    """

    def __init__(self, message: str, hint: str | None = None, code: str = "A0401", span: Span | None = None) -> None:
        super().__init__(Diagnostic(code, message, span, hint))
        self.message, self.hint, self.code, self.span = message, hint, code, span

    def at(self, span: Span) -> ArchError:
        """The refusal at a place; one that has a place keeps it."""
        return self if self.span is not None else ArchError(replace(self.diagnostics[0], span=span))

    def __reduce__(self) -> Any:
        return RuleError, (self.message, self.hint, self.code, self.span)

    def __str__(self) -> str:
        return self.message


FAULTS = (ArithmeticError, ValueError, TypeError, LookupError, AttributeError, MemoryError)
"""What a rule might raise by mistake."""


def unforeseen(error: Exception) -> RuleError:
    """The refusal of a rule that should have refused by itself, but raised something else."""
    return RuleError(f"this cannot be computed: {error or type(error).__name__}", code="A0607")


def total(rule: Rule) -> Rule:
    """A rule that raises nothing but RuleError, whatever it is given."""

    @wraps(rule)
    def refusing(*given: Any, **named: Any) -> Any:
        try:
            return rule(*given, **named)
        except FAULTS as error:
            raise unforeseen(error) from error

    return cast("Rule", refusing)


class Interrupted(KeyboardInterrupt):
    """Somebody stopped long work, and what was done is kept: it can go on."""


def fail(code: str, message: str, span: Span | None = None, hint: str | None = None) -> ArchError:
    """An `ArchError` of one diagnostic."""
    return ArchError(Diagnostic(code, message, span, hint))


def require(condition: bool, message: str, hint: str | None = None, code: str = "A0401") -> None:
    """Raise `RuleError(message)` unless `condition` holds."""
    if not condition:
        raise RuleError(message, hint, code)


def suggest(name: str, known: Iterable[str]) -> str | None:
    """`did you mean ...?` for the known name nearest to `name`, if one is near."""
    near = nearest(name, known, 0.6)
    return f"did you mean `{near}`?" if near is not None else None


def nearest(name: str, known: Iterable[str], cutoff: float) -> str | None:
    """The known name that is most like `name`, if one is alike enough, and not too many were asked for before. Case,
    `-` and `_` make no difference."""
    from archir.diagnostics.work import current  # which refuses as rules do

    work = current()
    work.hints -= 1
    if len(name) > _LONGEST_NAME or work.hints < 0:
        return None
    alike = nsmallest(_MOST_NAMES, set(known), key=lambda one: (abs(len(one) - len(name)), one))
    same = next((one for one in alike if unspelled(one) == unspelled(name)), None)
    plain = {one.replace("-", "_").casefold(): one for one in reversed(alike)}
    close = difflib.get_close_matches(name.replace("-", "_").casefold(), plain, n=1, cutoff=cutoff)
    return same or next((plain[one] for one in close), None)


def unspelled(name: str) -> str:
    """A name without what differs between ways of spelling it: case, `-`, `_` and spaces."""
    return re.sub(r"[-_ ]", "", name).casefold()


def listed(names: Sequence[object], most: int = 8) -> str:
    """Names as a sentence lists them, the tail cut: `a`, `b` and 3 more."""
    shown = [f"`{name}`" for name in names[:most]]
    if len(names) > most:
        return f"{', '.join(shown)} and {len(names) - most} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else "".join(shown)

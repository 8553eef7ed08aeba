"""TOML with source locations: `tomllib` parses the text, and a scanner finds the span of each key.

The path of a value is a tuple of keys and list indices: `("phase", 0, "training", "epochs")`.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from archir.diagnostics.errors import ArchError, Diagnostic, Note, Source, Span, fail, join_names

if TYPE_CHECKING:
    from archir.utils.edits import Edit

Path = tuple[str | int, ...]
"""Path of a value: keys of tables and indices of lists."""

MAX_CHARACTERS = 2**20
"""Maximum length of a TOML text, in characters."""
MAX_NESTING = 40
"""Maximum nesting of tables and lists."""
_TOO_DEEP = f"nests tables and lists deeper than {MAX_NESTING} levels"
MAX_BITS = 4096
"""Maximum size of an integer, in bits; the same as in `.arch` files."""
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
"""Control characters (other than tabs and line breaks) and surrogates, which settings must not contain."""
_TOO_LONG = "this number is too long"
COMMAND_LINE = "command line"
"""Source name, in place of a file name, of settings from the command line (`--set key=value`, `--data`)."""


@dataclass(frozen=True)
class Document:
    """A parsed TOML text with the source span of each value, by path.

    `override_spans` has the spans of values from the command line (`--set`), each in a source of its own.
    """

    data: dict[str, Any]
    source: Source
    spans: Mapping[Path, Span]
    override_spans: Mapping[Path, Span] = field(default_factory=dict)

    def span(self, path: Path) -> Span | None:
        """Return the span of the value at a path.

        If the value has no span, return the span of the first value below the path, or else the span of the closest
        enclosing table.
        """
        for length in range(len(path), 0, -1):
            for spans in (self.override_spans, self.spans):
                if path[:length] in spans:
                    return spans[path[:length]]
                if length == len(path) and (
                    spans_below := [span for other, span in spans.items() if other[:length] == path]
                ):
                    return min(spans_below, key=lambda span: span.start)
        return None

    def span_below(self, *path: str | int) -> Callable[[Path], Span | None]:
        """Return a function that maps a path relative to `path` to the span of its value."""
        return lambda subpath: self.span((*path, *subpath))

    def edits(self) -> Iterator[Edit]:
        """Yield text edits that write the overrides into the TOML text: start offset, end offset, replacement."""
        for path in self.override_spans:
            value: Any = self.data
            for part in path:
                value = value[part]
            length = next(n for n in range(len(path), -1, -1) if not n or path[:n] in self.spans)
            name = ".".join(_dump_key(str(part)) for part in path[length:] or path[-1:])
            span, line = self.spans.get(path[:length]), f"{name} = {dump_value(value)}"
            if span is None:
                yield 0, 0, f"{line}\n"
            elif length == len(path):
                yield span.start, span.end, line
            elif span.text.endswith("}"):
                head = span.text[:-1].rstrip()
                end = span.start + len(head)
                yield end, end, f" {line}" if head.endswith("{") else f", {line}"
            else:
                yield span.end, span.end, f"\n{line}"

    @contextmanager
    def with_span(self, *path: str | int) -> Iterator[None]:
        """Add the span of `path` to diagnostics of ArchErrors that the `with` block raises.

        A diagnostic that already has a span gets a note at the span of `path` instead.
        """
        try:
            yield
        except ArchError as error:
            span = self.span(path)
            raise ArchError(*(_with_span(diagnostic, span) for diagnostic in error.diagnostics)) from None


def _with_span(diagnostic: Diagnostic, span: Span | None) -> Diagnostic:
    if diagnostic.span is None or span is None:
        return replace(diagnostic, span=diagnostic.span or span)
    return replace(diagnostic, notes=(*diagnostic.notes, Note("asked for here", span)))


def parse_toml(text: str, name: str, code: str) -> Document:
    """Parse a TOML text. Raises ArchError whose diagnostics have the code `code` and a location in the text."""
    source = Source(name, text)
    if len(text) > MAX_CHARACTERS:
        raise fail(code, f"{name} is longer than {MAX_CHARACTERS:,} characters")
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message, span = _locate_error(source, str(error))
        raise fail(code, f"this is not TOML: {message}", span) from None
    except RecursionError:
        raise fail(code, f"{name} {_TOO_DEEP}") from None
    except ValueError:  # an integer of thousands of digits
        raise fail(code, _TOO_LONG, _long_number(source)) from None
    if _is_too_deep(data):
        raise fail(code, f"{name} {_TOO_DEEP}")
    document = Document(data, source, _SpanScanner(source).scan())
    problems = [Diagnostic(code, problem, document.span(path)) for path, problem in _invalid_values(data, ())]
    if problems:
        raise ArchError(*problems)
    return document


def apply_overrides(document: Document, settings: Mapping[str, str], code: str) -> Document:
    """Return a document in which the values at these dotted keys are replaced.

    A key is a path such as `data.source`. For a table in a list of tables (`[[phase]]`), it begins with the table's
    `name`, as in `search.training.epochs`. A value that is not valid TOML is taken as a string. Raises ArchError with
    the code `code` if a key goes through a value that is not a table, and for values that no setting can have.
    """
    data = _copy(document.data)
    new_spans: dict[Path, Span] = {}
    problems: list[Diagnostic] = []
    for key, text in settings.items():
        source = Source(COMMAND_LINE, f"{key}={text}")
        value = _value(text)
        path = _override_path(data, key.split("."))
        new_spans[path] = Span(source, 0, len(source.text))
        problems += [Diagnostic(code, what, new_spans[path]) for _, what in _invalid_values(value, path)]
        target: Any = data
        for length, part in enumerate(path[:-1], 1):
            target = target[part] if isinstance(part, int) else target.setdefault(part, {})
            if not isinstance(target, dict) and not isinstance(path[length], int):
                what = ".".join(map(str, path[:length]))
                hint = override_hint(data, path[0], path[1:]) if length == 1 else None
                problems.append(Diagnostic(code, f"`{what}` is not a table", Span(source, 0, len(key)), hint))
                break
        else:
            target[path[-1]] = value
    if problems:
        raise ArchError(*problems)
    kept = {
        path_of_value: span
        for path_of_value, span in document.spans.items()
        if not any(path_of_value[: len(path)] == path and len(path_of_value) > len(path) for path in new_spans)
    }  # spans below a replaced table are gone
    return replace(document, data=data, spans=kept, override_spans={**document.override_spans, **new_spans})


def override_hint(data: Mapping[str, Any], tables: str | int, path: Sequence[str | int]) -> str | None:
    """Return a hint that explains `--set` keys of settings in a list of tables, and lists the tables' names.

    Returns None if the tables have no names.
    """
    names = table_names(data, tables)
    if not names:
        return None
    table = names[0]
    if len(path) > 1 and (path[0] in names or str(path[0]).isdigit()):
        table, path = (str(path[0]) if path[0] in names else table), path[1:]
    example = ".".join(map(str, (table, *path)))
    available = f"there {'is' if len(names) == 1 else 'are'} {join_names(names)}"
    return f"settings of a {tables} are `{str(tables).upper()}.KEY`, such as `{example}`; {available}"


def table_names(data: Mapping[str, Any], tables: str | int) -> list[str]:
    """Return the `name` of each table in a list of tables."""
    entries = data.get(str(tables))
    return (
        [str(table["name"]) for table in entries if isinstance(table, dict) and "name" in table]
        if isinstance(entries, list)
        else []
    )


def _override_path(data: Mapping[str, Any], key: list[str]) -> Path:
    """Return the path that a dotted key stands for; its first part may be the `name` of a table in a list of tables."""
    for name, tables in data.items():
        if isinstance(tables, list) and len(key) > 1:
            for number, table in enumerate(tables):
                if isinstance(table, dict) and table.get("name") == key[0]:
                    return (name, number, *key[1:])
    return (*key,)


def _value(text: str) -> Any:
    try:
        document = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    return document["value"] if len(document) == 1 and not _is_too_deep(document) else text


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _copy(item) for name, item in value.items()}
    return [_copy(item) for item in value] if isinstance(value, list) else value


def _is_too_deep(value: Any, depth: int = 0) -> bool:
    """Return whether a value nests tables and lists deeper than `MAX_NESTING`."""
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return depth > MAX_NESTING or any(_is_too_deep(item, depth + 1) for item in items)


def _invalid_values(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    """Yield the path of each value that no setting can have, and an error message.

    Such values are strings and keys with control characters, integers of thousands of digits, and dates.
    """
    match value:
        case dict():
            for name, item in value.items():
                if _CONTROL.search(name) or "\n" in name:
                    yield path, f"this key has control characters: {name[:40]!a}"
                yield from _invalid_values(item, (*path, name))
        case list():
            for number, item in enumerate(value):
                yield from _invalid_values(item, (*path, number))
        case str():
            if _CONTROL.search(value):
                yield path, f"this text has control characters: {value[:40]!a}"
        case int():
            if value.bit_length() > MAX_BITS:
                yield path, _TOO_LONG
        case float():
            pass
        case _:
            yield path, f"a {type(value).__name__} cannot be the value of a setting"


def _locate_error(source: Source, message: str) -> tuple[str, Span | None]:
    """Split an error message of tomllib into the message without its location, and the location as a span."""
    text = re.sub(r" \(at .*\)$", "", message)
    if message.endswith("(at end of document)"):
        end = len(source.text.rstrip())
        return text, Span(source, max(0, end - 1), end)
    location = re.search(r"\(at line (\d+), column (\d+)\)$", message)
    if location is None:
        return text, None
    line, column = map(int, location.groups())
    start = source.line_starts[line - 1] + column - 1 if line <= len(source.line_starts) else len(source.text)
    return text, Span(source, start, min(len(source.text), start + 1))


def _long_number(source: Source) -> Span | None:
    longest = max(re.finditer(r"[0-9_]{100,}", source.text), key=lambda number: len(number[0]), default=None)
    return None if longest is None else Span(source, longest.start(), longest.end())


_SPACE = re.compile(r"(?:[ \t]+)?")
_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_SCALAR = re.compile(r"[^,\]}#\r\n]*")
_STRINGS = {
    quote: re.compile(pattern, re.DOTALL)
    for quote, pattern in {
        '"""': r'"""(?:[^"\\]|\\.|"{1,2}(?!"))*"{3,5}',
        "'''": r"'''(?:[^']|'{1,2}(?!'))*'{3,5}",
        '"': r'"(?:[^"\\]|\\.)*"',
        "'": r"'[^']*'",
    }.items()
}


class _SpanScanner:
    """Scanner that finds the spans of keys and values in a text that is known to be valid TOML."""

    def __init__(self, source: Source) -> None:
        self.source, self.text, self.at = source, source.text, 0
        self.places: dict[Path, Span] = {}
        self._lengths: dict[Path, int] = {}
        """Number of tables scanned so far in each list of tables (`[[name]]`)."""

    def scan(self) -> dict[Path, Span]:
        """Return the span of each `key = value`, list item and table header, by path."""
        table: Path = ()
        self._skip(_BLANK)
        while self.at < len(self.text):
            if self.text[self.at] == "[":
                table = self._header()
            else:
                self._pair(table)
            self._skip(_BLANK)
        return self.places

    def _header(self) -> Path:
        start = self.at
        is_list = self.text.startswith("[[", start)
        self.at += 2 if is_list else 1
        *parents, last = self._key()
        self._skip(_SPACE)
        self.at += 2 if is_list else 1
        path = (*self._inside((), parents), last)
        if is_list:
            number = self._lengths.get(path, 0)
            self._lengths[path] = number + 1
            self.places.setdefault(path, Span(self.source, start, self.at))
            path = (*path, number)
        self.places[path] = Span(self.source, start, self.at)
        return path

    def _inside(self, table: Path, parts: list[str]) -> Path:
        """Return the path of a table below `table`; a list of tables on the way stands for its last table."""
        for part in parts:
            table = (*table, part)
            if table in self._lengths:
                table = (*table, self._lengths[table] - 1)
        return table

    def _pair(self, table: Path) -> None:
        start = self.at
        path: Path = (*table, *self._key())
        self._skip(_SPACE)
        self.at += 1  # the equals sign
        self._skip(_SPACE)
        self._read(path)
        self.places[path] = Span(self.source, start, self.at)

    def _key(self) -> list[str]:
        parts = []
        while True:
            self._skip(_SPACE)
            parts.append(self._part())
            self._skip(_SPACE)
            if not self.text.startswith(".", self.at):
                return parts
            self.at += 1

    def _part(self) -> str:
        start = self.at
        if self.text[start] in "\"'":
            self._skip(_STRINGS[self.text[start]])
            return str(tomllib.loads(f"value = {self.text[start : self.at]}")["value"])
        self._skip(_BARE)
        return self.text[start : self.at]

    def _read(self, path: Path) -> None:
        """Scan a value, and record the spans of the values nested in it."""
        char = self.text[self.at]
        if char in "\"'":
            opening = self.text[self.at : self.at + 3]
            self._skip(_STRINGS[opening if opening in _STRINGS else char])
        elif char == "[":
            self._list(path)
        elif char == "{":
            self._inline(path)
        else:
            self._skip(_SCALAR)
            self.at = len(self.text[: self.at].rstrip(" \t")) if self.text[self.at - 1] in " \t" else self.at

    def _list(self, path: Path) -> None:
        self.at += 1
        number = 0
        while self._next("]"):
            start = self.at
            self._read((*path, number))
            self.places[*path, number] = Span(self.source, start, self.at)
            number += 1
        self.at += 1

    def _inline(self, path: Path) -> None:
        self.at += 1
        while self._next("}"):
            self._pair(path)
        self.at += 1

    def _next(self, closing: str) -> bool:
        """Skip whitespace, comments and a comma; return whether another item follows before the closing bracket."""
        self._skip(_BLANK)
        if self.text.startswith(",", self.at):
            self.at += 1
            self._skip(_BLANK)
        return not self.text.startswith(closing, self.at)

    def _skip(self, pattern: re.Pattern[str]) -> None:
        match = pattern.match(self.text, self.at)
        self.at = match.end() if match else self.at


def dump_toml(data: Mapping[str, Any]) -> str:
    """Return settings as readable TOML: top-level values first, one per line, and then a section per table.

    Each item of a list of tables also gets a section. Tables nested in a section are written as inline tables. Values
    that are None are left out.
    """
    settings = {key: value for key, value in data.items() if value is not None}
    tables = {key: [value] for key, value in settings.items() if isinstance(value, Mapping)}
    lists = {key: value for key, value in settings.items() if _is_table_list(value)}
    text = _dump_lines({key: value for key, value in settings.items() if key not in tables | lists})
    for key, sections in (tables | lists).items():
        head = f"[{_dump_key(key)}]" if key in tables else f"[[{_dump_key(key)}]]"
        text += "".join(f"\n{head}\n{_dump_lines(section)}" for section in sections)
    return text


def _is_table_list(value: Any) -> bool:
    return isinstance(value, list | tuple) and bool(value) and all(isinstance(item, Mapping) for item in value)


def _dump_lines(table: Mapping[str, Any]) -> str:
    return "".join(f"{_dump_key(name)} = {dump_value(value)}\n" for name, value in table.items() if value is not None)


def _dump_key(name: str) -> str:
    return name if _BARE.fullmatch(name) else json.dumps(name, ensure_ascii=False)


def dump_value(value: Any) -> str:
    """Return a value in TOML syntax on one line; tables are written as inline tables."""
    if isinstance(value, Mapping):
        inside = ", ".join(
            f"{_dump_key(name)} = {dump_value(item)}" for name, item in value.items() if item is not None
        )
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(dump_value, value))}]"
    return repr(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False)

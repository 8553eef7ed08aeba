"""TOML, and where in its text each key is: `tomllib` reads it, but tells no places.

A path is that of the value: `("phase", 0, "training", "epochs")`.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from archir.diagnostics.errors import ArchError, Diagnostic, Note, Source, Span, fail, listed

Path = tuple[str | int, ...]

MOST_CHARACTERS = 2**20
MOST_NESTING = 40
"""Tables and lists inside each other."""
_DEEP = f"nests tables and lists deeper than {MOST_NESTING} levels"
MOST_BITS = 4096
"""Of an integer; the same as in `.arch` files."""
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
"""Characters other than tabs and line breaks."""
_LONG = "this number is too long"
COMMAND_LINE = "--set"


@dataclass(frozen=True)
class Document:
    """What a text of TOML says, and where. Settings that replace others are in texts of their own."""

    data: dict[str, Any]
    source: Source
    places: Mapping[Path, Span]
    overrides: Mapping[Path, Span] = field(default_factory=dict)

    def span(self, path: Path) -> Span | None:
        """Where the value of a path is said: itself, or else the first part of it, or else what it is a part of."""
        for length in range(len(path), 0, -1):
            for places in (self.overrides, self.places):
                if path[:length] in places:
                    return places[path[:length]]
                if length == len(path) and (inside := [span for at, span in places.items() if at[:length] == path]):
                    return min(inside, key=lambda span: span.start)
        return None

    def at(self, *path: str | int) -> Callable[[Path], Span | None]:
        """`span` of paths that begin at this one."""
        return lambda rest: self.span((*path, *rest))

    def edits(self) -> Iterator[tuple[int, int, str]]:
        """The overrides as changes of the text: start, end, and the setting that stands there instead."""
        for path in self.overrides:
            value: Any = self.data
            for part in path:
                value = value[part]
            length = next(n for n in range(len(path), -1, -1) if not n or path[:n] in self.places)
            name = ".".join(_key(str(part)) for part in path[length:] or path[-1:])
            place, line = self.places.get(path[:length]), f"{name} = {_text(value)}"
            if place is None:
                yield 0, 0, f"{line}\n"
            elif length == len(path):
                yield place.start, place.end, line
            elif place.text.endswith("}"):
                inside = place.text[:-1].rstrip()
                end = place.start + len(inside)
                yield end, end, f" {line}" if inside.endswith("{") else f", {line}"
            else:
                yield place.end, place.end, f"\n{line}"

    @contextmanager
    def blamed(self, *path: str | int) -> Iterator[None]:
        """What is refused inside is refused at this path, or because of it, where it has a place in another text."""
        try:
            yield
        except ArchError as error:
            span = self.span(path)
            raise ArchError(*(_because(one, span) for one in error.diagnostics)) from None


def _because(one: Diagnostic, span: Span | None) -> Diagnostic:
    if one.span is None or span is None:
        return replace(one, span=one.span or span)
    return replace(one, notes=(*one.notes, Note("asked for here", span)))


def read(text: str, name: str, code: str) -> Document:
    """The document of a text. Raises ArchError of the code, with the place of what is wrong."""
    source = Source(name, text)
    if len(text) > MOST_CHARACTERS:
        raise fail(code, f"{name} is longer than {MOST_CHARACTERS:,} characters")
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message, place = _explained(source, str(error))
        raise fail(code, f"this is no TOML: {message}", place) from None
    except RecursionError:
        raise fail(code, f"{name} {_DEEP}") from None
    except ValueError:  # an integer of thousands of digits
        raise fail(code, _LONG, _long_number(source)) from None
    if _deeper(data):
        raise fail(code, f"{name} {_DEEP}")
    found = Document(data, source, _Places(source).found())
    problems = [Diagnostic(code, what, found.span(path)) for path, what in _odd(data, ())]
    if problems:
        raise ArchError(*problems)
    return found


def overridden(document: Document, settings: Mapping[str, str], code: str) -> Document:
    """A document some of whose values are replaced: `data.source`, or `search.training.epochs` for the one of a list of
    tables (`[[phase]]`) whose `name` is `search`. A value that is no TOML is a string. Raises ArchError of the code."""
    data = _copied(document.data)
    places: dict[Path, Span] = {}
    problems: list[Diagnostic] = []
    for key, text in settings.items():
        source = Source(COMMAND_LINE, f"{key}={text}")
        value = _value(text)
        path = _replaced(data, key.split("."))
        places[path] = Span(source, 0, len(source.text))
        problems += [Diagnostic(code, what, places[path]) for _, what in _odd(value, path)]
        target: Any = data
        for end, part in enumerate(path[:-1], 1):
            target = target[part] if isinstance(part, int) else target.setdefault(part, {})
            if not isinstance(target, dict) and not isinstance(path[end], int):
                what = ".".join(map(str, path[:end]))
                hint = by_name(data, path[0], path[1:]) if end == 1 else None
                problems.append(Diagnostic(code, f"`{what}` is no table", Span(source, 0, len(key)), hint))
                break
        else:
            target[path[-1]] = value
    if problems:
        raise ArchError(*problems)
    left = {
        at: span
        for at, span in document.places.items()
        if not any(at[: len(path)] == path and len(at) > len(path) for path in places)
    }  # what a replaced table said inside is not said any more
    return replace(document, data=data, places=left, overrides={**document.overrides, **places})


def by_name(data: Mapping[str, Any], tables: str | int, rest: Sequence[str | int]) -> str | None:
    """How a setting of one of a list of tables is named on the command line, and which names there are."""
    names = named(data, tables)
    if not names:
        return None
    first = names[0]
    if len(rest) > 1 and (rest[0] in names or str(rest[0]).isdigit()):
        first, rest = (str(rest[0]) if rest[0] in names else first), rest[1:]
    example = ".".join(map(str, (first, *rest)))
    are = f"there {'is' if len(names) == 1 else 'are'} {listed(names)}"
    return f"settings of a {tables} are `{str(tables).upper()}.KEY`, such as `{example}`; {are}"


def named(data: Mapping[str, Any], tables: str | int) -> list[str]:
    """The names of a list of tables."""
    found = data.get(str(tables))
    return (
        [str(one["name"]) for one in found if isinstance(one, dict) and "name" in one]
        if isinstance(found, list)
        else []
    )


def _replaced(data: Mapping[str, Any], key: list[str]) -> Path:
    """The path of a key whose first part may be the name of a table in a list."""
    for name, tables in data.items():
        if isinstance(tables, list) and len(key) > 1:
            for number, table in enumerate(tables):
                if isinstance(table, dict) and table.get("name") == key[0]:
                    return (name, number, *key[1:])
    return (*key,)


def _value(text: str) -> Any:
    try:
        found = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    return found["value"] if len(found) == 1 and not _deeper(found) else text


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _copied(item) for name, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list) else value


def _deeper(value: Any, depth: int = 0) -> bool:
    """Whether a value nests too deep."""
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return depth > MOST_NESTING or any(_deeper(item, depth + 1) for item in items)


def _odd(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    """What no setting can be, whichever it is: text with control characters, numbers of thousands of digits, dates."""
    match value:
        case dict():
            for name, item in value.items():
                if _CONTROL.search(name) or "\n" in name:
                    yield path, f"this key has control characters: {name[:40]!a}"
                yield from _odd(item, (*path, name))
        case list():
            for number, item in enumerate(value):
                yield from _odd(item, (*path, number))
        case str():
            if _CONTROL.search(value):
                yield path, f"this text has control characters: {value[:40]!a}"
        case int():
            if value.bit_length() > MOST_BITS:
                yield path, _LONG
        case float():
            pass
        case _:
            yield path, f"a {type(value).__name__} is nothing that can be set"


def _explained(source: Source, message: str) -> tuple[str, Span | None]:
    """What tomllib says, and the place that is at the end of it."""
    text = re.sub(r" \(at .*\)$", "", message)
    if message.endswith("(at end of document)"):
        end = len(source.text.rstrip())
        return text, Span(source, max(0, end - 1), end)
    found = re.search(r"\(at line (\d+), column (\d+)\)$", message)
    if found is None:
        return text, None
    line, column = map(int, found.groups())
    start = source.starts[line - 1] + column - 1 if line <= len(source.starts) else len(source.text)
    return text, Span(source, start, min(len(source.text), start + 1))


def _long_number(source: Source) -> Span | None:
    found = max(re.finditer(r"[0-9_]{100,}", source.text), key=lambda one: len(one[0]), default=None)
    return None if found is None else Span(source, found.start(), found.end())


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


class _Places:
    """Scans a text that is known to be TOML for its keys and values."""

    def __init__(self, source: Source) -> None:
        self.source, self.text, self.at = source, source.text, 0
        self.places: dict[Path, Span] = {}
        self._lengths: dict[Path, int] = {}
        """Of lists of tables."""

    def found(self) -> dict[Path, Span]:
        """The place of each key with its value, and of each table's header."""
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
        many = self.text.startswith("[[", start)
        self.at += 2 if many else 1
        *parents, last = self._key()
        self._skip(_SPACE)
        self.at += 2 if many else 1
        path = (*self._inside((), parents), last)
        if many:
            number = self._lengths.get(path, 0)
            self._lengths[path] = number + 1
            self.places.setdefault(path, Span(self.source, start, self.at))
            path = (*path, number)
        self.places[path] = Span(self.source, start, self.at)
        return path

    def _inside(self, table: Path, parts: list[str]) -> Path:
        """The path of nested tables; of a list of them, the last one is meant."""
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
        """A value and what is in it."""
        begin = self.text[self.at]
        if begin in "\"'":
            three = self.text[self.at : self.at + 3]
            self._skip(_STRINGS[three if three in _STRINGS else begin])
        elif begin == "[":
            self._list(path)
        elif begin == "{":
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

    def _next(self, end: str) -> bool:
        """Go to the next item; whether there is one."""
        self._skip(_BLANK)
        if self.text.startswith(",", self.at):
            self.at += 1
            self._skip(_BLANK)
        return not self.text.startswith(end, self.at)

    def _skip(self, pattern: re.Pattern[str]) -> None:
        found = pattern.match(self.text, self.at)
        self.at = found.end() if found else self.at


def written(data: Mapping[str, Any]) -> str:
    """Settings as TOML that people can read: a line for each, then a section for each table and for each of a list of
    tables. Tables inside of these are in braces. What is None is left out."""
    known = {name: value for name, value in data.items() if value is not None}
    tables = {name: [value] for name, value in known.items() if isinstance(value, Mapping)}
    lists = {name: value for name, value in known.items() if _of_tables(value)}
    text = _lines({name: value for name, value in known.items() if name not in tables | lists})
    for name, sections in (tables | lists).items():
        head = f"[{_key(name)}]" if name in tables else f"[[{_key(name)}]]"
        text += "".join(f"\n{head}\n{_lines(section)}" for section in sections)
    return text


def _of_tables(value: Any) -> bool:
    return isinstance(value, list | tuple) and bool(value) and all(isinstance(one, Mapping) for one in value)


def _lines(table: Mapping[str, Any]) -> str:
    return "".join(f"{_key(name)} = {_text(value)}\n" for name, value in table.items() if value is not None)


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else json.dumps(name, ensure_ascii=False)


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        inside = ", ".join(f"{_key(name)} = {_text(item)}" for name, item in value.items() if item is not None)
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_text, value))}]"
    return repr(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False)

"""What is wrong, for others than people: JSON, SARIF 2.1.0 for tools of code review, annotations of GitHub Actions."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

import click

from archir import __version__
from archir.cli.output import complain, emit, say
from archir.diagnostics.errors import NOWHERE, ArchError, Diagnostic, Source, Span
from archir.diagnostics.explain import page, title
from archir.diagnostics.visible import visible
from archir.language.elaboration.files import read

Format = Literal["text", "json", "sarif", "github"]
FORMAT = "archir.format"
"""Where click's context keeps which format the command at hand was asked for."""
SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def format_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """--format, and --json, which is short for one of them: the command gets `form`."""

    @wraps(command)
    def told(*args: Any, form: Format, as_json: bool, **options: Any) -> Any:
        if as_json and form not in ("text", "json"):
            raise click.UsageError(f"--json and --format {form} exclude each other")
        form = "json" if as_json else form
        click.get_current_context().meta[FORMAT] = form
        return command(*args, form=form, **options)

    told = click.option("--json", "as_json", is_flag=True, help="Print JSON: short for --format json.")(told)
    return click.option(
        "--format", "form", type=click.Choice(["text", "json", "sarif", "github"]), default="text", show_default=True,
        help="How to say what is wrong: for people, for programs, as SARIF for tools of code review, or as annotations "
        "of GitHub Actions.",
    )(told)  # fmt: skip


def report(found: Sequence[Diagnostic], form: Format, homes: Iterable[Path] = (), more: Mapping[str, Any] = {}) -> None:
    """Print diagnostics in a format: text on standard error, others on standard output, with or without any.

    `homes` are folders that names of imported files start from; `more` is what JSON says besides.
    """
    if form == "json":
        emit({"diagnostics": [one.as_json() for one in found], **more})
    elif form == "sarif":
        emit(sarif(found, Places(homes)))
    elif form == "github":
        for line in github(found, Places(homes)):
            say(line)
    elif found:
        complain(ArchError(*found))


class Places:
    """Where sources lie, as those who look at a repository name it: from its top, which is the current folder or the
    workspace that GitHub Actions names."""

    def __init__(self, homes: Iterable[Path] = ()) -> None:
        self.top = Path(os.environ.get("GITHUB_WORKSPACE") or Path.cwd()).resolve()
        self._homes = list(dict.fromkeys([Path(), *homes]))
        self._known: dict[int, tuple[Source, str | None]] = {}

    def __call__(self, span: Span | None) -> str | None:
        """The file that a span is of: below the top as a relative path, elsewhere absolute; None if it is no file."""
        if span is None or span is NOWHERE:
            return None
        source = span.source
        if id(source) not in self._known:
            self._known[id(source)] = source, self._found(source)
        return self._known[id(source)][1]

    def _found(self, source: Source) -> str | None:
        for home in self._homes:
            try:
                if read(home / source.name) != source.text:  # another one of this name
                    continue
            except ArchError:
                continue
            path = Path(os.path.abspath(home / source.name))
            return (path.relative_to(self.top) if path.is_relative_to(self.top) else path).as_posix()
        return None


def github(found: Iterable[Diagnostic], places: Places) -> Iterator[str]:
    """A workflow command of GitHub Actions for each diagnostic: `::error file=a.arch,line=3,title=A0201::...`."""
    for one in found:
        facts: dict[str, Any] = {}
        path = places(one.span)
        if path is not None and one.span is not None:
            facts |= {"file": path, "line": one.span.line}
            end = _end(one.span)
            facts |= {"col": one.span.column, "endColumn": end.column} if end.line == one.span.line else {}
            facts["endLine"] = end.line
        facts["title"] = f"archir {one.code}"
        said = ",".join(f"{name}={_property(str(value))}" for name, value in facts.items())
        yield f"::{one.severity} {said}::{_data(_words(one, path is None))}"


def _words(one: Diagnostic, placed: bool) -> str:
    """What a diagnostic says beside its place, or with it where the format has no way to name it."""
    place = f"{one.span}: " if placed and one.span is not None and one.span is not NOWHERE else ""
    notes = [f"{note.span}: {note.text}" if note.span else note.text for note in one.notes]
    hint = [f"hint: {one.hint}"] if one.hint else []
    return visible("\n".join([place + one.message, *notes, *hint]))


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def sarif(found: Sequence[Diagnostic], places: Places) -> dict[str, Any]:
    """Diagnostics as a log of SARIF 2.1.0 (OASIS, 2020): rules are codes with their pages, notes are related places,
    hints that are edits are fixes. Columns count characters."""
    codes = list(dict.fromkeys(one.code for one in found))
    rules = [
        {"id": code, "shortDescription": {"text": title(code)}, "help": {"text": page(code), "markdown": page(code)}}
        for code in codes
    ]
    driver = {"name": "archir", "semanticVersion": __version__, "rules": rules}
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_result(one, codes.index(one.code), places) for one in found],
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _result(one: Diagnostic, rule: int, places: Places) -> dict[str, Any]:
    place = _location(one.span, places)
    made: dict[str, Any] = {"ruleId": one.code, "ruleIndex": rule, "level": one.severity}
    made["message"] = {"text": _words(one, place is None)}
    made["locations"] = [place] if place else []
    related = [(note.text, _location(note.span, places)) for note in one.notes]
    if told := [where | {"message": {"text": visible(text)}} for text, where in related if where]:
        made["relatedLocations"] = told
    if one.edit is not None and place:
        file = place["physicalLocation"]["artifactLocation"]
        change = {"deletedRegion": _region(one.edit[0]), "insertedContent": {"text": one.edit[1]}}
        made["fixes"] = [{"artifactChanges": [{"artifactLocation": file, "replacements": [change]}]}]
    return made


def _location(span: Span | None, places: Places) -> dict[str, Any] | None:
    path = places(span)
    if path is None or span is None:
        return None
    whole = Path(path).is_absolute()
    uri = Path(path).as_uri() if whole else quote(path)
    file = {"uri": uri} if whole else {"uri": uri, "uriBaseId": "%SRCROOT%"}
    return {"physicalLocation": {"artifactLocation": file, "region": _region(span)}}


def _region(span: Span) -> dict[str, int]:
    end = _end(span)
    return {"startLine": span.line, "startColumn": span.column, "endLine": end.line, "endColumn": end.column}


def _end(span: Span) -> Span:
    return Span(span.source, span.end, span.end)

"""Machine-readable formats of diagnostics: JSON, SARIF 2.1.0 for code review tools, and annotations of GitHub
Actions."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

import click

from archir import __version__
from archir.cli.output import emit, print_error, say
from archir.diagnostics.errors import NO_SPAN, ArchError, Diagnostic, Source, Span
from archir.diagnostics.escaping import escape_unprintable
from archir.diagnostics.explain import page, title
from archir.language.elaboration.files import read_program

Format = Literal["text", "json", "sarif", "github"]
FORMAT = "archir.format"
"""Key of the current command's output format in click's `Context.meta`."""
SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def format_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --format, and --json as short for `--format json`; the command receives the format as `form`."""

    @wraps(command)
    def wrapper(*args: Any, form: Format, as_json: bool, **options: Any) -> Any:
        if as_json and form not in ("text", "json"):
            raise click.UsageError(f"--json and --format {form} exclude each other")
        form = "json" if as_json else form
        click.get_current_context().meta[FORMAT] = form
        return command(*args, form=form, **options)

    wrapper = click.option("--json", "as_json", is_flag=True, help="Short for --format json.")(wrapper)
    return click.option(
        "--format", "form", type=click.Choice(["text", "json", "sarif", "github"]), default="text", show_default=True,
        help="Format of diagnostics: text, JSON, SARIF (for code review tools) or annotations of GitHub Actions.",
    )(wrapper)  # fmt: skip


def report(
    diagnostics: Sequence[Diagnostic], form: Format, import_roots: Iterable[Path] = (), extra: Mapping[str, Any] = {}
) -> None:
    """Print diagnostics: as text on standard error; in all other formats on standard output, even if there are none.

    `import_roots` are the folders against which the names of imported files are resolved; `extra` is added to the JSON
    object.
    """
    if form == "json":
        emit({"diagnostics": [diagnostic.as_json() for diagnostic in diagnostics], **extra})
    elif form == "sarif":
        emit(sarif(diagnostics, SourcePaths(import_roots)))
    elif form == "github":
        for line in github(diagnostics, SourcePaths(import_roots)):
            say(line)
    elif diagnostics:
        print_error(ArchError(*diagnostics))


class SourcePaths:
    """Maps sources to file paths relative to the top of the repository, as code review tools need them.

    The top is the folder in GITHUB_WORKSPACE (set by GitHub Actions), or else the current folder.
    """

    def __init__(self, import_roots: Iterable[Path] = ()) -> None:
        self.top = Path(os.environ.get("GITHUB_WORKSPACE") or Path.cwd()).resolve()
        self._import_roots = list(dict.fromkeys([Path(), *import_roots]))
        self._paths: dict[int, tuple[Source, str | None]] = {}

    def __call__(self, span: Span | None) -> str | None:
        """Return the path of the file that contains a span.

        The path is relative if it is below the top of the repository, else absolute. Returns None if the source is not
        a file.
        """
        if span is None or span is NO_SPAN:
            return None
        source = span.source
        if id(source) not in self._paths:
            self._paths[id(source)] = source, self._find_path(source)
        return self._paths[id(source)][1]

    def _find_path(self, source: Source) -> str | None:
        for root in self._import_roots:
            try:
                if read_program(root / source.name) != source.text:  # a different file with this name
                    continue
            except ArchError:
                continue
            path = Path(os.path.abspath(root / source.name))
            return (path.relative_to(self.top) if path.is_relative_to(self.top) else path).as_posix()
        return None


def github(diagnostics: Iterable[Diagnostic], source_paths: SourcePaths) -> Iterator[str]:
    """Yield a GitHub Actions workflow command for each diagnostic: `::error file=a.arch,line=3,title=A0201::...`."""
    for diagnostic in diagnostics:
        fields: dict[str, Any] = {}
        path = source_paths(diagnostic.span)
        if path is not None and diagnostic.span is not None:
            fields |= {"file": path, "line": diagnostic.span.line}
            end = _end(diagnostic.span)
            fields |= (
                {"col": diagnostic.span.column, "endColumn": end.column} if end.line == diagnostic.span.line else {}
            )
            fields["endLine"] = end.line
        fields["title"] = f"archir {diagnostic.code}"
        properties = ",".join(f"{name}={_escape_property(str(value))}" for name, value in fields.items())
        yield f"::{diagnostic.severity} {properties}::{_escape_data(_message_text(diagnostic, path is None))}"


def _message_text(diagnostic: Diagnostic, with_position: bool) -> str:
    """Return message, notes and hint of a diagnostic as text.

    `with_position` starts the text with the diagnostic's position, for results that have no location field.
    """
    position = (
        f"{diagnostic.span}: "
        if with_position and diagnostic.span is not None and diagnostic.span is not NO_SPAN
        else ""
    )
    notes = [f"{note.span}: {note.text}" if note.span else note.text for note in diagnostic.notes]
    hint = [f"hint: {diagnostic.hint}"] if diagnostic.hint else []
    return escape_unprintable("\n".join([position + diagnostic.message, *notes, *hint]))


def _escape_data(text: str) -> str:
    """Escape the message of a GitHub Actions workflow command."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(text: str) -> str:
    """Escape a property value of a GitHub Actions workflow command."""
    return _escape_data(text).replace(":", "%3A").replace(",", "%2C")


def sarif(diagnostics: Sequence[Diagnostic], source_paths: SourcePaths) -> dict[str, Any]:
    """Return diagnostics as a SARIF 2.1.0 log (OASIS, 2020).

    SARIF rules are diagnostic codes with their explanations, notes become related locations, and hints that carry an
    edit become fixes. Columns count Unicode code points.
    """
    codes = list(dict.fromkeys(diagnostic.code for diagnostic in diagnostics))
    rules = [
        {"id": code, "shortDescription": {"text": title(code)}, "help": {"text": page(code), "markdown": page(code)}}
        for code in codes
    ]
    driver = {"name": "archir", "semanticVersion": __version__, "rules": rules}
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [
            _sarif_result(diagnostic, codes.index(diagnostic.code), source_paths) for diagnostic in diagnostics
        ],
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _sarif_result(diagnostic: Diagnostic, rule: int, source_paths: SourcePaths) -> dict[str, Any]:
    """Return a diagnostic as a SARIF result."""
    location = _location(diagnostic.span, source_paths)
    result: dict[str, Any] = {"ruleId": diagnostic.code, "ruleIndex": rule, "level": diagnostic.severity}
    result["message"] = {"text": _message_text(diagnostic, location is None)}
    result["locations"] = [location] if location else []
    related = [(note.text, _location(note.span, source_paths)) for note in diagnostic.notes]
    if related_locations := [
        position | {"message": {"text": escape_unprintable(text)}} for text, position in related if position
    ]:
        result["relatedLocations"] = related_locations
    if diagnostic.edit is not None and location:
        file = location["physicalLocation"]["artifactLocation"]
        change = {"deletedRegion": _region(diagnostic.edit[0]), "insertedContent": {"text": diagnostic.edit[1]}}
        result["fixes"] = [{"artifactChanges": [{"artifactLocation": file, "replacements": [change]}]}]
    return result


def _location(span: Span | None, source_paths: SourcePaths) -> dict[str, Any] | None:
    """Return a span as a SARIF location, or None if its source is not a file."""
    path = source_paths(span)
    if path is None or span is None:
        return None
    is_absolute = Path(path).is_absolute()
    uri = Path(path).as_uri() if is_absolute else quote(path)
    file = {"uri": uri} if is_absolute else {"uri": uri, "uriBaseId": "%SRCROOT%"}
    return {"physicalLocation": {"artifactLocation": file, "region": _region(span)}}


def _region(span: Span) -> dict[str, int]:
    """Return a span as a SARIF region."""
    end = _end(span)
    return {"startLine": span.line, "startColumn": span.column, "endLine": end.line, "endColumn": end.column}


def _end(span: Span) -> Span:
    """Return the empty span at the end position of a span."""
    return Span(span.source, span.end, span.end)

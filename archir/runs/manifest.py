"""Manifest of a run: its files with their SHA-256, the commit in progress, and a hash of the manifest itself."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from archir.diagnostics.errors import describe_error, fail
from archir.diagnostics.hints import suggest_file
from archir.utils.files import read_bytes

NAME = "manifest.json"
"""File name of the manifest."""
FORMAT = 2
"""Version of the format of run folders."""
MAX_BYTES = 1 << 26
"""Maximum size of a manifest in bytes."""


def relative_name(name: str) -> str:
    """Validate a file name in a run: a relative path with slashes, not hidden. Raises ValueError for any other path."""
    path = PurePosixPath(name)
    if (
        name == NAME or name.startswith(".") or name != str(path) or path.is_absolute()
        or {"..", "."} & {*path.parts} or {"\\", ":"} & {*name}
    ):  # fmt: skip
        raise ValueError(f"{name!r} is not the name of a file in a run")
    return name


RelativeName = Annotated[str, AfterValidator(relative_name)]
"""Path of a file relative to the run's folder."""


class StrictModel(BaseModel):
    """Base class of immutable models that reject unknown fields and do not coerce types."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Entry(StrictModel):
    """Size in bytes and SHA-256 of a file."""

    bytes: int
    sha256: str


class Manifest(StrictModel):
    """List of the files of a run. A commit takes effect at the moment the manifest is replaced.

    A commit writes new contents to the staging folder, then writes the manifest that lists them (`pending`: name ->
    staged file), and then moves them to their final paths; while a staged file exists, it is the valid version. Files
    in `removed` may still exist. While a run is being written, its journal is not in `files`; instead, `rows` is the
    number of rows that the journal must at least contain.
    """

    format: Literal[2] = 2
    sequence: int = 0
    title: str = ""
    created: str = ""
    changed: str = ""
    finished: bool = False
    files: dict[RelativeName, Entry] = {}
    rows: int = 0
    pending: dict[RelativeName, RelativeName] = {}
    removed: list[RelativeName] = []

    def text(self) -> str:
        """Return the content of the manifest file: sorted JSON with its own hash."""
        return sealed(self.model_dump())


def sealed(data: Mapping[str, Any]) -> str:
    """Serialise data to JSON that contains its own hash."""
    body = json.dumps(data, indent=1, sort_keys=True)
    return json.dumps({**data, "~sha256": sha256(body.encode()).hexdigest()}, indent=1, sort_keys=True) + "\n"


def unsealed(content: bytes) -> dict[str, Any]:
    """Parse JSON that contains its own hash. Raises ValueError unless the bytes are exactly what `sealed` writes."""
    try:
        data = json.loads(content)
        data.pop("~sha256")
        if sealed(data).encode() == content:
            return dict(data)
    except (TypeError, AttributeError, KeyError, RecursionError):
        pass
    raise ValueError("it was changed after it was written")


def read(folder: Path) -> Manifest:
    """Read the manifest of a run. Raises ArchError: A1801 (not a run), A1802 (damaged manifest), A1809 (other format
    version)."""
    path = folder / NAME
    try:
        content = read_bytes(path, MAX_BYTES)
    except FileNotFoundError:
        if not folder.is_dir():
            raise fail("A1801", f"there is no folder {folder}", None, suggest_file(folder)) from None
        hint = "the search was stopped before it began: start it again" if (folder / ".lock").exists() else None
        raise fail("A1801", f"{folder} is not a run: it has no {NAME}", None, hint) from None
    except OSError as error:
        raise fail("A1802", f"{path} cannot be read: {describe_error(error)}") from None
    hint = "put back a copy of this file; without it, no file of the folder can be verified"
    damaged = fail("A1802", f"{path} was changed after it was written", None, hint)
    try:
        data = unsealed(content)
    except ValueError:
        raise damaged from None
    if data.get("format") != FORMAT:
        raise fail("A1809", f"{folder} was written by another version of archir (format {data.get('format')})")
    try:
        return Manifest.model_validate(data)
    except ValidationError:
        raise damaged from None

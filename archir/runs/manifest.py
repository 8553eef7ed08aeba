"""The manifest of a run: which files it has, their SHA-256, and what is being changed; it protects itself, too."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from archir.diagnostics.errors import fail
from archir.utils.files import read_bytes

NAME = "manifest.json"
FORMAT = 1
MOST_BYTES = 1 << 26


def inside(name: str) -> str:
    """A file's name below the run's folder, with slashes; anything else is a ValueError."""
    path = PurePosixPath(name)
    own = name == NAME or name.startswith(".")
    if own or name != str(path) or path.is_absolute() or {"..", "."} & set(path.parts) or "\\" in name or ":" in name:
        raise ValueError(f"{name!r} is no name of a file in a run")
    return name


Inside = Annotated[str, AfterValidator(inside)]


class _Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Entry(_Frozen):
    """What a file holds; of a file that grows, its first `bytes` bytes."""

    bytes: int
    sha256: str


class Anchor(_Frozen):
    """How many rows the journal had, and the hash of the last of them."""

    rows: int = 0
    head: str = ""


class Manifest(_Frozen):
    """What a folder holds. Writing the manifest is the moment at which files change, all of them at once.

    New contents lie in the staging folder when the manifest that names them is written (`pending`: name -> staged
    file) and are moved after it; a staged file that is there is what counts. What is `removed` may still be there.
    While a run is written, its journal is no entry of `files`: `journal` says what it holds at least.
    """

    format: Literal[1] = 1
    sequence: int = 0
    title: str = ""
    created: str = ""
    changed: str = ""
    finished: bool = False
    files: dict[Inside, Entry] = {}
    growing: dict[Inside, Entry] = {}
    journal: Anchor = Anchor()
    pending: dict[Inside, Inside] = {}
    removed: list[Inside] = []

    def text(self) -> str:
        """The manifest's file: one text for one manifest, its hash at the end."""
        return sealed(self.model_dump())


def sealed(data: Mapping[str, Any]) -> str:
    """JSON with its own hash."""
    body = json.dumps(data, indent=1, sort_keys=True)
    return json.dumps({**data, "~sha256": sha256(body.encode()).hexdigest()}, indent=1, sort_keys=True) + "\n"


def unsealed(found: bytes) -> dict[str, Any]:
    """The data of JSON with its own hash. ValueError unless it is, to the byte, what `sealed` makes of them."""
    try:
        data = json.loads(found)
        data.pop("~sha256")
        if sealed(data).encode() == found:
            return dict(data)
    except (TypeError, AttributeError, KeyError, RecursionError):
        pass
    raise ValueError("it was changed after it was written")


def read(folder: Path) -> Manifest:
    """The manifest of a run. Raises ArchError: A1801 (no run), A1802 (damaged manifest), A1809 (other version)."""
    path = folder / NAME
    try:
        found = read_bytes(path, MOST_BYTES)
    except FileNotFoundError:
        hint = "it was stopped before it began: begin it again" if (folder / ".lock").exists() else None
        raise fail("A1801", f"{folder} is no run: it has no {NAME}", None, hint) from None
    except OSError as error:
        raise fail("A1802", f"{path} cannot be read: {error.strerror}") from None
    hint = "put back a copy of this file; without it, nothing in the folder can be told from damage"
    damaged = fail("A1802", f"{path} was changed after it was written", None, hint)
    try:
        data = unsealed(found)
    except ValueError:
        raise damaged from None
    if data.get("format") != FORMAT:
        raise fail("A1809", f"{folder} was written by another version of archir (format {data.get('format')})")
    try:
        return Manifest.model_validate(data)
    except ValidationError:
        raise damaged from None

"""The hashes of what a training wrote, in a file of its folder that protects itself: what is read is what was written.

A folder of a search has its manifest for that; here, a file is written at a time, and the hashes after it.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from archir.diagnostics.errors import fail
from archir.runs import manifest
from archir.runs.folder import entry
from archir.runs.manifest import Entry, Inside
from archir.utils.files import read_bytes, write_atomic

NAME = "hashes.json"
MOST_BYTES = 1 << 26
"""Bytes of a file that is parsed: hashes, a network, an architecture."""

_HINT = "put back a copy of the file, or train again in another folder"


class Hashes(BaseModel):
    """What the files of a folder hold."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
    files: dict[Inside, Entry]


def write(folder: Path, names: Iterable[str]) -> None:
    """Write down what these files hold."""
    found = Hashes(files={name: entry(folder / name) for name in names})
    write_atomic(folder / NAME, manifest.sealed(found.model_dump()).encode())


def read(folder: Path) -> dict[str, Entry]:
    """What was written down of a folder; nothing, if nothing was. Raises ArchError (A1205) if that was changed."""
    path = folder / NAME
    try:
        return Hashes.model_validate(manifest.unsealed(read_bytes(path, MOST_BYTES))).files
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise fail("A1205", f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, ValidationError):
        raise fail("A1205", f"{path} was changed after it was written", None, _HINT) from None


def require(folder: Path, names: Iterable[str]) -> None:
    """Raise ArchError (A1205) unless these files hold what was written down of them."""
    known = read(folder)
    for name in names:
        try:
            right = known.get(name) == entry(folder / name)
        except OSError as error:
            raise fail("A1205", f"{folder / name} cannot be read: {error.strerror}", None, _HINT) from None
        if not right:
            raise fail("A1205", f"{folder / name} was changed after training: its SHA-256 differs", None, _HINT)


def require_as_written(path: Path) -> None:
    """Raise ArchError (A1205, A1803) if a file is one of a training or a search, and is not what these wrote."""
    if path.name in read(path.parent):
        require(path.parent, [path.name])
    for folder in list(path.absolute().parents)[:_DEEP]:
        if (folder / manifest.NAME).is_file():
            name = path.absolute().relative_to(folder).as_posix()
            known = manifest.read(folder).files.get(name)
            if known is not None and path.is_file() and entry(path) != known:
                raise fail("A1803", f"{path} was changed after it was written: its SHA-256 differs")
            return


_DEEP = 4
"""Folders above a file in which a manifest may be that knows it."""

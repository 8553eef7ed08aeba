"""Hashes of the files that a training wrote, stored in `hashes.json` in the folder of the training.

`hashes.json` also contains its own hash. Searches use a manifest with atomic updates instead. In the folder of a
training, files are written one at a time, followed by their hashes.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pydantic import ValidationError

from archir.diagnostics.errors import describe_error, fail
from archir.runs import manifest
from archir.runs.folder import entry_of_file
from archir.runs.manifest import Entry, RelativeName, StrictModel
from archir.utils.files import read_bytes, write_atomic

NAME = "hashes.json"
"""Name of the file with the hashes, by which the folder of a training is recognised."""
TRAINING = "training.json"
"""Name of the file with the results of a finished training."""
MAX_BYTES = 1 << 26
"""Maximum size in bytes of a file to parse: `hashes.json`, a network, or an architecture."""

_HINT = "put back a copy of the file, or train again in another folder"


class Hashes(StrictModel):
    """Manifest entries (size and SHA-256) of the files of a folder, by name."""

    files: dict[RelativeName, Entry]


def write(folder: Path, names: Iterable[str]) -> None:
    """Write the hashes of the named files to `hashes.json` in the folder."""
    hashes = Hashes(files={name: entry_of_file(folder / name) for name in names})
    write_atomic(folder / NAME, manifest.sealed(hashes.model_dump()).encode())


def read(folder: Path) -> dict[str, Entry]:
    """Return the hashes of a folder; {} if it has none. Raises ArchError (A1205) if `hashes.json` was changed."""
    path = folder / NAME
    try:
        return Hashes.model_validate(manifest.unsealed(read_bytes(path, MAX_BYTES))).files
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise fail("A1205", f"{path} cannot be read: {describe_error(error)}") from None
    except (ValueError, ValidationError):
        raise fail("A1205", f"{path} was changed after it was written", None, _HINT) from None


def require_unchanged(folder: Path, names: Iterable[str]) -> None:
    """Raise ArchError (A1205) unless the named files match their recorded hashes."""
    entries = read(folder)
    for name in names:
        try:
            intact = entries.get(name) == entry_of_file(folder / name)
        except OSError as error:
            raise fail("A1205", f"{folder / name} cannot be read: {describe_error(error)}", None, _HINT) from None
        if not intact:
            raise fail("A1205", f"{folder / name} was changed after training: its SHA-256 differs", None, _HINT)


def require_unchanged_file(path: Path) -> None:
    """Raise ArchError (A1205, A1803) if a file belongs to a training or a run and does not match its recorded hash."""
    if path.name in read(path.parent):
        require_unchanged(path.parent, [path.name])
    for folder in list(path.absolute().parents)[:_MAX_PARENTS]:
        if (folder / manifest.NAME).is_file():
            name = path.absolute().relative_to(folder).as_posix()
            recorded = manifest.read(folder).files.get(name)
            if recorded is not None and path.is_file() and entry_of_file(path) != recorded:
                raise fail("A1803", f"{path} was changed after it was written: its SHA-256 differs")
            return


_MAX_PARENTS = 4
"""Maximum number of parent folders in which the manifest for a file is searched."""

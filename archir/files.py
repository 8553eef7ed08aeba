"""Writing files so that they are whole or not there, and telling whether one was changed."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

from archir.errors import fail

Bytes: TypeAlias = bytes | memoryview


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """What the system refuses while `path` is written is a diagnostic. Raises ArchError (A0809)."""
    try:
        yield
    except OSError as error:
        above = next((folder for folder in path.parents if folder.exists() and not folder.is_dir()), None)
        reason = error.strerror or str(error) if above is None else f"{above} is no folder"
        raise fail("A0809", f"cannot write {path}: {reason}") from None


def require_writable(path: Path) -> None:
    """Raise ArchError (A0809) if a file could not be written there, before the work is done whose result it will be."""
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=path.parent).close()


def write_atomic(path: Path, data: Bytes | Iterable[Bytes]) -> None:
    """Write a file in one step: at any moment, and after any crash, there is the old content or the new one.

    Raises ArchError (A0809) if that cannot be.
    """
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(path, data)


def _write(path: Path, data: Bytes | Iterable[Bytes]) -> None:
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.writelines([data] if isinstance(data, bytes | memoryview) else data)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


@contextmanager
def drafts(path: Path) -> Iterator[Path]:
    """A path of the same name in an empty folder beside it. Files that are made there take the place of those of the
    same names beside `path` at the end; if anything is raised before, nothing has changed. Raises ArchError (A0809)."""
    require_writable(path)
    with writing(path), tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as folder:
        draft = Path(folder) / path.name
        yield draft
        made = sorted(Path(folder).iterdir(), key=lambda file: file == draft)
        for file in made:
            file.chmod(0o644)
            with file.open("rb+") as stream:
                os.fsync(stream.fileno())
        for file in made:  # what belongs to the file that was asked for comes before it
            os.replace(file, path.parent / file.name)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Have the names in a folder on the disk."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def sha256(path: Path) -> str:
    """The SHA-256 of a file's content, in hexadecimal."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()

"""Folder with atomic updates: at any moment, and after any crash, its files are either all old or all new."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from io import RawIOBase
from pathlib import Path
from typing import Any, TypeAlias

from archir.diagnostics.errors import fail
from archir.runs import lock, manifest
from archir.runs.manifest import Entry, Manifest
from archir.utils.files import open_regular, read_bytes, report_write_errors, sync_folder, write_atomic

Content: TypeAlias = bytes | str | Path
"""Content of a file: bytes, text, or the path of a file to copy."""

JOURNAL = "metrics.sqlite"
"""File name of the journal."""
STAGING = ".staging"
"""Name of the subfolder that holds new file contents until they replace the old ones."""
_CHUNK = 1 << 20
"""Size in bytes of the chunks in which files are read."""
LIVE_JOURNAL = {JOURNAL + suffix for suffix in ("", "-wal", "-shm")}
"""Files of a journal that is open for writing.

The manifest has no SHA-256 of these files, since every row has its own hash.
"""


@dataclass(frozen=True)
class Problem:
    """Problem with a file: diagnostic code, and text that follows the file name in the message."""

    file: str
    code: str
    text: str


class Folder:
    """Folder whose files are listed, with size and SHA-256, in a manifest."""

    def __init__(self, path: Path, manifest: Manifest) -> None:
        self.path, self.manifest = path, manifest

    def commit(self, files: Mapping[str, Content], remove: Iterable[str] = (), **changes: Any) -> None:
        """Atomically write files, remove others, and change manifest fields.

        `changes` are the new values of manifest fields. If they include `entries`, the commit starts from this list of
        files instead of the manifest's list.
        """
        self.apply()
        old, sequence = self.manifest, self.manifest.sequence + 1
        staged = {manifest.relative_name(name): f"{sequence}-{index}" for index, name in enumerate(files)}
        added = {name: self._stage(staged[name], content) for name, content in files.items()}
        if added:
            sync_folder(self.path / STAGING)
        removed = sorted(set(remove) - added.keys())
        kept = {name: entry for name, entry in changes.pop("entries", old.files).items() if name not in removed}
        listed = {
            name: entry for name, entry in (kept | added).items() if name not in changes.get("growing", old.growing)
        }
        changes |= {"files": listed, "pending": staged, "removed": removed, "sequence": sequence}
        new = old.model_copy(update=changes)
        write_atomic(self.path / manifest.NAME, new.text().encode())
        self.manifest = new
        self.apply()

    def apply(self) -> None:
        """Move pending files to their final paths and delete the removed ones; safe to repeat after a crash."""
        changed_folders = set()
        for name, staged in self.manifest.pending.items():
            if (source := self.path / STAGING / staged).exists():
                target = self.path / name
                with report_write_errors(target):
                    target.parent.mkdir(parents=True, exist_ok=True)
                    os.replace(source, target)
                changed_folders |= {folder for folder in target.parents if folder.is_relative_to(self.path)}
        for folder in changed_folders:
            sync_folder(folder)
        for name in self.manifest.removed:
            (self.path / name).unlink(missing_ok=True)

    def _stage(self, name: str, content: Content) -> Entry:
        """Write a file to the staging folder and flush it to disk; return its manifest entry."""
        hashed, size = sha256(), 0
        with report_write_errors(self.path / name):
            (self.path / STAGING).mkdir(parents=True, exist_ok=True)
            stream = (self.path / STAGING / name).open("wb", buffering=0)
        with stream:
            for part in _parts(content):
                hashed.update(part)
                with report_write_errors(self.path / name):
                    size += _write_all(stream, part)
            with report_write_errors(self.path / name):
                os.fsync(stream.fileno())
        return Entry(bytes=size, sha256=hashed.hexdigest())

    def remove_leftovers(self) -> None:
        """Remove staged files and temporary manifests left by interrupted commits."""
        shutil.rmtree(self.path / STAGING, ignore_errors=True)
        for path in self.path.glob(f".{manifest.NAME}.*"):
            path.unlink(missing_ok=True)

    def location(self, name: str) -> Path:
        """Return the path where a file's content is currently stored: in the staging folder, or its final path."""
        staged = self.manifest.pending.get(name)
        if staged is not None and (path := self.path / STAGING / staged).exists():
            return path
        return self.path / name

    def content(self, name: str) -> bytes:
        """Return the content of a listed file. Raises ArchError (A1803) if it is unreadable or its SHA-256 differs."""
        path, entry = self.location(name), self.manifest.files[name]
        try:
            data = read_bytes(path, entry.bytes)
        except OSError as error:
            if self.location(name) != path:
                return self.content(name)
            raise fail("A1803", f"{path} cannot be read: {error.strerror}") from None
        if entry_of_bytes(data) != entry:
            raise fail("A1803", f"{path} was changed after it was written: its SHA-256 differs")
        return data

    def problems(self) -> list[Problem]:
        """Return a problem for each file that was changed, is missing, or does not belong to the run."""
        listed = [(name, entry, False) for name, entry in self.manifest.files.items()]
        listed += [(name, entry, True) for name, entry in self.manifest.growing.items()]
        problems = [problem for item in listed if (problem := self._problem(*item))]
        return problems + [Problem(name, "A1805", "does not belong to the run") for name in self._unlisted()]

    def _problem(self, name: str, entry: Entry, grows: bool) -> Problem | None:
        """Return the problem with a file, or None if it is intact.

        The check is repeated if a writer moved the file in the meantime.
        """
        path = self.location(name)
        problem = _problem(name, path, entry, grows)
        moved = self.location(name) != path  # moved by a writer in the meantime
        return self._problem(name, entry, grows) if problem and moved else problem

    def _unlisted(self) -> Iterator[str]:
        """Yield the names of all files that the manifest does not list."""
        current = self.manifest
        expected = {*current.files, *current.growing, *current.removed, manifest.NAME, lock.NAME}
        if JOURNAL not in current.files:
            expected |= LIVE_JOURNAL
        elif not _size(self.path / f"{JOURNAL}-wal"):
            expected |= LIVE_JOURNAL  # somebody reads the finished journal: its WAL is empty
        for parent, folders, names in os.walk(self.path):
            base = Path(parent)
            if base == self.path:
                folders[:] = [name for name in folders if name != STAGING]
            links = [name for name in folders if (base / name).is_symlink()]
            for name in sorted(names + links):
                file = (base / name).relative_to(self.path).as_posix()
                if file not in expected and not file.startswith(f".{manifest.NAME}."):
                    yield file


class AppendedFile:
    """Append-only file. The manifest entry covers its first `bytes` bytes; opening the file truncates it to that
    size."""

    def __init__(self, path: Path, entry: Entry) -> None:
        with open_regular(path) as stream:
            self._hash = sha256(stream.read(entry.bytes))
        os.truncate(path, entry.bytes)
        self._path, self._bytes = path, entry.bytes
        self._stream = path.open("ab", buffering=0)

    def append(self, data: bytes) -> None:
        """Append data."""
        with report_write_errors(self._path):
            _write_all(self._stream, data)
        self._hash.update(data)
        self._bytes += len(data)

    def sync(self) -> Entry:
        """Flush the file to disk; return its manifest entry."""
        with report_write_errors(self._path):
            os.fsync(self._stream.fileno())
        return Entry(bytes=self._bytes, sha256=self._hash.hexdigest())

    def close(self) -> None:
        """Close the file."""
        with suppress(OSError):
            self._stream.close()


def entry_of_file(path: Path) -> Entry:
    """Return the manifest entry (size and SHA-256) of a file."""
    size = path.stat().st_size
    return Entry(bytes=size, sha256=_digest(path, size))


def entry_of_bytes(data: bytes) -> Entry:
    """Return the manifest entry of a file with the given content."""
    return Entry(bytes=len(data), sha256=sha256(data).hexdigest())


def _problem(name: str, path: Path, entry: Entry, grows: bool) -> Problem | None:
    """Compare a file with its manifest entry; return the problem, or None if the file is intact.

    With `grows`, the file may be longer than its entry says.
    """
    if not os.path.lexists(path):
        return Problem(name, "A1804", "is missing")
    if path.is_symlink() or not path.is_file():
        return Problem(name, "A1803", "is no longer a regular file")
    try:
        size, digest = path.stat().st_size, _digest(path, entry.bytes)
    except OSError as error:
        return Problem(name, "A1803", f"cannot be read: {error.strerror}")
    if size < entry.bytes:
        return Problem(name, "A1803", f"was cut: {size} of {entry.bytes} bytes are left")
    if size > entry.bytes and not grows:
        return Problem(name, "A1803", f"was changed after it was written: {size} bytes instead of {entry.bytes}")
    if digest != entry.sha256:
        return Problem(name, "A1803", "was changed after it was written: its SHA-256 differs")
    return None


def _write_all(stream: RawIOBase, data: bytes) -> int:
    """Write all data to an unbuffered stream; return its size in bytes."""
    remaining = memoryview(data)
    while remaining:
        remaining = remaining[stream.write(remaining) or 0 :]
    return len(data)


def _size(path: Path) -> int:
    """Return the size of a file in bytes; 0 if it does not exist."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _parts(content: Content) -> Iterator[bytes]:
    """Yield the content in chunks."""
    if isinstance(content, Path):
        with open_regular(content) as stream:
            while part := stream.read(_CHUNK):
                yield part
    else:
        yield content.encode() if isinstance(content, str) else content


def _digest(path: Path, size: int) -> str:
    """Return the SHA-256 of the first `size` bytes of a file."""
    hashed = sha256()
    with open_regular(path) as stream:
        while size > 0 and (part := stream.read(min(size, _CHUNK))):
            hashed.update(part)
            size -= len(part)
    return hashed.hexdigest()

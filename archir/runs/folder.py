"""A folder whose files change all at once: at any moment, and after any crash, it has the old ones or the new ones."""

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
from archir.utils.files import read_bytes, reading, sync_folder, write_atomic, writing

Content: TypeAlias = bytes | str | Path
"""What a file shall hold: bytes, text, or what another file holds."""

JOURNAL = "metrics.sqlite"
STAGING = ".staging"
_CHUNK = 1 << 20
LIVE = {JOURNAL + suffix for suffix in ("", "-wal", "-shm")}
"""The files of a journal that is being written; what they hold is verified row by row."""


@dataclass(frozen=True)
class Problem:
    """What is wrong with a file."""

    file: str
    code: str
    text: str


class Folder:
    """The files that a manifest lists."""

    def __init__(self, path: Path, manifest: Manifest) -> None:
        self.path, self.manifest = path, manifest

    def commit(self, files: Mapping[str, Content], remove: Iterable[str] = (), **changes: Any) -> None:
        """Write files, remove others and change fields of the manifest, in one step.

        `entries` are the files to go on from, where they are others than the manifest's.
        """
        self.apply()
        old, sequence = self.manifest, self.manifest.sequence + 1
        staged = {manifest.inside(name): f"{sequence}-{place}" for place, name in enumerate(files)}
        made = {name: self._stage(staged[name], content) for name, content in files.items()}
        if made:
            sync_folder(self.path / STAGING)
        removed = sorted(set(remove) - made.keys())
        kept = {name: one for name, one in changes.pop("entries", old.files).items() if name not in removed}
        held = {name: one for name, one in (kept | made).items() if name not in changes.get("growing", old.growing)}
        changes |= {"files": held, "pending": staged, "removed": removed, "sequence": sequence}
        new = old.model_copy(update=changes)
        write_atomic(self.path / manifest.NAME, new.text().encode())
        self.manifest = new
        self.apply()

    def apply(self) -> None:
        """Move what the manifest says is pending; again, if that was interrupted."""
        changed = set()
        for name, staged in self.manifest.pending.items():
            if (source := self.path / STAGING / staged).exists():
                target = self.path / name
                with writing(target):
                    target.parent.mkdir(parents=True, exist_ok=True)
                    os.replace(source, target)
                changed |= {folder for folder in target.parents if folder.is_relative_to(self.path)}
        for folder in changed:
            sync_folder(folder)
        for name in self.manifest.removed:
            (self.path / name).unlink(missing_ok=True)

    def _stage(self, name: str, content: Content) -> Entry:
        hashed, size = sha256(), 0
        with writing(self.path / name):
            (self.path / STAGING).mkdir(parents=True, exist_ok=True)
            stream = (self.path / STAGING / name).open("wb", buffering=0)
        with stream:
            for part in _parts(content):
                hashed.update(part)
                with writing(self.path / name):
                    size += _written(stream, part)
            with writing(self.path / name):
                os.fsync(stream.fileno())
        return Entry(bytes=size, sha256=hashed.hexdigest())

    def tidy(self) -> None:
        """Remove what commits that were killed have left."""
        shutil.rmtree(self.path / STAGING, ignore_errors=True)
        for left in self.path.glob(f".{manifest.NAME}.*"):
            left.unlink(missing_ok=True)

    def place(self, name: str) -> Path:
        """Where the content of a file is."""
        staged = self.manifest.pending.get(name)
        if staged is not None and (path := self.path / STAGING / staged).exists():
            return path
        return self.path / name

    def content(self, name: str) -> bytes:
        """What a listed file holds. Raises ArchError (A1803) if that is not what was written."""
        path, entry = self.place(name), self.manifest.files[name]
        try:
            data = read_bytes(path, entry.bytes)
        except OSError as error:
            if self.place(name) != path:
                return self.content(name)
            raise fail("A1803", f"{path} cannot be read: {error.strerror}") from None
        if entry_of(data) != entry:
            raise fail("A1803", f"{path} was changed after it was written: its SHA-256 differs")
        return data

    def problems(self) -> list[Problem]:
        """Every file that is not as it was written, that is missing, or that does not belong here."""
        listed = [(name, entry, False) for name, entry in self.manifest.files.items()]
        listed += [(name, entry, True) for name, entry in self.manifest.growing.items()]
        found = [problem for one in listed if (problem := self._problem(*one))]
        return found + [Problem(name, "A1805", "does not belong to the run") for name in self._foreign()]

    def _problem(self, name: str, entry: Entry, grows: bool) -> Problem | None:
        path = self.place(name)
        found = _problem(name, path, entry, grows)
        moved = self.place(name) != path  # by somebody who writes
        return self._problem(name, entry, grows) if found and moved else found

    def _foreign(self) -> Iterator[str]:
        now = self.manifest
        known = {*now.files, *now.growing, *now.removed, manifest.NAME, lock.NAME}
        if JOURNAL not in now.files:
            known |= LIVE
        elif not _size(self.path / f"{JOURNAL}-wal"):
            known |= LIVE  # somebody looks into the finished file, and has written nothing
        for parent, folders, names in os.walk(self.path):
            base = Path(parent)
            if base == self.path:
                folders[:] = [name for name in folders if name != STAGING]
            links = [name for name in folders if (base / name).is_symlink()]
            for name in sorted(names + links):
                file = (base / name).relative_to(self.path).as_posix()
                if file not in known and not file.startswith(f".{manifest.NAME}."):
                    yield file


class Growing:
    """A file that is appended to; its manifest's entry is of what it held when that was written."""

    def __init__(self, path: Path, entry: Entry) -> None:
        with reading(path) as stream:
            self._hash = sha256(stream.read(entry.bytes))
        os.truncate(path, entry.bytes)
        self._path, self._bytes = path, entry.bytes
        self._stream = path.open("ab", buffering=0)

    def append(self, data: bytes) -> None:
        """Write at the end."""
        with writing(self._path):
            _written(self._stream, data)
        self._hash.update(data)
        self._bytes += len(data)

    def sync(self) -> Entry:
        """What the file holds, on the disk."""
        with writing(self._path):
            os.fsync(self._stream.fileno())
        return Entry(bytes=self._bytes, sha256=self._hash.hexdigest())

    def close(self) -> None:
        """Write no more."""
        with suppress(OSError):
            self._stream.close()


def entry(path: Path) -> Entry:
    """The entry of a file as it is."""
    size = path.stat().st_size
    return Entry(bytes=size, sha256=_digest(path, size))


def entry_of(data: bytes) -> Entry:
    """The entry of a file that holds some bytes."""
    return Entry(bytes=len(data), sha256=sha256(data).hexdigest())


def _problem(name: str, path: Path, entry: Entry, grows: bool) -> Problem | None:
    if not os.path.lexists(path):
        return Problem(name, "A1804", "is missing")
    if path.is_symlink() or not path.is_file():
        return Problem(name, "A1803", "is no file any more")
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


def _written(stream: RawIOBase, data: bytes) -> int:
    """Write all of some bytes; how many they are."""
    left = memoryview(data)
    while left:
        left = left[stream.write(left) or 0 :]
    return len(data)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _parts(content: Content) -> Iterator[bytes]:
    if isinstance(content, Path):
        with reading(content) as stream:
            while part := stream.read(_CHUNK):
                yield part
    else:
        yield content.encode() if isinstance(content, str) else content


def _digest(path: Path, size: int) -> str:
    hashed = sha256()
    with reading(path) as stream:
        while size > 0 and (part := stream.read(min(size, _CHUNK))):
            hashed.update(part)
            size -= len(part)
    return hashed.hexdigest()

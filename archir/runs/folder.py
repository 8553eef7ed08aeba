"""Folder with atomic updates: at any moment, and after any crash, its files are either all old or all new."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeAlias

from archir.diagnostics.errors import describe_error, fail
from archir.runs import manifest
from archir.runs.manifest import Entry, Manifest
from archir.utils import files as disk
from archir.utils.files import open_regular, read_bytes, report_write_errors, sync_folder, write_atomic

Content: TypeAlias = bytes | str | Path
"""Content of a file: bytes, text, or the path of a file to copy."""

RECIPE, OVERRIDES, ENVIRONMENT = "recipe.toml", "overrides.json", "environment.json"
"""Names of the recipe, of the settings that override it, and of the description of machine and packages."""
SPACE = "space"
"""Name of the subfolder with the files of the spaces."""
EXTENSIONS = "extensions.json"
"""Name of the file that lists the extensions of a run."""
JOURNAL = "metrics.sqlite"
"""File name of the journal."""
WEIGHTS = "weights.safetensors"
"""Name of the file with the network weights that result from a phase."""
ARCHITECTURE, ALPHAS, NETWORK = "architecture.json", "alphas.json", "network.json"
"""Names of the files with the architecture, the architecture parameters, and the network without weights that result
from a phase or a training."""
SPLITS, FRONT = "splits.json", "front.json"
"""Names of the files of a phase with its division of the samples, and with its Pareto front."""
BEST, SUMMARY = "best.json", "summary.json"
"""Names of the files of a finished run with its last architecture, and with the results of its phases."""
SUPERNET = "supernet.json"
"""Name of a file that a finished phase has if and only if its result is a supernet."""
OBJECTIVE = "objective.json"
"""Name of the file that lists the metrics a phase measures, and those by which it compares networks."""
CHECKPOINT_FILE = re.compile(r"phases/(?P<phase>[^/]+)/checkpoint-(?P<number>\d+)\.")
"""Regular expression for the file names of checkpoints."""
STAGING = ".staging"
"""Name of the subfolder that holds new file contents until they replace the old ones."""
_CHUNK = 1 << 20
"""Size in bytes of the chunks in which files are read."""


def copied_scores_path(name: str) -> str:
    """Return the path, within a run, of the run's copy of a scores file that a phase names."""
    return f"scores/{sha256(name.encode()).hexdigest()[:16]}.json"


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
        changes |= {"files": kept | added, "pending": staged, "removed": removed, "sequence": sequence}
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
                size += len(part)
                remaining = memoryview(part)
                with report_write_errors(self.path / name):
                    while remaining:
                        remaining = remaining[stream.write(remaining) or 0 :]
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
            raise fail("A1803", f"{path} cannot be read: {describe_error(error)}") from None
        if entry_of_bytes(data) != entry:
            raise fail("A1803", f"{path} was changed after it was written: its SHA-256 differs")
        return data

    def problems(self) -> list[Problem]:
        """Return a problem for each file that was changed or is missing."""
        problems = [problem for name, entry in self.manifest.files.items() if (problem := self._problem(name, entry))]
        wal = f"{JOURNAL}-wal"
        if JOURNAL in self.manifest.files and (self.path / wal).is_file() and (self.path / wal).stat().st_size:
            problems.append(Problem(wal, "A1803", "was written after the run was closed"))
        return problems

    def _problem(self, name: str, entry: Entry) -> Problem | None:
        """Return the problem with a file, or None if it is intact.

        The check is repeated if a writer moved the file in the meantime.
        """
        path = self.location(name)
        difference = _difference(path, entry)
        if difference and self.location(name) != path:
            return self._problem(name, entry)
        return Problem(name, *difference) if difference else None


def entry_of_file(path: Path) -> Entry:
    """Return the manifest entry (size and SHA-256) of a file."""
    return Entry(bytes=path.stat().st_size, sha256=disk.sha256(path))


def entry_of_bytes(data: bytes) -> Entry:
    """Return the manifest entry of a file with the given content."""
    return Entry(bytes=len(data), sha256=sha256(data).hexdigest())


def _difference(path: Path, entry: Entry) -> tuple[str, str] | None:
    """Compare a file with its manifest entry; return diagnostic code and problem, or None if the file is intact."""
    if not os.path.lexists(path):
        return "A1804", "is missing"
    if path.is_symlink() or not path.is_file():
        return "A1803", "is no longer a regular file"
    try:
        size = path.stat().st_size
        intact = size == entry.bytes and entry_of_file(path) == entry
    except OSError as error:
        return "A1803", f"cannot be read: {describe_error(error)}"
    if size < entry.bytes:
        return "A1803", f"was cut: {size} of {entry.bytes} bytes are left"
    if size > entry.bytes:
        return "A1803", f"was changed after it was written: {size} bytes instead of {entry.bytes}"
    return None if intact else ("A1803", "was changed after it was written: its SHA-256 differs")


def _parts(content: Content) -> Iterator[bytes]:
    if isinstance(content, Path):
        with open_regular(content) as stream:
            while part := stream.read(_CHUNK):
                yield part
    else:
        yield content.encode() if isinstance(content, str) else content


def checkpoints(files: Iterable[str], phase: str) -> dict[int, list[str]]:
    """Return the file names of each checkpoint of a phase, by checkpoint number."""
    files_by_number: dict[int, list[str]] = {}
    for name in files:
        if (match := CHECKPOINT_FILE.match(name)) and match["phase"] == phase:
            files_by_number.setdefault(int(match["number"]), []).append(name)
    return files_by_number

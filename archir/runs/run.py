"""Creates, opens, resumes and finishes runs, which are the folders of searches."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any

from archir.diagnostics.errors import ArchError, fail
from archir.runs import damage, journal, manifest
from archir.runs.folder import JOURNAL, STAGING, AppendedFile, Content, Folder, entry_of_bytes, entry_of_file
from archir.runs.journal import Journal
from archir.runs.lock import NAME as LOCK
from archir.runs.lock import Lock
from archir.runs.manifest import Manifest
from archir.runs.phase import Phase
from archir.runs.report import tensorboard

RECIPE, ENVIRONMENT, EVENTS = "recipe.toml", "environment.json", "tensorboard/"
"""Names of the recipe file and the environment file, and the path prefix of TensorBoard files."""
_MAX_ATTEMPTS = 50
"""Maximum number of attempts to verify a run that changes during verification."""


class Run:
    """Folder of a search. `create` and `resume` open it for writing, `open` read-only."""

    def __init__(self, files: Folder, journal: Journal, lock: Lock | None = None) -> None:
        self.files, self.journal, self._lock = files, journal, lock
        self.tensorboard = False
        """Whether per-epoch metrics are also written to TensorBoard files, which requires the extra `tensorboard`."""
        self._events: dict[str, AppendedFile] = {}

    @classmethod
    def create(
        cls, folder: Path | str, title: str, inputs: Mapping[str, Content], environment: Mapping[str, Any]
    ) -> Run:
        """Create a run with its input files, the recipe and spaces. Raises ArchError: A1807 (in use), A1808 (folder not
        empty)."""
        path = Path(folder)
        _require_empty(path)
        lock = Lock(path)
        try:
            _require_empty(path)
            files = Folder(path, Manifest(title=title, created=_now()))
            files.remove_leftovers()
            contents = {**inputs, ENVIRONMENT: json.dumps(environment, indent=1) + "\n", JOURNAL: journal.empty()}
            files.commit(contents, changed=_now())
            return cls._writable(files, lock)
        except BaseException:
            lock.release()
            raise

    @classmethod
    def open(cls, folder: Path | str) -> Run:
        """Open a run read-only, even while another process writes it. Raises ArchError (A1801 to A1806) if it is
        damaged."""
        path = Path(folder)
        for attempt in range(_MAX_ATTEMPTS):
            current = manifest.read(path)
            files = Folder(path, current)
            try:
                damage.require_intact(files)
                return cls(files, journal.read(path, current.journal, JOURNAL in current.files))
            except ArchError:
                if attempt + 1 == _MAX_ATTEMPTS or manifest.read(path) == current:
                    raise
                time.sleep(0.01 * attempt)
        raise AssertionError("the last attempt returns or raises")

    @classmethod
    def resume(cls, folder: Path | str, fall_back: bool = False) -> Run:
        """Open a run for writing in order to continue it; an interrupted commit is completed or undone.

        With `fall_back`, damaged files that the run can do without are removed first: the last checkpoint if there is
        an earlier one, and files that can be regenerated. Raises ArchError (A1801 to A1807).
        """
        path = Path(folder)
        manifest.read(path)
        lock = Lock(path)
        try:
            files = Folder(path, manifest.read(path))
            undone = damage.remove_damaged(files) if fall_back else set()
            damage.require_intact(files)
            files.apply()
            files.remove_leftovers()
            if not files.manifest.journal.rows and not (path / JOURNAL).exists():
                files.commit({JOURNAL: journal.empty()})
            run = cls._writable(files, lock)
            for name in undone:
                run.phase(name).reopen()
            return run
        except BaseException:
            lock.release()
            raise

    @classmethod
    def _writable(cls, files: Folder, lock: Lock) -> Run:
        """Open the journal of a locked run for writing. The manifest then lists event files as growing, and the journal
        not at all."""
        old = files.manifest
        events = {name: entry for name, entry in old.files.items() if name.startswith(EVENTS)}
        others = {name: entry for name, entry in old.files.items() if name != JOURNAL and name not in events}
        files.commit({}, entries=others, growing={**old.growing, **events})
        return cls(files, journal.write(files.path, old.journal), lock)

    @property
    def folder(self) -> Path:
        """The path of the run's folder."""
        return self.files.path

    @property
    def title(self) -> str:
        """Title given when the run was created."""
        return self.files.manifest.title

    @property
    def finished(self) -> bool:
        """Whether `finish` was called: all phases of the run are done."""
        return self.files.manifest.finished

    def phase(self, name: str) -> Phase:
        """Return a phase by name. Raises ArchError (A1810) if the name is not valid as a folder name."""
        return Phase(name, self)

    def phases(self) -> list[Phase]:
        """Return the phases that have started, in the order in which they did."""
        return [Phase(name, self) for name in self.journal.phases()]

    def content(self, name: str) -> bytes:
        """Return the verified content of a file. Raises ArchError: A1803 (changed), A1804 (the run has no such
        file)."""
        if name not in self.files.manifest.files:
            raise fail("A1804", f"{self.folder} has no file `{name}`")
        return self.files.content(name)

    def write(self, files: Mapping[str, Content]) -> None:
        """Write result files atomically: if interrupted, none of them is written."""
        self.commit(files)

    def finish(self) -> None:
        """Record that the run is complete."""
        self.commit({}, finished=True)

    def commit(self, files: Mapping[str, Content], remove: Iterable[str] = (), **changes: Any) -> None:
        """Change files atomically. The new manifest also covers the journal rows and events recorded so far."""
        assert self._lock is not None, "the run was opened for reading only"
        growing = {**self.files.manifest.growing, **{name: stream.sync() for name, stream in self._events.items()}}
        changes = {"growing": growing, "journal": self.journal.anchor, "changed": _now(), **changes}
        self.files.commit(files, remove, **changes)

    def events(self, phase: str) -> AppendedFile:
        """Return the TensorBoard event file of a phase; create it if it does not exist."""
        name = f"{EVENTS}{phase}/events.out.tfevents.0.archir"
        if name not in self._events:
            growing = self.files.manifest.growing
            if name not in growing:
                header = tensorboard.header(time.time())
                self.commit({name: header}, growing={**growing, name: entry_of_bytes(header)})
            self._events[name] = AppendedFile(self.folder / name, self.files.manifest.growing[name])
        return self._events[name]

    def close(self) -> None:
        """Complete all writes and release the lock; the run can be resumed later."""
        if self._lock is None:
            return
        try:
            self.commit({})
            for events in self._events.values():
                events.close()
            if self.journal.seal():
                current = self.files.manifest
                sealed = {**current.files, **current.growing, JOURNAL: entry_of_file(self.folder / JOURNAL)}
                self.files.commit({}, entries=sealed, growing={})
            self.files.remove_leftovers()
        finally:
            self.journal.close()
            self._lock.release()
            self._lock = None

    @property
    def is_empty(self) -> bool:
        """Whether the run has no results yet: no finished phase, epoch, trial or checkpoint."""
        return not any(
            phase.done is not None or phase.rows() or phase.trials() or phase.last() for phase in self.phases()
        )

    def discard(self) -> None:
        """Close a run that has no results and delete its folder, so that the run can be created again."""
        assert self.is_empty, "the run has results"
        self.close()
        shutil.rmtree(self.folder)

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _require_empty(folder: Path) -> None:
    """Raise ArchError (A1808) unless the folder is missing or empty; lock file and leftovers of commits do not
    count."""
    if (folder / manifest.NAME).exists():
        hint = f"resume it: `archir search --resume {folder}`, or name another folder"
        raise fail("A1808", f"{folder} holds a run already", None, hint)
    try:
        names = [path.name for path in folder.iterdir()]
    except FileNotFoundError:
        return
    except OSError as error:
        raise fail("A1808", f"{folder} cannot be a run's folder: {error.strerror}") from None
    if others := sorted(name for name in names if name not in (LOCK, STAGING) and not name.startswith(".manifest.")):
        raise fail("A1808", f"{folder} is not empty: it holds `{others[0]}`", None, "name another folder")


def _now() -> str:
    """Return the current UTC time in ISO 8601 format."""
    return datetime.now(UTC).isoformat(timespec="seconds")

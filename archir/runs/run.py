"""A run: made, opened, gone on with, ended."""

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
from archir.runs.folder import JOURNAL, STAGING, Content, Folder, Growing, entry, entry_of
from archir.runs.journal import Journal
from archir.runs.lock import NAME as LOCK
from archir.runs.lock import Lock
from archir.runs.manifest import Manifest
from archir.runs.phase import Phase
from archir.runs.report import tensorboard

RECIPE, ENVIRONMENT, EVENTS = "recipe.toml", "environment.json", "tensorboard/"
_RETRIES = 50
"""How often a run that changes while it is being verified is verified again."""


class Run:
    """A folder of a search. `create` and `resume` give one to be written, `open` one to be read."""

    def __init__(self, files: Folder, journal: Journal, lock: Lock | None = None) -> None:
        self.files, self.journal, self._lock = files, journal, lock
        self._events: dict[str, Growing] = {}

    @classmethod
    def create(
        cls, folder: Path | str, title: str, inputs: Mapping[str, Content], environment: Mapping[str, Any]
    ) -> Run:
        """Begin a run with its inputs: recipe and spaces. Raises ArchError: A1807 (in use), A1808 (not empty)."""
        path = Path(folder)
        _require_empty(path)
        lock = Lock(path)
        try:
            _require_empty(path)
            files = Folder(path, Manifest(title=title, created=_now()))
            files.tidy()
            made = {**inputs, ENVIRONMENT: json.dumps(environment, indent=1) + "\n", JOURNAL: journal.empty()}
            files.commit(made, changed=_now())
            return cls._begun(files, lock)
        except BaseException:
            lock.release()
            raise

    @classmethod
    def open(cls, folder: Path | str) -> Run:
        """A run to be read; somebody may write it meanwhile. Raises ArchError (A1801 to A1806) for what is damaged."""
        path = Path(folder)
        for attempt in range(_RETRIES):
            found = manifest.read(path)
            files = Folder(path, found)
            try:
                damage.require_whole(files)
                return cls(files, journal.read(path, found.journal, JOURNAL in found.files))
            except ArchError:
                if attempt + 1 == _RETRIES or manifest.read(path) == found:
                    raise
                time.sleep(0.01 * attempt)
        raise AssertionError("the last attempt returns or raises")

    @classmethod
    def resume(cls, folder: Path | str, fall_back: bool = False) -> Run:
        """A run to go on with: what was half-done is finished or undone.

        With `fall_back`, what is damaged and can be done without is removed first: the last checkpoint where there is
        one before it, and what is written anew. Raises ArchError: A1801 to A1807.
        """
        path = Path(folder)
        manifest.read(path)
        lock = Lock(path)
        try:
            files = Folder(path, manifest.read(path))
            undone = damage.fall_back(files) if fall_back else set()
            damage.require_whole(files)
            files.apply()
            files.tidy()
            if not files.manifest.journal.rows and not (path / JOURNAL).exists():
                files.commit({JOURNAL: journal.empty()})
            run = cls._begun(files, lock)
            for name in undone:
                run.phase(name).reopen()
            return run
        except BaseException:
            lock.release()
            raise

    @classmethod
    def _begun(cls, files: Folder, lock: Lock) -> Run:
        """A run whose journal and events are going to be added to, and so are no files with a known hash."""
        old = files.manifest
        events = {name: one for name, one in old.files.items() if name.startswith(EVENTS)}
        rest = {name: one for name, one in old.files.items() if name != JOURNAL and name not in events}
        files.commit({}, entries=rest, growing={**old.growing, **events})
        return cls(files, journal.write(files.path, old.journal), lock)

    @property
    def folder(self) -> Path:
        """Where the run is."""
        return self.files.path

    @property
    def title(self) -> str:
        """What the run was named when it began."""
        return self.files.manifest.title

    @property
    def finished(self) -> bool:
        """Whether the run came to its end."""
        return self.files.manifest.finished

    def phase(self, name: str) -> Phase:
        """A phase, by name. Raises ArchError (A1810) for a name that cannot be a folder's."""
        return Phase(name, self)

    def phases(self) -> list[Phase]:
        """The phases that have begun, in order."""
        return [Phase(name, self) for name in self.journal.phases()]

    def content(self, name: str) -> bytes:
        """What a file of the run holds. Raises ArchError: A1803 (changed), A1804 (the run has no such file)."""
        if name not in self.files.manifest.files:
            raise fail("A1804", f"{self.folder} has no file `{name}`")
        return self.files.content(name)

    def write(self, files: Mapping[str, Content]) -> None:
        """Write results: all of them or, if this is interrupted, none."""
        self.commit(files)

    def finish(self) -> None:
        """Note that the run came to its end."""
        self.commit({}, finished=True)

    def commit(self, files: Mapping[str, Content], remove: Iterable[str] = (), **changes: Any) -> None:
        """Change files in one step; from then on, the manifest knows what was recorded before, too."""
        assert self._lock is not None, "the run was opened to be read"
        growing = {**self.files.manifest.growing, **{name: one.sync() for name, one in self._events.items()}}
        changes = {"growing": growing, "journal": self.journal.anchor, "changed": _now(), **changes}
        self.files.commit(files, remove, **changes)

    def events(self, phase: str) -> Growing:
        """A phase's file for TensorBoard."""
        name = f"{EVENTS}{phase}/events.out.tfevents.0.archir"
        if name not in self._events:
            known = self.files.manifest.growing
            if name not in known:
                header = tensorboard.header(time.time())
                self.commit({name: header}, growing={**known, name: entry_of(header)})
            self._events[name] = Growing(self.folder / name, self.files.manifest.growing[name])
        return self._events[name]

    def close(self) -> None:
        """End writing, and let others write; the run can be resumed."""
        if self._lock is None:
            return
        try:
            self.commit({})
            for events in self._events.values():
                events.close()
            if self.journal.seal():
                now = self.files.manifest
                sealed = {**now.files, **now.growing, JOURNAL: entry(self.folder / JOURNAL)}
                self.files.commit({}, entries=sealed, growing={})
            self.files.tidy()
        finally:
            self.journal.close()
            self._lock.release()
            self._lock = None

    @property
    def untouched(self) -> bool:
        """Whether nothing has come of it yet: no epoch, no trial, no checkpoint."""
        return not any(one.done is not None or one.rows() or one.trials() or one.last() for one in self.phases())

    def withdraw(self) -> None:
        """Close a run of which nothing has come, and remove its files, so that it can be begun again."""
        assert self.untouched, "something has come of the run"
        self.close()
        shutil.rmtree(self.folder)

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _require_empty(folder: Path) -> None:
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
    return datetime.now(UTC).isoformat(timespec="seconds")

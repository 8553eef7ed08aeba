"""Runs, which are the folders of searches, and their phases."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from math import isfinite
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from archir import __version__
from archir.diagnostics.errors import ArchError, describe_error, fail
from archir.runs import damage, journal, manifest
from archir.runs.folder import ENVIRONMENT, EXTENSIONS, JOURNAL, STAGING, Content, Folder, checkpoints, entry_of_file
from archir.runs.journal import Journal, Trial
from archir.runs.lock import NAME as LOCK
from archir.runs.lock import Lock
from archir.runs.manifest import Entry, Manifest

if TYPE_CHECKING:
    from archir.runs.tensorboard import EventFile

KEPT_CHECKPOINTS = 2
"""Number of checkpoints kept per phase: the latest, and one to fall back to."""
_MAX_ATTEMPTS = 50
"""Maximum number of attempts to verify a run that changes during verification."""
_PACKAGES = ("torch", "numpy", "networkx", "lark", "onnx", "onnxruntime", "onnxruntime-gpu", "safetensors", "pydantic")
"""Packages whose versions may affect results."""

Row = Mapping[str, float | int | str]
"""Metrics of one epoch by name, including `epoch`."""


def environment(**facts: Any) -> dict[str, Any]:
    """Return package versions and machine properties, plus `facts` from the caller, such as device and thread count."""
    versions = {}
    for name in _PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return {
        "archir": __version__,
        "python": platform.python_version(),
        "system": platform.system(),
        "machine": platform.machine(),
        "processors": os.cpu_count(),
        "packages": versions,
        **facts,
    }


@dataclass(frozen=True)
class Checkpoint:
    """Checkpoint with its JSON data `facts`; `read(suffix)` returns the verified content of its file with that
    suffix."""

    number: int
    facts: Mapping[str, Any]
    read: Callable[[str], bytes]


class Phase:
    """Phase of a run: its checkpoints, per-epoch metrics, and trials. Writing requires a run that was created or
    resumed.

    Raises ArchError (A1810) if `name` is not valid as a folder name.
    """

    def __init__(self, name: str, run: Run) -> None:
        if not re.fullmatch(r"[A-Za-z0-9][\w-]*", name):
            raise fail("A1810", f"`{name}` is not the name of a phase: use letters, digits, `_` and `-`")
        self.name, self._run, self._journal = name, run, run.journal
        self._folder = f"phases/{name}"

    def begin(self, facts: Mapping[str, Any] | None = None) -> None:
        """Record that the phase has started, with JSON data about it; no effect if the phase is done."""
        if self.done is None:
            self._journal.put(self.name, "phase", "", {"status": "begun", "facts": dict(facts or {})})

    def finish(self, facts: Mapping[str, Any] | None = None) -> None:
        """Record that the phase is done, with JSON data about its results."""
        self._journal.put(self.name, "phase", "", {"status": "done", "facts": dict(facts or {})})
        self._run.commit({})

    def reopen(self) -> None:
        """Record that the phase is no longer done, because its results were lost; it continues from its last
        checkpoint."""
        if self.done is not None:
            self._journal.put(self.name, "phase", "", {"status": "begun", "facts": {}})

    @property
    def done(self) -> Mapping[str, Any] | None:
        """JSON data passed to `finish`; None if the phase is not done."""
        row = self._journal.rows(self.name, "phase").get("", {})
        facts: Mapping[str, Any] | None = row.get("facts") if row.get("status") == "done" else None
        return facts

    @property
    def begun(self) -> Mapping[str, Any]:
        """JSON data passed to `begin`, such as `strategy` and `epochs`; {} once the phase is done."""
        row = self._journal.rows(self.name, "phase").get("", {})
        facts: Mapping[str, Any] = row.get("facts", {}) if row.get("status") == "begun" else {}
        return facts

    def record(self, row: Row, extra: Mapping[str, float] | None = None) -> None:
        """Store the metrics of an epoch, which `row` names in `epoch`; they replace those stored for the same epoch.

        `extra` are further numbers by name, such as the probabilities of alternatives (`CHOICE/ALTERNATIVE`). If the
        run writes TensorBoard files, `row` and `extra` are also written there.
        """
        epoch = int(row["epoch"])
        self._journal.put(self.name, "epoch", str(epoch), row)
        if extra:
            self._journal.put(self.name, "extra", str(epoch), extra)
        if self._run.tensorboard:
            numbers = {
                name: float(value)
                for name, value in row.items()
                if name != "epoch" and not isinstance(value, str) and isfinite(value)
            }
            self._run.events(self.name).scalars(epoch, {**numbers, **(extra or {})})

    def rows(self) -> list[dict[str, Any]]:
        """Return the metrics of all epochs in epoch order."""
        rows_by_epoch = self._journal.rows(self.name, "epoch")
        return [dict(rows_by_epoch[key]) for key in sorted(rows_by_epoch, key=int)]

    def extras(self) -> list[dict[str, float]]:
        """Return the extra numbers of all epochs that have any, in epoch order."""
        by_epoch = self._journal.rows(self.name, "extra")
        return [dict(by_epoch[key]) for key in sorted(by_epoch, key=int)]

    def trials(self) -> list[Trial]:
        """Return the trials of the phase, ordered by id."""
        rows = self._journal.rows(self.name, "trial").values()
        return sorted((Trial(**row) for row in rows), key=lambda trial: trial.id)

    def superseded_trials(self) -> list[Trial]:
        """Return the trials from before the phase was restarted."""
        return [Trial(**row) for row in self._journal.superseded.get(self.name, ())]

    def put_trial(self, trial: Trial) -> None:
        """Store a trial; it replaces the one with the same id."""
        self._journal.put(self.name, "trial", str(trial.id), asdict(trial))

    def save(self, facts: Mapping[str, Any], files: Mapping[str, Content]) -> None:
        """Store a checkpoint: JSON data, and files by suffix. Only the previous checkpoint is kept besides it."""
        numbered = self.checkpoints()
        base = f"{self._folder}/checkpoint-{max(numbered, default=0) + 1}"
        old = [name for removed in sorted(numbered)[: 1 - KEPT_CHECKPOINTS] for name in numbered[removed]]
        contents: dict[str, Content] = {f"{base}.{suffix}": data for suffix, data in files.items()}
        self._run.commit({f"{base}.json": json.dumps(facts, indent=1), **contents}, old)

    def last(self) -> Checkpoint | None:
        """Return the latest checkpoint; None if there is none."""
        numbered = self.checkpoints()
        if not numbered:
            return None
        number, files = max(numbered), self._run.files
        base = f"{self._folder}/checkpoint-{number}"
        facts = json.loads(files.content(f"{base}.json"))
        return Checkpoint(number, facts, lambda suffix: files.content(f"{base}.{suffix}"))

    def checkpoints(self) -> dict[int, list[str]]:
        """Return the file names of each checkpoint, by checkpoint number."""
        return checkpoints(self._run.entries, self.name)


class Run:
    """Folder of a search. `create` and `resume` open it for writing, `open` read-only."""

    def __init__(self, files: Folder, journal: Journal, lock: Lock | None = None) -> None:
        self.files, self.journal, self._lock = files, journal, lock
        self.tensorboard = False
        """Whether per-epoch metrics are also written to TensorBoard files, which requires the extra `tensorboard`."""
        self._events: dict[str, EventFile] = {}

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
                return cls(files, journal.read(path, current.rows, JOURNAL in current.files))
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
            if not files.manifest.rows and not (path / JOURNAL).exists():
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
        """Open the journal of a locked run for writing; it is then no longer among the files of the manifest."""
        files.commit({}, entries={name: entry for name, entry in files.manifest.files.items() if name != JOURNAL})
        return cls(files, journal.write(files.path, files.manifest.rows), lock)

    @property
    def folder(self) -> Path:
        """The path of the run's folder."""
        return self.files.path

    @property
    def entries(self) -> Mapping[str, Entry]:
        """The files of the run with their size and SHA-256, by name."""
        return self.files.manifest.files

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
        if name not in self.entries:
            raise fail("A1804", f"{self.folder} has no file `{name}`")
        return self.files.content(name)

    def write(self, files: Mapping[str, Content]) -> None:
        """Write result files atomically: if interrupted, none of them is written."""
        self.commit(files)

    def finish(self) -> None:
        """Record that the run is complete."""
        self.commit({}, finished=True)

    def commit(self, files: Mapping[str, Content], remove: Iterable[str] = (), **changes: Any) -> None:
        """Change files atomically. The new manifest also counts the journal rows recorded so far."""
        assert self._lock is not None, "the run was opened for reading only"
        self.files.commit(files, remove, **{"rows": self.journal.count, "changed": _now(), **changes})

    def extensions(self) -> list[dict[str, Any]]:
        """Return the extensions of the run, oldest first: changed `settings` by key, and the names of the restarted
        `phases`."""
        if EXTENSIONS not in self.entries:
            return []
        extensions: list[dict[str, Any]] = json.loads(self.content(EXTENSIONS))
        return extensions

    def extend(self, settings: Mapping[str, str], phases: Sequence[str], files: Mapping[str, Content]) -> None:
        """Restart phases and write files, and record the changed settings as an extension.

        The files of the run change atomically. The journal, which is append-only, is updated afterwards; if the process
        is killed before that, the next resume does it.
        """
        restarted = [name for name in phases if name in self.journal.phases()]
        extensions = [*self.extensions(), {"settings": dict(settings), "phases": restarted}]
        folders = tuple(f"phases/{phase}/" for phase in phases)
        removed = [name for name in self.entries if name.startswith(folders)]
        self.commit({**files, EXTENSIONS: json.dumps(extensions, indent=1) + "\n"}, removed, finished=False)
        self.record_restarts()

    def record_restarts(self) -> None:
        """Record restarts of phases, by the number of their extension, that the journal does not have yet."""
        for number, extension in enumerate(self.extensions()):
            for phase in extension["phases"]:
                self.journal.put(phase, "anew", str(number), {})

    def events(self, phase: str) -> EventFile:
        """Return the TensorBoard file of a phase; create it if it does not exist."""
        from archir.runs.tensorboard import FOLDER, EventFile

        if phase not in self._events:
            self._events[phase] = EventFile(self.folder / FOLDER / phase)
        return self._events[phase]

    def close(self) -> None:
        """Complete all writes and release the lock; the run can be resumed later."""
        if self._lock is None:
            return
        try:
            for events in self._events.values():
                events.close()
            self.commit({})
            if self.journal.seal():
                listed = {**self.entries, JOURNAL: entry_of_file(self.folder / JOURNAL)}
                self.files.commit({}, entries=listed)
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
        raise fail("A1808", f"{folder} cannot be a run's folder: {describe_error(error)}") from None
    if others := sorted(name for name in names if name not in (LOCK, STAGING) and not name.startswith(".manifest.")):
        raise fail("A1808", f"{folder} is not empty: it holds `{others[0]}`", None, "name another folder")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")

"""Phase of a run: its checkpoints, per-epoch metrics, and trials."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any, Protocol

from archir.diagnostics.errors import fail
from archir.runs.folder import AppendedFile, Content, Folder
from archir.runs.journal import Journal, Trial
from archir.runs.report import tensorboard

KEPT_CHECKPOINTS = 2
"""Number of checkpoints kept per phase: the latest, and one to fall back to."""

WEIGHTS = "weights.safetensors"
"""Name of the file with the network weights that result from a phase."""
SUPERNET = "supernet.json"
"""Name of a file that a finished phase has if and only if its result is a supernet."""

CHECKPOINT_FILE = re.compile(r"phases/(?P<phase>[^/]+)/checkpoint-(?P<number>\d+)\.")
"""Regular expression for the file names of checkpoints."""

Row = Mapping[str, float | int | str]
"""Metrics of one epoch by name, including `epoch`."""


@dataclass(frozen=True)
class Checkpoint:
    """Checkpoint with its JSON data `facts`; `read(suffix)` returns the verified content of its file with that
    suffix."""

    number: int
    facts: Mapping[str, Any]
    read: Callable[[str], bytes]


class RunStore(Protocol):
    """Interface through which a phase accesses its run."""

    @property
    def files(self) -> Folder:
        """The run's files."""

    @property
    def journal(self) -> Journal:
        """The run's journal."""

    def commit(self, files: Mapping[str, Content], remove: Iterable[str] = ()) -> None:
        """Write and remove files atomically."""

    @property
    def tensorboard(self) -> bool:
        """Whether per-epoch metrics are also written to TensorBoard files."""

    def events(self, phase: str) -> AppendedFile:
        """Return the TensorBoard event file of a phase."""


def checkpoints(files: Iterable[str], phase: str) -> dict[int, list[str]]:
    """Return the file names of each checkpoint of a phase, by checkpoint number."""
    files_by_number: dict[int, list[str]] = {}
    for name in files:
        if (match := CHECKPOINT_FILE.match(name)) and match["phase"] == phase:
            files_by_number.setdefault(int(match["number"]), []).append(name)
    return files_by_number


class Phase:
    """Phase of a run. Writing requires a run that was created or resumed.

    Raises ArchError (A1810) if `name` is not valid as a folder name.
    """

    def __init__(self, name: str, run: RunStore) -> None:
        if not re.fullmatch(r"[A-Za-z0-9][\w-]*", name):
            raise fail("A1810", f"`{name}` is not the name of a phase: use letters, digits, `_` and `-`")
        self.name, self._run = name, run

    def begin(self, facts: Mapping[str, Any] | None = None) -> None:
        """Record that the phase has started, with JSON data about it; no effect if the phase is done."""
        if self.done is None:
            self._run.journal.put(self.name, "phase", "", {"status": "begun", "facts": dict(facts or {})})

    def finish(self, facts: Mapping[str, Any] | None = None) -> None:
        """Record that the phase is done, with JSON data about its results."""
        self._run.journal.put(self.name, "phase", "", {"status": "done", "facts": dict(facts or {})})
        self._run.commit({})

    def reopen(self) -> None:
        """Record that the phase is no longer done, because its results were lost; it continues from its last
        checkpoint."""
        if self.done is not None:
            self._run.journal.put(self.name, "phase", "", {"status": "begun", "facts": {}})

    def restart(self, number: int) -> None:
        """Record that the phase starts over, because of the extension with this number; its results become obsolete.

        Its trials remain available as `superseded_trials`.
        """
        self._run.journal.put(self.name, "anew", str(number), {})

    @property
    def done(self) -> Mapping[str, Any] | None:
        """JSON data passed to `finish`; None if the phase is not done."""
        row = self._run.journal.rows(self.name, "phase").get("", {})
        facts: Mapping[str, Any] | None = row.get("facts") if row.get("status") == "done" else None
        return facts

    def record(self, row: Row, extra: Mapping[str, float] | None = None) -> None:
        """Store the metrics of an epoch, which `row` names in `epoch`; they replace those stored for the same epoch.

        If the run writes TensorBoard files, the numbers in `row` and `extra` are also written there.
        """
        epoch = int(row["epoch"])
        self._run.journal.put(self.name, "epoch", str(epoch), row)
        if not self._run.tensorboard:
            return
        figures = {
            name: float(value)
            for name, value in row.items()
            if name != "epoch" and not isinstance(value, str) and isfinite(value)
        }
        self._run.events(self.name).append(tensorboard.scalars(time.time(), epoch, {**figures, **(extra or {})}))

    def rows(self) -> list[dict[str, Any]]:
        """Return the metrics of all epochs in epoch order."""
        rows_by_epoch = self._run.journal.rows(self.name, "epoch")
        return [dict(rows_by_epoch[key]) for key in sorted(rows_by_epoch, key=int)]

    def trials(self) -> list[Trial]:
        """Return the trials of the phase, ordered by id."""
        return self._run.journal.trials(self.name)

    def superseded_trials(self) -> list[Trial]:
        """Return the trials from before the phase was restarted."""
        return self._run.journal.superseded_trials(self.name)

    def put_trial(self, trial: Trial) -> None:
        """Store a trial; it replaces the one with the same id."""
        self._run.journal.put_trial(self.name, trial)

    def save(self, facts: Mapping[str, Any], files: Mapping[str, Content]) -> None:
        """Store a checkpoint: JSON data, and files by suffix. Only the previous checkpoint is kept besides it."""
        numbered = self.checkpoints()
        number = max(numbered, default=0) + 1
        text = json.dumps(facts, indent=1)
        base = f"{self._folder}/checkpoint-{number}"
        old = [name for removed in sorted(numbered)[: 1 - KEPT_CHECKPOINTS] for name in numbered[removed]]
        self._run.commit({f"{base}.json": text, **{f"{base}.{suffix}": data for suffix, data in files.items()}}, old)

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
        return checkpoints(self._run.files.manifest.files, self.name)

    @property
    def _folder(self) -> str:
        """Folder of the phase, relative to the run's folder."""
        return f"phases/{self.name}"

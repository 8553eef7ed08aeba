"""One phase of a run: its checkpoints, its rows of figures, its trials."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any, Protocol

from archir.diagnostics.errors import fail
from archir.runs.folder import Content, Folder, Growing
from archir.runs.journal import Journal, Trial
from archir.runs.report import tensorboard

KEPT = 2
"""Checkpoints that are kept of a phase: the last one, and one to fall back to."""

WEIGHTS = "weights.safetensors"
SUPERNET = "supernet.json"
"""The file that a phase of a search has if, and only if, it came to something."""

CHECKPOINT = re.compile(r"phases/(?P<phase>[^/]+)/checkpoint-(?P<number>\d+)\.")
"""The name of a file of a checkpoint."""

Row = Mapping[str, float | int | str]


@dataclass(frozen=True)
class Checkpoint:
    """Facts, and the names of files beside them by suffix; `read` gives what they hold, verified."""

    number: int
    facts: Mapping[str, Any]
    read: Callable[[str], bytes]


class Store(Protocol):
    """What a phase needs of its run."""

    @property
    def files(self) -> Folder:
        """The run's files."""

    @property
    def journal(self) -> Journal:
        """The run's rows."""

    def commit(self, files: Mapping[str, Content], remove: Iterable[str] = ()) -> None:
        """Write files and remove others in one step."""

    def events(self, phase: str) -> Growing:
        """A phase's file for TensorBoard."""


def checkpoints(files: Iterable[str], phase: str) -> dict[int, list[str]]:
    """Numbers of a phase's checkpoints, and the names of their files."""
    found: dict[int, list[str]] = {}
    for name in files:
        if (match := CHECKPOINT.match(name)) and match["phase"] == phase:
            found.setdefault(int(match["number"]), []).append(name)
    return found


class Phase:
    """A phase of a run that is open; writing needs a run that was created or resumed."""

    def __init__(self, name: str, run: Store) -> None:
        if not re.fullmatch(r"[A-Za-z0-9][\w-]*", name):
            raise fail("A1810", f"`{name}` is no name of a phase: letters, digits, `_` and `-` are")
        self.name, self._run = name, run

    def begin(self, facts: Mapping[str, Any] | None = None) -> None:
        """Note that the phase has begun, and what is known of it."""
        if self.done is None:
            self._run.journal.put(self.name, "phase", "", {"status": "begun", "facts": dict(facts or {})})

    def finish(self, facts: Mapping[str, Any] | None = None) -> None:
        """Note that the phase is done, and what it came to."""
        self._run.journal.put(self.name, "phase", "", {"status": "done", "facts": dict(facts or {})})
        self._run.commit({})

    def reopen(self) -> None:
        """Note that the phase goes on from its last checkpoint: what it came to was lost."""
        if self.done is not None:
            self._run.journal.put(self.name, "phase", "", {"status": "begun", "facts": {}})

    def anew(self, number: int) -> None:
        """Note that the phase begins anew, for the extension of this number: nothing that it came to counts any more.

        What it tried is still known, as `trials_before`.
        """
        self._run.journal.put(self.name, "anew", str(number), {})

    @property
    def done(self) -> Mapping[str, Any] | None:
        """What the phase came to, None if it is not done."""
        row = self._run.journal.rows(self.name, "phase").get("", {})
        facts: Mapping[str, Any] | None = row.get("facts") if row.get("status") == "done" else None
        return facts

    def record(self, row: Row, beside: Mapping[str, float] | None = None) -> None:
        """Keep an epoch's figures (`epoch` among them), instead of those of the same epoch if there are any.

        TensorBoard shows their numbers, and those `beside` them.
        """
        epoch = int(row["epoch"])
        self._run.journal.put(self.name, "epoch", str(epoch), row)
        figures = {
            name: float(value)
            for name, value in row.items()
            if name != "epoch" and not isinstance(value, str) and isfinite(value)
        }
        self._run.events(self.name).append(tensorboard.scalars(time.time(), epoch, {**figures, **(beside or {})}))

    def rows(self) -> list[dict[str, Any]]:
        """The figures of all epochs, by epoch."""
        found = self._run.journal.rows(self.name, "epoch")
        return [dict(found[key]) for key in sorted(found, key=int)]

    def trials(self) -> list[Trial]:
        """The phase's trials, by id."""
        return self._run.journal.trials(self.name)

    def trials_before(self) -> list[Trial]:
        """What the phase had tried before it began anew."""
        return self._run.journal.trials_before(self.name)

    def put_trial(self, trial: Trial) -> None:
        """Keep a trial, instead of the one with its id if there is one."""
        self._run.journal.put_trial(self.name, trial)

    def save(self, facts: Mapping[str, Any], files: Mapping[str, Content]) -> None:
        """Keep a checkpoint: facts that JSON can hold, and files by suffix. Of those before, the last one stays."""
        numbered = self.checkpoints()
        number = max(numbered, default=0) + 1
        text = json.dumps(facts, indent=1)
        base = f"{self._folder}/checkpoint-{number}"
        old = [name for gone in sorted(numbered)[: 1 - KEPT] for name in numbered[gone]]
        self._run.commit({f"{base}.json": text, **{f"{base}.{suffix}": data for suffix, data in files.items()}}, old)

    def last(self) -> Checkpoint | None:
        """The last checkpoint."""
        numbered = self.checkpoints()
        if not numbered:
            return None
        number, files = max(numbered), self._run.files
        base = f"{self._folder}/checkpoint-{number}"
        facts = json.loads(files.content(f"{base}.json"))
        return Checkpoint(number, facts, lambda suffix: files.content(f"{base}.{suffix}"))

    def checkpoints(self) -> dict[int, list[str]]:
        """Numbers of checkpoints that are there, and their files."""
        return checkpoints(self._run.files.manifest.files, self.name)

    @property
    def _folder(self) -> str:
        return f"phases/{self.name}"

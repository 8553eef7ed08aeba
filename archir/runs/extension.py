"""Extends runs with changed settings; some phases lose their results but reuse their trials.

The extensions of a run are stored in `extensions.json`. The files of the run change atomically. The journal,
which is append-only, is updated afterwards; if the process is killed before that update, the next resume performs it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from archir.runs.folder import Content
from archir.runs.run import Run

EXTENSIONS = "extensions.json"
"""Name of the file that lists the extensions of a run."""


def read_extensions(run: Run) -> list[dict[str, Any]]:
    """Return the extensions of a run, oldest first: changed `settings` by key, and the names of the restarted
    `phases`."""
    if EXTENSIONS not in run.files.manifest.files:
        return []
    extensions: list[dict[str, Any]] = json.loads(run.content(EXTENSIONS))
    return extensions


def extend(run: Run, settings: Mapping[str, str], phases: Sequence[str], files: Mapping[str, Content]) -> None:
    """Restart phases and write files atomically, and record the changed settings as an extension."""
    restarted = [name for name in phases if name in run.journal.phases()]
    extensions = [*read_extensions(run), {"settings": dict(settings), "phases": restarted}]
    removed = [
        name for name in run.files.manifest.files if name.startswith(tuple(f"phases/{phase}/" for phase in phases))
    ]
    run.commit({**files, EXTENSIONS: json.dumps(extensions, indent=1) + "\n"}, removed, finished=False)
    record_restarts(run)


def record_restarts(run: Run) -> None:
    """Record restarts of phases that the journal does not have yet."""
    for number, extension in enumerate(read_extensions(run)):
        for phase in extension["phases"]:
            run.phase(phase).restart(number)

"""Runs that go on with other settings: what phases came to is given up, and what they tried is not.

A run says in `extensions.json` how it was extended. Its files change in one step; the journal, which is only ever added
to, is told after that, and whoever resumes the run tells it what was left out by a kill.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from archir.runs.folder import Content
from archir.runs.run import Run

EXTENSIONS = "extensions.json"


def known(run: Run) -> list[dict[str, Any]]:
    """How a run was extended, the first time first: `settings` by their keys, and the `phases` that began anew."""
    if EXTENSIONS not in run.files.manifest.files:
        return []
    found: list[dict[str, Any]] = json.loads(run.content(EXTENSIONS))
    return found


def extend(run: Run, settings: Mapping[str, str], phases: Sequence[str], files: Mapping[str, Content]) -> None:
    """Let phases begin anew, and write files: in one step, with a note of the settings that this was for."""
    begun = [name for name in phases if name in run.journal.phases()]
    told = [*known(run), {"settings": dict(settings), "phases": begun}]
    gone = [name for name in run.files.manifest.files if name.startswith(tuple(f"phases/{phase}/" for phase in phases))]
    run.commit({**files, EXTENSIONS: json.dumps(told, indent=1) + "\n"}, gone, finished=False)
    settle(run)


def settle(run: Run) -> None:
    """Tell the journal of extensions that it does not know."""
    for number, extension in enumerate(known(run)):
        for phase in extension["phases"]:
            run.phase(phase).anew(number)

"""The runs of a folder: where each of them is, and how far it came."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from archir.base.errors import ArchError
from archir.search.runs import manifest
from archir.search.runs.lock import locked
from archir.search.runs.run import Run

State = Literal["running", "interrupted", "finished", "damaged"]


@dataclass(frozen=True)
class Summary:
    """A run at a glance; `validation` is the last accuracy on images that choose, `accuracy` the last one on held-out
    images, `changed` when it was last written to (UTC)."""

    name: str
    recipe: str
    phase: str | None
    epoch: int | None
    validation: float | None
    accuracy: float | None
    state: State
    changed: str
    problem: str | None = None


def summaries(folder: Path | str) -> list[Summary]:
    """The runs in a folder, or the run that it is, by name; every one is verified."""
    path = Path(folder)
    found = [path] if (path / manifest.NAME).exists() else sorted(one.parent for one in path.glob(f"*/{manifest.NAME}"))
    return [summary(one) for one in found]


def summary(folder: Path) -> Summary:
    """A run at a glance."""
    name = folder.resolve().name
    try:
        run = Run.open(folder)
    except ArchError as error:
        return _damaged(name, folder, error)
    phases = run.phases()
    last = phases[-1] if phases else None
    rows = last.rows() if last else []
    figures = [row for phase in phases for row in phase.rows()]
    state: State = "running" if locked(folder) else "finished" if run.finished else "interrupted"
    return Summary(
        name,
        run.title,
        last.name if last else None,
        int(rows[-1]["epoch"]) + 1 if rows else None,
        _last(figures, "validation_accuracy"),
        _last(figures, "accuracy"),
        state,
        run.files.manifest.changed,
    )


def _last(rows: Sequence[Mapping[str, Any]], name: str) -> float | None:
    return next((row[name] for row in reversed(rows) if row.get(name) is not None), None)


def _damaged(name: str, folder: Path, error: ArchError) -> Summary:
    problem = error.diagnostics[0].message
    try:
        known = manifest.read(folder)
    except ArchError:
        return Summary(name, "", None, None, None, None, "damaged", "", problem)
    return Summary(name, known.title, None, None, None, None, "damaged", known.changed, problem)

"""The runs of a folder: where each of them is, and how far it came."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from archir.diagnostics.errors import ArchError
from archir.runs import manifest
from archir.runs.lock import locked
from archir.runs.phase import Phase
from archir.runs.run import Run
from archir.runs.settings import overrides, settings, size

OBJECTIVE = "objective.json"
"""What a phase measures, and by what networks are compared."""

_FIRST = re.compile(r"\W*(\w+):(max|min)")
"""The first of a phase's objectives, as recipes write them."""

State = Literal["running", "interrupted", "finished", "damaged"]


@dataclass(frozen=True)
class Summary:
    """A run at a glance; `criterion` is the measure that networks are compared by, `validation` the last one of samples
    that choose, `score` the last one of held-out samples, `changed` when it was last written to (UTC)."""

    name: str
    recipe: str
    phase: str | None
    epoch: int | None
    validation: float | None
    score: float | None
    state: State
    changed: str
    problem: str | None = None
    criterion: str = "accuracy"
    larger: bool = True
    """Whether more of it is better."""
    seed: int | None = None
    overrides: Mapping[str, str] = field(default_factory=dict)
    """What was set instead of what the recipe says."""
    params: int | None = None
    """Of the network that it came to."""
    macs: int | None = None


def summaries(folder: Path | str) -> list[Summary]:
    """The runs in a folder, or the run that it is, by name; every one is verified."""
    return [one for _, one in placed(Path(folder))]


def placed(path: Path) -> list[tuple[Path, Summary]]:
    """The same, each with its folder."""
    found = [path] if (path / manifest.NAME).exists() else sorted(one.parent for one in path.glob(f"*/{manifest.NAME}"))
    return [(one, summary(one)) for one in found]


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
    criterion, larger = _criterion(run, phases)
    params, macs = size(run)
    state: State = "running" if locked(folder) else "finished" if run.finished else "interrupted"
    return Summary(
        name,
        run.title,
        last.name if last else None,
        int(rows[-1]["epoch"]) + 1 if rows else None,
        _last(figures, f"validation_{criterion}"),
        _last(figures, "held_out_loss" if criterion == "loss" else criterion),
        state,
        run.files.manifest.changed,
        criterion=criterion,
        larger=larger,
        seed=_seed(run),
        overrides=overrides(run),
        params=params,
        macs=macs,
    )


def _seed(run: Run) -> int:
    """The seed of a recipe; one that does not say it has 0."""
    text = settings(run).get("seed", "0")
    return int(text) if text.isdecimal() else 0


def _criterion(run: Run, phases: Sequence[Phase]) -> tuple[str, bool]:
    """What the last phase compares networks by, and whether more of it is better. Of one that tries candidates that is
    its first objective, where its rows have that, as those of proxies and of tables do."""
    told = settings(run)
    for phase in reversed(phases):
        asked = told.get(f"{phase.name}.options.objectives") or told.get(f"{phase.name}.options.objective") or ""
        first = _FIRST.match(asked)
        if first is not None and any(first[1] in row for row in phase.rows()):
            return first[1], first[2] == "max"
        path = f"phases/{phase.name}/{OBJECTIVE}"
        if path in run.files.manifest.files:
            facts = json.loads(run.content(path))
            return str(facts["criterion"]), bool(facts.get("measures", {}).get(facts["criterion"], True))
    return "accuracy", True


def _last(rows: Sequence[Mapping[str, Any]], name: str) -> float | None:
    return next((row[name] for row in reversed(rows) if row.get(name) is not None), None)


def _damaged(name: str, folder: Path, error: ArchError) -> Summary:
    problem = error.diagnostics[0].message
    try:
        known = manifest.read(folder)
    except ArchError:
        return Summary(name, "", None, None, None, None, "damaged", "", problem)
    return Summary(name, known.title, None, None, None, None, "damaged", known.changed, problem)

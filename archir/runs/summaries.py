"""Summaries of runs, which are the folders of searches and of trainings: state, progress, scores, and settings."""

from __future__ import annotations

import json
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from archir.diagnostics.errors import ArchError, fail
from archir.runs import hashes, manifest
from archir.runs.folder import OBJECTIVE, OVERRIDES, RECIPE, SUMMARY
from archir.runs.lock import is_locked
from archir.runs.run import Phase, Run
from archir.utils import toml
from archir.utils.metrics import format_metric

State = Literal["running", "interrupted", "finished", "damaged"]
"""State of a run: being written, stopped before its end, complete, or damaged."""


@dataclass(frozen=True, kw_only=True)
class Summary:
    """Summary of a run.

    `criterion` is the metric by which networks are compared; `validation` is its last value on validation
    samples, `score` its last value on held-out samples. `changed` is the UTC time of the last write.
    """

    name: str
    recipe: str = ""
    phase: str | None = None
    epoch: int | None = None
    validation: float | None = None
    score: float | None = None
    state: State
    changed: str = ""
    problem: str | None = None
    criterion: str = "accuracy"
    larger: bool = True
    """Whether larger values of the criterion are better."""
    seed: int | None = None
    overrides: Mapping[str, str] = field(default_factory=dict)
    """Settings that override those of the recipe, by key."""
    params: int | None = None
    """Number of parameters of the run's resulting network; None if unknown."""
    macs: int | None = None

    @property
    def score_text(self) -> str:
        """The score, with the metric's name unless that is accuracy; "" if there is no score."""
        text = "" if self.score is None else format_metric(self.criterion, self.score)
        return f"{self.criterion} {text}" if text and self.criterion != "accuracy" else text


def short_number(value: int | None) -> str:
    """Format a count with three significant digits and a unit prefix, such as `1.23M`; "" for None."""
    if value is None:
        return ""
    for unit, size in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if value >= size:
            return f"{value / size:.3g}{unit}"
    return str(value)


def summaries(folder: Path | str) -> list[Summary]:
    """Verify and summarise all runs in a folder, or the run that the folder is; sorted by name."""
    return [item for _, item in located_summaries(Path(folder))]


def located_summaries(*folders: Path) -> list[tuple[Path, Summary]]:
    """Return (path, summary) for all runs in the given folders, each run once."""
    runs = [run for folder in folders for run in _runs_in(folder)]
    return [(run, summary(run)) for run in {run.resolve(): run for run in runs}.values()]


def _runs_in(folder: Path) -> list[Path]:
    if any((folder / name).exists() for name in (manifest.NAME, hashes.NAME)):
        return [folder]
    return sorted({file.parent for name in (manifest.NAME, hashes.NAME) for file in folder.glob(f"*/{name}")})


def summary(folder: Path) -> Summary:
    """Verify and summarise a run."""
    name = folder.resolve().name
    if not (folder / manifest.NAME).exists():
        return _training_summary(name, folder)
    try:
        run = Run.open(folder)
    except ArchError as error:
        damaged = Summary(name=name, state="damaged", problem=error.diagnostics[0].message)
        with suppress(ArchError):
            current = manifest.read(folder)
            return replace(damaged, recipe=current.title, changed=current.changed)
        return damaged
    phases = run.phases()
    rows = phases[-1].rows() if phases else []
    values = {key: value for phase in phases for row in phase.rows() for key, value in row.items() if value is not None}
    stated = settings(run)
    criterion, larger = _criterion(run, phases, values)
    network = _json_object(run, SUMMARY).get("network")
    size = network if isinstance(network, dict) else {}
    return Summary(
        name=name,
        recipe=run.title,
        phase=phases[-1].name if phases else None,
        epoch=int(rows[-1]["epoch"]) + 1 if rows else None,
        validation=values.get(f"validation_{criterion}"),
        score=values.get(_held_out_name(criterion)),
        state="running" if is_locked(folder) else "finished" if run.finished else "interrupted",
        changed=run.files.manifest.changed,
        criterion=criterion,
        larger=larger,
        seed=int(stated["seed"]) if stated.get("seed", "").isdecimal() else 0,
        overrides=overrides(run),
        params=_number(size.get("params")),
        macs=_number(size.get("macs")),
    )


def _held_out_name(criterion: str) -> str:
    """Return the name under which rows and results of a training have a criterion's value on held-out samples."""
    return "held_out_loss" if criterion == "loss" else criterion


def _number(value: object) -> int | None:
    return value if isinstance(value, int) else None


def read_training(folder: Path) -> dict[str, Any]:
    """Return the results in the folder of a training; {} if it is not finished. Raises ArchError (A1205) if files were
    changed."""
    entries = hashes.read(folder)
    hashes.require_unchanged(folder, entries)
    if hashes.TRAINING not in entries:
        return {}
    try:
        return dict(json.loads((folder / hashes.TRAINING).read_bytes()))
    except (ValueError, TypeError, RecursionError):
        raise fail("A1205", f"{folder / hashes.TRAINING} has no results of a training") from None


def _training_summary(name: str, folder: Path) -> Summary:
    changed = datetime.fromtimestamp((folder / hashes.NAME).stat().st_mtime, UTC).isoformat(timespec="seconds")
    try:
        record = read_training(folder)
    except ArchError as error:
        problem = error.diagnostics[0].message
        return Summary(name=name, phase="train", state="damaged", changed=changed, problem=problem)
    if not record:
        return Summary(name=name, phase="train", state="interrupted", changed=changed)
    criterion, history = str(record.get("criterion", "accuracy")), record.get("history")
    score = record.get(_held_out_name(criterion))
    return Summary(
        name=name, phase="train", epoch=len(history) if isinstance(history, list) else None,
        score=score if isinstance(score, float) else None, state="finished", changed=changed, criterion=criterion,
        larger=bool(record.get("larger", "loss" not in criterion)), params=_number(record.get("params")),
        macs=_number(record.get("macs")),
    )  # fmt: skip


def objectives_of(run: Run, phase: str) -> dict[str, bool]:
    """Return the scores and costs by which a phase compares networks, most important first: whether larger values are
    better, by name.

    Returns {} if the phase has not recorded them.
    """
    objectives: dict[str, bool] = _json_object(run, f"phases/{phase}/{OBJECTIVE}").get("objectives", {})
    return objectives


def _criterion(run: Run, phases: Sequence[Phase], measured: Container[str]) -> tuple[str, bool]:
    """Return the metric by which the last phase compares networks, and whether larger values are better.

    Of several, it is the first one that was `measured`: epochs have no costs.
    """
    recorded = (objectives_of(run, phase.name) for phase in reversed(phases))
    objectives = next((each for each in recorded if each), {"accuracy": True})
    shown = (name for name in objectives if f"validation_{name}" in measured or _held_out_name(name) in measured)
    name = next(shown, next(iter(objectives)))
    return name, objectives[name]


def overrides(run: Run) -> dict[str, str]:
    """Return the settings that override those of the recipe, by key."""
    return {key: str(value) for key, value in _json_object(run, OVERRIDES).items()}


def settings(run: Run) -> dict[str, str]:
    """Return all settings of a run, by the keys that `--set` uses; {} if the recipe cannot be parsed."""
    try:
        document = toml.parse_toml(run.content(RECIPE).decode("utf-8", "replace"), RECIPE, "A2201")
        return flat_settings(toml.apply_overrides(document, overrides(run), "A1109").data)
    except ArchError:
        return {}


def flat_settings(data: Mapping[str, Any]) -> dict[str, str]:
    """Return the settings in nested tables as JSON, by dotted keys. Tables in a list are identified by their `name`, as
    in `search.training.epochs`."""
    return dict(_flatten(data))


def _flatten(data: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in data.items():
        if isinstance(value, dict):
            yield from _flatten(value, f"{prefix}{key}.")
        elif isinstance(value, list) and value and all(isinstance(table, dict) and "name" in table for table in value):
            for table in value:
                yield from _flatten({k: v for k, v in table.items() if k != "name"}, f"{prefix}{table['name']}.")
        else:
            yield f"{prefix}{key}", json.dumps(value, default=str)


def _json_object(run: Run, name: str) -> dict[str, Any]:
    """Return the JSON object in a file of the run; {} if it is missing or something else."""
    if name not in run.entries:
        return {}
    try:
        return dict(json.loads(run.content(name)))
    except (ValueError, TypeError, RecursionError):
        return {}

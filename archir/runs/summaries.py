"""Summaries of runs, which are the folders of searches and of trainings: state, progress, scores, and settings."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from archir.diagnostics.errors import ArchError
from archir.runs import hashes, manifest
from archir.runs.folder import OBJECTIVE, OVERRIDES, RECIPE
from archir.runs.lock import is_locked
from archir.runs.run import Phase, Run
from archir.search.fronts.metric_format import format_metric
from archir.utils import toml

_FIRST_OBJECTIVE = re.compile(r"\W*(\w+):(max|min)")
"""Matches the first objective in a phase's recipe settings."""

State = Literal["running", "interrupted", "finished", "damaged"]
"""State of a run: being written, stopped before its end, complete, or damaged."""


@dataclass(frozen=True)
class Summary:
    """Summary of a run.

    `criterion` is the metric by which networks are compared; `validation` is its last value on validation
    samples, `score` its last value on held-out samples. `changed` is the UTC time of the last write.
    """

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
        return _damaged(name, folder, error)
    phases = run.phases()
    last = phases[-1] if phases else None
    rows = last.rows() if last else []
    figures = [row for phase in phases for row in phase.rows()]
    criterion, larger = _criterion(run, phases)
    params, macs = network_size(run)
    state: State = "running" if is_locked(folder) else "finished" if run.finished else "interrupted"
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


def read_training(folder: Path) -> dict[str, Any]:
    """Return the results in the folder of a training; {} if it is not finished. Raises ArchError (A1205) if files were
    changed."""
    entries = hashes.read(folder)
    hashes.require_unchanged(folder, entries)
    return dict(json.loads((folder / hashes.TRAINING).read_bytes())) if hashes.TRAINING in entries else {}


def _training_summary(name: str, folder: Path) -> Summary:
    changed = datetime.fromtimestamp((folder / hashes.NAME).stat().st_mtime, UTC).isoformat(timespec="seconds")
    try:
        record = read_training(folder)
    except ArchError as error:
        problem = error.diagnostics[0].message
        return Summary(name, "", "train", None, None, None, "damaged", changed, problem)
    criterion = str(record.get("criterion", "accuracy"))
    return Summary(
        name, "", "train", len(record["history"]) if record else None, None, record.get(criterion),
        "finished" if record else "interrupted", changed, criterion=criterion, larger="loss" not in criterion,
        params=record.get("params"), macs=record.get("macs"),
    )  # fmt: skip


def _seed(run: Run) -> int:
    text = settings(run).get("seed", "0")
    return int(text) if text.isdecimal() else 0


def _criterion(run: Run, phases: Sequence[Phase]) -> tuple[str, bool]:
    """Return the metric by which the last phase compares networks, and whether larger values are better.

    For a phase that scores candidates, this is its first objective, provided that its rows have that metric, as
    with proxies and benchmark tables.
    """
    run_settings = settings(run)
    for phase in reversed(phases):
        objectives = (
            run_settings.get(f"{phase.name}.options.objectives")
            or run_settings.get(f"{phase.name}.options.objective")
            or ""
        )
        first = _FIRST_OBJECTIVE.match(objectives)
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
        current = manifest.read(folder)
    except ArchError:
        return Summary(name, "", None, None, None, None, "damaged", "", problem)
    return Summary(name, current.title, None, None, None, None, "damaged", current.changed, problem)


def overrides(run: Run) -> dict[str, str]:
    """Return the settings that override those of the recipe, by key."""
    values = _json(run, OVERRIDES)
    return {str(key): str(value) for key, value in values.items()} if isinstance(values, dict) else {}


def settings(run: Run) -> dict[str, str]:
    """Return all settings of a run, by the keys that `--set` uses; {} if the recipe cannot be parsed."""
    try:
        document = toml.parse_toml(run.content(RECIPE).decode("utf-8", "replace"), RECIPE, "A2201")
        return flat_settings(toml.apply_overrides(document, overrides(run), "A1109").data)
    except ArchError:
        return {}


def network_size(run: Run) -> tuple[int | None, int | None]:
    """Return the parameters and multiply-accumulates of the resulting network of a run; None for unknown ones."""
    summary = _json(run, "summary.json")
    network = summary.get("network") if isinstance(summary, dict) else None
    facts = network if isinstance(network, dict) else {}
    params, macs = (facts.get(name) for name in ("params", "macs"))
    return params if isinstance(params, int) else None, macs if isinstance(macs, int) else None


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


def _json(run: Run, name: str) -> Any:
    """Return the parsed content of a JSON file of the run; None if it is missing or invalid."""
    if name not in run.files.manifest.files:
        return None
    try:
        return json.loads(run.content(name))
    except (ValueError, RecursionError):
        return None

"""Compares runs: the settings in which they differ, and their results, as a table and as an HTML page."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from archir.diagnostics.errors import ArchError
from archir.pages.charts import LineChart
from archir.pages.page import page, table
from archir.recipes.parsing import parse
from archir.recipes.trials import TrialOptions
from archir.runs import Run, manifest
from archir.runs.folder import ARCHITECTURE, BEST, RECIPE
from archir.runs.report import finite_number
from archir.runs.summaries import Summary, flat_settings, overrides, read_training, settings, short_number
from archir.runs.trial_report import label_text
from archir.search.registry import STRATEGIES
from archir.utils.metrics import format_metric, is_fraction
from archir.utils.settings import parse_settings

OVER_SEEDS = "mean and deviation"
"""Heading of the column with mean and standard deviation over seeds."""


@dataclass(frozen=True)
class Comparison:
    """Comparison of runs; each row has one text per run.

    `settings` are the settings that differ, by key; `results` are score, parameters and MACs. If only the seed
    differs, `score_over_seeds` is the mean score with its sample standard deviation ("" if there are too few
    scores); otherwise, `score_over_seeds` is None.
    """

    names: Sequence[str]
    settings: dict[str, list[str]]
    results: dict[str, list[str]]
    score_over_seeds: str | None

    @property
    def head(self) -> list[str]:
        """Column headings: "", the run names, and, if only the seed differs, that of the mean."""
        return ["", *self.names, *([] if self.score_over_seeds is None else [OVER_SEEDS])]

    @property
    def rows(self) -> list[list[str]]:
        """Table rows: settings first, then results."""
        rows = [[key, *values] for key, values in {**self.settings, **self.results}.items()]
        if self.score_over_seeds is None:
            return rows
        return [[*row, self.score_over_seeds if row[0] == "score" else ""] for row in rows]


@dataclass(frozen=True)
class _Contents:
    """What is compared of a search or a training: settings by key, metrics by phase, and choices by path.

    `stated` are the settings that its recipe and its command line state, `settings` are those with defaults.
    """

    stated: Mapping[str, str]
    settings: Mapping[str, str]
    rows: Mapping[str, Sequence[Mapping[str, Any]]]
    choices: Mapping[str, str]


def compare_runs(pairs: Sequence[tuple[Path, Summary]]) -> Comparison:
    """Compare runs. Raises ArchError if one of them is damaged."""
    contents, runs = [_contents(path) for path, _ in pairs], [summary for _, summary in pairs]
    keys = dict.fromkeys(key for each in contents for key in each.stated)
    rows = {key: [_setting_text(each.settings.get(key)) for each in contents] for key in keys}
    differing = {key: row for key, row in rows.items() if len({*row}) > 1}
    results = {
        "score": [summary.score_text for summary in runs],
        "params": [short_number(summary.params) for summary in runs],
        "MACs": [short_number(summary.macs) for summary in runs],
    }
    results = {name: texts for name, texts in results.items() if any(texts)}
    return Comparison(
        _labels(pairs), differing, results, _mean_over_seeds(runs) if differing.keys() == {"seed"} else None
    )


def _setting_text(value: str | None) -> str:
    return "" if value in (None, "null") else str(value)


def comparison_page(pairs: Sequence[tuple[Path, Summary]]) -> str:
    """Return an HTML page that compares runs. Raises ArchError if one of them is damaged."""
    runs = {label: _contents(path) for label, (path, _) in zip(_labels(pairs), pairs, strict=True)}
    return page(f"{len(runs)} runs side by side", ", ".join(runs), _sections(compare_runs(pairs), runs))


def _sections(comparison: Comparison, runs: Mapping[str, _Contents]) -> Iterator[tuple[str, str]]:
    yield "Result", table(comparison.head, comparison.rows)
    for phase in dict.fromkeys(phase for run in runs.values() for phase in run.rows):
        if charts := "".join(chart.figure() for chart in _charts(phase, runs)):
            yield f"Phase {phase}", f'<div class="charts">{charts}</div>'
    paths = dict.fromkeys(path for run in runs.values() for path in run.choices)
    if paths:
        rows = [[path, *(run.choices.get(path, "") for run in runs.values())] for path in paths]
        differing = [row for row in rows if len({*row[1:]}) > 1]
        note = f"<p>{len(rows) - len(differing)} of {len(rows)} choices are the same in all runs.</p>"
        yield "Choices that differ", note + (table(["", *runs], differing) if differing else "")


def _charts(phase: str, runs: Mapping[str, _Contents]) -> Iterator[LineChart]:
    columns = {name: {int(row["epoch"]) + 1: row for row in run.rows.get(phase, ())} for name, run in runs.items()}
    epochs = sorted({epoch for rows in columns.values() for epoch in rows})
    for metric in dict.fromkeys(name for rows in columns.values() for row in rows.values() for name in row):
        lines = {name: [finite_number(rows.get(e, {}).get(metric)) for e in epochs] for name, rows in columns.items()}
        series = {name: line for name, line in lines.items() if any(value is not None for value in line)}
        if series and metric not in ("epoch", "seconds"):
            yield LineChart(metric, epochs, series, is_fraction(metric))


def _contents(folder: Path) -> _Contents:
    if (folder / manifest.NAME).exists():
        run = Run.open(folder)
        rows = {phase.name: phase.rows() for phase in run.phases()}
        best = json.loads(run.content(BEST)) if BEST in run.entries else {}
        return _Contents(settings(run), _settings_in_force(run), rows, _choices(best))
    record = read_training(folder)
    options = flat_settings({"data": {"source": record.get("data")}, **record.get("settings", {})}) if record else {}
    architecture = json.loads((folder / ARCHITECTURE).read_bytes())
    return _Contents(options, options, {"train": record.get("history", ())}, _choices(architecture))


def _choices(architecture: Mapping[str, Any]) -> dict[str, str]:
    return {path: label_text(label) for path, label in architecture.get("choices", {}).items()}


def _settings_in_force(run: Run) -> dict[str, str]:
    """Return all settings of a run by key, also those that have their default values.

    Defaults of options are known for strategies that try candidates. Of a recipe that is not valid, only the stated
    settings are returned.
    """
    try:
        recipe = parse(run.content(RECIPE).decode("utf-8", "replace"), RECIPE, overrides(run)).recipe
    except ArchError:
        return settings(run)
    data = recipe.model_dump(mode="json")
    for phase in data["phase"]:
        kind = STRATEGIES.find(phase["strategy"])
        if kind is not None:
            options, own = phase["options"], kind.options.model_fields.keys()
            with suppress(ArchError):
                for model, names in ((kind.options, options.keys() & own), (TrialOptions, options.keys() - own)):
                    parsed = parse_settings(model, {name: options[name] for name in names})
                    phase["options"] = {**phase["options"], **parsed.model_dump(mode="json")}
    return flat_settings(data)


def _labels(pairs: Sequence[tuple[Path, Summary]]) -> list[str]:
    names = Counter(summary.name for _, summary in pairs)
    return [summary.name if names[summary.name] == 1 else str(path) for path, summary in pairs]


def _mean_over_seeds(runs: Sequence[Summary]) -> str:
    """Return mean and sample standard deviation of the scores as text; "" if there are fewer than two scores or the
    metrics differ."""
    scores = [summary.score for summary in runs if summary.score is not None]
    if len(scores) < 2 or len({summary.criterion for summary in runs}) > 1:
        return ""
    name = runs[0].criterion
    return f"{format_metric(name, mean(scores))} +- {format_metric(name, stdev(scores))}"

"""Compares runs: the settings in which they differ, and their results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev

from archir.runs.run import Run
from archir.runs.summaries import Summary, settings
from archir.search.fronts.metric_format import format_metric

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


def compare_runs(pairs: Sequence[tuple[Path, Summary]]) -> Comparison:
    """Compare runs. Raises ArchError if one of them is damaged."""
    differing = differences([settings(Run.open(path)) for path, _ in pairs])
    runs = [summary for _, summary in pairs]
    if "seed" in differing:
        differing["seed"] = [str(summary.seed or 0) for summary in runs]
    results = {
        "score": [score_text(summary) for summary in runs],
        "params": [short_number(summary.params) for summary in runs],
        "MACs": [short_number(summary.macs) for summary in runs],
    }
    results = {name: texts for name, texts in results.items() if any(texts)}
    return Comparison(
        labels(pairs), differing, results, _mean_over_seeds(runs) if differing.keys() == {"seed"} else None
    )


def labels(pairs: Sequence[tuple[Path, Summary]]) -> list[str]:
    """Return the names of the runs; folder paths for runs whose name is not unique."""
    names = Counter(summary.name for _, summary in pairs)
    return [summary.name if names[summary.name] == 1 else str(path) for path, summary in pairs]


def score_text(summary: Summary) -> str:
    """Format the score of a run, with the metric's name unless that is accuracy; "" if there is no score."""
    text = "" if summary.score is None else format_metric(summary.criterion, summary.score)
    return f"{summary.criterion} {text}" if text and summary.criterion != "accuracy" else text


def short_number(value: int | None) -> str:
    """Format a count with three significant digits and a unit prefix, such as `1.23M`; "" for None."""
    if value is None:
        return ""
    for unit, size in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if value >= size:
            return f"{value / size:.3g}{unit}"
    return str(value)


def _mean_over_seeds(runs: Sequence[Summary]) -> str:
    """Return mean and sample standard deviation of the scores as text; "" if there are fewer than two scores or the
    metrics differ."""
    scores = [summary.score for summary in runs if summary.score is not None]
    if len(scores) < 2 or len({summary.criterion for summary in runs}) > 1:
        return ""
    name = runs[0].criterion
    return f"{format_metric(name, mean(scores))} +- {format_metric(name, stdev(scores))}"


def differences(settings_of_runs: Sequence[Mapping[str, str]]) -> dict[str, list[str]]:
    """Return the settings in which runs differ: by key, the value in each run, "" where a run lacks the setting."""
    keys = dict.fromkeys(key for settings_of_run in settings_of_runs for key in settings_of_run)
    rows = {key: [settings_of_run.get(key, "") for settings_of_run in settings_of_runs] for key in keys}
    return {key: row for key, row in rows.items() if len({*row}) > 1}

"""Results of a study of trainings: what is measured of its runs, and differences between arms, paired by seed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import isclose, sqrt
from statistics import mean, stdev
from typing import Any

from archir.diagnostics.errors import fail, join_names
from archir.runs import Run
from archir.runs.report import finite_number
from archir.studies.comparison import SIGNIFICANCE_LEVEL
from archir.studies.statistics import holm_correction, paired_t_test
from archir.studies.trainings import Measure, PlannedRun, TrainingStudy
from archir.utils.metrics import format_metric, is_fraction
from archir.utils.ranks import kendall


@dataclass(frozen=True)
class MeasuredRun:
    """Run of a study with its values by measure; unless it is finished, it has none.

    `state` is "not begun", "interrupted", "running" or "finished"; `curves` are values by epoch, which count from 1;
    `seconds` is the wall time of all epochs.
    """

    arm: str
    seed: int
    state: str
    values: Mapping[str, float] = field(default_factory=dict)
    curves: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    seconds: float | None = None

    @property
    def name(self) -> str:
        """Name of the run's folder."""
        return f"{self.arm}-seed{self.seed}"


def measured_run(planned: PlannedRun, state: str, run: Run, measures: Sequence[Measure]) -> MeasuredRun:
    """Return what is measured of a run. Raises ArchError (A2266) if a finished run lacks a metric, or a finite one."""
    if state != "finished":
        return MeasuredRun(planned.arm, planned.seed, state)
    curves = {measure.text: _curve(run, *measure.parts[0]) for measure in measures if not measure.is_tau}
    taus = {measure.text: _rank_correlation(run, measure) for measure in measures if measure.is_tau}
    values = {text: curve[max(curve)] for text, curve in curves.items()} | taus
    seconds = sum(row.get("seconds", 0.0) for phase in run.phases() for row in phase.rows())
    ordered = {measure.text: values[measure.text] for measure in measures}
    return MeasuredRun(planned.arm, planned.seed, state, ordered, curves, seconds)


def _curve(run: Run, phase: str, metric: str) -> dict[int, float]:
    """Return the finite values of a metric by epoch; the last one recorded is among them."""
    values = {int(row["epoch"]) + 1: finite_number(row[metric]) for row in run.phase(phase).rows() if metric in row}
    if not values:
        metrics = {
            each.name: [*dict.fromkeys(name for row in each.rows() for name in row if name != "epoch")]
            for each in run.phases()
        }
        listed = "; ".join(f"{name}: {', '.join(names)}" for name, names in metrics.items())
        raise fail("A2266", f"{run.folder} has no `{metric}` in phase `{phase}`", None, f"metrics of {listed}")
    if values[max(values)] is None:
        text = f"`{metric}` of phase `{phase}` in {run.folder} is no finite number after epoch {max(values)}, the last"
        hint = "measure something else, or remove the arm or the seed from the study"
        raise fail("A2266", text, None, hint)
    return {epoch: value for epoch, value in values.items() if value is not None}


def _rank_correlation(run: Run, measure: Measure) -> float:
    """Return Kendall's tau between the scores of two phases for the architectures that both tried.

    Of each phase, only trials at its largest budget count: scores after different budgets are not comparable.
    """
    scores: list[dict[str, float]] = []
    for phase, score in measure.parts:
        trials = run.phase(phase).trials()
        scored = [(trial, value) for trial in trials if (value := finite_number(trial.scores.get(score))) is not None]
        largest = max((trial.budget for trial, _ in scored), default=1.0)
        scores.append(
            {
                json.dumps(dict(trial.architecture), sort_keys=True): value
                for trial, value in scored
                if isclose(trial.budget, largest)
            }
        )
        if not scored:
            names = [*dict.fromkeys(name for trial in trials for name in trial.scores)]
            hint = f"scores of its trials: {join_names(names)}" if names else "the phase tries no architectures"
            raise fail("A2266", f"no trial of phase `{phase}` in {run.folder} has the score `{score}`", None, hint)
    shared = [key for key in scores[0] if key in scores[1]]
    tau = kendall([scores[0][key] for key in shared], [scores[1][key] for key in shared])
    if tau is None:
        text = f"`{measure.text}` of {run.folder} is undefined: {len(shared)} architectures have both scores"
        raise fail("A2266", text, None, "at least two architectures need different scores")
    return tau


@dataclass(frozen=True)
class Difference:
    """Mean difference from the baseline over `pairs` seeds, with its 95% interval and p-value.

    `left_out` is the number of seeds that only one of the two arms has finished; `p` is corrected by Holm's method for
    the number of arms. With fewer than two pairs, there is no interval.
    """

    mean: float
    pairs: int
    left_out: int
    low: float | None = None
    high: float | None = None
    p: float | None = None


@dataclass(frozen=True)
class ArmResult:
    """Result of an arm by one measure, over the seeds it has finished; the baseline has no difference."""

    measured: str
    arm: str
    values: Sequence[float]
    planned: int
    seconds: float | None
    """Mean wall time of a run."""
    difference: Difference | None = None

    @property
    def mean(self) -> float | None:
        """Mean over seeds."""
        return mean(self.values) if self.values else None

    @property
    def standard_error(self) -> float | None:
        """Standard error of the mean; None if there are fewer than two values."""
        return stdev(self.values) / sqrt(len(self.values)) if len(self.values) > 1 else None

    @property
    def verdict(self) -> str:
        """What is known about the difference from the baseline, in words; "" for the baseline."""
        difference = self.difference
        if difference is None:
            return ""
        if difference.low is None or difference.high is None or difference.p is None:
            return "undecided: fewer than two seeds are finished in both arms"
        count = difference.left_out
        left_out = f"; seeds left out, as only one arm has finished them: {count}" if count else ""
        if not difference.low and not difference.high:
            return f"no difference: both arms have equal values with every seed{left_out}"
        interval = format_interval(self.measured, difference.low, difference.high)
        if difference.p <= SIGNIFICANCE_LEVEL:
            return f"apart from zero: the interval is {interval}{left_out}"
        if difference.low <= 0 <= difference.high:
            return f"undecided: the difference may be anything from {interval}{left_out}"
        text = f"undecided: the interval of this pair alone is {interval}, but p is {difference.p:.2g} with Holm's "
        return f"{text}correction for all arms{left_out}"


@dataclass(frozen=True)
class TrainingComparison:
    """Results of a study of trainings: its runs, and the results of all arms by each measure."""

    baseline: str
    runs: Sequence[MeasuredRun]
    results: Sequence[ArmResult]

    @property
    def by_measure(self) -> dict[str, list[ArmResult]]:
        """Results of all arms, by measure."""
        names = dict.fromkeys(result.measured for result in self.results)
        return {name: [each for each in self.results if each.measured == name] for name in names}

    @property
    def finished(self) -> int:
        """Number of finished runs."""
        return sum(run.state == "finished" for run in self.runs)

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each measure and arm; numbers that are not known are None."""
        return [
            {
                "measured": result.measured, "arm": result.arm, "runs": len(result.values), "planned": result.planned,
                "mean": result.mean, "standard_error": result.standard_error,
                **{
                    column: None if result.difference is None else getattr(result.difference, name)
                    for column, name in _DIFFERENCE_COLUMNS.items()
                },
                "verdict": result.verdict, "seconds": result.seconds,
            }
            for result in self.results
        ]  # fmt: skip

    def as_json(self) -> dict[str, Any]:
        """Return all results as plain data."""
        return {
            "finished": self.finished,
            "planned": len(self.runs),
            "baseline": self.baseline,
            "results": self.rows(),
            "runs": [{"name": run.name, **asdict(run)} for run in self.runs],
        }


_DIFFERENCE_COLUMNS = {
    "difference": "mean", "low": "low", "high": "high", "p_after_holm": "p", "pairs": "pairs", "left_out": "left_out",
}  # fmt: skip
"""Attributes of a `Difference` by the column of a row."""


def compare_arms(study: TrainingStudy, runs: Sequence[MeasuredRun]) -> TrainingComparison:
    """Compare the arms of a study by the runs that are finished."""
    results = []
    for measure in study.measures:
        by_arm = {
            arm: {run.seed: run.values[measure.text] for run in runs if run.arm == arm and run.values}
            for arm in study.arms
        }
        reference = by_arm[study.reference]
        differences = {
            arm: difference
            for arm, values in by_arm.items()
            if arm != study.reference and (difference := _difference(values, reference)) is not None
        }
        tested = {arm: each.p for arm, each in differences.items() if each.p is not None}
        for arm, p in holm_correction(tested).items():
            differences[arm] = replace(differences[arm], p=p)
        for arm, values in by_arm.items():
            of_arm = [run for run in runs if run.arm == arm]
            times = [run.seconds for run in of_arm if run.seconds is not None]
            seconds = mean(times) if times else None
            results.append(
                ArmResult(measure.text, arm, list(values.values()), len(of_arm), seconds, differences.get(arm))
            )
    return TrainingComparison(study.reference, runs, results)


def _difference(values: Mapping[int, float], reference: Mapping[int, float]) -> Difference | None:
    """Return the difference between two arms, paired by seed; None if no seed is finished in both."""
    paired = [values[seed] - reference[seed] for seed in values if seed in reference]
    left_out = len(values.keys() ^ reference.keys())
    if not paired:
        return None
    if len(paired) == 1:
        return Difference(paired[0], 1, left_out)
    low, high, p = paired_t_test(paired)
    return Difference(mean(paired), len(paired), left_out, low, high, p)


def format_value(measured: str, value: float | None) -> str:
    """Format a value in the units of its measure; "" for None."""
    return "" if value is None else format_metric(measured, value)


def format_error(measured: str, value: float | None) -> str:
    """Format a standard error, without unit; "" for None."""
    return "" if value is None else f"{100 * value:.2f}" if is_fraction(measured) else f"{value:.2g}"


def format_difference(measured: str, value: float) -> str:
    """Format a difference with its sign: of fractions in percentage points."""
    return f"{100 * value:+.2f}" if is_fraction(measured) else f"{value:+.2g}"


def format_interval(measured: str, low: float, high: float) -> str:
    """Format an interval of differences: `-0.40 to +0.60 points`."""
    unit = " points" if is_fraction(measured) else ""
    return f"{format_difference(measured, low)} to {format_difference(measured, high)}{unit}"


def format_seconds(value: float | None) -> str:
    """Format a time in seconds; "" for None."""
    return "" if value is None else f"{value:.{1 if value < 10 else 0}f}"


def result_cells(result: ArmResult) -> list[str]:
    """Return the cells of a result below `RESULT_HEAD`."""
    measured, difference = result.measured, result.difference
    value, error = format_value(measured, result.mean), format_error(measured, result.standard_error)
    difference_text = p = ""
    if difference is not None:
        difference_text = format_difference(measured, difference.mean)
        if difference.low is not None and difference.high is not None:
            interval = format_interval(measured, difference.low, difference.high).removesuffix(" points")
            difference_text = f"{difference_text} ({interval})"
        if difference.p is not None:
            p = "<0.0001" if difference.p < 1e-4 else f"{difference.p:.4f}"
    runs = f"{len(result.values)} of {result.planned}"
    return [
        result.arm,
        runs,
        f"{value} ({error})" if error else value,
        difference_text,
        p,
        format_seconds(result.seconds),
    ]


RESULT_HEAD = ("arm", "runs", "mean (s.e.)", "difference (95%)", "p", "seconds")
"""Column headings of a table of results by one measure."""

"""Results of a study: curves, values at each budget, ranks and statistical tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import inf, isfinite
from typing import Any

import numpy as np

from archir.studies.anytime import Floats, GroundTruth, curve_points
from archir.studies.searches import SearchId, Trials
from archir.studies.statistics import holm_correction, probability_less, signed_rank_test, undecided_groups
from archir.studies.study import LoadedTask, Study
from archir.utils.metrics import is_fraction
from archir.utils.ranks import ranks

SIGNIFICANCE_LEVEL = 0.05
"""Significance level: differences with p-values up to this are significant."""
_DECIMALS = 12
"""Decimals to which values are rounded before ranking, so that rounding errors do not break ties."""


@dataclass(frozen=True)
class TaskResult:
    """Results on one task: the points of the curves, and for each strategy the values for all seeds [seeds, points]."""

    name: str
    value_name: str
    """Name of the quantity on the vertical axis of the curves."""
    percent: bool
    evaluations: Floats
    values: Sequence[Floats]
    regrets: Sequence[Floats]
    """Regret of each strategy at each budget [seeds, budgets]."""
    distances: Sequence[Floats]
    """IGD of each strategy at each budget [seeds, budgets]; empty for a single objective."""
    best: float
    """Best value in the table; 1 (the full hypervolume) for several objectives."""


@dataclass(frozen=True)
class BudgetResult:
    """Ranks and statistical tests over all tasks and seeds, after a given number of full evaluations."""

    budget: float
    ranks: Sequence[float]
    """Mean rank of each strategy; 1 is the best."""
    p_values: Mapping[tuple[int, int], float]
    """P-value for each pair of strategies, after Holm's correction."""
    groups: Sequence[Sequence[int]]
    win_probabilities: Sequence[Sequence[float]]
    """Matrix of the probabilities that the row's strategy is better than the column's."""


@dataclass(frozen=True)
class StudyComparison:
    """Results of a study: per task and per budget."""

    study: Study
    strategies: Sequence[str]
    tasks: Sequence[TaskResult]
    budgets: Sequence[BudgetResult]


def compare_searches(
    study: Study, loaded_tasks: Sequence[LoadedTask], trials_of: Mapping[SearchId, Trials]
) -> StudyComparison:
    """Compare the strategies of a study by all its searches.

    If a strategy failed on a task for some seed, that seed is dropped on this task for all strategies.
    """
    evaluations = curve_points(max(study.budgets), study.budgets)
    tasks = [_task_result(study, number, task, trials_of, evaluations) for number, task in enumerate(loaded_tasks)]
    budgets = [_budget_result(number, budget, tasks) for number, budget in enumerate(study.budgets)]
    return StudyComparison(study, [entry.name for entry in study.strategy], tasks, budgets)


def _task_result(
    study: Study, number: int, task: LoadedTask, trials_of: Mapping[SearchId, Trials], evaluations: Floats
) -> TaskResult:
    truth = GroundTruth(task)
    strategies = range(len(study.strategy))
    seeds = [
        seed
        for seed in range(study.seed, study.seed + study.seeds)
        if all(SearchId(number, item, seed) in trials_of for item in strategies)
    ]
    searches = [[trials_of[SearchId(number, item, seed)] for seed in seeds] for item in strategies]
    budgets = np.array(study.budgets, np.float64)

    def measured(measure: Callable[[Trials, Floats], Floats], at: Floats) -> list[Floats]:
        """Return a measure after numbers of evaluations, for each strategy [seeds, numbers]."""
        return [np.array([measure(trials, at) for trials in each]).reshape(-1, len(at)) for each in searches]

    name, _, sense = task.objectives[0].rpartition(":")
    value_name = "hypervolume, as a fraction of the true front's" if task.is_multi_objective else name
    best = 1.0 if task.is_multi_objective else (-1.0 if sense == "max" else 1.0) * truth.scale[0]
    return TaskResult(
        task.task.name, value_name, task.is_multi_objective or (is_fraction(name) and best <= 1),
        evaluations, measured(truth.quality, evaluations), measured(truth.regrets, budgets),
        measured(truth.distances, budgets) if task.is_multi_objective else (), best,
    )  # fmt: skip


def _budget_result(number: int, budget: float, tasks: Sequence[TaskResult]) -> BudgetResult:
    count = len(tasks[0].regrets)
    blocks = np.concatenate([np.stack([regrets[:, number] for regrets in task.regrets], 1) for task in tasks])
    means = np.stack([ranks(row) for row in np.round(blocks, _DECIMALS)]).mean(0).tolist()
    with np.errstate(invalid="ignore"):
        tests = {
            (a, b): signed_rank_test(np.round(blocks[:, a] - blocks[:, b], _DECIMALS).tolist())
            for a, b in combinations(range(count), 2)
        }
    corrected = holm_correction(tests)
    win_probabilities = [[_win_probability(tasks, number, a, b) for b in range(count)] for a in range(count)]
    return BudgetResult(
        budget, means, corrected, undecided_groups(means, corrected, SIGNIFICANCE_LEVEL), win_probabilities
    )


def _win_probability(tasks: Sequence[TaskResult], number: int, a: int, b: int) -> float:
    """Return the probability that strategy `a` is better than `b`, over all pairs of seeds, as a mean over tasks."""
    pairs = [
        (np.round(t.regrets[a][:, number], _DECIMALS), np.round(t.regrets[b][:, number], _DECIMALS)) for t in tasks
    ]
    probabilities = [probability_less(first, second) for first, second in pairs if len(first)]
    return float(np.mean(probabilities)) if probabilities else 0.5


def result_rows(comparison: StudyComparison) -> Iterator[dict[str, Any]]:
    """Yield a result row for each task, budget and strategy: median, quartiles, mean, standard error, median IGD.

    All but the IGD, which is then infinite, leave out seeds that have found nothing: `seeds` of the `planned` ones have
    a value. Numbers that are not known or not finite are None.
    """
    for task in comparison.tasks:
        for number, budget in enumerate(comparison.budgets):
            point = int(np.flatnonzero(task.evaluations == budget.budget)[0])
            for strategy, name in enumerate(comparison.strategies):
                column = task.values[strategy][:, point]
                column = column[~np.isnan(column)]
                quartiles = np.percentile(column, [25, 50, 75]).tolist() if len(column) else [None] * 3
                error = float(column.std(ddof=1) / len(column) ** 0.5) if len(column) > 1 else None
                igd = float(np.median(task.distances[strategy][:, number])) if task.distances else inf
                yield {
                    "task": task.name, "strategy": name, "evaluations": budget.budget,
                    "seeds": len(column), "planned": comparison.study.seeds,
                    "median": quartiles[1], "quartile_1": quartiles[0], "quartile_3": quartiles[2],
                    "mean": float(column.mean()) if len(column) else None, "standard_error": error,
                    "igd_median": igd if isfinite(igd) else None,
                }  # fmt: skip

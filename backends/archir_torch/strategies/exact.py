"""Exact search: architectures with the best sum of additive scores (from a file or an earlier phase) or the
best cost."""

from __future__ import annotations

import json
from copy import copy

from pydantic import model_validator

from archir.diagnostics.errors import fail
from archir.recipes.open_choices import OpenSpace, fix_choices
from archir.recipes.trials import TrialOptions
from archir.runs.folder import copied_scores_path
from archir.scoring.sources import log_probability_scores, scores_from_trials
from archir.search.ask_tell import Listed
from archir.search.objectives import objective
from archir.spaces.optimal.answers import Answer, optimize
from archir.spaces.optimal.problem import Objective
from archir.spaces.scores import AdditiveScores, read
from archir.spaces.space import Space
from archir.utils.settings import Count, Positive
from archir_torch.search.comparison import with_default_objectives
from archir_torch.search.job import Job, Outcome, Strategy, strategy
from archir_torch.search.task import objective_of
from archir_torch.strategies.trials import GIVES, TrialStrategy
from archir_torch.strategies.untrained import Untrained


class ExactOptions(TrialOptions):
    """Options of `exact`: what to optimise, and how many architectures to return."""

    maximize: str = ""
    """What to maximise: a file written by `archir scores`, or a cost.

    By default, these are the log-probabilities from `start.alphas`, or a table of scores estimated from `start.trials`.
    """
    minimize: str = ""
    """Cost to minimise."""
    best: Count = 1
    """Number of best architectures to find. If more than one, `scorer` scores them, and the best score decides."""
    seconds: Positive = 600.0
    """Time limit in seconds. When it is reached, the best architectures found so far are used."""
    objective: str = "accuracy:max"
    """Score by which candidates are compared, and that is estimated from `start.trials`."""

    @model_validator(mode="after")
    def _check_goal(self) -> ExactOptions:
        if self.maximize and self.minimize:
            raise ValueError("`maximize` and `minimize` exclude each other: name one of them")
        if self.min_budget_fraction:
            raise ValueError(
                "`min_budget_fraction` is for strategies that sample; `exact` searches everything within the bounds"
            )
        return self


def _needs_scoring(options: ExactOptions) -> bool:
    """Return True if the best architectures are scored after the optimisation."""
    return options.best > 1 or "scorer" in options.model_fields_set


@strategy("exact", ExactOptions, gives=GIVES, scores=_needs_scoring)
def make(job: Job, options: ExactOptions) -> Strategy:
    """Create the strategy. A single best architecture is scored only if the options name a scorer."""
    scored = _needs_scoring(options)
    options = with_default_objectives(options, objective_of(job.phase, job.folder))
    return BestCandidates(job, options) if scored else Optimum(job, options)


class Optimum(Untrained):
    """Strategy that returns the best architecture without scoring it."""

    def __init__(self, job: Job, options: ExactOptions) -> None:
        self.job, self.options = job, options

    def outcome(self) -> Outcome:
        """Return the best architecture."""
        answer = find_best(self.job, self.options)
        return Outcome(architecture=answer.best, files=_result_files(answer))


class BestCandidates(TrialStrategy):
    """Strategy that scores the best architectures as one batch, in order from the best."""

    def __init__(self, job: Job, options: ExactOptions) -> None:
        self.answer = find_best(job, options)

        def search(space: Space, seed: int) -> Listed:
            return Listed(space, options.objective, list(map(self.restrict, self.answer.architectures)), seed)

        super().__init__(job, options, search)

    def outcome(self) -> Outcome:
        """Return the architecture with the best score, and the optimisation result as a file."""
        outcome = super().outcome()
        return Outcome(architecture=outcome.architecture, files={**outcome.files, **_result_files(self.answer)})


def find_best(job: Job, options: ExactOptions) -> Answer:
    """Find the best architectures of the full space; choices that are not open keep their outcomes.

    Raises ArchError (A3301, A3304).
    """
    opened = fix_choices(job.space, job.phase.open, job.phase.fixed, job.architecture)
    space = _bounded_space(opened, options.where) if options.where else job.space
    answer = optimize(space, _objective(job, options), options.best, opened.fixed_outcomes, options.seconds)
    _ = answer.best  # raises the error that says why, if there is no architecture
    return answer


def _bounded_space(opened: OpenSpace, where: str) -> Space:
    """Return the full space, restricted by the cost bounds `where`."""
    graph, count = copy(opened.full_space.graph), len(opened.space.graph.constraints)
    graph.constraints = [*graph.constraints, *opened.space.where(where).graph.constraints[count:]]
    return Space(graph)


def _objective(job: Job, options: ExactOptions) -> Objective:
    """Return the optimisation objective: scores from a file or from an earlier phase, or a cost."""
    if options.minimize:
        return Objective(options.minimize)
    if options.maximize.endswith(".json"):
        copied = job.folder.parent / copied_scores_path(options.maximize)
        return Objective(read(copied if copied.exists() else job.folder / options.maximize, job.space), True)
    if options.maximize:
        return Objective(options.maximize, True)
    return Objective(_scores(job, options), True)


def _scores(job: Job, options: ExactOptions) -> AdditiveScores:
    """Return additive scores from the results of an earlier phase: its architecture parameters or its trials.

    Raises ArchError (A2213, A3323, A3324).
    """
    start = job.phase.start
    if job.alphas is not None:
        return log_probability_scores(job.space, job.alphas, f"phase `{start.alphas}`")
    if start.trials is None:
        hint = 'options.maximize = "scores.json", or options.minimize = "macs"; start.alphas or start.trials = "PHASE"'
        raise fail("A2213", f"phase `{job.phase.name}` has nothing to optimise", None, hint)
    aim = objective(options.objective)
    return scores_from_trials(job.space, job.earlier, start.trials, aim.name, aim.maximize)


def _result_files(answer: Answer) -> dict[str, str]:
    """Return a JSON file that lists the architectures in order, and says whether they are proved to be optimal."""
    solutions = zip(answer.architectures, answer.values, strict=True)
    facts = {
        "proved": answer.proved,
        "bound": None if answer.bound is None else float(answer.bound),
        "best": [{"value": float(value), "choices": dict(choices)} for choices, value in solutions],
    }
    return {"optimum.json": json.dumps(facts, indent=1) + "\n"}

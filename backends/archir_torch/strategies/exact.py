"""The best architectures by what adds up, found exactly: by scores of a file, or of an earlier phase, or by a cost."""

from __future__ import annotations

import json
from copy import copy

from pydantic import model_validator

from archir.diagnostics.errors import fail
from archir.recipes.open_choices import Opened, settle
from archir.recipes.trials import TrialOptions
from archir.scoring.sources import kept_as, logarithms, of_tried
from archir.search.objectives import objective
from archir.search.strategies.listed import Listed
from archir.spaces.optimal.answers import Answer, optimize
from archir.spaces.optimal.problem import Objective
from archir.spaces.scores import Scores, read
from archir.spaces.space import Space
from archir.utils.settings import Count, Positive
from archir_torch.search.aims import aimed
from archir_torch.search.job import Job, Outcome, Strategy, strategy
from archir_torch.search.task import objective_of
from archir_torch.strategies.trials import GIVES, Trials
from archir_torch.strategies.untrained import Untrained


class ExactOptions(TrialOptions):
    """What is best, and how many."""

    maximize: str = ""
    """A file of `archir scores`, or a cost. By default, scores are those that `start.alphas` has, or a table made of
    `start.trials`."""
    minimize: str = ""
    """A cost."""
    best: Count = 1
    """How many, in order. More than one are scored by `scorer`, and the best by that is what the phase comes to."""
    seconds: Positive = 600.0
    """After this, the best that was found is taken."""
    objective: str = "accuracy:max"
    """By which candidates are compared, and which score of `start.trials` counts."""

    @model_validator(mode="after")
    def _one(self) -> ExactOptions:
        if self.maximize and self.minimize:
            raise ValueError("one thing is optimised: `maximize` something, or `minimize` something")
        if self.use:
            raise ValueError("`use` is for what is drawn; the best within bounds is found wherever it is")
        return self


def _scored(options: ExactOptions) -> bool:
    return options.best > 1 or "scorer" in options.model_fields_set


@strategy("exact", ExactOptions, gives=GIVES, scores=_scored)
def make(job: Job, options: ExactOptions) -> Strategy:
    """One architecture is what it is, without being scored, unless somebody is named to score it."""
    scored = _scored(options)
    options = aimed(options, objective_of(job.phase, job.folder))
    return Candidates(job, options) if scored else Optimum(job, options)


class Optimum(Untrained):
    """Nothing is trained, and nothing scored."""

    def __init__(self, job: Job, options: ExactOptions) -> None:
        self.job, self.options = job, options

    def outcome(self) -> Outcome:
        """The best one."""
        answer = found(self.job, self.options)
        return Outcome(architecture=answer.best, files=_files(answer))


class Candidates(Trials):
    """One batch: the best ones, in order."""

    def __init__(self, job: Job, options: ExactOptions) -> None:
        self.answer = found(job, options)

        def search(space: Space, seed: int) -> Listed:
            return Listed(space, options.objective, list(map(self.restricted, self.answer.architectures)), seed)

        super().__init__(job, options, search)

    def outcome(self) -> Outcome:
        """The best of them by what scored them."""
        outcome = super().outcome()
        return Outcome(architecture=outcome.architecture, files={**outcome.files, **_files(self.answer)})


def found(job: Job, options: ExactOptions) -> Answer:
    """The best architectures of the whole space, what is not open held as it is. Raises ArchError (A3301, A3304)."""
    opened = settle(job.space, job.phase.open, job.phase.fixed, job.architecture)
    whole = _within(opened, options.where) if options.where else job.space
    answer = optimize(whole, _objective(job, options), options.best, opened.made, options.seconds)
    _ = answer.best  # if there is none, the error that says why
    return answer


def _within(opened: Opened, where: str) -> Space:
    """The whole space within bounds, of which parts are those of what is open, as for all that try candidates."""
    graph, known = copy(opened.whole.graph), len(opened.space.graph.constraints)
    graph.constraints = [*graph.constraints, *opened.space.where(where).graph.constraints[known:]]
    return Space(graph)


def _objective(job: Job, options: ExactOptions) -> Objective:
    if options.minimize:
        return Objective(options.minimize)
    if options.maximize.endswith(".json"):
        copied = job.folder.parent / kept_as(options.maximize)
        return Objective(read(copied if copied.exists() else job.folder / options.maximize, job.space), True)
    if options.maximize:
        return Objective(options.maximize, True)
    return Objective(_scores(job, options), True)


def _scores(job: Job, options: ExactOptions) -> Scores:
    """Those of the phase that this one starts from. Raises ArchError (A2213, A3323, A3324)."""
    start = job.phase.start
    if job.alphas is not None:
        return logarithms(job.space, job.alphas, f"phase `{start.alphas}`")
    if start.trials is None:
        hint = 'options.maximize = "scores.json", or options.minimize = "macs"; start.alphas or start.trials = "PHASE"'
        raise fail("A2213", f"phase `{job.phase.name}` has nothing to optimise", None, hint)
    aim = objective(options.objective)
    return of_tried(job.space, job.earlier, start.trials, aim.name, aim.most)


def _files(answer: Answer) -> dict[str, str]:
    """What was found, in order, and whether that is proved."""
    several = zip(answer.architectures, answer.values, strict=True)
    facts = {
        "proved": answer.settled,
        "bound": None if answer.bound is None else float(answer.bound),
        "best": [{"value": float(value), "choices": dict(one)} for one, value in several],
    }
    return {"optimum.json": json.dumps(facts, indent=1) + "\n"}

"""What candidates are compared by: the objective's criterion, unless a phase says otherwise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar

from archir.diagnostics.errors import fail, listed, suggest
from archir.language.elaboration.costs import is_cost
from archir.recipes.trials import TABLE, TrialOptions
from archir.search.objectives import objective as aim
from archir.spaces.space import Space
from archir.tabular.table import Results
from archir_torch.objectives import Objective
from archir_torch.search.job import Job
from archir_torch.search.task import objective_of

Options = TypeVar("Options", bound=TrialOptions)

_USUAL = "accuracy:max"
FIELDS = ("objective", "objectives")
"""The options that name scores."""


class Compared(Protocol):
    """What candidates are compared by where nobody says otherwise: one of its measures."""

    @property
    def criterion(self) -> str:
        """The measure."""

    @property
    def larger(self) -> bool:
        """Whether more of it is better."""

    @property
    def directions(self) -> Mapping[str, bool]:
        """All measures, and whether more of each is better."""


def compared(job: Job) -> Compared:
    """What candidates of a job are compared by: the table that they are looked up in, or the objective."""
    return job.results if job.results is not None else objective_of(job.phase, job.folder)


def aimed(options: Options, objective: Compared) -> Options:
    """Options whose scores are those of an objective where nobody named others."""
    given = options.model_fields_set
    own = f"{objective.criterion}:{'max' if objective.larger else 'min'}"
    update: dict[str, object] = {}
    for name in FIELDS:
        value = getattr(options, name, None)
        if value is not None and name not in given:
            update[name] = _put(value, own)
    if isinstance(objective, Results):
        update["scorer"] = options.scorer.model_copy(update={"kind": TABLE})
    elif "score" not in options.scorer.model_fields_set:
        update["scorer"] = options.scorer.model_copy(update={"score": objective.criterion})
    return options.model_copy(update=update)


def _put(value: str | tuple[str, ...], own: str) -> str | tuple[str, ...]:
    if isinstance(value, str):
        return own if value == _USUAL else value
    return tuple(own if one == _USUAL else one for one in value)


def check(options: TrialOptions, field: str, objective: Objective | Results, space: Space) -> None:
    """Raise ArchError (A2502) for a score that one of the `FIELDS` names and nobody would give."""
    match TABLE if isinstance(objective, Results) else options.scorer.kind:
        case "table":
            scores: Sequence[str] = [*objective.directions]
        case "proxies":
            scores = options.scorer.proxies
        case "predictor":
            scores = [aimed(options, objective).scorer.score]
        case "inherited" | "training" if isinstance(objective, Objective) and objective.declared:
            scores = [*objective.directions]
        case _:  # whoever scores, or measures, has not said what
            return
    wanted = getattr(aimed(options, objective), field, ())
    for text in [wanted] if isinstance(wanted, str) else wanted:
        name = aim(text).name
        if name not in scores and name not in space.account.names and not is_cost(name):
            hint = suggest(name, scores) or f"scores are {listed([*scores])}, and costs of the space"
            raise fail("A2502", f"the objective `{name}` is not scored: no candidate could be compared", None, hint)

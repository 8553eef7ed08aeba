"""Choice of the scores that compare candidates: by default the objective's criterion, or those in the options
of a phase."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

from archir.diagnostics.errors import fail, join_names
from archir.diagnostics.hints import suggest
from archir.language.elaboration.cost_names import is_cost
from archir.recipes.trials import TABLE, TrialOptions
from archir.search.objectives import objective as aim
from archir.spaces.space import Space
from archir.utils.settings import parse_settings
from archir_torch.objectives import Objective
from archir_torch.search.job import Job, kind_of
from archir_torch.search.task import objective_of

if TYPE_CHECKING:  # few recipes look results up
    from archir.tabular.results import Results

Options = TypeVar("Options", bound=TrialOptions)

_DEFAULT = "accuracy:max"
"""Default value of the options that name scores; it is replaced by the criterion of the objective."""
OBJECTIVE_FIELDS = ("objective", "objectives")
"""Names of the options that name scores to optimise."""


class ComparisonSource(Protocol):
    """Protocol of objects that define how candidates are compared by default: an objective, or a table of results."""

    @property
    def criterion(self) -> str:
        """Name of the measure by which candidates are compared."""

    @property
    def larger(self) -> bool:
        """True if a larger value of the criterion is better."""

    @property
    def directions(self) -> Mapping[str, bool]:
        """Direction of every measure by name: True if larger is better."""


def comparison_source(job: Job) -> ComparisonSource:
    """Return the object that defines how a job compares candidates: its table of results, else its objective."""
    return job.results if job.results is not None else objective_of(job.phase, job.folder)


def objectives_of(job: Job) -> dict[str, bool]:
    """Return the scores and costs by which a job compares networks, most important first: whether larger values are
    better, by name."""
    source = comparison_source(job)
    options = parse_settings(kind_of(job.phase).options, job.phase.options)
    if isinstance(options, TrialOptions):
        for field in OBJECTIVE_FIELDS:
            if texts := _objectives_in(options, field, source):
                return {each.name: each.maximize for each in map(aim, texts)}
    return {source.criterion: source.larger}


def _objectives_in(options: TrialOptions, field: str, source: ComparisonSource) -> Sequence[str]:
    """Return the objectives that the option `field` names; () if there is no such option."""
    texts: str | Sequence[str] = getattr(with_default_objectives(options, source), field, ())
    return [texts] if isinstance(texts, str) else texts


def with_default_objectives(options: Options, objective: ComparisonSource) -> Options:
    """Return the options with default scores replaced by the criterion of the objective."""
    set_fields = options.model_fields_set
    default = f"{objective.criterion}:{'max' if objective.larger else 'min'}"
    update: dict[str, object] = {}
    for name in OBJECTIVE_FIELDS:
        value = getattr(options, name, None)
        if value is not None and name not in set_fields:
            update[name] = _replace_default(value, default)
    if not isinstance(objective, Objective):
        update["scorer"] = options.scorer.model_copy(update={"kind": TABLE})
    elif "score" not in options.scorer.model_fields_set:
        update["scorer"] = options.scorer.model_copy(update={"score": objective.criterion})
    return options.model_copy(update=update)


def _replace_default(value: str | tuple[str, ...], default: str) -> str | tuple[str, ...]:
    """Replace the default score by `default`, the criterion of the objective."""
    if isinstance(value, str):
        return default if value == _DEFAULT else value
    return tuple(default if text == _DEFAULT else text for text in value)


def check_objectives(options: TrialOptions, field: str, objective: Objective | Results, space: Space) -> None:
    """Check the scores that the option `field` names.

    Raises ArchError (A2502) for a name that is neither a score of the scorer nor a cost.
    """
    match options.scorer.kind if isinstance(objective, Objective) else TABLE:
        case "table":
            scores: Sequence[str] = [*objective.directions]
        case "proxies":
            scores = options.scorer.proxies
        case "predictor":
            scores = [with_default_objectives(options, objective).scorer.score]
        case "inherited" | "training" if isinstance(objective, Objective) and objective.declared:
            scores = [*objective.directions]
        case _:  # the scorer, or the objective, does not declare its scores
            return
    for text in _objectives_in(options, field, objective):
        name = aim(text).name
        if name not in scores and name not in space.account.names and not is_cost(name):
            hint = suggest(name, scores) or f"scores are {join_names([*scores])}, and costs of the space"
            raise fail("A2502", f"the objective `{name}` is not scored: no candidate could be compared", None, hint)

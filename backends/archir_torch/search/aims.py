"""What candidates are compared by: the objective's criterion, unless a phase says otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from archir.base.errors import fail, listed, suggest
from archir.language.elaboration.names.costs import is_cost
from archir.search.multi.objectives import objective as aim
from archir.search.recipes.trials import TrialOptions
from archir.search.spaces.space import Space
from archir_torch.objectives import Objective

Options = TypeVar("Options", bound=TrialOptions)

_USUAL = "accuracy:max"
FIELDS = ("objective", "objectives")
"""The options that name scores."""


def aimed(options: Options, objective: Objective) -> Options:
    """Options whose scores are those of an objective where nobody named others."""
    given = options.model_fields_set
    own = f"{objective.criterion}:{'max' if objective.larger else 'min'}"
    update: dict[str, object] = {}
    for name in FIELDS:
        value = getattr(options, name, None)
        if value is not None and name not in given:
            update[name] = _put(value, own)
    if "score" not in options.scorer.model_fields_set:
        update["scorer"] = options.scorer.model_copy(update={"score": objective.criterion})
    return options.model_copy(update=update)


def _put(value: str | tuple[str, ...], own: str) -> str | tuple[str, ...]:
    if isinstance(value, str):
        return own if value == _USUAL else value
    return tuple(own if one == _USUAL else one for one in value)


def check(options: TrialOptions, field: str, objective: Objective, space: Space) -> None:
    """Raise ArchError (A2502) for a score that one of the `FIELDS` names and nobody would give."""
    match options.scorer.kind:
        case "proxies":
            scores: Sequence[str] = options.scorer.proxies
        case "predictor":
            scores = [aimed(options, objective).scorer.score]
        case "inherited" | "training" if objective.declared:
            scores = [*objective.directions]
        case _:  # whoever scores, or measures, has not said what
            return
    wanted = getattr(aimed(options, objective), field, ())
    for text in [wanted] if isinstance(wanted, str) else wanted:
        name = aim(text).name
        if name not in scores and name not in space.account.names and not is_cost(name):
            hint = suggest(name, scores) or f"scores are {listed([*scores])}, and costs of the space"
            raise fail("A2502", f"the objective `{name}` is not scored: no candidate could be compared", None, hint)

"""Optuna as a sampler of architectures: call `archir.optuna.suggest(trial, space)` in the objective.

Optuna is not imported: only methods of the trial are called.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from archir.diagrams.mdd import Choice
from archir.search.adaptors.from_picks import architecture_from_picks, plain_label
from archir.spaces.architecture import Architecture
from archir.spaces.space import Space

ATTRIBUTE = "archir"
"""The trial's user attribute that holds the architecture."""
MAX_NAMED_OUTCOMES = 1_000
"""Maximum number of outcomes of a choice that are suggested by label; of choices with more, their number is
suggested."""


class Trial(Protocol):
    """Interface of Optuna's trials, both running and finished."""

    def suggest_categorical(self, name: str, choices: Sequence[Any]) -> Any:
        """Suggest one of several values."""
        ...

    def suggest_int(self, name: str, low: int, high: int) -> int:
        """Suggest an integer from `low` to `high`, inclusive."""
        ...

    def set_user_attr(self, key: str, value: Any) -> None:
        """Store a value with the trial."""
        ...


def suggest(trial: Trial, space: Space) -> Architecture:
    """Return the architecture that a trial suggests, within all bounds of the space.

    Parameters are named by the paths of choices; only active choices are suggested. If a requirement rules out the
    suggested outcomes, or they break a bound on costs, a similar architecture is returned. The trial's attribute
    `archir` holds its labels. For a finished trial, such as `study.best_trial`, the architecture is the same.
    """

    def pick(choice: Choice) -> int:
        if choice.outcome_count > MAX_NAMED_OUTCOMES:
            return int(trial.suggest_int(choice.path, 0, choice.outcome_count - 1))
        names = [plain_label(choice, outcome) for outcome in range(choice.outcome_count)]
        return names.index(trial.suggest_categorical(choice.path, names)) if len(names) > 1 else 0

    architecture = architecture_from_picks(space, pick)
    trial.set_user_attr(ATTRIBUTE, dict(architecture))
    return architecture

"""Optuna as a sampler of architectures: call `archir.optuna.suggest(trial, space)` in the objective.

Optuna itself is not imported; only methods of the trial are called.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from archir.diagrams.diagram import Choice
from archir.search.adaptors import architecture_from_picks, plain_label
from archir.spaces.architecture import Architecture
from archir.spaces.space import Space

ATTRIBUTE = "archir"
"""Name of the trial's user attribute that stores the architecture."""
MAX_NAMED_OUTCOMES = 1_000
"""Choices with at most this many outcomes are suggested by label (categorical); others by outcome index
(integer)."""


class Trial(Protocol):
    """Interface of Optuna trials, running or finished."""

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

    Optuna's parameters are named by the choice paths; only active choices are suggested. If the suggested
    outcomes violate a constraint or break a cost bound, a similar architecture is returned. Its labels are stored
    in the trial's user attribute `archir`. Called with a finished trial, such as `study.best_trial`, the function
    returns the same architecture again.

    Args:
        trial: The trial, running or finished.
        space: The space.

    Returns:
        The architecture.

    Examples:
        >>> import optuna
        >>> optuna.logging.set_verbosity(optuna.logging.ERROR)
        >>> study = optuna.create_study()
        >>> cost = lambda trial: archir.cost(space.specialize(archir.optuna.suggest(trial, space))).macs
        >>> study.optimize(cost, n_trials=5)
        >>> space.within(archir.optuna.suggest(study.best_trial, space))
        True
    """

    def pick(choice: Choice) -> int:
        if choice.outcome_count > MAX_NAMED_OUTCOMES:
            return int(trial.suggest_int(choice.path, 0, choice.outcome_count - 1))
        names = [plain_label(choice, outcome) for outcome in range(choice.outcome_count)]
        return names.index(trial.suggest_categorical(choice.path, names)) if len(names) > 1 else 0

    architecture = architecture_from_picks(space, pick)
    trial.set_user_attr(ATTRIBUTE, dict(architecture))
    return architecture

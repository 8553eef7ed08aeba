"""Optuna decides the choices of a space: `archir.optuna.suggest(trial, space)` in an objective is all there is to add.

Nothing of Optuna is imported: a trial is asked what it suggests.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from archir.diagrams.cases import Choice
from archir.search.adaptors.asking import asked, written
from archir.spaces.architecture import Architecture
from archir.spaces.space import Space

ATTRIBUTE = "archir"
"""The trial's attribute that holds what was chosen."""
MOST_NAMED = 1_000
"""Outcomes of a choice that are suggested by name; of more, a number is."""


class Trial(Protocol):
    """What Optuna's trials do: those under way, and those of a study that are done."""

    def suggest_categorical(self, name: str, choices: Sequence[Any]) -> Any:
        """One of several values."""
        ...

    def suggest_int(self, name: str, low: int, high: int) -> int:
        """A number from `low` to `high`."""
        ...

    def set_user_attr(self, key: str, value: Any) -> None:
        """Keep something beside the trial."""
        ...


def suggest(trial: Trial, space: Space) -> Architecture:
    """The architecture that a trial suggests, within all bounds of the space.

    Parameters are named by the paths of choices; those of choices that are not active are not suggested. Where a
    requirement rules out what is suggested, or a bound on costs is broken, an architecture near to it is taken: what
    it is stands in the trial's attribute `archir`. Of a trial that is done, such as `study.best_trial`, it is the same.
    """

    def pick(choice: Choice) -> int:
        if choice.outcomes > MOST_NAMED:
            return int(trial.suggest_int(choice.path, 0, choice.outcomes - 1))
        names = [written(choice, outcome) for outcome in range(choice.outcomes)]
        return names.index(trial.suggest_categorical(choice.path, names)) if len(names) > 1 else 0

    found = asked(space, pick)
    trial.set_user_attr(ATTRIBUTE, dict(found))
    return found

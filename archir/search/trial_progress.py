"""State of a search after each trial, for progress reports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class TrialProgress:
    """State of a search: trials, work, and the values of the first objective."""

    done: int
    """Number of finished trials, including failed ones and those of an interrupted run."""
    total: int
    """Maximum number of trials; 0 if unknown."""
    failed: int
    work_done: float
    """Sum of the training budgets of the finished trials, in full trainings."""
    work_total: float
    """Maximum sum of the training budgets of all trials; 0 if unknown."""
    objective: str
    """Name of the first objective."""
    last: float | None = None
    """Value of the first objective for the last trial; None if it failed or if none has finished since the start."""
    best: float | None = None
    """Best value of the first objective among the trials with the largest budget."""


TrialCallback = Callable[[TrialProgress], None]
"""Function that is called after each trial, and once before the first."""

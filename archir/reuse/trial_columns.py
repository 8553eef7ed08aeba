"""Trials of a run as table columns: scores, costs, and choices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from archir.diagnostics.errors import fail, join_names
from archir.diagnostics.escaping import escape_to_line
from archir.recipes import plugins
from archir.recipes.parsing import recipe_of_run
from archir.recipes.spaces import space_of
from archir.runs import Run
from archir.runs.folder import SPACE
from archir.utils.frames import Tabular

COSTS = ("params", "macs")
"""Costs for which there is a column."""


class Trials(dict[str, list[Any]], Tabular):
    """Columns of equal length by name, with one row per trial."""

    def __repr__(self) -> str:
        trials = len(next(iter(self.values()), []))
        return escape_to_line(f"<Trials: {trials:,}, with {', '.join(self) or 'no columns'}>")

    def columns(self) -> dict[str, list[Any]]:
        """Return the columns as a dictionary."""
        return dict(self)


def read_trials(folder: Path, phase: str | None = None) -> Trials:
    """Return the trials of a run, or of one of its phases, as columns.

    Columns: `phase`, `trial`, `status`, `hash`, `budget`, `seconds`, then `scores.NAME`, `costs.NAME` and
    `choices.PATH`. Missing values are None. The run may still be running. Raises ArchError: A1207 (the phase does
    not exist or has no trials), A18xx (the run is damaged), A3105 (the run needs plugins that are not loaded).
    """
    run = Run.open(folder)
    recipe = recipe_of_run(run).recipe
    plugins.require_loaded(recipe)
    with_trials = [traced for traced in recipe.phase if run.phase(traced.name).trials()]
    if phase is not None and all(traced.name != phase for traced in with_trials):
        names = [traced.name for traced in with_trials]
        hint = f"there are {join_names(names)}" if names else "no phase of it tried candidates"
        raise fail("A1207", f"{folder} has no trials of a phase `{phase}`", None, hint)
    rows: list[dict[str, Any]] = []
    for traced in with_trials:
        if phase not in (None, traced.name):
            continue
        space, tried = space_of(recipe, traced, run.folder / SPACE), run.phase(traced.name).trials()
        costs = space.cost([space.architecture(trial.architecture) for trial in tried], COSTS)
        for i, trial in enumerate(tried):
            row = {"phase": traced.name, "trial": trial.id, "status": trial.status, "hash": trial.hash}
            row |= {"budget": trial.budget, "seconds": trial.seconds}
            row |= {f"scores.{name}": value for name, value in trial.scores.items()}
            row |= {f"costs.{name}": int(costs[name][i]) for name in COSTS}
            rows.append(row | {f"choices.{path}": label for path, label in trial.architecture.items()})
    columns = sorted({name for row in rows for name in row}, key=_column_order)
    return Trials({name: [row.get(name) for row in rows] for name in columns})


_PLAIN_COLUMNS = ("phase", "trial", "status", "hash", "budget", "seconds")
"""Columns without prefix, in order."""
_PREFIXES = ("scores", "costs", "choices")
"""Prefixes of the other columns, in order."""


def _column_order(name: str) -> tuple[int, str]:
    if name in _PLAIN_COLUMNS:
        return _PLAIN_COLUMNS.index(name), ""
    return len(_PLAIN_COLUMNS) + _PREFIXES.index(name.partition(".")[0]), name

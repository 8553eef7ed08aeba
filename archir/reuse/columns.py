"""What searches tried, as columns: scores, costs and choices of every trial."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from archir.diagnostics.errors import fail, listed
from archir.diagnostics.visible import one_line
from archir.recipes import plugins
from archir.recipes.borrowing import written
from archir.recipes.spaces import space_of
from archir.runs import Run
from archir.utils.frames import Framed

COSTS = ("params", "macs")


class Trials(dict[str, list[Any]], Framed):
    """Columns of one length, with a row for each trial."""

    def __repr__(self) -> str:
        trials = len(next(iter(self.values()), []))
        return one_line(f"<Trials: {trials:,}, with {', '.join(self) or 'no columns'}>")

    def columns(self) -> dict[str, list[Any]]:
        """The columns themselves."""
        return dict(self)


def columns(folder: Path, phase: str | None = None) -> Trials:
    """The trials of a run, of one of its phases or of all, in columns: `phase`, `trial`, `status`, `hash`, `budget`,
    `seconds`, then `scores.NAME`, `costs.NAME` and `choices.PATH`. What a trial does not have is None.

    The run may still be written. Raises ArchError: A1207 (no such phase tried anything), A18xx (it was damaged), A3105.
    """
    run = Run.open(folder)
    recipe = written(run).recipe
    plugins.require(recipe)
    trying = [one for one in recipe.phase if run.phase(one.name).trials()]
    if phase is not None and phase not in [one.name for one in trying]:
        hint = f"there are {listed([one.name for one in trying])}" if trying else "no phase of it tried candidates"
        raise fail("A1207", f"{folder} has no trials of a phase `{phase}`", None, hint)
    rows: list[dict[str, Any]] = []
    for one in trying:
        if phase not in (None, one.name):
            continue
        space, tried = space_of(recipe, one, run.folder / "space"), run.phase(one.name).trials()
        costs = space.cost([space.architecture(trial.architecture) for trial in tried], COSTS)
        for i, trial in enumerate(tried):
            row = {"phase": one.name, "trial": trial.id, "status": trial.status, "hash": trial.hash}
            row |= {"budget": trial.budget, "seconds": trial.seconds}
            row |= {f"scores.{name}": value for name, value in trial.scores.items()}
            row |= {f"costs.{name}": int(costs[name][i]) for name in COSTS}
            rows.append(row | {f"choices.{path}": label for path, label in trial.architecture.items()})
    names = sorted({name for row in rows for name in row}, key=_place)
    return Trials({name: [row.get(name) for row in rows] for name in names})


_FIRST = ("phase", "trial", "status", "hash", "budget", "seconds")
_GROUPS = ("scores", "costs", "choices")


def _place(name: str) -> tuple[int, str]:
    if name in _FIRST:
        return _FIRST.index(name), ""
    return len(_FIRST) + _GROUPS.index(name.partition(".")[0]), name

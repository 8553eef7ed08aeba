"""A network that a search tried, as a subject of commands."""

from __future__ import annotations

import json
from pathlib import Path

from archir.diagnostics.errors import fail, listed
from archir.ir.graph import Graph
from archir.recipes import plugins
from archir.recipes.reading import parse
from archir.recipes.recipe import Phase
from archir.recipes.spaces import space_of
from archir.runs import Run
from archir.spaces.architecture import Architecture
from archir.spaces.space import Space


def tried(folder: Path, which: str) -> tuple[Graph, Architecture, Space, Phase]:
    """The network of a trial, `17` or `PHASE:17`, of the search in a folder; the phase has the data of its recipe.

    Raises ArchError: A1207 (there is no such trial, or several), A18xx (the run was damaged).
    """
    run = Run.open(folder)
    phase, _, number = which.rpartition(":")
    found = [(p.name, t) for p in run.phases() for t in p.trials() if str(t.id) == number and phase in ("", p.name)]
    if len(found) != 1:
        raise fail("A1207", *_none(run, which) if not found else _several(which, [name for name, _ in found]))
    ((name, trial),) = found
    recipe = parse(run.content("recipe.toml").decode(), "recipe.toml", json.loads(run.content("overrides.json"))).recipe
    plugins.require(recipe)
    (settings,) = (one for one in recipe.phase if one.name == name)
    space = space_of(recipe, settings, folder / "space")
    architecture = space.architecture(trial.architecture)
    data = settings.model_copy(update={"data": recipe.data_of(settings)})
    return space.specialize(architecture), architecture, space, data


def _none(run: Run, which: str) -> tuple[str, None, str]:
    counts = {phase.name: len(phase.trials()) for phase in run.phases() if phase.trials()}
    trying = [f"{name}:0 to {name}:{count - 1}" if count > 1 else f"{name}:0" for name, count in counts.items()]
    hint = f"there are {', '.join(trying)}" if trying else "no phase of this search tried candidates"
    return f"{run.folder} has no trial `{which}`", None, hint


def _several(which: str, phases: list[str]) -> tuple[str, None, str]:
    names = listed([f"{name}:{which}" for name in phases])
    return f"several phases have a trial `{which}`", None, f"say which: {names}"

"""Derives networks for several budgets from one supernet, by a recipe that starts from the supernet's run.

For each budget, the recipe has two phases: a search that scores architectures with the supernet's weights on the
validation samples, and a phase that extracts the weights and measures batch-norm statistics. Both are ordinary
phases, so that everything that runs support is available for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from archir.diagnostics.errors import fail, join_names
from archir.recipes import plugins
from archir.recipes.job import SupernetRecord, read_supernet
from archir.recipes.parsing import open_run, recipe_of_run
from archir.recipes.recipe import Phase
from archir.recipes.spaces import space_of
from archir.runs import Run
from archir.runs.folder import RECIPE, SPACE, SUPERNET
from archir.spaces.space import Space
from archir.utils import toml

REPLACE_PHASE = "replaced"
"""Name of the phase that scores alternatives one by one."""
INHERITED_SETTINGS = ("space", "parameters", "data", "objective", "open")
"""Settings that new phases inherit from the phase that trained the supernet."""
INHERITED_TRAINING = ("batch", "precision")
"""Training settings that new phases inherit from the phase that trained the supernet."""


def search_name(number: int) -> str:
    """Return the name of the search phase for a budget; budgets are numbered from 1."""
    return f"search-{number}"


def network_name(number: int) -> str:
    """Return the name of the phase that extracts the network for a budget; budgets are numbered from 1."""
    return f"budget-{number}"


def prepare(source: str, bounds: Sequence[str], options: Mapping[str, Any], folder: Path) -> Path:
    """Write a recipe with one search for each of the bounds, and the files of the space, into a folder; return its
    path.

    `source` is a run, or `RUN:PHASE` if several phases trained a supernet (default: the last one). `options` are
    those of the searches. Raises ArchError: A2207 (the run trained no supernet), A18xx (it is damaged), A3105 (it
    needs plugins that are not loaded), and errors in the bounds.
    """
    supernet = _copy_supernet(source, folder)
    for text in bounds:
        supernet.space.where(text).check_bounds()
    inherited, weights = supernet.phase_settings, supernet.weights
    phases: list[dict[str, Any]] = []
    for number, text in enumerate(bounds, 1):
        search = {"name": search_name(number), "strategy": "evolution", **inherited, "start": {"weights": weights}}
        start = {"architecture": search_name(number), "weights": weights}
        extraction = {"name": network_name(number), "strategy": "inherit", **inherited, "start": start}
        phases += [{**search, "options": {**options, "where": text}}, extraction]
    return supernet.write("specialized", phases, export="each")


def prepare_single_changes(source: str, options: Mapping[str, Any], folder: Path) -> Path:
    """Write a recipe that scores every single replacement of an alternative, with a supernet's weights.

    Returns the path of the recipe.
    Parameters and errors are those of `prepare`.
    """
    supernet = _copy_supernet(source, folder)
    start = {"weights": supernet.weights}
    phase = {"name": REPLACE_PHASE, "strategy": "replace_one", **supernet.phase_settings}
    phase |= {"start": start, "options": {**options}}
    return supernet.write("one by one", [phase])


@dataclass(frozen=True)
class _CopiedSupernet:
    """A trained supernet whose space has been copied to a folder, for a new recipe.

    New phases inherit `phase_settings`; `weights` refers to the supernet's weights as `RUN:PHASE`;
    `recipe_settings` are the other settings of its recipe.
    """

    run: Run
    folder: Path
    space: Space
    phase_settings: Mapping[str, Any]
    weights: str
    recipe_settings: Mapping[str, Any]

    def write(self, about: str, phases: Sequence[Mapping[str, Any]], **more: Any) -> Path:
        """Write a recipe with the given phases and return its path; `about` is appended to the title."""
        path = self.folder / RECIPE
        settings = {"title": f"{self.run.title}, {about}", **self.recipe_settings, **more, "phase": list(phases)}
        path.write_text(toml.dump_toml(settings), "utf-8")
        return path


def _copy_supernet(source: str, folder: Path) -> _CopiedSupernet:
    """Copy the space of a trained supernet to a folder. Raises ArchError (A2207, A18xx, A3105)."""
    run, phase, supernet = find_supernet(source)
    recipe = recipe_of_run(run)
    plugins.require_loaded(recipe.recipe)
    for name in run.entries:
        if name.startswith(f"{SPACE}/"):
            path = folder / name.removeprefix(f"{SPACE}/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(run.content(name))
    number = recipe.recipe.phase.index(phase)
    phase_settings: Mapping[str, Any] = recipe.document.data["phase"][number]
    training = {name: value for name, value in phase_settings.get("training", {}).items() if name in INHERITED_TRAINING}
    inherited = {name: phase_settings[name] for name in INHERITED_SETTINGS if name in phase_settings} | {
        "fixed": supernet.fixed,
        "training": training,
    }
    recipe_settings = {
        name: value for name, value in recipe.document.data.items() if name not in ("phase", "title", "export")
    }
    space = space_of(recipe.recipe, phase, folder)
    return _CopiedSupernet(run, folder, space, inherited, f"{run.folder.resolve()}:{phase.name}", recipe_settings)


def evolution(trials: int, **scorer: Any) -> dict[str, Any]:
    """Return options for an evolutionary search with `trials` trials; the first quarter is random, the rest are
    offspring.

    `scorer` are scorer options; those that are None are left out.
    """
    population = max(1, trials // 4)
    crossovers = population // 2
    return {
        "preset": "spos",
        "trials": trials,
        "population": population,
        "parents": max(1, population // 4),
        "mutations": population - crossovers,
        "crossovers": crossovers,
        "scorer": {name: value for name, value in scorer.items() if value is not None},
    }


def find_supernet(source: str) -> tuple[Run, Phase, SupernetRecord]:
    """Open a run; return it, its phase that trained the supernet, and the supernet's record. Raises ArchError
    (A2207)."""
    run, which = open_run(source)
    phases = recipe_of_run(run).recipe.phase
    supernets = {phase.name: read_supernet(run, f"phases/{phase.name}/{SUPERNET}") for phase in phases}
    with_supernet = [name for name, supernet in supernets.items() if supernet is not None]
    matching = [phase for phase in phases if phase.name in with_supernet and which in ("", phase.name)]
    if not matching:
        hint = "`spos`, `sandwich` and `fair` train one"
        if with_supernet:
            hint = f"phases with a supernet there: {join_names(with_supernet)}"
        raise fail("A2207", f"{run.folder} has no supernet{f' of a phase `{which}`' if which else ''}", None, hint)
    supernet = supernets[matching[-1].name]
    assert supernet is not None
    return run, matching[-1], supernet

"""Networks within budgets, all of one supernet: as a recipe that starts from the run that trained it.

Each budget is a phase that searches, with the supernet's weights and on the images for validation, and one that takes
the weights out and measures statistics of norms anew. So everything that runs can do, holds here as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from archir.diagnostics.errors import fail, listed
from archir.recipes import plugins
from archir.recipes.borrowing import supernet_of, written
from archir.recipes.recipe import Phase
from archir.recipes.spaces import space_of
from archir.recipes.supernet import SupernetRecord
from archir.runs import Run
from archir.runs.phase import SUPERNET
from archir.spaces.space import Space
from archir.utils import toml

RECIPE, SPACE = "recipe.toml", "space/"
REPLACED = "replaced"
"""The phase that scores alternatives one by one."""
OF_PHASE = ("space", "parameters", "data", "objective", "open")
"""Settings of the phase that trained the supernet, which hold for what searches it."""
OF_TRAINING = ("batch", "precision")


def search_name(number: int) -> str:
    """The phase that searches for the network of a budget; budgets count from 1."""
    return f"search-{number}"


def network_name(number: int) -> str:
    """The phase that has the network of a budget."""
    return f"budget-{number}"


def prepare(source: str, bounds: Sequence[str], options: Mapping[str, Any], folder: Path) -> Path:
    """Write the recipe of a search within each of these bounds into a folder, with the space; the recipe's path.

    `source` is a run, or `RUN:PHASE` where several of its phases trained a supernet; the last one is meant by default.
    `options` are those of the searches. Raises ArchError: A2207 (no supernet was trained), A18xx (the run was damaged),
    A3105 (it needs plugins), and what is wrong with bounds.
    """
    supernet = _copied(source, folder)
    for text in bounds:
        supernet.space.where(text).prove()
    usual, weights = supernet.usual, supernet.weights
    phases: list[dict[str, Any]] = []
    for position, text in enumerate(bounds, 1):
        name, search = network_name(position), search_name(position)
        within = {**options, "where": text}
        starts = {"weights": weights}
        phases.append({"name": search, "strategy": "evolution", **usual, "start": starts, "options": within})
        starts = {"architecture": search, "weights": weights}
        phases.append({"name": name, "strategy": "inherit", **usual, "start": starts})
    return supernet.write("specialized", phases, export="each")


def one_by_one(source: str, options: Mapping[str, Any], folder: Path) -> Path:
    """Write the recipe that scores each alternative alone with a supernet's weights into a folder, with the space; the
    recipe's path. The rest is as for `prepare`."""
    supernet = _copied(source, folder)
    start = {"weights": supernet.weights}
    phase = {"name": REPLACED, "strategy": "replace_one", **supernet.usual, "start": start, "options": {**options}}
    return supernet.write("one by one", [phase])


@dataclass(frozen=True)
class _Copied:
    """A supernet that was trained, in a folder for another recipe: its space, the settings that hold for what searches
    it, and how its weights are named."""

    run: Run
    folder: Path
    space: Space
    usual: Mapping[str, Any]
    weights: str
    rest: Mapping[str, Any]

    def write(self, about: str, phases: Sequence[Mapping[str, Any]], **more: Any) -> Path:
        path = self.folder / RECIPE
        told = {"title": f"{self.run.title}, {about}", **self.rest, **more, "phase": list(phases)}
        path.write_text(toml.written(told), "utf-8")
        return path


def _copied(source: str, folder: Path) -> _Copied:
    run, phase, supernet = trained(source)
    recipe = written(run)
    plugins.require(recipe.recipe)
    for name in run.files.manifest.files:
        if name.startswith(SPACE):
            path = folder / name.removeprefix(SPACE)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(run.content(name))
    number = recipe.recipe.phase.index(phase)
    told: Mapping[str, Any] = recipe.document.data["phase"][number]
    training = {name: value for name, value in told.get("training", {}).items() if name in OF_TRAINING}
    usual = {name: told[name] for name in OF_PHASE if name in told} | {"fixed": supernet.fixed, "training": training}
    rest = {name: value for name, value in recipe.document.data.items() if name not in ("phase", "title", "export")}
    space = space_of(recipe.recipe, phase, folder)
    return _Copied(run, folder, space, usual, f"{run.folder.resolve()}:{phase.name}", rest)


def evolution(trials: int, **scorer: Any) -> dict[str, Any]:
    """Options of a search of so many trials: a quarter of them is drawn, the others are children of the best."""
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


def trained(source: str) -> tuple[Run, Phase, SupernetRecord]:
    """A run, the phase of it whose supernet is meant, and what that is."""
    place, colon, which = source.rpartition(":")
    run = Run.open(Path(place if colon else source))
    phases = written(run).recipe.phase
    supernets = {one.name: supernet_of(run, f"phases/{one.name}/{SUPERNET}") for one in phases}
    there = [name for name, supernet in supernets.items() if supernet is not None]
    found = [one for one in phases if one.name in there and (not colon or one.name == which)]
    if not found:
        hint = f"phases that trained one there: {listed(there)}" if there else "`spos`, `sandwich` and `fair` train one"
        raise fail("A2207", f"{run.folder} has no supernet{f' of a phase `{which}`' if colon else ''}", None, hint)
    supernet = supernets[found[-1].name]
    assert supernet is not None
    return run, found[-1], supernet

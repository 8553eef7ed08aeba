"""A search before its phases: everything is read, and all that can be checked beforehand is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from archir import backends
from archir.base.errors import ArchError
from archir.base.plugins import loading
from archir.search import plugins
from archir.search.data.inputs import image_size
from archir.search.recipes import division
from archir.search.recipes.reading import parse, read
from archir.search.recipes.recipe import DataSettings, Recipe
from archir.search.recipes.spaces import files_of, space_of
from archir.search.runs import Run, environment, extension
from archir.search.runs.phase import WEIGHTS
from archir.search.spaces.space import Space
from archir_torch.data import Data, load
from archir_torch.objectives.create import check as check_objective
from archir_torch.search import strategies
from archir_torch.search.job import STRATEGIES, whole

strategies.load()  # recipes name them

RECIPE, OVERRIDES, ENVIRONMENT, SPACE = "recipe.toml", "overrides.json", "environment.json", "space"


@dataclass(frozen=True)
class Search:
    """A recipe in the folder of a run. `folder` is where its spaces are; `loaded` the images that are at hand, `spaces`
    what was made of the spaces, by their names and parameters."""

    recipe: Recipe
    run: Run
    folder: Path
    device: str
    executor: str | None = None
    """Who scores candidates, instead of whom phases name."""
    loaded: dict[Any, Data] = field(default_factory=dict)
    spaces: dict[str, Space] = field(default_factory=dict)


def begin(
    path: Path, folder: Path, overrides: Mapping[str, str], device: str, executor: str | None = None
) -> Search:  # fmt: skip
    """A new run of a recipe: its files are copied, everything that can be checked beforehand is. Raises ArchError."""
    written = read(path, overrides)
    recipe, blamed = written.recipe, written.document.blamed
    plugins.load(written, path.parent)
    with blamed("opset"):
        if problems := backends.get("onnx").problems(**({} if recipe.opset is None else {"opset": recipe.opset})):
            raise ArchError(*problems)
    spaces: dict[str, Space] = {}
    files: dict[str, str] = {}
    for number, phase in enumerate(recipe.phase):
        with blamed("phase", number, "space") if phase.space else blamed("space"):
            files |= files_of(phase.space or recipe.space, path.parent)
            space = space_of(recipe, phase, path.parent, spaces)
        STRATEGIES.check(written, number, space, check_objective, executor)
    STRATEGIES.check_executor(recipe, executor)
    division.check(written, whole)
    first = recipe.phase[0]
    with blamed("phase", 0, "data", "source") if first.data else blamed("data", "source"):
        loaded = images({}, recipe, recipe.data_of(first), space_of(recipe, first, path.parent, spaces))
    inputs = {
        RECIPE: written.document.source.text,
        OVERRIDES: json.dumps(dict(overrides), indent=1) + "\n",
        **{f"{SPACE}/{name}": content for name, content in files.items()},
    }
    threads = recipe.threads or torch.get_num_threads()
    facts = environment(device=device, threads=threads, plugins=sorted(loading.loaded()))
    run = Run.create(folder, recipe.title or path.stem, inputs, facts)
    return Search(recipe, run, folder / SPACE, device, loaded=loaded, spaces=spaces)


def resumed(folder: Path, device: str, fall_back: bool, settings: Mapping[str, str]) -> Search:
    """A run that was stopped, or that goes on with other settings.

    Raises ArchError: A18xx (its files were damaged), A2216 (it cannot go on with these settings).
    """
    run = Run.resume(folder, fall_back)
    try:
        extension.settle(run)
        found = of_run(run, device)
        for phase in found.recipe.phase:
            kept = run.phase(phase.name)
            if kept.done is not None and f"phases/{phase.name}/{WEIGHTS}" not in run.files.manifest.files:
                kept.reopen()  # a kill came between giving up what it came to and the note of that
        return _extended(found, settings) if settings else found
    except BaseException:
        run.close()
        raise


def _extended(found: Search, settings: Mapping[str, str]) -> Search:
    run = found.run
    overrides = {**json.loads(run.content(OVERRIDES)), **settings}
    written = parse(run.content(RECIPE).decode(), RECIPE, overrides)
    recipe = written.recipe
    first = STRATEGIES.extended(found.recipe, recipe)
    if first is None:
        return found
    for number, phase in enumerate(recipe.phase):
        STRATEGIES.check(written, number, space_of(recipe, phase, found.folder, found.spaces), check_objective, None)
    files = {OVERRIDES: json.dumps(overrides, indent=1) + "\n"}
    extension.extend(run, settings, [phase.name for phase in recipe.phase[first:]], files)
    return replace(found, recipe=recipe)


def of_run(run: Run, device: str) -> Search:
    """The search of a run, which is closed if it has none, or needs plugins that are not loaded (A3105)."""
    try:
        overrides = json.loads(run.content(OVERRIDES))
        recipe = parse(run.content(RECIPE).decode(), RECIPE, overrides).recipe
        plugins.require(recipe, _plugins(run))
        return Search(recipe, run, run.folder / SPACE, device)
    except BaseException:
        run.close()
        raise


def _plugins(run: Run) -> list[str]:
    """The plugins that there were when a run began."""
    facts = json.loads(run.content(ENVIRONMENT))
    found = facts.get("plugins", []) if isinstance(facts, dict) else []
    return [str(name) for name in found] if isinstance(found, list) else []


def images(loaded: dict[Any, Data], recipe: Recipe, settings: DataSettings, space: Space) -> dict[Any, Data]:
    """The images of settings, as large as a space's input, beside or instead of those at hand."""
    shape = image_size(space.graph)
    key = settings.source, shape, settings.limit, settings.classes, settings.weights
    if key not in loaded:
        loaded.clear()
        loaded[key] = load(
            settings.source, shape, seed=recipe.seed, limit=settings.limit, classes=settings.classes,
            weights=settings.weights,
        )  # fmt: skip
    return loaded

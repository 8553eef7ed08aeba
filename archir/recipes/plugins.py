"""Python modules that a recipe names: plugins, and modules of objectives and data sources written `MODULE:NAME`.

Whoever runs a recipe allows it to import these modules (`load`) and to call the named functions. Nothing else
in a recipe or run folder names Python code: strategies, proxies, scorers and executors are given by
registered names, and teachers are programs with weights.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from archir.data.sources import module_of
from archir.diagnostics.errors import fail, join_names
from archir.plugins import loading
from archir.recipes.parsing import RecipeFile
from archir.recipes.recipe import Recipe
from archir.runs import Run
from archir.runs.folder import ENVIRONMENT
from archir.utils.toml import Path as Place


def named_modules(recipe: Recipe) -> Iterator[tuple[str, Place]]:
    """Yield each module that a recipe names, with the path of the setting that names it; settings that a phase inherits
    count as its own."""
    for number, name in enumerate(recipe.plugins):
        yield name, ("plugins", number)
    for number, phase in enumerate(recipe.phase):
        places: list[Place] = [("objective",), *(("also", i) for i in range(len(phase.also)))]
        for objective, key in zip((phase.objective, *phase.also), places, strict=True):
            module, colon, _ = str(objective.get("kind", "")).partition(":")
            if colon:
                yield module, ("phase", number, *key, "kind")
        source = module_of(recipe.data_of(phase).source)
        if source is not None:
            yield source, ("phase", number, "data", "source")


def load(recipe_file: RecipeFile, folder: Path) -> None:
    """Import the modules that a recipe names; they may be in its folder. Raises ArchError (A31xx)."""
    for name, place in named_modules(recipe_file.recipe):
        match place:
            case ("phase", int(number), *path):
                place = recipe_file.place(number, *path)
        with recipe_file.document.with_span(*place):
            loading.load(name, [folder])


def may_call(name: str) -> bool:
    """Return True if a name may be used: a `MODULE:NAME` only if its module is allowed, any other name always."""
    module, colon, _ = name.partition(":")
    return not colon or loading.is_allowed(module)


def missing_modules(recipe: Recipe) -> dict[int, tuple[str, ...]]:
    """Return the modules that are not allowed, by index of the phase that needs them; every phase needs the plugins."""
    modules_by_phase: dict[int, dict[str, None]] = {}
    for name, place in named_modules(recipe):
        if not loading.is_allowed(name):
            numbers = [int(place[1])] if place[0] == "phase" else range(len(recipe.phase))
            for number in numbers:
                modules_by_phase.setdefault(number, {})[name] = None
    return {number: tuple(names) for number, names in modules_by_phase.items()}


def import_named(source: object, *objectives: Mapping[str, Any]) -> None:
    """Import the modules of a data source and objectives that a caller passes directly. Raises ArchError (A31xx)."""
    kinds = [str(objective.get("kind", "")).partition(":") for objective in objectives]
    for name in (module_of(source), *(module for module, colon, _ in kinds if colon)):
        if name is not None:
            loading.load(name)


def require_loaded(recipe: Recipe, run: Run | None = None, options: Sequence[str] = ()) -> None:
    """Raise ArchError (A3105) if a recipe, or the `run` to be resumed, needs modules that are not loaded.

    `options` are the other options with which the run is resumed; the hint repeats them.

    The user who resumes a run must name its modules explicitly: a run folder may come from an untrusted source, so that
    resuming it must not import the modules that it names.
    """
    needed = dict.fromkeys([*(name for name, _ in named_modules(recipe)), *(recorded_modules(run) if run else ())])
    missing = [name for name in needed if not loading.is_allowed(name)]
    if missing:
        hint = f"`{resume_command(run, options)}`" if run else f"the command with `{shlex.join(_flags(missing))}`"
        text = f"the run needs plugins that are not loaded: {join_names(missing)}"
        raise fail("A3105", text, None, f"if you trust these modules, run {hint}; the folder of a run imports nothing")


def recorded_modules(run: Run) -> list[str]:
    """Return the modules with which a run was started: plugins, and those that its recipe names."""
    facts = json.loads(run.content(ENVIRONMENT))
    modules = facts.get("plugins", []) if isinstance(facts, dict) else []
    return [str(name) for name in modules] if isinstance(modules, list) else []


def resume_command(run: Run, options: Sequence[str] = ()) -> str:
    """Return the shell command that resumes a run from the current folder, with further command-line options."""
    names = recorded_modules(run)
    homes = loading.worker_folders()
    folders = {str(home) for name in names if (home := homes.get(name)) not in (None, Path.cwd())}
    path = f"PYTHONPATH={shlex.quote(os.pathsep.join(sorted(folders)))} " if folders else ""
    return path + shlex.join(["archir", "search", "--resume", str(run.folder), *options, *_flags(names)])


def _flags(names: Iterable[str]) -> list[str]:
    """Return the command-line options that import modules."""
    return [word for name in names for word in ("--plugin", name)]

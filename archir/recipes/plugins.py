"""The modules that a recipe names, here alone: its plugins, and those of objectives and data, written `MODULE:NAME`.

Whoever runs a recipe allows it to import them (`load`), and to call what it names of them. Nothing else in a recipe or
in the folder of a run names Python: strategies, proxies, scorers and executors are names of what is registered, and
teachers are programs with weights.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from archir.data.sources import module_of
from archir.diagnostics.errors import fail, listed
from archir.plugins import loading
from archir.recipes.reading import Written
from archir.recipes.recipe import Recipe
from archir.runs import Run
from archir.runs.run import ENVIRONMENT
from archir.utils.toml import Path as Place


def named(recipe: Recipe) -> Iterator[tuple[str, Place]]:
    """The modules, and where each is named."""
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
            yield source, ("phase", number, "data", "source") if phase.data else ("data", "source")


def load(written: Written, folder: Path) -> None:
    """Import what a recipe names that somebody runs; modules may lie in its folder. Raises ArchError (A31xx)."""
    for name, place in named(written.recipe):
        with written.document.blamed(*place):
            loading.load(name, [folder])


def may_call(name: str) -> bool:
    """Whether `MODULE:NAME` may be called; every other name may."""
    module, colon, _ = name.partition(":")
    return not colon or loading.allowed(module)


def unseen(recipe: Recipe) -> dict[int, tuple[str, ...]]:
    """The modules that nobody allowed, by the numbers of phases that need them; all phases need plugins."""
    found: dict[int, dict[str, None]] = {}
    for name, place in named(recipe):
        if not loading.allowed(name):
            source = place == ("data", "source")
            numbers = [int(place[1])] if place[0] == "phase" else range(len(recipe.phase))
            for number in numbers:
                if not source or recipe.phase[number].data is None:
                    found.setdefault(number, {})[name] = None
    return {number: tuple(names) for number, names in found.items()}


def import_named(source: object, *objectives: Mapping[str, Any]) -> None:
    """Import the modules of data and objectives that a caller names, and no file. Raises ArchError (A31xx)."""
    kinds = [str(one.get("kind", "")).partition(":") for one in objectives]
    for name in (module_of(source), *(module for module, colon, _ in kinds if colon)):
        if name is not None:
            loading.load(name)


def require(recipe: Recipe, run: Run | None = None) -> None:
    """Raise ArchError (A3105) if a recipe needs modules that are not imported; with a `run`, to resume it.

    Whoever resumes a run names its modules: the folder of a run may come from a stranger, and imports nothing.
    """
    needed = dict.fromkeys([*(name for name, _ in named(recipe)), *(recorded(run) if run else ())])
    lacking = [name for name in needed if not loading.allowed(name)]
    if lacking:
        hint = f"`{resuming(run)}`" if run else f"the command with `{shlex.join(_flags(lacking))}`"
        text = f"the run needs plugins that are not loaded: {listed(lacking)}"
        raise fail("A3105", text, None, f"if you trust these modules, run {hint}; the folder of a run imports nothing")


def recorded(run: Run) -> list[str]:
    """The modules that a run began with: its plugins, and those that its recipe names."""
    facts = json.loads(run.content(ENVIRONMENT))
    found = facts.get("plugins", []) if isinstance(facts, dict) else []
    return [str(name) for name in found] if isinstance(found, list) else []


def resuming(run: Run) -> str:
    """The shell command that resumes a run in the current folder."""
    names = recorded(run)
    homes = loading.homes()
    folders = {str(home) for name in names if (home := homes.get(name)) not in (None, Path.cwd())}
    path = f"PYTHONPATH={shlex.quote(os.pathsep.join(sorted(folders)))} " if folders else ""
    return path + shlex.join(["archir", "search", "--resume", str(run.folder), *_flags(names)])


def _flags(names: Iterable[str]) -> list[str]:
    return [word for name in names for word in ("--plugin", name)]

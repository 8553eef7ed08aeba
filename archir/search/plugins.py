"""The modules that a recipe names: its plugins, and those of objectives and data, written as `MODULE:NAME`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from archir.base.errors import fail, listed
from archir.base.plugins import loading
from archir.base.toml import Path as Place
from archir.search.data.sources import module_of
from archir.search.recipes.reading import Written
from archir.search.recipes.recipe import Recipe


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


def require(recipe: Recipe, also: Iterable[str]) -> None:
    """Raise ArchError (A3105) if the run of a recipe needs modules, these among them, that nobody has imported.

    Who goes on with a run names them again: what stands in its folder may be from elsewhere, and imports nothing.
    """
    needed = dict.fromkeys([*(name for name, _ in named(recipe)), *also])
    lacking = [name for name in needed if name not in loading.loaded() and name not in sys.modules]
    if lacking:
        hint = f"if they are yours, name them again: {' '.join(f'--plugin {name}' for name in lacking)}"
        text = f"the run needs plugins that are not loaded: {listed(lacking)}"
        raise fail("A3105", text, None, f"{hint}; no module is imported because a run's folder names it")

"""The spaces of a recipe, and the files they are made of."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from archir.diagnostics.errors import fail
from archir.language.elaboration.elaborate import elaborate
from archir.language.elaboration.files import Loader, read, split
from archir.recipes.recipe import Phase, Recipe
from archir.spaces.space import Space


def load_space(path: str, folder: Path, parameters: Mapping[str, Any]) -> Space:
    """The space of a net, from a folder. Raises ArchError."""
    file, net = split(_below(path, folder))
    text = read(Path(file))
    where = Path(file).resolve().parent
    return Space(elaborate(text, file, folder=where, root=folder, net=net, parameters=dict(parameters)))


def space_of(recipe: Recipe, phase: Phase, folder: Path, known: dict[str, Space] | None = None) -> Space:
    """The space of a phase, unless it is known already: large ones take seconds. Raises ArchError."""
    name, parameters = phase.space or recipe.space, {**recipe.parameters, **phase.parameters}
    known = {} if known is None else known
    key = json.dumps([name, parameters], sort_keys=True, default=str)
    if key not in known:
        known[key] = load_space(name, folder, parameters)
    return known[key]


def files_of(path: str, folder: Path) -> dict[str, str]:
    """The text of a space's file and of all that it imports, by their paths from the folder. Raises ArchError."""
    file = Path(split(_below(path, folder))[0])
    text = read(file)
    loader = Loader(folder)
    module = loader.load(text, str(file), file.resolve().parent)
    found = {str(file.resolve().relative_to(folder.resolve())): text}
    pending = list(module.imports)
    while pending:
        one = pending.pop()
        if one.folder is not None:  # else it is of the library
            name = str((one.folder / Path(one.path).name).relative_to(folder.resolve()))
            if name not in found:
                found[name] = read(folder / name)
                pending += one.imports
    return found


def _below(path: str, folder: Path) -> str:
    file, _ = split(str(folder / path))
    if not Path(file).resolve().is_relative_to(folder.resolve()):
        raise fail("A2206", f"the space `{path}` is not below the folder of the recipe")
    return str(folder / path)

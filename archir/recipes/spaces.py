"""Loads the spaces of a recipe, and collects the files that define them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from archir.diagnostics.errors import ArchError, Diagnostic, fail
from archir.diagnostics.hints import suggest
from archir.language.elaboration.elaborate import elaborate
from archir.language.elaboration.files import Loader, read_program, split_net
from archir.language.elaboration.module import Module
from archir.recipes.parsing import RecipeFile
from archir.recipes.recipe import Phase, Recipe
from archir.spaces.space import Space


def load_space(path: str, folder: Path, parameters: Mapping[str, Any]) -> Space:
    """Load the space of the net `FILE` or `FILE:NET`, which must be below `folder`. Raises ArchError."""
    file, net = split_net(_path_below(path, folder))
    text = read_program(Path(file))
    where = Path(file).resolve().parent
    return Space(elaborate(text, file, folder=where, root=folder, net=net, parameters=dict(parameters)))


def space_of(recipe: Recipe, phase: Phase, folder: Path, cache: dict[str, Space] | None = None) -> Space:
    """Return the space of a phase. `cache` keeps loaded spaces, as large ones take seconds to load. Raises
    ArchError."""
    name, parameters = phase.space or recipe.space, {**recipe.parameters, **phase.parameters}
    cache = {} if cache is None else cache
    key = json.dumps([name, parameters], sort_keys=True, default=str)
    if key not in cache:
        cache[key] = load_space(name, folder, parameters)
    return cache[key]


def files_of(path: str, folder: Path) -> dict[str, str]:
    """Return the texts of a space's file and of all files it imports, by path relative to `folder`.

    Files of archir's own libraries are left out. Raises ArchError.
    """
    file = Path(split_net(_path_below(path, folder))[0])
    texts = {str(file.resolve().relative_to(folder.resolve())): read_program(file)}
    pending = list(_load_module(file, folder).imports)
    while pending:
        imported = pending.pop()
        if imported.folder is not None:  # files of the library have no folder
            name = str((imported.folder / Path(imported.path).name).relative_to(folder.resolve()))
            if name not in texts:
                texts[name] = read_program(folder / name)
                pending += imported.imports
    return texts


def check_parameters(recipe_file: RecipeFile, number: int, folder: Path) -> None:
    """Raise ArchError (A0203) for parameters in a recipe that the net of a phase does not have."""
    recipe, span = recipe_file.recipe, recipe_file.document.span
    phase = recipe.phase[number]
    file, net = split_net(_path_below(phase.space or recipe.space, folder))
    nets = _load_module(Path(file), folder).nets
    definition = nets.get(net or next(iter(nets), ""))
    if definition is None:  # elaboration says that the net does not exist
        return
    names = [param.name.text for param in definition.params]
    hint = f"it has {', '.join(names)}" if names else "it has none"
    problems = [
        Diagnostic(
            "A0203",
            f"net `{definition.name}` has no parameter `{name}`",
            span((*path, name)),
            suggest(name, names) or hint,
        )
        for path, parameters in (
            (("parameters",), recipe.parameters),
            (("phase", number, "parameters"), phase.parameters),
        )
        for name in parameters
        if name not in names
    ]
    if problems:
        raise ArchError(*problems)


def _load_module(file: Path, folder: Path) -> Module:
    return Loader(folder).load(read_program(file), str(file), file.resolve().parent)


def _path_below(path: str, folder: Path) -> str:
    """Join the path of a space to `folder`. Raises ArchError (A2206) if the result is outside of the folder."""
    file, _ = split_net(str(folder / path))
    if not Path(file).resolve().is_relative_to(folder.resolve()):
        raise fail("A2206", f"the space `{path}` is not below the folder of the recipe")
    return str(folder / path)

"""Consistency of data splits: all searching phases of a recipe must split the same samples in the same way."""

from __future__ import annotations

from collections.abc import Callable

from archir.data.sources import origin
from archir.diagnostics.errors import fail
from archir.recipes.parsing import RecipeFile
from archir.recipes.recipe import Phase, Recipe

UsesAllSamples = Callable[[Phase], bool]
"""Predicate on phases: True if the phase's strategy trains on all training samples.

Strategies that search train weights on only a part of the training samples.
"""


def check_same_split(recipe_file: RecipeFile, uses_all_samples: UsesAllSamples) -> None:
    """Raise ArchError (A2214) if two searching phases split the same samples differently.

    Otherwise, one phase would select architectures by samples on which the other trained weights.
    """
    recipe = recipe_file.recipe
    first_by_origin: dict[str, tuple[int, dict[str, object]]] = {}
    exempt = before_searches(recipe, uses_all_samples)
    for number, phase in enumerate(recipe.phase):
        if uses_all_samples(phase) and phase.name not in exempt:
            continue
        data = recipe.data_of(phase)
        settings: dict[str, object] = {name: getattr(data, name) for name in ("source", "limit", "classes", "weights")}
        before, first_settings = first_by_origin.setdefault(_data_origin(recipe, phase), (number, settings))
        differ = [name for name in settings if settings[name] != first_settings[name]]
        if differ:
            changes = [f"`{name} = {settings[name]}`, not {first_settings[name]}" for name in differ]
            other = recipe.phase[before].name
            text = f"phase `{phase.name}` splits `{data.source}` differently from `{other}`: {', '.join(changes)}"
            hint = "one phase would choose by samples that the other trains on: set it once, in [data]"
            with recipe_file.document.with_span("phase", number if phase.data else before, "data", differ[0]):
                raise fail("A2214", text, None, hint)


def before_searches(recipe: Recipe, uses_all_samples: UsesAllSamples) -> set[str]:
    """Return the phases that must not train on all training samples, although their strategy would.

    These are phases from whose weights a later search on the same data starts, or whose network the search distils.
    They must not train on the samples by which the search selects architectures.
    """
    searched: dict[str, set[str]] = {phase.name: set() for phase in recipe.phase}
    for phase in reversed(recipe.phase):
        if not uses_all_samples(phase):
            searched[phase.name].add(_data_origin(recipe, phase))
        for name in (phase.start.weights, *(objective.get("phase") for objective in phase.also)):
            if name in searched:
                searched[name] |= searched[phase.name]
    return {
        phase.name
        for phase in recipe.phase
        if uses_all_samples(phase) and _data_origin(recipe, phase) in searched[phase.name]
    }


def _data_origin(recipe: Recipe, phase: Phase) -> str:
    """Return the origin of a phase's data; phases with the same origin have the same samples."""
    return origin(recipe.data_of(phase).source)

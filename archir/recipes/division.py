"""Which images the phases of a recipe work on. What is divided, is divided once for all of them."""

from __future__ import annotations

from collections.abc import Callable

from archir.data.sources import origin
from archir.diagnostics.errors import fail
from archir.recipes.reading import Written
from archir.recipes.recipe import Phase, Recipe

Whole = Callable[[Phase], bool]
"""Whether a phase's strategy works on all training images, and not as a search on the halves."""


def check(written: Written, whole: Whole) -> None:
    """Raise ArchError (A2214) if two phases of a search divide the same images in two ways: those that weights are
    trained on in one would choose in the other."""
    recipe = written.recipe
    first: dict[str, tuple[int, dict[str, object]]] = {}
    ahead = before_searches(recipe, whole)
    for number, phase in enumerate(recipe.phase):
        if whole(phase) and phase.name not in ahead:
            continue
        data = recipe.data_of(phase)
        settings: dict[str, object] = {name: getattr(data, name) for name in ("source", "limit", "classes", "weights")}
        before, known = first.setdefault(_images(recipe, phase), (number, settings))
        differ = [name for name in settings if settings[name] != known[name]]
        if differ:
            said = [f"`{name} = {settings[name]}`, not {known[name]}" for name in differ]
            other = recipe.phase[before].name
            text = f"phase `{phase.name}` divides `{data.source}` otherwise than `{other}`: {', '.join(said)}"
            hint = "images that one of them trains on would choose in the other: say it once, in [data]"
            with written.document.blamed("phase", number if phase.data else before, "data", differ[0]):
                raise fail("A2214", text, None, hint)


def before_searches(recipe: Recipe, whole: Whole) -> set[str]:
    """The phases that would train on all training images, but from whose weights a search on the same images starts, or
    whose network teaches it: what is for validation there, they must not see."""
    searched: dict[str, set[str]] = {phase.name: set() for phase in recipe.phase}
    for phase in reversed(recipe.phase):
        if not whole(phase):
            searched[phase.name].add(_images(recipe, phase))
        for name in (phase.start.weights, *(objective.get("phase") for objective in phase.also)):
            if name in searched:
                searched[name] |= searched[phase.name]
    return {phase.name for phase in recipe.phase if whole(phase) and _images(recipe, phase) in searched[phase.name]}


def _images(recipe: Recipe, phase: Phase) -> str:
    return origin(recipe.data_of(phase).source)

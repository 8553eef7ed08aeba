"""Networks that teach in phases: those that an earlier phase trained, and those of files.

Files are copied when a run begins, so that it stays whole whatever becomes of where they came from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from archir.diagnostics.errors import fail
from archir.recipes.recipe import Phase, Recipe
from archir.recipes.spaces import files_of
from archir.runs import Run
from archir.runs.folder import Content
from archir.runs.phase import WEIGHTS

TEACHER = ("teacher", "weights")
"""Settings of an objective that name a teacher; with `phase`, the run gives them."""


def teaching(phase: Phase, folder: Path) -> dict[str, Content]:
    """The files of the networks that teach a phase, as files of the run: texts below `space/`, and weights.

    Relative paths begin in the recipe's folder. Raises ArchError: A2206 (a net is not below it), A2207 (there are no
    such weights), and what is wrong with a net's file.
    """
    found: dict[str, Content] = {}
    for settings in _of_files(phase):
        net, weights = str(settings["teacher"]), str(settings["weights"])
        found |= {f"space/{name}": text for name, text in files_of(net, folder).items()}
        path = folder / weights
        if not path.is_file():
            raise fail("A2207", f"phase `{phase.name}`: there are no weights `{weights}` of a teacher")
        found[_copy(weights)] = path
    return found


def taught(run: Run, recipe: Recipe, settings: Mapping[str, Any]) -> dict[str, Any]:
    """An objective of a phase as it is made in a run: its teacher has its files there. Raises ArchError (A2207)."""
    given = dict(settings)
    name = given.pop("phase", None)
    if name is None:
        own = "teacher" in given and _copy(str(given.get("weights"))) in run.files.manifest.files
        return given | {"weights": f"../{_copy(str(given['weights']))}"} if own else given
    phase = next((phase for phase in recipe.phase if phase.name == name), None)
    weights = f"phases/{name}/{WEIGHTS}"
    if phase is None or weights not in run.files.manifest.files:
        raise fail("A2207", f"there is no earlier phase `{name}` whose network could teach")
    parameters = {**recipe.parameters, **phase.parameters}
    run.content(weights)  # verified
    return given | {"teacher": phase.space or recipe.space, "parameters": parameters, "weights": f"../{weights}"}


def _of_files(phase: Phase) -> Iterator[Mapping[str, Any]]:
    for settings in (phase.objective, *phase.also):
        if "teacher" in settings and "weights" in settings and "phase" not in settings:
            yield settings


def _copy(weights: str) -> str:
    """Where a run has the weights of a teacher: by a name that tells apart what the recipe tells apart."""
    return f"start/teacher-{sha256(weights.encode()).hexdigest()[:16]}.safetensors"

"""Teacher networks of phases: trained by an earlier phase, or given as files.

Files are copied into the run when it starts, so that the run stays complete if the originals change.
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
from archir.runs.folder import WEIGHTS, Content

TEACHER = ("teacher", "weights")
"""Objective settings that define the teacher's network and weights; the run fills them in if the objective names
a phase."""


def teacher_files(phase: Phase, folder: Path) -> dict[str, Content]:
    """Return the files to copy into the run for a phase's teachers: programs below `space/`, and weights.

    Relative paths are resolved in `folder`, the recipe's folder. Raises ArchError: A2206 (a program is outside of this
    folder), A2207 (a weights file does not exist), and errors in the programs.
    """
    files: dict[str, Content] = {}
    for settings in _file_teachers(phase):
        net, weights = str(settings["teacher"]), str(settings["weights"])
        files |= {f"space/{name}": text for name, text in files_of(net, folder).items()}
        path = folder / weights
        if not path.is_file():
            raise fail("A2207", f"phase `{phase.name}`: there are no weights `{weights}` of a teacher")
        files[_name_in_run(weights)] = path
    return files


def with_teacher_files(run: Run, recipe: Recipe, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return an objective's settings with its teacher's files replaced by their copies in the run. Raises ArchError
    (A2207)."""
    result = dict(settings)
    name = result.pop("phase", None)
    if name is None:
        is_copied = "teacher" in result and _name_in_run(str(result.get("weights"))) in run.entries
        return result | {"weights": f"../{_name_in_run(str(result['weights']))}"} if is_copied else result
    phase = next((phase for phase in recipe.phase if phase.name == name), None)
    weights = f"phases/{name}/{WEIGHTS}"
    if phase is None or weights not in run.entries:
        raise fail("A2207", f"there is no earlier phase `{name}` whose network could teach")
    parameters = {**recipe.parameters, **phase.parameters}
    run.content(weights)  # verified
    return result | {"teacher": phase.space or recipe.space, "parameters": parameters, "weights": f"../{weights}"}


def _file_teachers(phase: Phase) -> Iterator[Mapping[str, Any]]:
    """Yield the objectives of a phase whose teacher is given as files."""
    for settings in (phase.objective, *phase.also):
        if "teacher" in settings and "weights" in settings and "phase" not in settings:
            yield settings


def _name_in_run(weights: str) -> str:
    """Return the name of a teacher's weights in a run; different paths in the recipe get different names."""
    return f"start/teacher-{sha256(weights.encode()).hexdigest()[:16]}.safetensors"

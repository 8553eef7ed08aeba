"""Files from outside that a run copies when it starts: initial weights, weights of teachers, and benchmark tables.

A run stays complete if the originals are changed or deleted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from archir.backends import weight_names
from archir.backends.weight_names import RenamedWeights
from archir.data.sources import origin
from archir.diagnostics.errors import fail, join_names
from archir.recipes.checks import UsesAllSamples, before_searches
from archir.recipes.parsing import open_run, recipe_of_run
from archir.recipes.recipe import SPLITTING, Evaluate, Phase, Recipe, is_external
from archir.recipes.spaces import files_of
from archir.runs import Run
from archir.runs.folder import SPACE, SUPERNET, WEIGHTS, Content
from archir.spaces.space import Space
from archir.utils.files import open_regular

if TYPE_CHECKING:  # few recipes look results up
    from archir.tabular.results import Results

DATA_KEY = "data"
"""Metadata key of safetensors files for a JSON list of the data sources on which the weights were trained."""

_MAX_HEADER_BYTES = 10**8
"""Maximum header size of a safetensors file, in bytes."""


def start_files(recipe: Recipe, phase: Phase) -> tuple[str, str]:
    """Return the names, in a run, of the files for a phase's initial weights and for the record of their supernet.

    Phases with the same `start.weights` share one copy, named after the first such phase.
    """
    first = next(other.name for other in recipe.phase if other.start.weights == phase.start.weights)
    return f"start/{first}.safetensors", f"start/{first}.json"


def external_weights(
    recipe: Recipe, phase: Phase, folder: Path, uses_all_samples: UsesAllSamples
) -> dict[str, Content]:
    """Return the files to copy into the run for a phase's initial weights; {} if these come from an earlier phase or
    are random.

    Relative paths start in `folder`, that of the recipe. Raises ArchError: A2207 (there are no such weights),
    A2214 (the weights were trained on samples by which this search selects), A18xx (the other run is damaged).
    """
    name = phase.start.weights
    if name is None or not is_external(name):
        return {}
    path = folder / name
    if path.suffix == ".safetensors":
        if not path.is_file():
            raise _no_weights(phase, name, "there is no such file")
        _require_unseen(recipe, phase, trained_on(path), uses_all_samples)
        copies: dict[str, Content] = {start_files(recipe, phase)[0]: path}
        return copies | ({} if phase.start.map is None else {map_file(phase): folder / phase.start.map})
    run, other, trained = _open_source(phase, name, folder)
    _require_same_split(recipe, phase, other, trained, uses_all_samples)
    weights, supernet = start_files(recipe, phase)
    files: dict[str, Content] = {weights: run.content(f"phases/{trained.name}/{WEIGHTS}")}
    record = f"phases/{trained.name}/{SUPERNET}"
    if record in run.entries:
        files[supernet] = run.content(record)
    return files


def trained_on(path: Path) -> list[str] | None:
    """Return the data sources on which the weights in a file were trained; None if the file does not record them.

    `archir train` records them in the file's metadata.
    """
    try:
        with open_regular(path) as stream:  # a safetensors file starts with the size of its JSON header, 8 bytes
            header = json.loads(stream.read(min(int.from_bytes(stream.read(8), "little"), _MAX_HEADER_BYTES)))
        sources = json.loads(header["__metadata__"][DATA_KEY])
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None
    return sources if isinstance(sources, list) and all(isinstance(source, str) for source in sources) else None


def describe_training_data(run: Run, recipe: Recipe, phase: Phase) -> str | None:
    """Describe the data on which the weights in a phase's initial weights file were trained.

    Returns None if the phase does not start from a file.
    """
    if not (phase.start.weights or "").endswith(".safetensors"):
        return None
    sources = trained_on(run.folder / start_files(recipe, phase)[0])
    return "unknown: the file does not say" if sources is None else ", ".join(sources)


def map_file(phase: Phase) -> str:
    """Return the name, in a run, of a phase's map of weight names; the suffix, which tells the format, is kept."""
    return f"start/{phase.name}.map{Path(phase.start.map or '').suffix}"


def renamed_weights(run: Run, phase: Phase, file_names: Iterable[str]) -> RenamedWeights:
    """Map the names of a phase's initial weights to those of the network; `file_names` are the names in the weights
    file.

    Raises ArchError (A2220).
    """
    file = map_file(phase)
    names = weight_names.parse(run.content(file).decode("utf-8", "replace"), file)
    return RenamedWeights(phase.start.weights or "", names, names.of(file_names))


def _open_source(phase: Phase, name: str, folder: Path) -> tuple[Run, Recipe, Phase]:
    """Open the run `FOLDER` or `FOLDER:PHASE`; return it, its recipe, and the phase whose weights are to be used.

    Without PHASE, this is the last phase with weights. Raises ArchError (A2207, A18xx).
    """
    run, which = open_run(str(folder / name))
    recipe = recipe_of_run(run).recipe
    with_weights = [candidate for candidate in recipe.phase if f"phases/{candidate.name}/{WEIGHTS}" in run.entries]
    matching = [candidate for candidate in with_weights if which in ("", candidate.name)]
    if not matching:
        available = join_names([candidate.name for candidate in with_weights]) if with_weights else "none"
        raise _no_weights(phase, name, f"phases with weights there: {available}")
    return run, recipe, matching[-1]


def _check_overlap(
    recipe: Recipe, phase: Phase, uses_all_samples: UsesAllSamples, source: str, problem: str | None, remedy: str
) -> None:
    """Raise ArchError (A2214) if a search would select by samples on which its initial weights were trained.

    `source` is the data source of these weights; `problem` says how the samples overlap if it is that of the phase,
    or is None if they do not.
    """
    is_allowed = phase.start.allow_validation_overlap or (
        uses_all_samples(phase) and phase.name not in before_searches(recipe, uses_all_samples)
    )
    if problem is not None and not is_allowed and origin(recipe.data_of(phase).source) == origin(source):
        hint = f"this search would choose by samples its weights were trained on: use {remedy}"
        hint += "; `allow_validation_overlap = true` in `start` allows it"
        raise fail("A2214", f"phase `{phase.name}` starts from {problem}", None, hint)


def _require_same_split(
    recipe: Recipe, phase: Phase, other: Recipe, other_phase: Phase, uses_all_samples: UsesAllSamples
) -> None:
    own, other_data = recipe.data_of(phase), other.data_of(other_phase)
    differ = [key for key in SPLITTING if getattr(own, key) != getattr(other_data, key)]
    if recipe.seed != other.seed:
        differ.append("seed")
    if _source_options(own.source) != _source_options(other_data.source):
        differ.append("source")
    why = f"splits the samples differently: {join_names(differ)}" if differ else None
    if uses_all_samples(other_phase) and other_phase.name not in before_searches(other, uses_all_samples):
        why = "was trained on all training images"
    problem = f"phase `{other_phase.name}` of another run, which {why}" if why else None
    _check_overlap(recipe, phase, uses_all_samples, other_data.source, problem, "the same split, or other data")


def _require_unseen(
    recipe: Recipe, phase: Phase, sources: Sequence[str] | None, uses_all_samples: UsesAllSamples
) -> None:
    problem = f"`{phase.start.weights}`, which was trained on all of `{recipe.data_of(phase).source}`"
    for source in sources or ():
        _check_overlap(recipe, phase, uses_all_samples, source, problem, "other data or other weights")


def _source_options(source: str) -> tuple[str, str]:
    """Return the options in a source name: its columns, and the forecast horizon."""
    return source.partition("#")[2], source.partition("@")[2]


def _no_weights(phase: Phase, name: str, why: str) -> Exception:
    return fail("A2207", f"phase `{phase.name}`: `{name}` has no weights to start from", None, why)


TEACHER = ("teacher", "weights")
"""Objective settings that define the teacher's network and weights; the run fills them in if the objective names
a phase."""


def teacher_files(phase: Phase, folder: Path) -> dict[str, Content]:
    """Return the files to copy into the run for a phase's teachers: programs below `space/`, and weights.

    Relative paths are resolved in `folder`, the recipe's folder. Raises ArchError: A2206 (a program is outside of this
    folder), A2207 (a weights file does not exist), and errors in the programs.
    """
    files: dict[str, Content] = {}
    for settings in (phase.objective, *phase.also):
        if "teacher" not in settings or "weights" not in settings or "phase" in settings:
            continue
        net, weights = str(settings["teacher"]), str(settings["weights"])
        files |= {f"{SPACE}/{name}": text for name, text in files_of(net, folder).items()}
        path = folder / weights
        if not path.is_file():
            raise fail("A2207", f"phase `{phase.name}`: there are no weights `{weights}` of a teacher")
        files[_teacher_in_run(weights)] = path
    return files


def with_teacher_files(run: Run, recipe: Recipe, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return an objective's settings with its teacher's files replaced by their copies in the run. Raises ArchError
    (A2207)."""
    result = dict(settings)
    name = result.pop("phase", None)
    if name is None:
        is_copied = "teacher" in result and _teacher_in_run(str(result.get("weights"))) in run.entries
        return result | {"weights": f"../{_teacher_in_run(str(result['weights']))}"} if is_copied else result
    phase = next((phase for phase in recipe.phase if phase.name == name), None)
    weights = f"phases/{name}/{WEIGHTS}"
    if phase is None or weights not in run.entries:
        raise fail("A2207", f"there is no earlier phase `{name}` whose network could teach")
    parameters = {**recipe.parameters, **phase.parameters}
    run.content(weights)  # verified
    return result | {"teacher": phase.space or recipe.space, "parameters": parameters, "weights": f"../{weights}"}


def _teacher_in_run(weights: str) -> str:
    """Return the name of a teacher's weights in a run; different paths in the recipe get different names."""
    return f"start/teacher-{sha256(weights.encode()).hexdigest()[:16]}.safetensors"


def table_files(table: Evaluate, folder: Path) -> dict[str, Path]:
    """Return the paths of a table and of its column map, by their names in a run; relative paths start in `folder`."""
    return {_table_in_run(path): folder / path for path in (table.table, _map_path(table))}


def results_from_files(table: Evaluate, folder: Path, space: Space) -> Results:
    """Read the results for a space's architectures from a table. Raises ArchError (A2251, A2252, A11xx)."""
    from archir.tabular.results import read_results

    return read_results(folder / table.table, folder / _map_path(table), space, table.measures)


def results_from_run(run: Run, table: Evaluate, space: Space) -> Results:
    """Read the results for a space's architectures from a run's copy of a table. Raises ArchError (A2251, A2252,
    A11xx)."""
    from archir.tabular.results import read_results

    file, columns = (run.folder / _table_in_run(path) for path in (table.table, _map_path(table)))
    return read_results(file, columns, space, table.measures)


def _map_path(table: Evaluate) -> str:
    """Return the path of a table's column map: `map`, or the table's path with the suffix `.toml`."""
    return table.map or str(Path(table.table).with_suffix(".toml"))


def _table_in_run(path: str) -> str:
    return f"tables/{quote(path, safe='')}"

"""Initial weights of phases from another run or a file.

They are copied into the run when it starts, so that the run stays complete if the original is changed or
deleted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from archir.backends import weight_names
from archir.backends.weight_names import RenamedWeights
from archir.data.sources import origin
from archir.diagnostics.errors import fail, join_names
from archir.recipes.division import UsesAllSamples, before_searches
from archir.recipes.parsing import RecipeFile, parse
from archir.recipes.recipe import Phase, Recipe, is_external
from archir.recipes.supernet import SupernetRecord
from archir.runs import Run
from archir.runs.folder import SUPERNET, WEIGHTS, Content
from archir.utils.files import open_regular

DATA_KEY = "data"
"""Metadata key of safetensors files for a JSON list of the data sources on which the weights were trained."""

_MAX_HEADER_BYTES = 10**8
"""Maximum header size of a safetensors file, in bytes."""

SPLIT_SETTINGS = ("source", "limit", "classes", "weights")
"""Data settings that determine which samples train weights and which select architectures."""


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
        map_path = phase.start.map
        return {
            start_files(recipe, phase)[0]: path,
            **({map_file(phase): folder / map_path} if map_path is not None else {}),
        }
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


def read_supernet(run: Run, name: str) -> SupernetRecord | None:
    """Read a supernet record from a file of a run; None if there is no such file."""
    return SupernetRecord(**json.loads(run.content(name))) if name in run.entries else None


def recipe_of_run(run: Run) -> RecipeFile:
    """Return the recipe of a run, with its overrides applied."""
    return parse(run.content("recipe.toml").decode(), "recipe.toml", json.loads(run.content("overrides.json")))


def _open_source(phase: Phase, name: str, folder: Path) -> tuple[Run, Recipe, Phase]:
    """Open the run `FOLDER` or `FOLDER:PHASE`; return it, its recipe, and the phase whose weights are to be used.

    Without PHASE, this is the last phase with weights. Raises ArchError (A2207, A18xx).
    """
    place, colon, which = name.rpartition(":")
    run = Run.open(folder / (place if colon else name))
    recipe = recipe_of_run(run).recipe
    with_weights = [candidate for candidate in recipe.phase if f"phases/{candidate.name}/{WEIGHTS}" in run.entries]
    matching = [candidate for candidate in with_weights if not colon or candidate.name == which]
    if not matching:
        available = join_names([candidate.name for candidate in with_weights]) if with_weights else "none"
        raise _no_weights(phase, name, f"phases with weights there: {available}")
    return run, recipe, matching[-1]


OVERLAP_HINT = "; `allow_validation_overlap = true` in `start` allows it"
"""Text appended to hints: the setting that permits initial weights trained on validation samples."""


def _require_same_split(
    recipe: Recipe, phase: Phase, other: Recipe, other_phase: Phase, uses_all_samples: UsesAllSamples
) -> None:
    """Raise ArchError (A2214) if a search could select by samples on which the other run trained the initial
    weights."""
    own, other_data = recipe.data_of(phase), other.data_of(other_phase)
    is_allowed = phase.start.allow_validation_overlap or (
        uses_all_samples(phase) and phase.name not in before_searches(recipe, uses_all_samples)
    )
    if is_allowed or origin(own.source) != origin(other_data.source):
        return
    differ = [key for key in SPLIT_SETTINGS[1:] if getattr(own, key) != getattr(other_data, key)]
    if recipe.seed != other.seed:
        differ.append("seed")
    if _source_options(own.source) != _source_options(other_data.source):
        differ.append("source")
    saw_all = uses_all_samples(other_phase) and other_phase.name not in before_searches(other, uses_all_samples)
    if differ or saw_all:
        why = (
            "was trained on all training images" if saw_all else f"splits the samples differently: {join_names(differ)}"
        )
        hint = (
            "this search would choose by samples its weights were trained on: use the same split, or other data"
            + OVERLAP_HINT
        )
        text = f"phase `{phase.name}` starts from phase `{other_phase.name}` of another run, which {why}"
        raise fail("A2214", text, None, hint)


def _require_unseen(
    recipe: Recipe, phase: Phase, sources: Sequence[str] | None, uses_all_samples: UsesAllSamples
) -> None:
    """Raise ArchError (A2214) if a search would select by samples on which its initial weights file was trained."""
    is_allowed = phase.start.allow_validation_overlap or (
        uses_all_samples(phase) and phase.name not in before_searches(recipe, uses_all_samples)
    )
    own = recipe.data_of(phase).source
    if not is_allowed and origin(own) in map(origin, sources or ()):
        text = f"phase `{phase.name}` starts from `{phase.start.weights}`, which was trained on all of `{own}`"
        hint = (
            "this search would choose by samples its weights were trained on: use other data or other weights"
            + OVERLAP_HINT
        )
        raise fail("A2214", text, None, hint)


def _source_options(source: str) -> tuple[str, str]:
    """Return the options in a source name: its columns, and the forecast horizon."""
    return source.partition("#")[2], source.partition("@")[2]


def _no_weights(phase: Phase, name: str, why: str) -> Exception:
    """Return the error (A2207) for a phase whose initial weights do not exist."""
    return fail("A2207", f"phase `{phase.name}`: `{name}` has no weights to start from", None, why)

"""Weights that phases start from and that no earlier phase trained: those of another run, or of a file.

They are copied when a run begins, so that it stays whole whatever becomes of where they came from.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from archir.backends import naming
from archir.backends.naming import Named
from archir.data.sources import origin
from archir.diagnostics.errors import fail, listed
from archir.recipes.division import Whole, before_searches
from archir.recipes.reading import Written, parse
from archir.recipes.recipe import Phase, Recipe, elsewhere
from archir.recipes.supernet import SupernetRecord
from archir.runs import Run
from archir.runs.folder import Content
from archir.runs.phase import SUPERNET, WEIGHTS
from archir.utils.files import reading

SEEN = "data"
"""What files of weights say in their metadata: the sources that they were trained on, a JSON list."""

_MOST_HEADER = 10**8

DIVIDED = ("source", "limit", "classes", "weights")
"""Settings of data that say which images are for weights."""


def names(recipe: Recipe, phase: Phase) -> tuple[str, str]:
    """The files of a run that have what a phase starts from: weights, and the supernet that they are of. Phases that
    start from the same have one copy of it, by the name of the first one."""
    first = next(one.name for one in recipe.phase if one.start.weights == phase.start.weights)
    return f"start/{first}.safetensors", f"start/{first}.json"


def borrowed(recipe: Recipe, phase: Phase, folder: Path, whole: Whole) -> dict[str, Content]:
    """What a phase starts from, as files of the run; nothing if its weights are those of an earlier phase, or new ones.

    A relative path begins in the recipe's folder. Raises ArchError: A2207 (there is nothing), A2214 (the weights saw
    images that are to choose), A18xx (the other run was damaged).
    """
    name = phase.start.weights
    if name is None or not elsewhere(name):
        return {}
    path = folder / name
    if path.suffix == ".safetensors":
        if not path.is_file():
            raise _nothing(phase, name, "there is no such file")
        _require_unseen(recipe, phase, seen_by(path), whole)
        given = phase.start.map
        return {names(recipe, phase)[0]: path, **({map_name(phase): folder / given} if given is not None else {})}
    run, other, trained = _opened(phase, name, folder)
    _require_apart(recipe, phase, other, trained, whole)
    weights, supernet = names(recipe, phase)
    files: dict[str, Content] = {weights: run.content(f"phases/{trained.name}/{WEIGHTS}")}
    known = f"phases/{trained.name}/{SUPERNET}"
    if known in run.files.manifest.files:
        files[supernet] = run.content(known)
    return files


def seen_by(path: Path) -> list[str] | None:
    """The sources whose training samples the weights of a file have seen, as `archir train` writes them into it; None
    where the file does not say."""
    try:
        with reading(path) as stream:  # a safetensors file begins with the size of its header, which is JSON
            header = json.loads(stream.read(min(int.from_bytes(stream.read(8), "little"), _MOST_HEADER)))
        found = json.loads(header["__metadata__"][SEEN])
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None
    return found if isinstance(found, list) and all(isinstance(one, str) for one in found) else None


def seen(run: Run, recipe: Recipe, phase: Phase) -> str | None:
    """What the file of weights that a phase of a run starts from was trained on, in words; None if there is none."""
    if not (phase.start.weights or "").endswith(".safetensors"):
        return None
    sources = seen_by(run.folder / names(recipe, phase)[0])
    return "not known: the file does not say" if sources is None else ", ".join(sources)


def map_name(phase: Phase) -> str:
    """The file of a run that has a phase's map of weights. What it ends with says what it is."""
    return f"start/{phase.name}.map{Path(phase.start.map or '').suffix}"


def named(run: Run, phase: Phase, given: Iterable[str]) -> Named:
    """Which weights of the file that a phase starts from are which of its network. Raises ArchError (A2220)."""
    file = map_name(phase)
    names = naming.parse(run.content(file).decode("utf-8", "replace"), file)
    return Named(phase.start.weights or "", names, names.of(given))


def supernet_of(run: Run, name: str) -> SupernetRecord | None:
    """The supernet that a file of a run says, if it has that file."""
    return SupernetRecord(**json.loads(run.content(name))) if name in run.files.manifest.files else None


def written(run: Run) -> Written:
    """The recipe of a run, as it was used."""
    return parse(run.content("recipe.toml").decode(), "recipe.toml", json.loads(run.content("overrides.json")))


def _opened(phase: Phase, name: str, folder: Path) -> tuple[Run, Recipe, Phase]:
    """Another run, its recipe, and the phase of it whose weights are meant: the last one that has some."""
    place, colon, which = name.rpartition(":")
    run = Run.open(folder / (place if colon else name))
    recipe = written(run).recipe
    done = [one for one in recipe.phase if f"phases/{one.name}/{WEIGHTS}" in run.files.manifest.files]
    found = [one for one in done if not colon or one.name == which]
    if not found:
        there = listed([one.name for one in done]) if done else "none"
        raise _nothing(phase, name, f"phases that trained something there: {there}")
    return run, recipe, found[-1]


MEANT = "; `seen = true` in `start` says that it is meant"


def _require_apart(recipe: Recipe, phase: Phase, other: Recipe, trained: Phase, whole: Whole) -> None:
    """Raise ArchError (A2214) if images that choose in a search may be among those that its first weights saw."""
    own, theirs = recipe.data_of(phase), other.data_of(trained)
    ends = phase.start.seen or (whole(phase) and phase.name not in before_searches(recipe, whole))
    if ends or origin(own.source) != origin(theirs.source):
        return
    differ = [key for key in DIVIDED[1:] if getattr(own, key) != getattr(theirs, key)]
    if recipe.seed != other.seed:
        differ.append("seed")
    if _which(own.source) != _which(theirs.source):
        differ.append("source")
    saw_all = whole(trained) and trained.name not in before_searches(other, whole)
    if differ or saw_all:
        why = "was trained on all training images" if saw_all else f"divided the images otherwise: {listed(differ)}"
        hint = (
            "images that its weights have seen would choose here: search on the same halves, or on other data" + MEANT
        )
        text = f"phase `{phase.name}` starts from phase `{trained.name}` of another run, which {why}"
        raise fail("A2214", text, None, hint + MEANT)


def _require_unseen(recipe: Recipe, phase: Phase, sources: Sequence[str] | None, whole: Whole) -> None:
    """Raise ArchError (A2214) if samples that choose in a search are among those that weights of a file have seen."""
    ends = phase.start.seen or (whole(phase) and phase.name not in before_searches(recipe, whole))
    own = recipe.data_of(phase).source
    if not ends and origin(own) in map(origin, sources or ()):
        text = f"phase `{phase.name}` starts from `{phase.start.weights}`, which was trained on all of `{own}`"
        hint = (
            "samples that its weights have seen would choose here: search on other data, or from other weights" + MEANT
        )
        raise fail("A2214", text, None, hint + MEANT)


def _which(source: str) -> tuple[str, str]:
    """Which columns of a source are meant, and how far ahead: what its name says beside where it is."""
    return source.partition("#")[2], source.partition("@")[2]


def _nothing(phase: Phase, name: str, why: str) -> Exception:
    return fail("A2207", f"phase `{phase.name}`: `{name}` has no weights to start from", None, why)

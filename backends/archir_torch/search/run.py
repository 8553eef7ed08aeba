"""A search: the phases of a recipe, one after the other, in the folder of a run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from archir.errors import fail
from archir.ir.serial import from_json, to_json
from archir.ir.typing import infer
from archir.runs import Run, environment
from archir.search.space import Space
from archir_torch import strategies  # noqa: F401  (registers them)
from archir_torch.data import Data, load, record, verify
from archir_torch.engine import loop
from archir_torch.engine.loop import Row, Watch
from archir_torch.engine.settings import parsed
from archir_torch.keeper import PhaseKeeper
from archir_torch.search import results
from archir_torch.search.job import Job, Outcome, kind_of, made
from archir_torch.search.recipe import DataSettings, Phase, Recipe, parse, read, with_overrides
from archir_torch.search.spaces import files_of, load_space

RECIPE, OVERRIDES, SPACE, SPLITS = "recipe.toml", "overrides.json", "space", "splits.json"


@dataclass(frozen=True)
class Search:
    """A recipe in the folder of a run. `folder` is where its spaces are."""

    recipe: Recipe
    run: Run
    folder: Path
    device: str


def begin(path: Path, folder: Path, overrides: Mapping[str, str], device: str) -> Search:
    """A new run of a recipe: its files are copied, everything that can be checked beforehand is. Raises ArchError."""
    recipe, text = read(path)
    recipe = _overridden(text, overrides)
    spaces: dict[str, str] = {}
    for phase in recipe.phase:
        kind = kind_of(phase)
        parsed(kind.options, phase.options)
        spaces |= files_of(phase.space or recipe.space, path.parent)
        space_of(recipe, phase, path.parent)
    inputs = {
        RECIPE: text,
        OVERRIDES: json.dumps(dict(overrides), indent=1) + "\n",
        **{f"{SPACE}/{name}": content for name, content in spaces.items()},
    }
    facts = environment(device=device, threads=recipe.threads or torch.get_num_threads())
    run = Run.create(folder, recipe.title or path.stem, inputs, facts)
    return Search(recipe, run, folder / SPACE, device)


def resumed(folder: Path, device: str, fall_back: bool = False) -> Search:
    """A run that was stopped. Raises ArchError (A18xx) if its files were damaged."""
    run = Run.resume(folder, fall_back)
    try:
        overrides = json.loads(run.content(OVERRIDES))
        return Search(_overridden(run.content(RECIPE).decode(), overrides), run, folder / SPACE, device)
    except BaseException:
        run.close()
        raise


def _overridden(text: str, overrides: Mapping[str, str]) -> Recipe:
    if not overrides:
        return parse(text)
    import tomllib

    parse(text)
    return parsed(Recipe, with_overrides(tomllib.loads(text), overrides))


def space_of(recipe: Recipe, phase: Phase, folder: Path) -> Space:
    """The space of a phase. Raises ArchError."""
    return load_space(phase.space or recipe.space, folder, {**recipe.parameters, **phase.parameters})


def search(found: Search, watch: Watch | None = None) -> Mapping[str, Any]:
    """Run the phases that are left, and write the results; what they came to. Raises ArchError, Interrupted."""
    outcomes: dict[str, Outcome] = {}
    with found.run as run, _threads(found.recipe.threads):
        for phase in found.recipe.phase:
            outcomes[phase.name] = _phase(found, phase, outcomes, watch)
        summary = results.write(found, outcomes)
        run.finish()
    return summary


@contextmanager
def _threads(count: int | None) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _phase(found: Search, phase: Phase, before: Mapping[str, Outcome], watch: Watch | None) -> Outcome:
    """A phase's outcome: read, if it is done; else what is left of it is done."""
    kept = found.run.phase(phase.name)
    space = space_of(found.recipe, phase, found.folder)
    if kept.done is not None:
        return _read(found.run, phase.name, space)
    job = _job(found, phase, space, before)
    strategy = made(job)
    kept.begin({"strategy": phase.strategy, "epochs": strategy.epochs})
    rows: list[Row] = []
    if strategy.epochs:
        rows = loop.run(
            strategy, epochs=strategy.epochs, steps=strategy.steps, keeper=PhaseKeeper(kept), watch=watch,
            seed=job.seed, every=phase.training.checkpoint_minutes, phase=phase.name,
        )  # fmt: skip
    outcome = strategy.outcome()
    found.run.write(_files(phase.name, outcome))
    kept.finish(rows[-1] if rows else {})
    return outcome


def _job(found: Search, phase: Phase, space: Space, before: Mapping[str, Outcome]) -> Job:
    settings = phase.data or found.recipe.data
    phase = phase.model_copy(update={"data": settings})
    start = phase.start
    seed = found.recipe.seed + phase.training.seed
    phase = phase.model_copy(update={"also": tuple(_taught(found, settings) for settings in phase.also)})
    earlier = {what: before[name] for what, name in start if name is not None}
    for what, outcome in earlier.items():
        if getattr(outcome, what) in (None, {}):
            raise fail("A2207", f"phase `{phase.name}`: `{getattr(start, what)}` has no {what} to start from")
    architecture = earlier["architecture"].architecture if "architecture" in earlier else None
    return Job(
        phase=phase,
        space=space,
        data=_data(found, phase.name, settings, space),
        seed=seed,
        device=found.device,
        folder=found.folder,
        alphas=earlier["alphas"].alphas if "alphas" in earlier else None,
        architecture=dict(architecture) if architecture is not None else None,
        weights=earlier["weights"].weights if "weights" in earlier else None,
    )


def _taught(found: Search, settings: Mapping[str, Any]) -> dict[str, Any]:
    """An objective whose teacher is what an earlier phase trained: `phase = "..."`."""
    given = dict(settings)
    name = given.pop("phase", None)
    if name is None:
        return given
    phase = next((phase for phase in found.recipe.phase if phase.name == name), None)
    weights = f"phases/{name}/weights.safetensors"
    if phase is None or weights not in found.run.files.manifest.files:
        raise fail("A2207", f"there is no earlier phase `{name}` whose network could teach")
    parameters = {**found.recipe.parameters, **phase.parameters}
    found.run.content(weights)  # verified
    return given | {
        "teacher": phase.space or found.recipe.space, "parameters": parameters, "weights": f"../{weights}",
    }  # fmt: skip


def _data(found: Search, name: str, settings: DataSettings, space: Space) -> Data:
    """The images, which must be those that the run began with."""
    (number,) = space.graph.inputs.values()
    shape = infer(space.graph)[number].shape
    data = load(settings.source, shape, seed=found.recipe.seed, limit=settings.limit, classes=settings.classes)
    splits = {"train": data.train, "held_out": data.held_out}
    path = f"phases/{name}/{SPLITS}"
    if path in found.run.files.manifest.files:
        verify(json.loads(found.run.content(path)), settings.source, found.recipe.seed, splits)
    else:
        stored = record(settings.source, found.recipe.seed, splits)
        found.run.write({path: json.dumps(stored, indent=1) + "\n"})
    return data


def _files(name: str, outcome: Outcome) -> dict[str, str | bytes]:
    """An outcome as files of a run."""
    base = f"phases/{name}/"
    files: dict[str, str | bytes] = {f"{base}weights.safetensors": save_tensors(_separate(outcome.weights))}
    if outcome.architecture is not None:
        files[f"{base}architecture.json"] = outcome.architecture.to_json()
    if outcome.alphas is not None:
        files[f"{base}alphas.json"] = json.dumps({"logits": outcome.alphas, "history": outcome.history}) + "\n"
    if outcome.network is not None:
        files[f"{base}network.json"] = json.dumps(to_json(outcome.network)) + "\n"
    return files


def _read(run: Run, name: str, space: Space) -> Outcome:
    base = f"phases/{name}/"

    def content(file: str) -> bytes | None:
        return run.content(base + file) if base + file in run.files.manifest.files else None

    labels, alphas, network = content("architecture.json"), content("alphas.json"), content("network.json")
    known = json.loads(alphas) if alphas is not None else {"logits": None, "history": {}}
    return Outcome(
        architecture=space.architecture(json.loads(labels)["choices"]) if labels is not None else None,
        alphas=known["logits"],
        history=known["history"],
        network=from_json(json.loads(network)) if network is not None else None,
        weights=load_tensors(content("weights.safetensors") or b""),
    )


def _separate(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}

"""A search: the phases of a recipe, one after the other, in the folder of a run."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from archir import backends
from archir.base.errors import ArchError, Interrupted, fail
from archir.base.settings import parsed
from archir.ir.text.serial import from_json, to_json
from archir.search.data.inputs import image_size
from archir.search.recipes import division
from archir.search.recipes.open_choices import opened
from archir.search.recipes.reading import Written, parse, read
from archir.search.recipes.recipe import DataSettings, Phase, Recipe
from archir.search.recipes.spaces import files_of, load_space
from archir.search.runs import Run, Trial, environment
from archir.search.runs.phase import Phase as PhaseRecord
from archir.search.signals import interruptions
from archir.search.spaces.space import Space
from archir_torch.data import Data, about, load, record, verify
from archir_torch.objectives.create import check as check_objective
from archir_torch.search import results
from archir_torch.search.job import Job, Outcome, Trials, kind_of, made, whole
from archir_torch.search.strategies.trials import TrialOptions
from archir_torch.search.supernet_record import SupernetRecord
from archir_torch.training import distributed, loop
from archir_torch.training.checkpoints.phase import PhaseKeeper
from archir_torch.training.loop import Row, Watch

RECIPE, OVERRIDES, SPACE = "recipe.toml", "overrides.json", "space"


@dataclass(frozen=True)
class Search:
    """A recipe in the folder of a run. `folder` is where its spaces are; `loaded` the images that are at hand, `spaces`
    what was made of the spaces, by their names and parameters."""

    recipe: Recipe
    run: Run
    folder: Path
    device: str
    executor: str | None = None
    """Who scores candidates, instead of whom phases name."""
    loaded: dict[Any, Data] = field(default_factory=dict)
    spaces: dict[str, Space] = field(default_factory=dict)


def begin(
    path: Path, folder: Path, overrides: Mapping[str, str], device: str, executor: str | None = None
) -> Search:  # fmt: skip
    """A new run of a recipe: its files are copied, everything that can be checked beforehand is. Raises ArchError."""
    written = read(path, overrides)
    recipe, blamed = written.recipe, written.document.blamed
    with blamed("opset"):
        if problems := backends.get("onnx").problems(**({} if recipe.opset is None else {"opset": recipe.opset})):
            raise ArchError(*problems)
    spaces: dict[str, Space] = {}
    files: dict[str, str] = {}
    for number, phase in enumerate(recipe.phase):
        with blamed("phase", number, "space") if phase.space else blamed("space"):
            files |= files_of(phase.space or recipe.space, path.parent)
            space = space_of(recipe, phase, path.parent, spaces)
        _check(written, number, space, executor)
    _check_executor(recipe, executor)
    division.check(written, whole)
    first = recipe.phase[0]
    with blamed("phase", 0, "data", "source") if first.data else blamed("data", "source"):
        loaded = _loaded({}, recipe, recipe.data_of(first), space_of(recipe, first, path.parent, spaces))
    inputs = {
        RECIPE: written.document.source.text,
        OVERRIDES: json.dumps(dict(overrides), indent=1) + "\n",
        **{f"{SPACE}/{name}": content for name, content in files.items()},
    }
    facts = environment(device=device, threads=recipe.threads or torch.get_num_threads())
    run = Run.create(folder, recipe.title or path.stem, inputs, facts)
    return Search(recipe, run, folder / SPACE, device, loaded=loaded, spaces=spaces)


def _check(written: Written, number: int, space: Space, executor: str | None) -> None:
    """Raise ArchError for what a phase names and is not there."""
    phase, document = written.recipe.phase[number], written.document
    whose = f"phase `{phase.name}`: "
    with document.blamed("phase", number, "strategy"):
        kind = kind_of(phase)
    options = parsed(kind.options, phase.options, whose, document.at("phase", number, "options"))
    check_objective(phase.objective, whose, document.at("phase", number, "objective"))
    for position, also in enumerate(phase.also):
        check_objective(also, whose, document.at("phase", number, "also", position))
    for key, patterns in (("open", phase.open), ("fixed", tuple(phase.fixed))):
        with document.blamed("phase", number, key):
            opened(space, patterns)
    if isinstance(options, TrialOptions):
        with document.blamed("phase", number, "options", "executor"):
            options.workers(executor)
        if options.where:
            with document.blamed("phase", number, "options", "where"):
                space.where(options.where).prove()


def _check_executor(recipe: Recipe, executor: str | None) -> None:
    """Raise ArchError (A2601) for an executor that nothing would use."""
    if executor is not None and not any(issubclass(kind_of(phase).options, TrialOptions) for phase in recipe.phase):
        raise fail("A2601", f"the executor `{executor}` would have nothing to do: no phase tries candidates")


def resumed(folder: Path, device: str, fall_back: bool = False) -> Search:
    """A run that was stopped. Raises ArchError (A18xx) if its files were damaged."""
    return _of(Run.resume(folder, fall_back), device)


def _of(run: Run, device: str) -> Search:
    """The search of a run, which is closed if it has none."""
    try:
        overrides = json.loads(run.content(OVERRIDES))
        recipe = parse(run.content(RECIPE).decode(), RECIPE, overrides).recipe
        return Search(recipe, run, run.folder / SPACE, device)
    except BaseException:
        run.close()
        raise


def space_of(recipe: Recipe, phase: Phase, folder: Path, known: dict[str, Space] | None = None) -> Space:
    """The space of a phase, unless it is known already: large ones take seconds. Raises ArchError."""
    name, parameters = phase.space or recipe.space, {**recipe.parameters, **phase.parameters}
    known = {} if known is None else known
    key = json.dumps([name, parameters], sort_keys=True, default=str)
    if key not in known:
        known[key] = load_space(name, folder, parameters)
    return known[key]


def execute(
    recipe: Path | None, folder: Path, *, resume: bool, fall_back: bool, overrides: Mapping[str, str], device: str,
    watch: Watch | None, executor: str | None = None,
) -> Mapping[str, Any]:  # fmt: skip
    """Begin a run or go on with one, to its end; what it came to, in the first of several processes.

    The first process writes the run; the others read what it wrote, so the folder must be one that all of them see.
    Raises ArchError, and Interrupted after SIGINT or SIGTERM: between steps, phases and results.
    """
    with distributed.joined(device) as own, interruptions() as interrupted:
        folder = Path(distributed.told(str(folder)))
        with distributed.jointly(f"{folder}") as leads:
            if leads and resume:
                found = resumed(folder, own, fall_back)
            elif leads:
                if recipe is None:
                    raise fail("A2201", "a new search needs a recipe")
                found = begin(recipe, folder, overrides, own, executor)
        if not leads:
            found = _of(Run.open(folder), own)
        with found.run, _threads(found.recipe.threads):
            return _search(replace(found, executor=executor), watch if leads else None, interrupted)


def _search(found: Search, watch: Watch | None, interrupted: Callable[[], bool]) -> Mapping[str, Any]:
    """Run the phases that are left, and write the results. A run that is finished is left as it is."""
    if found.run.finished:
        stored: Mapping[str, Any] = json.loads(found.run.content(results.SUMMARY))
        return stored
    outcomes: dict[str, Outcome] = {}
    for phase in found.recipe.phase:
        _stop(interrupted, f"phase `{phase.name}`")
        found = _current(found)
        outcomes[phase.name] = _phase(found, phase, outcomes, watch)
    _stop(interrupted, "the results")
    summary: Mapping[str, Any] = {}
    with distributed.jointly("results") as leads:
        if leads:
            summary = results.write(found, outcomes)
            found.run.finish()
    return summary


def _stop(interrupted: Callable[[], bool], where: str) -> None:
    if distributed.agreed(interrupted())[0]:
        raise Interrupted(f"the search was stopped before {where}")


def _current(found: Search) -> Search:
    """The run as it is now, to processes that do not write it; none goes on before all have seen it."""
    with distributed.jointly("the run") as leads:
        return found if leads else replace(found, run=Run.open(found.run.folder))


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
    space = space_of(found.recipe, phase, found.folder, found.spaces)
    if kept.done is not None:
        return _read(found.run, phase.name, space)
    job = _job(found, phase, space, before)
    strategy = made(job)
    if distributed.world().rank == 0:
        kept.begin({"strategy": phase.strategy, "epochs": strategy.epochs})
    rows: list[Row] = []
    with strategy if isinstance(strategy, AbstractContextManager) else nullcontext():
        if strategy.epochs:
            keeper = PhaseKeeper(kept, getattr(strategy, "shown", dict))
            rows = loop.run(
                strategy, epochs=strategy.epochs, steps=strategy.steps, keeper=keeper, watch=watch,
                seed=job.seed, every=phase.training.checkpoint_minutes, phase=phase.name,
            )  # fmt: skip
        outcome = strategy.outcome()
    with distributed.jointly(f"phase `{phase.name}`") as leads:
        if leads:
            found.run.write(_files(phase.name, outcome))
            kept.finish(rows[-1] if rows else {})
    return outcome


def _job(found: Search, phase: Phase, space: Space, before: Mapping[str, Outcome]) -> Job:
    settings = found.recipe.data_of(phase)
    phase = phase.model_copy(update={"data": settings})
    start = phase.start
    seed = found.recipe.seed + phase.training.seed
    phase = phase.model_copy(update={"also": tuple(_taught(found, settings) for settings in phase.also)})
    earlier = {what: before[name] for what, name in start if name is not None and what != "trials"}
    for what, outcome in earlier.items():
        if getattr(outcome, what) in (None, {}):
            raise fail("A2207", f"phase `{phase.name}`: `{getattr(start, what)}` has no {what} to start from")
    data = _data(found, phase.name, settings, space)
    if phase.name in division.before_searches(found.recipe, whole):
        data = replace(data, train=data.halves()[0])
    architecture = earlier["architecture"].architecture if "architecture" in earlier else None
    return Job(
        phase=phase,
        space=space,
        data=data,
        seed=seed,
        device=found.device,
        folder=found.folder,
        alphas=earlier["alphas"].alphas if "alphas" in earlier else None,
        architecture=dict(architecture) if architecture is not None else None,
        weights=earlier["weights"].weights if "weights" in earlier else None,
        supernet=earlier["weights"].supernet if "weights" in earlier else None,
        trials=_Kept(found.run.phase(phase.name)),
        earlier=found.run.phase(start.trials).trials() if start.trials is not None else (),
        executor=found.executor,
        decided=lambda name, decide: _decided(found, f"phases/{phase.name}/{name}.json", decide),
    )


class _Kept(Trials):
    """Trials in the journal; of several processes, all know them and the first one writes them."""

    def __init__(self, phase: PhaseRecord) -> None:
        self.phase = phase
        self.known = {trial.id: trial for trial in phase.trials()}

    def put(self, trial: Trial) -> None:
        """Keep a trial."""
        super().put(trial)
        if distributed.world().rank == 0:
            self.phase.put_trial(trial)


def _decided(found: Search, path: str, decide: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
    """What the first process decided, which the run keeps."""
    text = ""
    if distributed.world().rank == 0:
        if path not in found.run.files.manifest.files:
            found.run.write({path: json.dumps(dict(decide()), indent=1) + "\n"})
        text = found.run.content(path).decode()
    known: Mapping[str, Any] = json.loads(distributed.told(text))
    return known


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


def _loaded(loaded: dict[Any, Data], recipe: Recipe, settings: DataSettings, space: Space) -> dict[Any, Data]:
    """The images of settings, as large as a space's input, beside or instead of those at hand."""
    shape = image_size(space.graph)
    key = settings.source, shape, settings.limit, settings.classes, settings.weights
    if key not in loaded:
        loaded.clear()
        loaded[key] = load(
            settings.source, shape, seed=recipe.seed, limit=settings.limit, classes=settings.classes,
            weights=settings.weights,
        )  # fmt: skip
    return loaded


def _data(found: Search, name: str, settings: DataSettings, space: Space) -> Data:
    """The images, which must be those that the run began with."""
    (data,) = _loaded(found.loaded, found.recipe, settings, space).values()
    splits = {"train": data.train, "held_out": data.held_out}
    path = f"phases/{name}/{results.SPLITS}"
    if path in found.run.files.manifest.files:
        verify(json.loads(found.run.content(path)), settings.source, found.recipe.seed, splits)
    elif distributed.world().rank == 0:
        stored = record(settings.source, found.recipe.seed, splits)
        stored["images"] = about(settings.source, found.recipe.seed, data)
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
    if outcome.supernet is not None:
        files[f"{base}supernet.json"] = json.dumps(asdict(outcome.supernet)) + "\n"
    if outcome.network is not None:
        files[f"{base}network.json"] = json.dumps(to_json(outcome.network)) + "\n"
    return {**files, **{base + name: content for name, content in outcome.files.items()}}


def _read(run: Run, name: str, space: Space) -> Outcome:
    base = f"phases/{name}/"

    def content(file: str) -> bytes | None:
        return run.content(base + file) if base + file in run.files.manifest.files else None

    labels, alphas, network = content("architecture.json"), content("alphas.json"), content("network.json")
    supernet = content("supernet.json")
    known = json.loads(alphas) if alphas is not None else {"logits": None, "history": {}}
    return Outcome(
        architecture=space.architecture(json.loads(labels)["choices"]) if labels is not None else None,
        alphas=known["logits"],
        history=known["history"],
        network=from_json(json.loads(network)) if network is not None else None,
        weights=load_tensors(content("weights.safetensors") or b""),
        supernet=SupernetRecord(**json.loads(supernet)) if supernet is not None else None,
    )


def _separate(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}

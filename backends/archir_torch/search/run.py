"""A search: the phases of a recipe, one after the other, in the folder of a run."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from archir.diagnostics.errors import ArchError, Interrupted, fail
from archir.plugins import loading
from archir.recipes import borrowing, division, plugins, results
from archir.recipes import tables as reading
from archir.recipes.job import Trials
from archir.recipes.outcomes import outcome_files, read_outcome
from archir.recipes.reading import Written, read
from archir.recipes.recipe import DataSettings, Phase, elsewhere
from archir.recipes.spaces import space_of
from archir.reuse.teachers import taught
from archir.runs import Run, Trial
from archir.runs.phase import Phase as PhaseRecord
from archir.runs.summaries import OBJECTIVE
from archir.search.signals import interruptions
from archir.spaces.space import Space
from archir_torch.data import Data, about, record, verify
from archir_torch.lowering.devices import threads
from archir_torch.search.aims import compared
from archir_torch.search.deployment import Deployment
from archir_torch.search.job import STRATEGIES, Job, Outcome, made, whole
from archir_torch.search.preparation import Search, begin, images, of_run, resumed, written_of
from archir_torch.training import distributed, loop
from archir_torch.training.checkpoint_phase import PhaseKeeper
from archir_torch.training.loop import Row, Watch


def execute(
    recipe: Path | None, folder: Path, *, resume: bool, fall_back: bool, overrides: Mapping[str, str], device: str,
    watch: Watch | None, executor: str | None = None,
) -> Mapping[str, Any]:  # fmt: skip
    """Begin a run or go on with one, to its end; what it came to, in the first of several processes. A run that goes
    on with other settings is extended.

    The first process writes the run; the others read what it wrote, so the folder must be one that all of them see.
    Raises ArchError, and Interrupted after SIGINT or SIGTERM: between steps, phases and results.
    """
    with distributed.joined(device) as own, interruptions() as interrupted:
        folder = Path(distributed.told(str(folder)))
        with distributed.jointly(f"{folder}") as leads:
            if leads and resume:
                found = resumed(folder, own, fall_back, overrides)
            elif leads:
                if recipe is None:
                    raise fail("A2201", "a new search needs a recipe")
                found = begin(recipe, folder, overrides, own, executor)
        if not leads:
            if recipe is not None:
                plugins.load(read(recipe, overrides), recipe.parent)
            found = of_run(Run.open(folder), own)
        with found.run, threads(found.recipe.threads):
            try:
                if not resume:
                    _try_starts(found)
                return _search(replace(found, executor=executor), watch if leads else None, interrupted)
            except ArchError:
                if leads and not resume and found.run.untouched:
                    found.run.withdraw()
                raise


def checked(
    recipe: Path, overrides: Mapping[str, str], device: str, executor: str | None = None, trust_code: bool = False
) -> Mapping[str, Any]:
    """What a recipe would do, by its phases' names, after all has been checked that `execute` checks before anything
    is trained. Nothing is left of it. Raises ArchError.

    Modules that the recipe names are imported only with `trust_code`. A phase that needs one which was not imported is
    not checked: `not_looked_at` names it.
    """
    written = read(recipe, overrides)
    if not trust_code and not all(map(loading.allowed, written.recipe.plugins)):
        unseen = plugins.unseen(written.recipe)
        return {
            phase.name: {"strategy": phase.strategy, "not_looked_at": unseen[number]}
            for number, phase in enumerate(written.recipe.phase)
        }
    with TemporaryDirectory() as folder:
        found = begin(recipe, Path(folder) / "run", overrides, device, executor, trust_code)
        with found.run, threads(found.recipe.threads):
            _try_starts(found)
            written = written_of(found.run)
            return {phase.name: _asked(found, written, number) for number, phase in enumerate(written.recipe.phase)}


def _asked(found: Search, written: Written, number: int) -> Mapping[str, Any]:
    """What a phase would do. More than one architecture: among so many it searches, at most, where costs are bounded
    or an earlier phase says more."""
    phase = written.recipe.phase[number]
    space = space_of(written.recipe, phase, found.folder, found.spaces)
    open_ = STRATEGIES.known(written, number, space)
    searched = 1 if whole(phase) else open_.satisfying
    bounded = open_.bounded or "where" in phase.options or phase.start.architecture is not None
    left_out = {"not_looked_at": found.unseen[number]} if number in found.unseen else {}
    return {
        "strategy": phase.strategy,
        "space": space.name,
        "architectures": searched,
        "at_most": bounded,
        **left_out,
    }


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
            summary = results.write(found.run, found.recipe, outcomes, Deployment(), found.spaces)
            found.run.finish()
    return summary


def _try_starts(found: Search) -> None:
    """Make the later phases that start from weights of elsewhere and need no phase before them: ArchError is raised
    before anything was trained, if these do not fit."""
    for number, phase in enumerate(found.recipe.phase[1:], 1):
        if number in found.unseen:
            continue
        name = phase.start.weights
        own = {*phase.start.phases.values()} <= {name} and not any("phase" in also for also in phase.also)
        if name is not None and elsewhere(name) and own:
            made(_job(found, phase, space_of(found.recipe, phase, found.folder, found.spaces), {}))


def _stop(interrupted: Callable[[], bool], where: str) -> None:
    if distributed.agreed(interrupted())[0]:
        raise Interrupted(f"the search was stopped before {where}")


def _current(found: Search) -> Search:
    """The run as it is now, to processes that do not write it; none goes on before all have seen it."""
    with distributed.jointly("the run") as leads:
        return found if leads else replace(found, run=Run.open(found.run.folder))


def _phase(found: Search, phase: Phase, before: Mapping[str, Outcome], watch: Watch | None) -> Outcome:
    """A phase's outcome: read, if it is done; else what is left of it is done."""
    kept = found.run.phase(phase.name)
    space = space_of(found.recipe, phase, found.folder, found.spaces)
    if kept.done is not None:
        return read_outcome(found.run, phase.name, space, load_tensors)
    with _blamed(found, phase):
        return _through(found, phase, space, before, kept, watch)


def _through(
    found: Search, phase: Phase, space: Space, before: Mapping[str, Outcome], kept: PhaseRecord, watch: Watch | None
) -> Outcome:
    """A phase that is not done, from where it is to its end."""
    job = _job(found, phase, space, before)
    strategy = made(job)
    if distributed.world().rank == 0:
        _note_objective(found, job)
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
            weights = save_tensors(_separate(outcome.weights))
            found.run.write(outcome_files(phase.name, outcome, weights))
            kept.finish(rows[-1] if rows else {})
    return outcome


@contextmanager
def _blamed(found: Search, phase: Phase) -> Iterator[None]:
    """What is said of a recipe (A22xx) inside, and of no place in it, is said of the strategy of a phase."""
    try:
        yield
    except ArchError as error:
        place = ("phase", found.recipe.phase.index(phase), "strategy")
        span = written_of(found.run).document.span(place)
        each = (replace(one, span=one.span or span) if one.code.startswith("A22") else one for one in error.diagnostics)
        raise ArchError(*each) from None


def _job(found: Search, phase: Phase, space: Space, before: Mapping[str, Outcome]) -> Job:
    settings = found.recipe.data_of(phase)
    phase = phase.model_copy(update={"data": settings})
    start = phase.start
    seed = found.recipe.seed + phase.training.seed
    first, *also = (taught(found.run, found.recipe, settings) for settings in (phase.objective, *phase.also))
    phase = phase.model_copy(update={"objective": first, "also": tuple(also)})
    earlier = {what: before[name] for what, name in start.phases.items() if name in before and what != "trials"}
    weights, supernet = borrowing.names(found.recipe, phase)
    named = None
    if start.weights is not None and weights in found.run.files.manifest.files:
        tensors = load_tensors(found.run.content(weights))
        if start.map is not None:
            named = borrowing.named(found.run, phase, tensors)
            tensors = {ours: tensors[theirs] for ours, theirs in named.theirs.items()}
        earlier["weights"] = Outcome(weights=tensors, supernet=borrowing.supernet_of(found.run, supernet))
    for what, outcome in earlier.items():
        if getattr(outcome, what) in (None, {}):
            raise fail("A2207", f"phase `{phase.name}`: `{getattr(start, what)}` has no {what} to start from")
    table = STRATEGIES.tabulated(found.recipe, phase)
    results = None if table is None else reading.of_run(found.run, table, space)
    data = _data(found, phase.name, settings, space) if results is None else Data.none()
    if results is None and phase.name in division.before_searches(found.recipe, whole):
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
        named=named,
        trials=_Kept(found.run.phase(phase.name)),
        results=results,
        earlier=found.run.phase(start.trials).trials() if start.trials is not None else (),
        executor=found.executor,
        decided=lambda name, decide: _decided(found, f"phases/{phase.name}/{name}.json", decide),
    )


def _note_objective(found: Search, job: Job) -> None:
    """Write down what a phase measures, and by what networks are compared."""
    path = f"phases/{job.phase.name}/{OBJECTIVE}"
    if path not in found.run.files.manifest.files:
        objective = compared(job)
        facts = {"criterion": objective.criterion, "measures": dict(objective.directions)}
        found.run.write({path: json.dumps(facts) + "\n"})


class _Kept(Trials):
    """Trials in the journal; of several processes, all know them and the first one writes them."""

    def __init__(self, phase: PhaseRecord) -> None:
        super().__init__(phase.trials(), phase.trials_before())
        self.phase = phase

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


def _data(found: Search, name: str, settings: DataSettings, space: Space) -> Data:
    """The images, which must be those that the run began with."""
    (data,) = images(found.loaded, found.recipe, settings, space).values()
    splits = {"train": data.train, "held_out": data.held_out}
    path = f"phases/{name}/{results.SPLITS}"
    if path in found.run.files.manifest.files:
        verify(json.loads(found.run.content(path)), settings.source, found.recipe.seed, splits)
    elif distributed.world().rank == 0:
        stored = record(settings.source, found.recipe.seed, splits)
        stored["images"] = about(settings.source, found.recipe.seed, data)
        found.run.write({path: json.dumps(stored, indent=1) + "\n"})
    return data


def _separate(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}

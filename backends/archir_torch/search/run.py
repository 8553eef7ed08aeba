"""Execution of a search: the phases of a recipe, one after the other, stored in a run."""

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

from archir.diagnostics.errors import ArchError, Interrupted, fail
from archir.plugins import loading
from archir.recipes import external_files, plugins, results
from archir.recipes.checks import CheckedPhase, before_searches
from archir.recipes.external_files import with_teacher_files
from archir.recipes.job import Trials, outcome_files, read_outcome, read_supernet
from archir.recipes.parsing import RecipeFile, read, recipe_of_run
from archir.recipes.recipe import DataSettings, Phase, is_external
from archir.recipes.spaces import space_of
from archir.runs import Run, Trial
from archir.runs.folder import OBJECTIVE, SPLITS, SUMMARY
from archir.runs.run import Phase as PhaseRecord
from archir.search.signals import interruptions
from archir.spaces.space import Space
from archir_torch.data import Data, describe_data, record, verify
from archir_torch.lowering.devices import torch_threads
from archir_torch.search.comparison import comparison_source, objectives_of
from archir_torch.search.deployment import Deployment
from archir_torch.search.job import STRATEGIES, Job, Outcome, create_strategy, uses_all_samples
from archir_torch.search.preparation import (
    PreparedSearch,
    begin_search,
    load_images,
    resume_search,
    search_of_run,
)
from archir_torch.training import distributed, loop
from archir_torch.training.checkpoint_phase import PhaseCheckpointer
from archir_torch.training.loop import Callback, Row
from archir_torch.training.tensors import separate


def execute(
    recipe: Path | None, folder: Path, *, resume: bool, fall_back: bool, overrides: Mapping[str, str], device: str,
    callback: Callback | None, executor: str | None = None,
) -> Mapping[str, Any]:  # fmt: skip
    """Begin or resume a run, complete it, and return its summary (in the first process).

    New settings extend a resumed run. The first process writes the run and the other processes read it, so the folder
    of the run must be visible to all processes. Raises ArchError. After SIGINT or SIGTERM, raises Interrupted between
    steps, phases or results.
    """
    with distributed.process_group(device) as own_device, interruptions() as interrupted:
        folder = Path(distributed.broadcast_text(str(folder)))
        with distributed.barrier_with_error(f"{folder}") as is_first:
            if is_first and resume:
                search = resume_search(folder, own_device, fall_back, overrides)
            elif is_first:
                if recipe is None:
                    raise fail("A2201", "a new search needs a recipe")
                search = begin_search(recipe, folder, overrides, own_device, executor)
        if not is_first:
            if recipe is not None:
                plugins.load(read(recipe, overrides), recipe.parent)
            search = search_of_run(Run.open(folder), own_device)
        with search.run, torch_threads(search.recipe.threads):
            try:
                if not resume:
                    _check_external_starts(search)
                return _run_phases(replace(search, executor=executor), callback if is_first else None, interrupted)
            except ArchError:
                if is_first and not resume and search.run.is_empty:
                    search.run.discard()
                raise


def dry_run(
    recipe: Path, overrides: Mapping[str, str], device: str, executor: str | None = None, trust_code: bool = False
) -> Mapping[str, Any]:
    """Return what each phase of a recipe would do, by phase name.

    First, all checks that precede training in `execute` are made. No files are left behind. Modules that the recipe
    names are imported only with `trust_code`. Without `trust_code`, a phase that needs a module which is not imported
    yet is not checked; `not_looked_at` lists the missing modules. Raises ArchError.
    """
    recipe_file = read(recipe, overrides)
    if not trust_code and not all(map(loading.is_allowed, recipe_file.recipe.plugins)):
        missing = plugins.missing_modules(recipe_file.recipe)
        return {
            phase.name: {"strategy": phase.strategy, "not_looked_at": missing[number]}
            for number, phase in enumerate(recipe_file.recipe.phase)
        }
    with TemporaryDirectory() as folder:
        search = begin_search(recipe, Path(folder) / "run", overrides, device, executor, trust_code)
        with search.run, torch_threads(search.recipe.threads):
            _check_external_starts(search)
            recipe_file = recipe_of_run(search.run)
            return {
                phase.name: _describe_phase(search, recipe_file, number)
                for number, phase in enumerate(recipe_file.recipe.phase)
            }


def _describe_phase(search: PreparedSearch, recipe_file: RecipeFile, number: int) -> Mapping[str, Any]:
    """Describe what a phase would do, for `dry_run`.

    The number of architectures to search is only an upper bound (`at_most`) if costs are bounded or an earlier phase
    fixes
    some of the choices.
    """
    phase = recipe_file.recipe.phase[number]
    space = space_of(recipe_file.recipe, phase, search.folder, search.spaces)
    open_space = CheckedPhase(STRATEGIES, recipe_file, number, space).open_space
    searched = 1 if uses_all_samples(phase) else open_space.satisfying
    bounded = open_space.has_cost_bounds or "where" in phase.options or phase.start.architecture is not None
    more: dict[str, object] = {}
    if number in search.missing_modules:
        more["not_looked_at"] = search.missing_modules[number]
    elif (table := STRATEGIES.table_of(search.recipe, phase)) is not None:
        results_read = external_files.results_from_run(search.run, table, space)
        more["results"] = {
            "architectures": len(results_read),
            "rows": results_read.row_count,
            "outside": results_read.outside_count,
        }
    return {
        "strategy": phase.strategy,
        "space": space.name,
        "architectures": searched,
        "at_most": bounded,
        **more,
    }


def _run_phases(
    search: PreparedSearch, callback: Callback | None, interrupted: Callable[[], bool]
) -> Mapping[str, Any]:
    """Run the remaining phases and write the results. A finished run is left unchanged."""
    if search.run.finished:
        stored: Mapping[str, Any] = json.loads(search.run.content(SUMMARY))
        return stored
    outcomes: dict[str, Outcome] = {}
    for phase in search.recipe.phase:
        _stop_if_interrupted(interrupted, f"phase `{phase.name}`")
        search = _reopened(search)
        outcomes[phase.name] = _run_phase(search, phase, outcomes, callback)
    _stop_if_interrupted(interrupted, "the results")
    summary: Mapping[str, Any] = {}
    with distributed.barrier_with_error("results") as is_first:
        if is_first:
            summary = results.write(search.run, search.recipe, outcomes, Deployment(), search.spaces)
            search.run.finish()
    return summary


def _check_external_starts(search: PreparedSearch) -> None:
    """Check early that the external weights of later phases fit, by creating the strategies of these phases.

    Only phases that depend on no earlier phase are checked. Raises ArchError before any training if weights do not fit.
    """
    for number, phase in enumerate(search.recipe.phase[1:], 1):
        if number in search.missing_modules:
            continue
        name = phase.start.weights
        is_independent = {*phase.start.phases.values()} <= {name} and not any("phase" in also for also in phase.also)
        if name is not None and is_external(name) and is_independent:
            create_strategy(
                _create_job(search, phase, space_of(search.recipe, phase, search.folder, search.spaces), {})
            )


def _stop_if_interrupted(interrupted: Callable[[], bool], next_part: str) -> None:
    """Raise Interrupted if an interrupt was requested in any process."""
    if distributed.any_reduce(interrupted())[0]:
        raise Interrupted(f"the search was stopped before {next_part}")


def _reopened(search: PreparedSearch) -> PreparedSearch:
    """Reopen the run in the processes that only read it, so that they see its current files.

    No process continues before all have done so.
    """
    with distributed.barrier_with_error("the run") as is_first:
        return search if is_first else replace(search, run=Run.open(search.run.folder))


def _run_phase(
    search: PreparedSearch, phase: Phase, outcomes: Mapping[str, Outcome], callback: Callback | None
) -> Outcome:
    """Return the outcome of a phase; if the phase is incomplete, first run its remaining epochs."""
    stored = search.run.phase(phase.name)
    space = space_of(search.recipe, phase, search.folder, search.spaces)
    if stored.done is not None:
        return read_outcome(search.run, phase.name, space, load_tensors)
    with _at_strategy(search, phase):
        return _complete_phase(search, phase, space, outcomes, stored, callback)


def _complete_phase(
    search: PreparedSearch,
    phase: Phase,
    space: Space,
    outcomes: Mapping[str, Outcome],
    stored: PhaseRecord,
    callback: Callback | None,
) -> Outcome:
    """Run a phase from its last saved state to its end."""
    job = _create_job(search, phase, space, outcomes)
    strategy = create_strategy(job)
    if distributed.world().rank == 0:
        _record_objective(search, job)
        stored.begin({"strategy": phase.strategy, "epochs": strategy.epochs})
    rows: list[Row] = []
    with strategy if isinstance(strategy, AbstractContextManager) else nullcontext():
        if strategy.epochs:
            checkpointer = PhaseCheckpointer(stored, getattr(strategy, "shown", dict))
            rows = loop.run(
                strategy, epochs=strategy.epochs, steps=strategy.steps, checkpointer=checkpointer, callback=callback,
                seed=job.seed, checkpoint_minutes=phase.training.checkpoint_minutes, phase=phase.name,
            )  # fmt: skip
        outcome = strategy.outcome()
    with distributed.barrier_with_error(f"phase `{phase.name}`") as is_first:
        if is_first:
            weights = save_tensors(separate(outcome.weights))
            search.run.write(outcome_files(phase.name, outcome, weights))
            stored.finish(rows[-1] if rows else {})
    return outcome


@contextmanager
def _at_strategy(search: PreparedSearch, phase: Phase) -> Iterator[None]:
    """Context manager that adds the span of the phase's strategy to recipe errors (A22xx) that have no span."""
    try:
        yield
    except ArchError as error:
        path = ("phase", search.recipe.phase.index(phase), "strategy")
        span = recipe_of_run(search.run).document.span(path)
        located = (
            replace(diagnostic, span=diagnostic.span or span) if diagnostic.code.startswith("A22") else diagnostic
            for diagnostic in error.diagnostics
        )
        raise ArchError(*located) from None


def _create_job(search: PreparedSearch, phase: Phase, space: Space, outcomes: Mapping[str, Outcome]) -> Job:
    """Create the job of a phase: its data, its seed, and the results of earlier phases and external files that it
    uses.

    Raises ArchError (A2207) if an earlier phase has no result of the required kind.
    """
    settings = search.recipe.data_of(phase)
    phase = phase.model_copy(update={"data": settings})
    start = phase.start
    seed = search.recipe.seed + phase.training.seed
    first, *also = (
        with_teacher_files(search.run, search.recipe, settings) for settings in (phase.objective, *phase.also)
    )
    phase = phase.model_copy(update={"objective": first, "also": tuple(also)})
    earlier = {kind: outcomes[name] for kind, name in start.phases.items() if name in outcomes and kind != "trials"}
    weights, supernet = external_files.start_files(search.recipe, phase)
    renamed = None
    if start.weights is not None and weights in search.run.entries:
        tensors = load_tensors(search.run.content(weights))
        if start.map is not None:
            renamed = external_files.renamed_weights(search.run, phase, tensors)
            tensors = {ours: tensors[theirs] for ours, theirs in renamed.file_names.items()}
        earlier["weights"] = Outcome(weights=tensors, supernet=read_supernet(search.run, supernet))
    for kind, outcome in earlier.items():
        if getattr(outcome, kind) in (None, {}):
            raise fail("A2207", f"phase `{phase.name}`: `{getattr(start, kind)}` has no {kind} to start from")
    table = STRATEGIES.table_of(search.recipe, phase)
    results = None if table is None else external_files.results_from_run(search.run, table, space)
    data = _load_data(search, phase.name, settings, space) if results is None else Data.empty()
    if results is None and phase.name in before_searches(search.recipe, uses_all_samples):
        data = replace(data, train=data.halves()[0])
    architecture = earlier["architecture"].architecture if "architecture" in earlier else None
    return Job(
        phase=phase,
        space=space,
        data=data,
        seed=seed,
        device=search.device,
        folder=search.folder,
        alphas=earlier["alphas"].alphas if "alphas" in earlier else None,
        architecture=dict(architecture) if architecture is not None else None,
        weights=earlier["weights"].weights if "weights" in earlier else None,
        supernet=earlier["weights"].supernet if "weights" in earlier else None,
        renamed=renamed,
        trials=_JournalTrials(search.run.phase(phase.name)),
        results=results,
        earlier=search.run.phase(start.trials).trials() if start.trials is not None else (),
        executor=search.executor,
        decide_once=lambda name, decide: _decide_once(search, f"phases/{phase.name}/{name}.json", decide),
    )


def _record_objective(search: PreparedSearch, job: Job) -> None:
    """Store in the run which measures a phase computes, and the scores and costs by which it compares networks."""
    path = f"phases/{job.phase.name}/{OBJECTIVE}"
    if path not in search.run.entries:
        objective = comparison_source(job)
        facts = {
            "criterion": objective.criterion,
            "measures": dict(objective.directions),
            "objectives": objectives_of(job),
        }
        search.run.write({path: json.dumps(facts) + "\n"})


class _JournalTrials(Trials):
    """Trials stored in the journal of a run. All processes read them; only the first process writes them."""

    def __init__(self, phase: PhaseRecord) -> None:
        super().__init__(phase.trials(), phase.superseded_trials())
        self.phase = phase

    def put(self, trial: Trial) -> None:
        """Store a trial."""
        super().put(trial)
        if distributed.world().rank == 0:
            self.phase.put_trial(trial)


def _decide_once(search: PreparedSearch, path: str, decide: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return a decision that the first process makes once and stores in the run; all processes get the same one."""
    text = ""
    if distributed.world().rank == 0:
        if path not in search.run.entries:
            search.run.write({path: json.dumps(dict(decide()), indent=1) + "\n"})
        text = search.run.content(path).decode()
    decision: Mapping[str, Any] = json.loads(distributed.broadcast_text(text))
    return decision


def _load_data(search: PreparedSearch, name: str, settings: DataSettings, space: Space) -> Data:
    """Load the data of a phase, and check that they are unchanged since the run began."""
    (data,) = load_images(search.loaded, search.recipe, settings, space).values()
    splits = {"train": data.train, "held_out": data.held_out}
    path = f"phases/{name}/{SPLITS}"
    if path in search.run.entries:
        verify(json.loads(search.run.content(path)), settings.source, search.recipe.seed, splits)
    elif distributed.world().rank == 0:
        stored = record(settings.source, search.recipe.seed, splits)
        stored["images"] = describe_data(settings.source, search.recipe.seed, data, settings.resizing)
        search.run.write({path: json.dumps(stored, indent=1) + "\n"})
    return data

"""Run a study of trainings: complete the runs that are missing or unfinished, and write the results of all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from archir import backends
from archir.api.progress import SearchProgress
from archir.diagnostics.errors import ArchError, Diagnostic, Interrupted, fail
from archir.recipes import plugins
from archir.recipes.parsing import read, recipe_of_run
from archir.recipes.spaces import files_of
from archir.runs import Run, manifest
from archir.runs.folder import SPACE
from archir.runs.lock import is_locked
from archir.runs.summaries import flat_settings
from archir.search.executors.factory import executor
from archir.search.executors.tasks import Failed, Outcome, Score
from archir.search.signals import keep_outer_handlers
from archir.studies.run import STORE_FILE, STUDY_FILE, Progress, write_results
from archir.studies.training_page import training_report
from archir.studies.training_results import MeasuredRun, TrainingComparison, compare_arms, measured_run
from archir.studies.trainings import PlannedRun, TrainingStudy, locate_overrides, plan_runs
from archir.utils.files import write_atomic
from archir.utils.toml import Document

_ERROR = f"{ArchError.__module__}.{ArchError.__name__}: "
"""Begin of the messages of failed runs that says no more than the diagnostics after it."""
_TAKEN = {"A1807", "A1808"}
"""Codes of the errors for a run that another process is writing, or has begun in the meantime."""


@dataclass(frozen=True)
class TrainingOptions:
    """Options of the command that runs a study: overrides of all arms, executor, device, and a short trial of all
    arms."""

    overrides: Mapping[str, str] = field(default_factory=dict)
    executor: str | None = None
    device: str | None = None
    smoke: bool = False


@dataclass(frozen=True)
class TrainingOutcome:
    """Outcome of a study: the comparison, why runs failed, and the runs that other processes are writing."""

    comparison: TrainingComparison
    failed: Mapping[str, str]
    busy: Sequence[str]


@dataclass(frozen=True)
class TrainingWorkload:
    """Workload that completes the runs of a study on an executor."""

    recipe: Path
    folder: Path
    device: str | None
    local: bool
    """Whether runs are executed in the process of the command, which reports their progress and stops gracefully."""

    def prepare(self) -> Score:
        """Return the function that completes one run, given its name and overrides, unless another process does."""
        return self._complete

    def _complete(self, task: tuple[str, Mapping[str, str]]) -> Mapping[str, float]:
        name, overrides = task
        folder = self.folder / name
        begun = (folder / manifest.NAME).exists()
        if begun:
            plugins.load(read(self.recipe, overrides), self.recipe.parent)
        try:
            with nullcontext() if self.local else keep_outer_handlers(), SearchProgress(folder) as progress:
                backends.get("torch").search(
                    None if begun else self.recipe, folder, resume=begun, overrides={} if begun else overrides,
                    device=self.device, progress=progress if self.local else None,
                )  # fmt: skip
        except ArchError as error:
            if not (_TAKEN & {problem.code for problem in error.diagnostics} and (folder / manifest.NAME).exists()):
                raise
        return {}


def check_arms(
    study: TrainingStudy, document: Document, path: Path, options: TrainingOptions
) -> Mapping[str, Mapping[str, Mapping[str, Any]]]:
    """Check the recipe of every arm without running it; return what each phase would do, by arm and phase.

    Raises ArchError with a note that names the arm's position in the study file.
    """
    recipe = path.resolve().parent / study.recipe
    planned = plan_runs(study, document, recipe, options.overrides, options.smoke)
    return _check(document, recipe, planned, options, trust_code=False)


def _check(
    document: Document, recipe: Path, runs: Sequence[PlannedRun], options: TrainingOptions, trust_code: bool
) -> dict[str, Mapping[str, Mapping[str, Any]]]:
    """Check the recipe of every arm that has runs, with the seed of its first run."""
    phases: dict[str, Mapping[str, Mapping[str, Any]]] = {}
    for run in runs:
        if run.arm not in phases:
            with document.with_span("arms", run.arm), locate_overrides(document, run.positions):
                phases[run.arm] = backends.get("torch").check_recipe(
                    recipe, overrides=run.overrides, device=options.device, trust_code=trust_code
                )
    return phases


def run_trainings(
    study: TrainingStudy, document: Document, path: Path, folder: Path, options: TrainingOptions,
    progress: Progress = lambda done, total: None, dry: bool = False,
) -> TrainingOutcome:  # fmt: skip
    """Run a study in a folder, or resume it: finished runs are not repeated, unfinished ones are resumed.

    Runs that another process is writing are left to it. If `dry`, nothing is run, and the results of the finished runs
    are written. Raises ArchError: A22xx, A1109 (the study or the recipe is invalid), A2262 (the folder contains
    something else), A2265 (a run in the folder has other settings), A2266 (a metric is not measured), A2264 (every run
    failed).
    """
    recipe = path.resolve().parent / study.recipe
    planned = plan_runs(study, document, recipe, options.overrides, options.smoke)
    _require_study_folder(folder, planned)
    reader = _RunReader(study, document, recipe, folder)
    measured = {run.name: reader.read(run) for run in planned}
    remaining = [run for run in planned if measured[run.name].state not in ("finished", "running")]
    failed: dict[str, str] = {}
    if remaining and not dry:
        write_atomic(folder / STUDY_FILE, document.source.text.encode())
        _check(document, recipe, remaining, options, trust_code=True)
        done = len(planned) - len(remaining)
        progress(done, len(planned))
        for number, outcome in enumerate(_train(remaining, reader, options), done + 1):
            if isinstance(outcome, Failed):
                failed[outcome.key] = f"{outcome.key}: {outcome.message.removeprefix(_ERROR)}"
            progress(number, len(planned))
    while True:
        before = measured
        measured = {run.name: before[run.name] if before[run.name].values else reader.read(run) for run in planned}
        runs = list(measured.values())
        if failed and not any(run.values for run in runs):
            raise ArchError(Diagnostic("A2264", f"every run of the study failed: {next(iter(failed.values()))}"))
        comparison = compare_arms(study, runs)
        if folder.is_dir():
            write_atomic(folder / STUDY_FILE, document.source.text.encode())
            html = training_report(study, comparison, document.source.text)
            write_results(folder, comparison.rows(), comparison.as_json(), html)
        if measured == before:  # else another process may have finished a run and written its results before
            return TrainingOutcome(comparison, failed, [run.name for run in runs if run.state == "running"])


def _require_study_folder(folder: Path, planned: Sequence[PlannedRun]) -> None:
    """Raise ArchError (A2262) if a folder contains something other than a study of trainings."""
    is_new = not folder.is_dir() or not any(folder.iterdir())
    is_study = (folder / STUDY_FILE).exists() or any((folder / run.name).is_dir() for run in planned)
    if not (is_new or is_study) or (folder / manifest.NAME).exists() or (folder / STORE_FILE).exists():
        text = f"{folder} exists and is not the folder of a study of trainings"
        raise fail("A2262", text, None, "name a new folder: -o runs/study")


def _train(remaining: Sequence[PlannedRun], reader: _RunReader, options: TrainingOptions) -> Iterator[Outcome]:
    """Complete runs and yield an outcome for each. Raises ArchError (A2266) as soon as a finished run lacks a metric,
    and Interrupted."""
    name = options.executor or reader.study.executor
    with reader.document.with_span("executor"):
        workers = executor(name, cores=remaining[0].recipe.threads or 1)
    is_local, by_name = name == "local", {run.name: run for run in remaining}
    folder = reader.folder if is_local else reader.folder.absolute()
    work = TrainingWorkload(reader.recipe, folder, options.device, is_local)
    try:
        with workers:
            for outcome in workers.run(work, [(run.name, (run.name, run.overrides)) for run in remaining]):
                reader.read(by_name[outcome.key])
                yield outcome
    except KeyboardInterrupt:
        raise Interrupted("the study was stopped") from None


@dataclass(frozen=True)
class _RunReader:
    """Reads the runs in the folder of a study."""

    study: TrainingStudy
    document: Document
    recipe: Path
    folder: Path

    def read(self, planned: PlannedRun) -> MeasuredRun:
        """Return what is measured of a run, which may be unfinished or missing.

        Raises ArchError: A2265 (the run was made with other settings or another space than the study has now), A2266
        (it lacks a metric).
        """
        path = self.folder / planned.name
        if not (path / manifest.NAME).exists():
            return MeasuredRun(planned.arm, planned.seed, "not begun")
        run = Run.open(path)
        with self.document.with_span("arms", planned.arm):
            _require_same(planned, run, self.recipe)
        state = "finished" if run.finished else "running" if is_locked(path) else "interrupted"
        with self.document.with_span("measured"):
            return measured_run(planned, state, run, self.study.measures)


def _require_same(planned: PlannedRun, run: Run, recipe: Path) -> None:
    """Raise ArchError (A2265) if the recipe or the space of a run is not what the study has now."""
    hint = f"repeat the options of the earlier runs, name a new folder with -o, or delete {run.folder} to run it again"
    theirs, ours = (flat_settings(r.model_dump(mode="json")) for r in (recipe_of_run(run).recipe, planned.recipe))
    changed = [key for key in {**theirs, **ours} if theirs.get(key) != ours.get(key)]
    if changed:
        texts = [f"`{key}` is {theirs.get(key, 'missing')}, not {ours.get(key, 'missing')}" for key in changed[:4]]
        raise fail("A2265", f"{run.folder} was run with other settings: {', '.join(texts)}", None, hint)
    spaces = {phase.space or planned.recipe.space for phase in planned.recipe.phase}
    for name, text in ((name, text) for space in spaces for name, text in files_of(space, recipe.parent).items()):
        if f"{SPACE}/{name}" in run.entries and run.content(f"{SPACE}/{name}").decode() != text:
            raise fail("A2265", f"{run.folder} was run with another version of {name}", None, hint)

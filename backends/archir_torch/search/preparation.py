"""Preparation of a search: reads all inputs, and checks everything that can be checked before training."""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from archir import backends
from archir.backends import weight_names
from archir.data.inputs import inputs_of
from archir.data.sources import origin
from archir.diagnostics.errors import ArchError, fail
from archir.passes.expose import expose
from archir.plugins import loading
from archir.recipes import external_files, plugins
from archir.recipes.checks import (
    CheckedPhase,
    check_executor,
    check_phase,
    check_same_split,
    check_tables,
    first_changed_phase,
)
from archir.recipes.parsing import RecipeFile, parse, read, recipe_of_run
from archir.recipes.recipe import DataSettings, Evaluate, Phase, Recipe
from archir.recipes.spaces import check_parameters, files_of, space_of
from archir.recipes.trials import TrialOptions
from archir.runs import Run, environment
from archir.runs.folder import OVERRIDES, RECIPE, SPACE, WEIGHTS, Content, copied_scores_path
from archir.spaces.scores import read as read_scores
from archir.spaces.space import Space
from archir.utils.settings import parse_settings
from archir_torch.augmentation.augmenter import require_pixels
from archir_torch.data import Data, load
from archir_torch.lowering.weights import read_weights
from archir_torch.objectives import Objective
from archir_torch.objectives.create import check_settings as check_objective
from archir_torch.objectives.create import kind_of as objective_kind
from archir_torch.reuse.measures import measure_of
from archir_torch.search import comparison
from archir_torch.search.job import STRATEGIES, kind_of, uses_all_samples
from archir_torch.search.scoring import check_proxies
from archir_torch.search.task import objective_of

if TYPE_CHECKING:  # few recipes look results up
    from archir.tabular.results import Results


@dataclass(frozen=True)
class PreparedSearch:
    """Recipe and run of a search, ready to execute.

    `folder` is the directory of the space files. `loaded` caches the data that were loaded last, and `spaces` caches
    spaces by name and parameters.
    """

    recipe: Recipe
    run: Run
    folder: Path
    device: str
    executor: str | None = None
    """Executor that scores the candidates of all phases; None means that phases use their own executors."""
    missing_modules: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    """Modules that were not allowed to be imported, by the index of the phase that needs them.

    Phases with missing modules are not checked.
    """
    loaded: dict[Any, Data] = field(default_factory=dict)
    spaces: dict[str, Space] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.run.tensorboard = self.recipe.tensorboard


def begin_search(
    path: Path, folder: Path, overrides: Mapping[str, str], device: str, executor: str | None = None,
    trusted: bool = True,
) -> PreparedSearch:  # fmt: skip
    """Create a new run for a recipe: copy its files, and check everything that can be checked before training.

    If the recipe is not `trusted`, the modules that it names are not imported, and phases that need these modules are
    not checked. Raises ArchError.
    """
    recipe_file = read(path, overrides)
    recipe, with_span = recipe_file.recipe, recipe_file.document.with_span
    if trusted:
        plugins.load(recipe_file, path.parent)
    missing = plugins.missing_modules(recipe)
    with with_span("opset"):
        if problems := backends.get("onnx").problems(**({} if recipe.opset is None else {"opset": recipe.opset})):
            raise ArchError(*problems)
    with with_span("tensorboard"):
        _check_tensorboard(recipe)
    spaces: dict[str, Space] = {}
    files: dict[str, str] = {}
    extra_files: dict[str, Content] = {}
    for number, phase in enumerate(recipe.phase):
        place = ("phase", number, "space") if phase.space else ("space",)
        with with_span(*place):
            files |= files_of(phase.space or recipe.space, path.parent)
        check_parameters(recipe_file, number, path.parent)
        with with_span(*place):
            space_of(recipe, phase, path.parent, spaces)
        with with_span("phase", number, "start", "weights"):
            extra_files |= external_files.external_weights(recipe, phase, path.parent, uses_all_samples)
            if phase.start.map is not None:
                _check_map(phase, path.parent)
        with with_span("phase", number, "also"):
            extra_files |= external_files.teacher_files(phase, path.parent)
        scores = phase.options.get("maximize", "")
        if isinstance(scores, str) and scores.endswith(".json"):
            with with_span("phase", number, "options", "maximize"):
                read_scores(path.parent / scores, space_of(recipe, phase, path.parent, spaces))
            extra_files[copied_scores_path(scores)] = path.parent / scores
    extra_files |= _table_files(recipe_file, path.parent)
    for name, content in extra_files.items():
        if isinstance(content, Path) and name.endswith(".safetensors"):
            read_weights(content)
    loaded = _check_phases(
        recipe_file,
        path.parent,
        spaces,
        executor,
        lambda table, space: external_files.results_from_files(table, path.parent, space),
        missing,
    )
    inputs: dict[str, Content] = {
        RECIPE: recipe_file.document.source.text,
        OVERRIDES: json.dumps(dict(overrides), indent=1) + "\n",
        **{f"{SPACE}/{name}": content for name, content in files.items()},
        **extra_files,
    }
    threads = recipe.threads or torch.get_num_threads()
    facts = environment(
        device=device,
        threads=threads,
        plugins=sorted({*loading.requested_names(), *(name for name, _ in plugins.named_modules(recipe))}),
    )
    run = Run.create(folder, recipe.title or path.stem, inputs, facts)
    return PreparedSearch(recipe, run, folder / SPACE, device, missing_modules=missing, loaded=loaded, spaces=spaces)


def _check_tensorboard(recipe: Recipe) -> None:
    """Raise ArchError (A2602) if a recipe writes for TensorBoard, which is not installed."""
    if recipe.tensorboard:
        from archir.runs.tensorboard import require_package

        require_package()


def _table_files(recipe_file: RecipeFile, folder: Path) -> dict[str, Path]:
    """Return the files of the result tables in which phases look up candidates, by their paths in the run.

    Raises ArchError (A2253).
    """
    check_tables(STRATEGIES, recipe_file)
    tables = (STRATEGIES.table_of(recipe_file.recipe, phase) for phase in recipe_file.recipe.phase)
    return {name: file for table in tables if table for name, file in external_files.table_files(table, folder).items()}


def _check_map(phase: Phase, folder: Path) -> None:
    """Check that the map file (old name -> new name) fits the weights from which a phase starts.

    Raises ArchError (A2220, A0905).
    """
    assert phase.start.map is not None
    assert phase.start.weights is not None
    weight_names.read(folder / phase.start.map).of(read_weights(folder / phase.start.weights)[0])


def _check_phases(
    recipe_file: RecipeFile, folder: Path, spaces: dict[str, Space], executor: str | None,
    read_table: Callable[[Evaluate, Space], Results], skipped: Container[int] = (),
) -> dict[Any, Data]:  # fmt: skip
    """Check all phases whose index is not in `skipped`, and return the data of the first one.

    `read_table` reads a table of results. Raises ArchError for every error that can be detected before training.
    """
    recipe, with_span = recipe_file.recipe, recipe_file.document.with_span
    phases = [(number, phase) for number, phase in enumerate(recipe.phase) if number not in skipped]
    for number, phase in phases:
        if phase.start.order is not None:
            with with_span("phase", number, "start", "order"):
                measure_of(phase.start.order)
        checked = CheckedPhase(STRATEGIES, recipe_file, number, space_of(recipe, phase, folder, spaces))
        check_phase(checked, check_objective, executor)
        if isinstance(checked.options, TrialOptions):
            check_proxies(checked.options.scorer, recipe_file.document.span_below("phase", number, "options", "scorer"))
    check_executor(STRATEGIES, recipe, executor)
    check_same_split(recipe_file, uses_all_samples)
    loaded: dict[Any, Data] = {}
    for number, phase in reversed(phases):  # in reverse order, so that the data of the first phase stay loaded
        space = space_of(recipe, phase, folder, spaces)
        if (table := STRATEGIES.table_of(recipe, phase)) is not None:
            with with_span(*recipe_file.place(number, "evaluate")):
                results = read_table(table, space)
            _check_objectives(recipe_file, number, results, space)
            continue
        with with_span(*recipe_file.place(number, "data", "source")):
            (data,) = load_images(loaded, recipe, recipe.data_of(phase), space).values()
        _check_task(recipe_file, number, space, data, folder)
    return loaded


def _check_task(recipe_file: RecipeFile, number: int, space: Space, data: Data, folder: Path) -> None:
    """Check that data and outputs fit the objective of a phase, and that the options name scores that are computed.

    Raises ArchError: A1108, A1116, A1902 or A1903 for data or outputs, A2502 for a score that is never computed.
    """
    phase, with_span = recipe_file.recipe.phase[number], recipe_file.document.with_span
    if phase.strategy == "random" and not phase.options:  # nothing is trained, and nothing scored
        return
    # a teacher that an earlier phase will train does not exist yet: it is checked when the phase begins
    checkable = tuple(also for also in phase.also if "phase" not in also)
    objective = objective_of(phase.model_copy(update={"also": checkable}), folder)
    with with_span(*recipe_file.place(number, "objective")):
        objective.check(expose(space.graph, objective.reads(space.graph)), data)
    augment = phase.augment or recipe_file.recipe.data_of(phase).augment
    with with_span(*recipe_file.augment_place(number)):
        if (augment.mixup or augment.cutmix) and not data.classes:
            raise fail("A1116", "`mixup` and `cutmix` mix images that have one label each, and these data have none")
        require_pixels(augment, data.scales)
    _check_objectives(recipe_file, number, objective, space)


def _check_objectives(recipe_file: RecipeFile, number: int, objective: Objective | Results, space: Space) -> None:
    """Raise ArchError (A2502) if the options of a phase name a score that is never computed."""
    phase = recipe_file.recipe.phase[number]
    options = parse_settings(kind_of(phase).options, phase.options)
    if isinstance(options, TrialOptions):
        for name in comparison.OBJECTIVE_FIELDS:
            with recipe_file.document.with_span("phase", number, "options", name):
                comparison.check_objectives(options, name, objective, space)


def resume_search(folder: Path, device: str, fall_back: bool, settings: Mapping[str, str]) -> PreparedSearch:
    """Open a run that was interrupted, or one that continues with changed settings.

    Raises ArchError: A18xx (its files are corrupt), A2216 (it cannot continue with these settings).
    """
    run = Run.resume(folder, fall_back)
    try:
        run.record_restarts()
        options = ["--fall-back"] if fall_back else []
        for key, value in settings.items():
            options += ["--set", f"{key}={value}"]
        search = search_of_run(run, device, options)
        _check_tensorboard(search.recipe)
        for phase in search.recipe.phase:
            stored = run.phase(phase.name)
            if stored.done is not None and f"phases/{phase.name}/{WEIGHTS}" not in run.entries:
                stored.reopen()  # the process was killed after deleting the phase's outcome, before recording that
        return _extend(search, settings) if settings else search
    except BaseException:
        run.close()
        raise


def _extend(search: PreparedSearch, settings: Mapping[str, str]) -> PreparedSearch:
    """Change the settings of a run; the first phase that they affect and all later phases will run again."""
    run = search.run
    overrides = {**json.loads(run.content(OVERRIDES)), **settings}
    recipe_file = parse(run.content(RECIPE).decode(), RECIPE, overrides)
    recipe = recipe_file.recipe
    first = first_changed_phase(STRATEGIES, search.recipe, recipe)
    if first is None:
        return search
    loaded = _check_phases(
        recipe_file,
        search.folder,
        search.spaces,
        search.executor,
        lambda table, space: external_files.results_from_run(run, table, space),
    )
    files = {OVERRIDES: json.dumps(overrides, indent=1) + "\n"}
    run.extend(settings, [phase.name for phase in recipe.phase[first:]], files)
    return replace(search, recipe=recipe, loaded=loaded)


def search_of_run(run: Run, device: str, options: Sequence[str] = ()) -> PreparedSearch:
    """Return the search of an open run; `options` are the command-line options that a hint to resume it repeats.

    Raises ArchError and closes the run if it has no recipe, or needs plugins that are not loaded (A3105).
    """
    try:
        recipe = recipe_of_run(run).recipe
        plugins.require_loaded(recipe, run, options)
        return PreparedSearch(recipe, run, run.folder / SPACE, device)
    except BaseException:
        run.close()
        raise


def load_images(loaded: dict[Any, Data], recipe: Recipe, settings: DataSettings, space: Space) -> dict[Any, Data]:
    """Load data for a space's inputs as the settings say; return the cache of loaded data.

    Data that are in the cache `loaded` already are not loaded again. The cache holds only the data that were loaded
    last.
    """
    input_specs = inputs_of(space.graph)
    key = (
        settings.source,
        tuple((spec.name, spec.type) for spec in input_specs),
        settings.limit,
        settings.classes,
        settings.weights,
        settings.split,
        settings.resizing,
        keep_files := any((phase.augment or settings.augment).crop is not None for phase in recipe.phase),
        with_labels := has_labels(recipe, settings),
    )
    if key not in loaded:
        loaded.clear()
        loaded[key] = load(
            settings.source, input_specs, seed=recipe.seed, limit=settings.limit, classes=settings.classes,
            weights=settings.weights, labelled=with_labels, by_class=settings.split == "classes",
            resizing=settings.resizing, keep_files=keep_files,
        )  # fmt: skip
    return loaded


def has_labels(recipe: Recipe, settings: DataSettings) -> bool:
    """Return True if integer targets are class labels in every phase that uses the same samples.

    The samples are split only once, stratified by class or not, for all these phases.
    """
    phases = [phase for phase in recipe.phase if origin(recipe.data_of(phase).source) == origin(settings.source)]
    kinds = [str(phase.objective.get("kind", "classification")) for phase in phases]
    return all(objective_kind(kind).compares != "numbers" for kind in kinds if plugins.may_call(kind))

"""A search before its phases: everything is read, and all that can be checked beforehand is."""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from archir import backends
from archir.backends import naming
from archir.data.inputs import inputs_of
from archir.data.sources import origin
from archir.diagnostics.errors import ArchError, fail
from archir.passes.expose import expose
from archir.plugins import loading
from archir.recipes import borrowing, division, plugins
from archir.recipes import tables as reading
from archir.recipes.reading import Written, parse, read
from archir.recipes.recipe import DataSettings, Evaluate, Phase, Recipe
from archir.recipes.spaces import files_of, space_of
from archir.recipes.trials import TrialOptions
from archir.reuse.teachers import teaching
from archir.runs import Run, environment, extension
from archir.runs.folder import Content
from archir.runs.phase import WEIGHTS
from archir.scoring.sources import kept_as
from archir.spaces.scores import read as read_scores
from archir.spaces.space import Space
from archir.tabular.table import Results
from archir.utils.settings import parsed
from archir_torch import strategies
from archir_torch.data import Data, load
from archir_torch.lowering.weights import read_weights
from archir_torch.objectives import Objective
from archir_torch.objectives.create import check as check_objective
from archir_torch.objectives.create import kind_of as objective_kind
from archir_torch.reuse.measures import measure_of
from archir_torch.search import aims
from archir_torch.search.job import STRATEGIES, kind_of, whole
from archir_torch.search.task import objective_of

strategies.load()  # recipes name them

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
    unseen: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    """Modules that nobody allowed, by the numbers of the phases that need them: these are not checked."""
    loaded: dict[Any, Data] = field(default_factory=dict)
    spaces: dict[str, Space] = field(default_factory=dict)


def begin(
    path: Path, folder: Path, overrides: Mapping[str, str], device: str, executor: str | None = None,
    trusted: bool = True,
) -> Search:  # fmt: skip
    """A new run of a recipe: its files are copied, everything that can be checked beforehand is. Raises ArchError.

    If it is not `trusted`, the modules that it names are not imported; phases that need one are not checked.
    """
    written = read(path, overrides)
    recipe, blamed = written.recipe, written.document.blamed
    if trusted:
        plugins.load(written, path.parent)
    unseen = plugins.unseen(recipe)
    with blamed("opset"):
        if problems := backends.get("onnx").problems(**({} if recipe.opset is None else {"opset": recipe.opset})):
            raise ArchError(*problems)
    spaces: dict[str, Space] = {}
    files: dict[str, str] = {}
    given: dict[str, Content] = {}
    for number, phase in enumerate(recipe.phase):
        with blamed("phase", number, "space") if phase.space else blamed("space"):
            files |= files_of(phase.space or recipe.space, path.parent)
            space_of(recipe, phase, path.parent, spaces)
        with blamed("phase", number, "start", "weights"):
            given |= borrowing.borrowed(recipe, phase, path.parent, whole)
            if phase.start.map is not None:
                _check_map(phase, path.parent)
        with blamed("phase", number, "also"):
            given |= teaching(phase, path.parent)
        scores = phase.options.get("maximize", "")
        if isinstance(scores, str) and scores.endswith(".json"):
            with blamed("phase", number, "options", "maximize"):
                read_scores(path.parent / scores, space_of(recipe, phase, path.parent, spaces))
            given[kept_as(scores)] = path.parent / scores
    given |= _tables(written, path.parent)
    for name, content in given.items():
        if isinstance(content, Path) and name.endswith(".safetensors"):
            read_weights(content)
    loaded = _checked(
        written, path.parent, spaces, executor, lambda table, space: reading.of_files(table, path.parent, space), unseen
    )
    inputs: dict[str, Content] = {
        RECIPE: written.document.source.text,
        OVERRIDES: json.dumps(dict(overrides), indent=1) + "\n",
        **{f"{SPACE}/{name}": content for name, content in files.items()},
        **given,
    }
    threads = recipe.threads or torch.get_num_threads()
    facts = environment(
        device=device,
        threads=threads,
        plugins=sorted({*loading.asked_for(), *(name for name, _ in plugins.named(recipe))}),
    )
    run = Run.create(folder, recipe.title or path.stem, inputs, facts)
    return Search(recipe, run, folder / SPACE, device, unseen=unseen, loaded=loaded, spaces=spaces)


def _tables(written: Written, folder: Path) -> dict[str, Path]:
    """The tables that candidates are looked up in, as files of the run. Raises ArchError (A2253)."""
    STRATEGIES.check_tables(written)
    tables = (STRATEGIES.tabulated(written.recipe, phase) for phase in written.recipe.phase)
    return {name: file for table in tables if table for name, file in reading.files(table, folder).items()}


def _check_map(phase: Phase, folder: Path) -> None:
    """Raise ArchError (A2220, A0905) for a map that is none of the weights that a phase starts from."""
    assert phase.start.map is not None
    assert phase.start.weights is not None
    naming.read(folder / phase.start.map).of(read_weights(folder / phase.start.weights)[0])


def _checked(
    written: Written, folder: Path, spaces: dict[str, Space], executor: str | None,
    look: Callable[[Evaluate, Space], Results], unseen: Container[int] = (),
) -> dict[Any, Data]:  # fmt: skip
    """The images of the first phase; `look` reads a table. Raises ArchError for what can be known to be wrong with any
    of them but those `unseen`."""
    recipe, blamed = written.recipe, written.document.blamed
    phases = [(number, phase) for number, phase in enumerate(recipe.phase) if number not in unseen]
    for number, phase in phases:
        if phase.start.order is not None:
            with blamed("phase", number, "start", "order"):
                measure_of(phase.start.order)
        STRATEGIES.check(written, number, space_of(recipe, phase, folder, spaces), check_objective, executor)
    STRATEGIES.check_executor(recipe, executor)
    division.check(written, whole)
    loaded: dict[Any, Data] = {}
    for number, phase in reversed(phases):  # the images of the first one stay at hand
        space = space_of(recipe, phase, folder, spaces)
        if (table := STRATEGIES.tabulated(recipe, phase)) is not None:
            with blamed("phase", number, "evaluate") if phase.evaluate else blamed("evaluate"):
                results = look(table, space)
            _check_aims(written, number, results, space)
            continue
        with blamed("phase", number, "data", "source") if phase.data else blamed("data", "source"):
            (data,) = images(loaded, recipe, recipe.data_of(phase), space).values()
        _check_task(written, number, space, data, folder)
    return loaded


def _check_task(written: Written, number: int, space: Space, data: Data, folder: Path) -> None:
    """Raise ArchError for data or outputs that the objective of a phase does not take (A1108, A1116, A1902, A1903), and
    for scores that nobody would give (A2502)."""
    phase, blamed = written.recipe.phase[number], written.document.blamed
    if phase.strategy == "random" and not phase.options:  # nothing is trained, and nothing scored
        return
    alone = tuple(also for also in phase.also if "phase" not in also)  # a teacher that is not there yet is seen later
    objective = objective_of(phase.model_copy(update={"also": alone}), folder)
    with blamed("phase", number, "objective") if "objective" in phase.model_fields_set else blamed("objective"):
        objective.check(expose(space.graph, objective.reads(space.graph)), data)
    augment = phase.augment or written.recipe.data_of(phase).augment
    if (augment.mixup or augment.cutmix) and not data.classes:
        with blamed("phase", number, "augment") if phase.augment else blamed("data", "augment"):
            raise fail("A1116", "`mixup` and `cutmix` mix images that have one label each, and these data have none")
    _check_aims(written, number, objective, space)


def _check_aims(written: Written, number: int, objective: Objective | Results, space: Space) -> None:
    phase = written.recipe.phase[number]
    options = parsed(kind_of(phase).options, phase.options)
    if isinstance(options, TrialOptions):
        for name in aims.FIELDS:
            with written.document.blamed("phase", number, "options", name):
                aims.check(options, name, objective, space)


def resumed(folder: Path, device: str, fall_back: bool, settings: Mapping[str, str]) -> Search:
    """A run that was stopped, or that goes on with other settings.

    Raises ArchError: A18xx (its files were damaged), A2216 (it cannot go on with these settings).
    """
    run = Run.resume(folder, fall_back)
    try:
        extension.settle(run)
        found = of_run(run, device)
        for phase in found.recipe.phase:
            kept = run.phase(phase.name)
            if kept.done is not None and f"phases/{phase.name}/{WEIGHTS}" not in run.files.manifest.files:
                kept.reopen()  # a kill came between giving up what it came to and the note of that
        return _extended(found, settings) if settings else found
    except BaseException:
        run.close()
        raise


def _extended(found: Search, settings: Mapping[str, str]) -> Search:
    run = found.run
    overrides = {**json.loads(run.content(OVERRIDES)), **settings}
    written = parse(run.content(RECIPE).decode(), RECIPE, overrides)
    recipe = written.recipe
    first = STRATEGIES.extended(found.recipe, recipe)
    if first is None:
        return found
    loaded = _checked(
        written, found.folder, found.spaces, found.executor, lambda table, space: reading.of_run(run, table, space)
    )
    files = {OVERRIDES: json.dumps(overrides, indent=1) + "\n"}
    extension.extend(run, settings, [phase.name for phase in recipe.phase[first:]], files)
    return replace(found, recipe=recipe, loaded=loaded)


def of_run(run: Run, device: str) -> Search:
    """The search of a run, which is closed if it has none, or needs plugins that are not loaded (A3105)."""
    try:
        recipe = written_of(run).recipe
        plugins.require(recipe, run)
        return Search(recipe, run, run.folder / SPACE, device)
    except BaseException:
        run.close()
        raise


def written_of(run: Run) -> Written:
    """The recipe of a run, with the places of its settings."""
    return parse(run.content(RECIPE).decode(), RECIPE, json.loads(run.content(OVERRIDES)))


def images(loaded: dict[Any, Data], recipe: Recipe, settings: DataSettings, space: Space) -> dict[Any, Data]:
    """The images of settings, as large as a space's input, beside or instead of those at hand."""
    wanted = inputs_of(space.graph)
    key = (
        settings.source,
        tuple((one.name, one.type) for one in wanted),
        settings.limit,
        settings.classes,
        settings.weights,
        known := labelled(recipe, settings),
    )
    if key not in loaded:
        loaded.clear()
        loaded[key] = load(
            settings.source, wanted, seed=recipe.seed, limit=settings.limit, classes=settings.classes,
            weights=settings.weights, labelled=known,
        )  # fmt: skip
    return loaded


def labelled(recipe: Recipe, settings: DataSettings) -> bool:
    """Whether integers may be labels to all phases on these samples, which have one way of dividing them."""
    phases = [one for one in recipe.phase if origin(recipe.data_of(one).source) == origin(settings.source)]
    kinds = [str(one.objective.get("kind", "classification")) for one in phases]
    return all(objective_kind(kind).compares != "numbers" for kind in kinds if plugins.may_call(kind))

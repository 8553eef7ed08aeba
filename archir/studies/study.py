"""Study files (TOML): of strategies that are compared on tables of results, or of trainings (see `trainings.py`).

The former list search strategies and the tasks on which they are compared; a task is a search space with a table of
results.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field, model_validator

from archir.diagnostics.errors import ArchError, Diagnostic, describe_error, fail, join_names
from archir.diagnostics.hints import suggest_file
from archir.recipes.spaces import load_space
from archir.search.objectives import Objectives
from archir.search.proposals import without_dedup
from archir.search.registry import create, strategy_kind
from archir.spaces.space import Space
from archir.studies.trainings import MAX_SEEDS, TrainingStudy
from archir.tabular.results import Results, read_results
from archir.utils import toml
from archir.utils.files import read_bytes
from archir.utils.settings import Count, ListAsTuple, Positive, Seed, Settings, parse_settings
from archir.utils.toml import Document

MAX_TRIALS = 100_000
"""Maximum number of full evaluations per search."""
Name = Annotated[str, Field(min_length=1, max_length=200)]


class Task(Settings):
    """A task: a search space, and the table in which results of its architectures are looked up."""

    name: Name
    space: str
    table: str
    map: str | None = None
    measures: Annotated[tuple[str, ...], ListAsTuple] = ()
    parameters: dict[str, Any] = Field(default_factory=dict)
    where: str | None = None
    apart: bool = False
    """If true, architectures that compute the same function are separate candidates, as they are in most tables."""
    objectives: Annotated[tuple[str, ...], ListAsTuple] = ()
    """Objectives; by default the first measure of the table.

    With two or three objectives, Pareto fronts are compared.
    """


class StrategyEntry(Settings):
    """A search strategy with its options."""

    name: Name
    strategy: str
    options: dict[str, Any] = Field(default_factory=dict)


class Study(Settings):
    """A study: every strategy is run on every task with every seed, and compared at every budget."""

    title: str = "Strategies compared"
    seeds: Annotated[int, Field(ge=2, le=MAX_SEEDS)] = 30
    seed: Seed = 0
    """First seed; the others follow consecutively."""
    budgets: Annotated[tuple[Positive, ...], ListAsTuple] = (100.0,)
    """Budgets at which strategies are compared, in full evaluations."""
    executor: str = "local"
    cores: Count = 1
    task: Annotated[tuple[Task, ...], ListAsTuple, Field(min_length=1)]
    strategy: Annotated[tuple[StrategyEntry, ...], ListAsTuple, Field(min_length=1)]

    @model_validator(mode="after")
    def _has_budgets(self) -> Study:
        if not self.budgets or max(self.budgets) > MAX_TRIALS or min(self.budgets) < 1:
            raise ValueError(f"`budgets` needs at least one number, each from 1 to {MAX_TRIALS:,} full evaluations")
        return self


@dataclass(frozen=True)
class LoadedTask:
    """A task with its space, table and objectives loaded."""

    task: Task
    space: Space
    table: Results
    objectives: tuple[str, ...]

    @property
    def is_multi_objective(self) -> bool:
        """True if the task has several objectives, so that Pareto fronts are compared."""
        return len(self.objectives) > 1


def read_study(path: Path) -> tuple[Study | TrainingStudy, Document]:
    """Read a study file; return the study and its TOML document. A file that names a `recipe` is a study of trainings.

    Raises ArchError: A2260 (the file cannot be read), A1109 (invalid settings).
    """
    try:
        text = read_bytes(path, 4 * toml.MAX_CHARACTERS).decode().replace("\r\n", "\n")
    except (OSError, ValueError) as error:
        text = f"cannot read the study {path}: {describe_error(error)}"
        raise fail("A2260", text, None, suggest_file(path)) from None
    document = toml.parse_toml(text, str(path), "A2260")
    if "phase" in document.data and "task" not in document.data:
        hint = (
            f"`archir search {path}` runs a recipe; a study has tables `[[task]]` and `[[strategy]]`, or names a "
            "`recipe` and its `[arms.NAME]`"
        )
        raise fail("A2260", f"{path} is a recipe, and not a study", None, hint)

    def table_name(place: tuple[str | int, ...]) -> tuple[str, tuple[str | int, ...]]:
        """Return the task or strategy to which a setting belongs, as a prefix for messages, and the remaining path."""
        match place:
            case (("task" | "strategy") as kind, int(number), _, *_):
                return f"{kind} `{document.data[kind][number].get('name', number + 1)}`: ", place[2:]
        return "", place

    if "recipe" in document.data or "arms" in document.data:
        return parse_settings(TrainingStudy, document.data, span_of=document.span), document
    study = parse_settings(Study, document.data, table_name, document.span)
    problems = [*_duplicate_names(study, document)]
    if problems:
        raise ArchError(*problems)
    return study, document


def _duplicate_names(study: Study, document: Document) -> Iterator[Diagnostic]:
    for kind, names in (("task", [t.name for t in study.task]), ("strategy", [s.name for s in study.strategy])):
        for number, name in enumerate(names):
            if name in names[:number]:
                plural = "tasks" if kind == "task" else "strategies"
                yield Diagnostic("A1109", f"two {plural} are named `{name}`", document.span((kind, number, "name")))


def load_task(task: Task, folder: Path) -> LoadedTask:
    """Load the space and the table of a task; paths are relative to `folder`.

    Raises ArchError if they are invalid, or if no row of the table is a valid result (A2261).
    """
    space = load_space(task.space, folder, task.parameters)
    if task.where is not None:
        space = space.where(task.where)
    if task.apart:
        space = without_dedup(space)
    mapping = None if task.map is None else folder / task.map
    table = read_results(folder / task.table, mapping, space, task.measures)
    objective_texts = task.objectives or (f"{table.criterion}:{'max' if table.larger else 'min'}",)
    objectives = Objectives(space, objective_texts)
    for objective in objectives.each:
        if objective.name not in table.directions and objective.name not in objectives.costs:
            measures = ", ".join(f"`{name}`" for name in table.directions)
            text = f"`{objective.name}` is neither a measure of the table nor a cost"
            raise fail("A2261", text, None, f"measures: {measures}")
    if len(objectives.each) > 3:
        raise fail("A2261", "a task has at most three objectives", None, "exact hypervolumes of more take too long")
    codes = np.array(list(table.rows), np.int16)
    space.cost(codes[:1], objectives.costs)  # raises errors of their latency tables now rather than in every search
    usable = space.bounds_mask(codes)
    for objective in objectives.each:
        if objective.name not in objectives.costs:
            usable &= np.isfinite(table.values[objective.name][-1][1])
    if not usable.any():
        names = join_names([objective.name for objective in objectives.each])
        text = f"no architecture of {table.file} satisfies the bounds and has {names}"
        raise fail("A2261", text, None, "relax the bounds, or complete the table")
    return LoadedTask(task, space, table, objective_texts)


def options_of(entry: StrategyEntry, task: LoadedTask, max_evaluations: float) -> Mapping[str, Any]:
    """Return the options of a strategy for a task.

    The task's objectives and the number of trials are filled in if the strategy has such options. Raises ArchError:
    A2504 (unknown strategy), A2261 (it does not support several objectives, or the entry sets what the study sets).
    """
    fields = strategy_kind(entry.strategy).options.model_fields
    options = dict(entry.options)
    for name in ("objective", "objectives", "trials"):
        if name in options:
            text = f"strategy `{entry.name}` sets `{name}`, which the study sets for all strategies"
            hint = "set `budgets` of the study" if name == "trials" else "set `objectives` of the tasks"
            raise fail("A2261", text, None, hint)
    if "objectives" in fields:
        options["objectives"] = list(task.objectives)
    elif "objective" in fields:
        if task.is_multi_objective:
            text = f"`{entry.strategy}` supports one objective, but `{task.task.name}` has {len(task.objectives)}"
            raise fail("A2261", text, None, "`nsga2`, `random` and `exhaustive` support several")
        options["objective"] = task.objectives[0]
    if "trials" in fields:
        options["trials"] = int(max_evaluations)
    return options


def load_tasks(study: Study, document: Document, folder: Path) -> Sequence[LoadedTask]:
    """Load all tasks, and check that every strategy can be created for each of them.

    Raises ArchError with positions in the study file.
    """
    loaded = []
    for number, task in enumerate(study.task):
        with document.with_span("task", number):
            loaded.append(load_task(task, folder))
    for number, entry in enumerate(study.strategy):
        for each in loaded:
            with document.with_span("strategy", number):
                create(entry.strategy, each.space, options_of(entry, each, max(study.budgets)), study.seed)
    return loaded

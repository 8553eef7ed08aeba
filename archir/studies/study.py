"""What a study compares, as its TOML says: strategies on tasks, which are spaces with tables of results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, model_validator

from archir.diagnostics.errors import ArchError, Diagnostic, fail
from archir.recipes.spaces import load_space
from archir.search.apart import apart
from archir.search.objectives import Objectives
from archir.search.registry import create, strategies
from archir.spaces.space import Space
from archir.tabular.table import Results, results
from archir.utils import toml
from archir.utils.files import read_bytes
from archir.utils.settings import Count, Many, Positive, Seed, Settings, parsed
from archir.utils.toml import Document

MOST_SEEDS = 10_000
MOST_TRIALS = 100_000
"""Full evaluations of one search."""
Name = Annotated[str, Field(min_length=1, max_length=200)]


class Task(Settings):
    """A space, and the table that its architectures are looked up in."""

    name: Name
    space: str
    table: str
    map: str | None = None
    measures: Annotated[tuple[str, ...], Many] = ()
    parameters: dict[str, Any] = Field(default_factory=dict)
    where: str | None = None
    apart: bool = False
    """Whether networks that compute the same are tried apart, as tables have them."""
    objectives: Annotated[tuple[str, ...], Many] = ()
    """By default the first measure; of two or three, fronts are compared."""


class Entry(Settings):
    """A strategy and its options."""

    name: Name
    strategy: str
    options: dict[str, Any] = Field(default_factory=dict)


class Study(Settings):
    """All strategies on all tasks, from each seed, to each budget."""

    title: str = "Strategies compared"
    seeds: Annotated[int, Field(ge=2, le=MOST_SEEDS)] = 30
    seed: Seed = 0
    """The first one."""
    budgets: Annotated[tuple[Positive, ...], Many] = (100.0,)
    """Full evaluations after which strategies are compared."""
    executor: str = "local"
    cores: Count = 1
    task: Annotated[tuple[Task, ...], Many, Field(min_length=1)]
    strategy: Annotated[tuple[Entry, ...], Many, Field(min_length=1)]

    @model_validator(mode="after")
    def _has_budgets(self) -> Study:
        if not self.budgets or max(self.budgets) > MOST_TRIALS or min(self.budgets) < 1:
            raise ValueError(f"`budgets` are one or more, of 1 to {MOST_TRIALS:,} full evaluations")
        return self


@dataclass(frozen=True)
class Scene:
    """A task that is ready: its space, its table and its objectives."""

    task: Task
    space: Space
    table: Results
    objectives: tuple[str, ...]

    @property
    def several(self) -> bool:
        """Whether fronts are compared."""
        return len(self.objectives) > 1


def read(path: Path) -> tuple[Study, Document]:
    """The study of a file, and its text. Raises ArchError: A2260 (it cannot be read), A1109 (it cannot be)."""
    try:
        text = read_bytes(path, 4 * toml.MOST_CHARACTERS).decode().replace("\r\n", "\n")
    except (OSError, ValueError) as error:
        raise fail("A2260", f"cannot read the study {path}: {getattr(error, 'strerror', None) or error}") from None
    document = toml.read(text, str(path), "A2260")
    study = parsed(Study, document.data, "", document.span)
    problems = [*_twice(study, document)]
    if problems:
        raise ArchError(*problems)
    return study, document


def _twice(study: Study, document: Document) -> Iterator[Diagnostic]:
    for kind, names in (("task", [t.name for t in study.task]), ("strategy", [s.name for s in study.strategy])):
        for number, name in enumerate(names):
            if name in names[:number]:
                what = "tasks" if kind == "task" else "strategies"
                yield Diagnostic("A1109", f"two {what} are named `{name}`", document.span((kind, number, "name")))


def scene(task: Task, folder: Path) -> Scene:
    """A task, ready. Paths begin in a folder. Raises ArchError."""
    space = load_space(task.space, folder, task.parameters)
    if task.where is not None:
        space = space.where(task.where)
    if task.apart:
        space = apart(space)
    about = None if task.map is None else folder / task.map
    if not (folder / task.table).is_file():
        raise fail("A2251", f"there is no file {folder / task.table}")
    table = results(folder / task.table, about, space, task.measures)
    aims = task.objectives or (f"{table.criterion}:{'max' if table.larger else 'min'}",)
    asked = Objectives(space, aims)
    for one in asked.each:
        if one.name not in table.directions and one.name not in asked.costs:
            known = ", ".join(f"`{name}`" for name in table.directions)
            raise fail("A2261", f"`{one.name}` is neither a measure of the table nor a cost", None, f"there is {known}")
    if len(asked.each) > 3:
        raise fail("A2261", "a task has at most three objectives", None, "exact hypervolumes of more take too long")
    return Scene(task, space, table, aims)


def options_of(entry: Entry, of: Scene, most: float) -> Mapping[str, Any]:
    """The options of a strategy on a task: what is aimed at, and how many are tried, where it has such options.

    Raises ArchError: A2504 (no such strategy), A2261 (it cannot aim at several).
    """
    known = strategies()
    if entry.strategy not in known:
        raise fail(
            "A2504",
            f"no strategy that tries architectures is named `{entry.strategy}`",
            None,
            known.hint(entry.strategy),
        )
    fields = known[entry.strategy].options.model_fields
    found = dict(entry.options)
    if "objectives" in fields:
        found.setdefault("objectives", list(of.objectives))
    elif "objective" in fields:
        if of.several:
            text = f"`{entry.strategy}` has one objective, and `{of.task.name}` has {len(of.objectives)}"
            raise fail("A2261", text, None, "`nsga2`, `random` and `exhaustive` have several")
        found.setdefault("objective", of.objectives[0])
    if "trials" in fields:
        found.setdefault("trials", int(most))
    return found


def scenes(study: Study, document: Document, folder: Path) -> Sequence[Scene]:
    """All tasks, ready, on which all strategies can be made. Raises ArchError, where it is written, for what cannot."""
    found = []
    for number, task in enumerate(study.task):
        with document.blamed("task", number):
            found.append(scene(task, folder))
    for number, entry in enumerate(study.strategy):
        for one in found:
            with document.blamed("strategy", number):
                create(entry.strategy, one.space, options_of(entry, one, max(study.budgets)), study.seed)
    return found

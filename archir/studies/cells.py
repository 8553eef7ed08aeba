"""One search of a study: a task, a strategy and a seed.

What a search tried is the row of the table that each candidate has, and the part of the full budget that it was tried
with: everything else follows from the table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from archir import __version__
from archir.recipes.spaces import files_of
from archir.search.executors.protocol import Score
from archir.search.registry import create
from archir.studies.study import Entry, Scene, Study, Task, options_of, scene

NONE = -1
"""The row of a candidate that the table does not have."""


@dataclass(frozen=True)
class Cell:
    """A search: the numbers of its task and its strategy in the study, and its seed."""

    task: int
    strategy: int
    seed: int


@dataclass(frozen=True)
class Trials:
    """What a search tried, in order: rows of the table, and parts of the full budget."""

    rows: tuple[int, ...]
    budgets: tuple[float, ...]


@dataclass(frozen=True)
class Searches:
    """The work of a study: tasks are read in each worker."""

    study: Study
    folder: Path

    def prepare(self) -> Score:
        """What searches."""
        scenes: dict[int, Scene] = {}

        def score(task: tuple[int, int, int]) -> Mapping[str, float]:
            cell = Cell(*task)
            if cell.task not in scenes:
                scenes[cell.task] = scene(self.study.task[cell.task], self.folder)
            tried = searched(scenes[cell.task], self.study.strategy[cell.strategy], cell.seed, max(self.study.budgets))
            rows = {f"row {i}": float(row) for i, row in enumerate(tried.rows)}
            return rows | {f"part {i}": part for i, part in enumerate(tried.budgets)}

        return score


def searched(of: Scene, entry: Entry, seed: int, most: float) -> Trials:
    """A search, until it has spent so many full evaluations, or ends by itself."""
    search = create(entry.strategy, of.space, options_of(entry, of, most), seed)
    rows: list[int] = []
    budgets: list[float] = []
    spent = 0.0
    while spent < most and (batch := search.ask()):
        search.tell(of.table.scored(batch))
        for one in batch:
            spent += one.budget
            if spent > most * (1 + 1e-9):
                break
            rows.append(of.table.rows.get(one.architecture.codes, NONE))
            budgets.append(one.budget)
    return Trials(tuple(rows), tuple(budgets))


def told(scores: Mapping[str, float]) -> Trials:
    """What a search tried, of the numbers that say so."""
    count = len(scores) // 2
    return Trials(
        tuple([int(scores[f"row {i}"]) for i in range(count)]), tuple([scores[f"part {i}"] for i in range(count)])
    )


def keys(study: Study, folder: Path) -> Mapping[Cell, str]:
    """A hash for each search of all that it depends on: what has the same was done before."""
    tasks = [_of_task(task, folder) for task in study.task]
    most = repr(max(study.budgets))
    found = {}
    for i, task in enumerate(tasks):
        for j, entry in enumerate(study.strategy):
            base = f"{__version__}\n{task}\n{entry.strategy}\n{sorted(entry.options.items())!r}\n{most}"
            for seed in range(study.seed, study.seed + study.seeds):
                found[Cell(i, j, seed)] = sha256(f"{base}\n{seed}".encode()).hexdigest()
    return found


def _of_task(task: Task, folder: Path) -> str:
    about = task.map or str(Path(task.table).with_suffix(".toml"))
    parts = [sha256((folder / one).read_bytes()).hexdigest() for one in (task.table, about)]
    texts = sorted(files_of(task.space, folder).items())
    said = (task.measures, sorted(task.parameters.items()), task.where, task.apart, task.objectives)
    return repr((parts, texts, said))


def cells(study: Study) -> Sequence[Cell]:
    """All searches: strategies side by side, so that a study that was stopped has something of each."""
    return [
        Cell(task, strategy, seed)
        for seed in range(study.seed, study.seed + study.seeds)
        for task in range(len(study.task))
        for strategy in range(len(study.strategy))
    ]

"""Searches of a study: one for each task, strategy and seed.

A search is recorded as a list of candidates: the row of each in the task's table, and the fraction of the full budget
with which it was evaluated. Everything else can be computed from the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from archir import __version__
from archir.language.elaboration.cost_names import latency_file
from archir.recipes.spaces import files_of
from archir.search.executors.tasks import Score
from archir.search.objectives import Objectives
from archir.search.registry import create
from archir.studies.study import LoadedTask, StrategyEntry, Study, load_task, options_of

NOT_IN_TABLE = -1
"""Row index that stands for a candidate missing from the table."""


@dataclass(frozen=True)
class SearchId:
    """Key of a search: the indices of its task and its strategy in the study, and its seed."""

    task: int
    strategy: int
    seed: int


@dataclass(frozen=True)
class Trials:
    """Candidates of a search in the order of evaluation: row indices in the table, and fractions of the full budget."""

    rows: tuple[int, ...]
    budgets: tuple[float, ...]


@dataclass(frozen=True)
class SearchWorkload:
    """Workload that runs the searches of a study on an executor; each worker loads only the tasks it needs."""

    study: Study
    folder: Path

    def prepare(self) -> Score:
        """Return the function that runs one search in a worker process."""
        tasks: dict[int, LoadedTask] = {}

        def score(task: tuple[int, int, int]) -> Mapping[str, float]:
            search_id = SearchId(*task)
            number = search_id.task
            if number not in tasks:
                tasks[number] = load_task(self.study.task[number], self.folder)
            entry = self.study.strategy[search_id.strategy]
            trials = run_search(tasks[number], entry, search_id.seed, max(self.study.budgets))
            rows = {f"row {i}": float(row) for i, row in enumerate(trials.rows)}
            return rows | {f"part {i}": part for i, part in enumerate(trials.budgets)}

        return score


def run_search(task: LoadedTask, entry: StrategyEntry, seed: int, max_evaluations: float) -> Trials:
    """Run a search until it has spent the budget of `max_evaluations` full evaluations, or has no more candidates."""
    search = create(entry.strategy, task.space, options_of(entry, task, max_evaluations), seed)
    rows: list[int] = []
    budgets: list[float] = []
    spent = 0.0
    while spent < max_evaluations and (batch := search.ask()):
        search.tell(task.table.scored(batch))
        for candidate in batch:
            spent += candidate.budget
            if spent > max_evaluations * (1 + 1e-9):
                break
            rows.append(task.table.rows.get(candidate.architecture.codes, NOT_IN_TABLE))
            budgets.append(candidate.budget)
    return Trials(tuple(rows), tuple(budgets))


def decode_trials(scores: Mapping[str, float]) -> Trials:
    """Decode a search's trials from the name-to-number mapping that a worker returned."""
    count = len(scores) // 2
    return Trials(
        tuple([int(scores[f"row {i}"]) for i in range(count)]), tuple([scores[f"part {i}"] for i in range(count)])
    )


def search_hashes(study: Study, loaded_tasks: Sequence[LoadedTask], folder: Path) -> Mapping[SearchId, str]:
    """Return, for each search, a hash of everything it depends on.

    A search whose hash is in the store is not repeated.
    """
    tasks = [_task_fingerprint(task, folder) for task in loaded_tasks]
    max_budget = repr(max(study.budgets))
    hashes = {}
    for i, task in enumerate(tasks):
        for j, entry in enumerate(study.strategy):
            base = f"{__version__}\n{task}\n{entry.strategy}\n{sorted(entry.options.items())!r}\n{max_budget}"
            for seed in range(study.seed, study.seed + study.seeds):
                hashes[SearchId(i, j, seed)] = sha256(f"{base}\n{seed}".encode()).hexdigest()
    return hashes


def _task_fingerprint(loaded: LoadedTask, folder: Path) -> str:
    """Return a text that identifies a task.

    It contains hashes of the table, its column mapping and the latency tables of bounds and objectives, the text of the
    space's files, and the task's settings.
    """
    task = loaded.task
    mapping = task.map or str(Path(task.table).with_suffix(".toml"))
    files = [folder / task.table, folder / mapping, *_latency_files(loaded)]
    parts = [sha256(file.read_bytes()).hexdigest() for file in files]
    texts = sorted(files_of(task.space, folder).items())
    settings = (task.space, task.measures, sorted(task.parameters.items()), task.where, task.apart, task.objectives)
    return repr((parts, texts, settings))


def _latency_files(loaded: LoadedTask) -> Iterator[Path]:
    """Yield the latency tables and models of a task's bounds and objectives, which may repeat."""
    for bound in loaded.space.graph.constraints:
        if bound.cost is not None and (name := latency_file(bound.cost)) is not None:
            yield bound.table or Path(name)
    for cost in Objectives(loaded.space, loaded.objectives).costs:
        if (name := latency_file(cost)) is not None:
            yield Path(name)


def all_searches(study: Study) -> Sequence[SearchId]:
    """Return all searches of a study, ordered by seed first.

    So an interrupted study has results for every strategy.
    """
    return [
        SearchId(task, strategy, seed)
        for seed in range(study.seed, study.seed + study.seeds)
        for task in range(len(study.task))
        for strategy in range(len(study.strategy))
    ]

"""A study, done: searches that are missing are made, and what all came to is written."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from archir.diagnostics.errors import ArchError, Diagnostic, Interrupted, fail
from archir.search.executors.named import executor
from archir.search.executors.protocol import Done, Failed
from archir.studies.cells import Cell, Searches, Trials, cells, keys, told
from archir.studies.checklist import practices
from archir.studies.compared import Compared, compared, rows
from archir.studies.exported import export
from archir.studies.page import page
from archir.studies.store import STUDY, opened
from archir.studies.study import read, scenes
from archir.utils.files import write_atomic

Progress = Callable[[int, int], None]
"""Told how many searches are done, of how many."""


@dataclass(frozen=True)
class Finished:
    """What a study came to, and the figures that its folder has."""

    compared: Compared
    failed: Mapping[Cell, str]
    """Searches that failed, and why."""


def run(
    path: Path,
    folder: Path,
    progress: Progress = lambda done, total: None,
    instead: str | None = None,
    trials: Path | None = None,
) -> Finished:
    """Do a study in a folder, or go on with it: a search that is done already is not done again.

    `instead` is who searches, not whom the study names; `trials` is a file for all trials. Raises ArchError.
    """
    study, document = read(path)
    root = path.resolve().parent
    ready = scenes(study, document, root)
    with document.blamed("executor"):
        workers = executor(instead or study.executor, cores=study.cores)
    failed: dict[Cell, str] = {}
    tried: dict[Cell, Trials] = {}
    seconds = 0.0
    with opened(folder) as store:
        write_atomic(folder / STUDY, document.source.text.encode())
        known = keys(study, root)
        left = [cell for cell in cells(study) if known[cell] not in store]
        total = len(known)
        progress(total - len(left), total)
        by_key = {f"{cell.task} {cell.strategy} {cell.seed}": cell for cell in left}
        tasks = [(key, (cell.task, cell.strategy, cell.seed)) for key, cell in by_key.items()]
        try:
            with workers:
                for outcome in workers.run(Searches(study, root), tasks) if tasks else ():
                    cell = by_key[outcome.key]
                    if isinstance(outcome, Failed):
                        failed[cell] = f"{outcome.reason}: {outcome.message}"
                    elif isinstance(outcome, Done):
                        store.put(known[cell], outcome.seconds, told(outcome.scores))
                    left.remove(cell)
                    progress(total - len(left), total)
        except KeyboardInterrupt:
            raise Interrupted("the study was stopped") from None
        for cell in cells(study):
            if cell not in failed:
                took, tried[cell] = store.get(known[cell])
                seconds += took
        if not tried:
            raise ArchError(Diagnostic("A2264", f"no search of the study could be done: {next(iter(failed.values()))}"))
        found = compared(study, ready, tried)
        if any(not len(task.regrets[0]) for task in found.tasks):
            raise fail("A2264", f"no seed was searched by all strategies: {next(iter(failed.values()))}")
        tables = {task.name: sha256((root / task.table).read_bytes()).hexdigest() for task in study.task}
        _write(folder, found, tables, seconds, document.source.text)
        if trials is not None:
            export(trials, study, ready, tried)
    return Finished(found, failed)


def _write(folder: Path, found: Compared, tables: Mapping[str, str], seconds: float, text: str) -> None:
    lines = list(rows(found))
    file = io.StringIO(newline="")
    writer = csv.DictWriter(file, list(lines[0]))
    writer.writeheader()
    writer.writerows(lines)
    write_atomic(folder / "results.csv", file.getvalue().encode())
    write_atomic(folder / "results.json", (json.dumps(figures(found, tables, seconds), indent=2) + "\n").encode())
    write_atomic(folder / "report.html", page(found, tables, seconds, text).encode())


def figures(found: Compared, tables: Mapping[str, str], seconds: float) -> dict[str, Any]:
    """Everything that the page shows, as plain data."""
    names = found.strategies
    budgets = [
        {
            "evaluations": one.budget,
            "mean_ranks": dict(zip(names, one.ranks, strict=True)),
            "p_after_holm": [
                {"one": names[a], "other": names[b], "p": value} for (a, b), value in one.corrected.items()
            ],
            "not_told_apart": [[names[i] for i in group] for group in one.groups],
            "better": {names[i]: dict(zip(names, row, strict=True)) for i, row in enumerate(one.better)},
        }
        for one in found.budgets
    ]
    checklist = [vars(one) for one in practices(found, tables, seconds)]
    return {"results": list(rows(found)), "budgets": budgets, "checklist": checklist, "seconds": seconds}

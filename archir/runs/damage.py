"""Reports damaged files of a run, with hints, and removes those that the run can regenerate."""

from __future__ import annotations

from archir.diagnostics.errors import ArchError, Diagnostic
from archir.runs import journal
from archir.runs.folder import (
    CHECKPOINT_FILE,
    ENVIRONMENT,
    EXTENSIONS,
    JOURNAL,
    OVERRIDES,
    RECIPE,
    SPACE,
    WEIGHTS,
    Folder,
    Problem,
    checkpoints,
)

_REBUILT_HINT = f"{journal.RESUME_HINT}: the file is removed and written again"
"""Hint for a damaged file that is regenerated when the run is resumed."""


def require_intact(files: Folder) -> None:
    """Raise ArchError if files are damaged (A1803) or missing (A1804), with a diagnostic for each."""
    problems = files.problems()
    if problems:
        bad = {problem.file for problem in problems}
        texts = [(p.code, f"{files.path / p.file} {p.text}", _hint(files, p, bad)) for p in problems]
        raise ArchError(*(Diagnostic(code, text, None, hint) for code, text, hint in texts))


def remove_damaged(files: Folder) -> set[str]:
    """Remove the damaged files that the run can regenerate; return the names of the phases whose results are lost.

    Of a damaged checkpoint, all files are removed. A phase with a lost result also loses its weights: without them, it
    counts as not done.
    """
    current, lost = files.manifest, set[str]()
    for problem in files.problems():
        if match := CHECKPOINT_FILE.match(problem.file):
            lost.update(checkpoints(current.files, match["phase"])[int(match["number"])])
        elif not _is_input(problem.file):
            lost.add(problem.file)
    undone = {name.split("/")[1] for name in lost if name.startswith("phases/") and not CHECKPOINT_FILE.match(name)}
    lost |= {f"phases/{phase}/{WEIGHTS}" for phase in undone} & current.files.keys()
    if JOURNAL in lost or _journal_is_damaged(files):
        for suffix in ("-wal", "-shm"):  # before the journal: SQLite would apply them to a new one
            (files.path / (JOURNAL + suffix)).unlink(missing_ok=True)
        files.commit({}, {*lost, JOURNAL}, rows=0, finished=False)
    elif lost:
        files.commit({}, lost, finished=False)
    return undone


def _journal_is_damaged(files: Folder) -> bool:
    try:
        journal.read(files.path, files.manifest.rows, JOURNAL in files.manifest.files)
    except ArchError:
        return True
    return False


def _is_input(name: str) -> bool:
    """Return True if a file is an input of the run, which cannot be regenerated."""
    return name in (RECIPE, OVERRIDES, ENVIRONMENT, EXTENSIONS) or name.startswith((f"{SPACE}/", "start/"))


def _hint(files: Folder, problem: Problem, bad: set[str]) -> str:
    if _is_input(problem.file):
        return "put back a copy of the file, or begin another run"
    if problem.file == JOURNAL:
        return journal.DAMAGE_HINT
    match = CHECKPOINT_FILE.match(problem.file)
    if not match:
        return _REBUILT_HINT
    numbered = checkpoints(files.manifest.files, match["phase"])
    intact = [number for number, names in numbered.items() if not bad & set(names)]
    if intact and max(intact) > int(match["number"]):
        return f"{journal.RESUME_HINT}: the file is removed; a later checkpoint is intact"
    if intact:
        return f"{journal.RESUME_HINT}, from checkpoint {max(intact)}, which is intact"
    return f"put back a copy of the file, or {journal.RESUME_HINT}: phase `{match['phase']}` starts again"

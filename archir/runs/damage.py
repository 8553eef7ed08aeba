"""Reports damaged files of a run, with hints, and removes those that the run can regenerate."""

from __future__ import annotations

from contextlib import suppress

from archir.diagnostics.errors import ArchError, Diagnostic
from archir.runs import journal
from archir.runs.folder import JOURNAL, LIVE_JOURNAL, Folder, Problem
from archir.runs.manifest import Anchor
from archir.runs.phase import CHECKPOINT_FILE, WEIGHTS, checkpoints

_REBUILT_HINT = f"{journal.RESUME_HINT}: the file is removed and written again"
"""Hint for a damaged file that is regenerated when the run is resumed."""


def require_intact(files: Folder) -> None:
    """Raise ArchError if files are damaged (A1803), missing (A1804) or unexpected (A1805), with a diagnostic for
    each."""
    problems = files.problems()
    if problems:
        bad = {problem.file for problem in problems}
        texts = [(p.code, f"{files.path / p.file} {p.text}", _hint(files, p, bad)) for p in problems]
        raise ArchError(*(Diagnostic(code, text, None, hint) for code, text, hint in texts))


def remove_damaged(files: Folder) -> set[str]:
    """Remove the damaged files that the run can regenerate; return the names of the phases whose results are lost."""
    problems = [problem for problem in files.problems() if _dispensable(problem)]
    lost: set[str] = set()
    for problem in problems:
        match = CHECKPOINT_FILE.match(problem.file)
        if match:
            lost.update(checkpoints(files.manifest.files, match["phase"])[int(match["number"])])
        else:
            lost.add(problem.file)
    undone = {name.split("/")[1] for name in lost if name.startswith("phases/") and not CHECKPOINT_FILE.match(name)}
    weights = {f"phases/{phase}/{WEIGHTS}" for phase in undone}
    lost |= weights & files.manifest.files.keys()  # a phase without weights counts as not done
    lost_journal = JOURNAL in lost or _journal_is_lost(files)
    if lost or lost_journal:
        growing = {name: entry for name, entry in files.manifest.growing.items() if name not in lost}
        anchor = Anchor() if lost_journal else files.manifest.journal
        remaining = {name: entry for name, entry in files.manifest.files.items() if name != JOURNAL or not lost_journal}
        files.commit({}, lost, entries=remaining, growing=growing, finished=False, journal=anchor)
    if lost_journal:
        for name in LIVE_JOURNAL:
            (files.path / name).unlink(missing_ok=True)
    return undone


def _journal_is_lost(files: Folder) -> bool:
    """Return True if the journal is damaged."""
    with suppress(ArchError):
        journal.read(files.path, files.manifest.journal, JOURNAL in files.manifest.files)
        return False
    return True


def _dispensable(problem: Problem) -> bool:
    """Return True if the run can do without the damaged or missing file."""
    return problem.code != "A1805" and not _is_input(problem.file)


def _is_input(name: str) -> bool:
    """Return True if a file is an input of the run, which cannot be regenerated."""
    inputs = ("recipe.toml", "overrides.json", "environment.json", "extensions.json")
    return name in inputs or name.startswith(("space/", "start/"))


def _hint(files: Folder, problem: Problem, bad: set[str]) -> str:
    """Return a hint on how to recover from a damaged file; `bad` are the names of all damaged files."""
    if problem.code == "A1805":
        return "move it out of the folder"
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

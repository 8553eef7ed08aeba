"""What is said of damaged files, and what can be done about it."""

from __future__ import annotations

from contextlib import suppress

from archir.diagnostics.errors import ArchError, Diagnostic
from archir.runs import journal
from archir.runs.folder import JOURNAL, LIVE, Folder, Problem
from archir.runs.manifest import Anchor
from archir.runs.phase import CHECKPOINT, WEIGHTS, checkpoints

_ANEW = f"{journal.GO_ON}: it is removed, and written anew"


def require_whole(files: Folder) -> None:
    """Raise ArchError, naming every file that is damaged (A1803), missing (A1804) or foreign (A1805)."""
    problems = files.problems()
    if problems:
        bad = {problem.file for problem in problems}
        texts = [(one.code, f"{files.path / one.file} {one.text}", _hint(files, one, bad)) for one in problems]
        raise ArchError(*(Diagnostic(code, text, None, hint) for code, text, hint in texts))


def fall_back(files: Folder) -> set[str]:
    """Remove what is damaged and can be done without; the phases that have lost what they came to."""
    problems = [problem for problem in files.problems() if _dispensable(problem)]
    lost: set[str] = set()
    for problem in problems:
        match = CHECKPOINT.match(problem.file)
        if match:
            lost.update(checkpoints(files.manifest.files, match["phase"])[int(match["number"])])
        else:
            lost.add(problem.file)
    undone = {name.split("/")[1] for name in lost if name.startswith("phases/") and not CHECKPOINT.match(name)}
    weights = {f"phases/{phase}/{WEIGHTS}" for phase in undone}
    lost |= weights & files.manifest.files.keys()  # without them, a phase is known not to be done
    lost_journal = JOURNAL in lost or _journal_is_lost(files)
    if lost or lost_journal:
        growing = {name: one for name, one in files.manifest.growing.items() if name not in lost}
        anchor = Anchor() if lost_journal else files.manifest.journal
        kept = {name: one for name, one in files.manifest.files.items() if name != JOURNAL or not lost_journal}
        files.commit({}, lost, entries=kept, growing=growing, finished=False, journal=anchor)
    if lost_journal:
        for name in LIVE:
            (files.path / name).unlink(missing_ok=True)
    return undone


def _journal_is_lost(files: Folder) -> bool:
    with suppress(ArchError):
        journal.read(files.path, files.manifest.journal, JOURNAL in files.manifest.files)
        return False
    return True


def _dispensable(problem: Problem) -> bool:
    return problem.code != "A1805" and not _is_input(problem.file)


def _is_input(name: str) -> bool:
    told = ("recipe.toml", "overrides.json", "environment.json", "extensions.json")
    return name in told or name.startswith(("space/", "start/"))


def _hint(files: Folder, problem: Problem, bad: set[str]) -> str:
    if problem.code == "A1805":
        return "move it out of the folder"
    if _is_input(problem.file):
        return "put back a copy of the file, or begin another run"
    if problem.file == JOURNAL:
        return journal.CURE
    match = CHECKPOINT.match(problem.file)
    if not match:
        return _ANEW
    numbered = checkpoints(files.manifest.files, match["phase"])
    whole = [number for number, names in numbered.items() if not bad & set(names)]
    if whole and max(whole) > int(match["number"]):
        return f"{journal.GO_ON}: it is removed; a later checkpoint is whole"
    if whole:
        return f"{journal.GO_ON}, from checkpoint {max(whole)}, which is whole"
    return f"put back a copy of the file, or {journal.GO_ON}: phase `{match['phase']}` begins anew"

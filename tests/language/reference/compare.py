"""Comparison of archir and the reference interpreter on one program."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import archir
from archir.diagnostics.errors import ArchError
from archir.diagnostics.work import MAX_WORK, work_budget
from archir.equivalence.canonical import canonical_hash
from archir.ir.graph import Graph
from archir.ir.typing import infer
from archir.language.syntax.parse import parse
from archir.spaces.space import Space
from tests.language.reference.interpret import Walk, files_of, walks
from tests.language.reference.values import TooMany

NAME = "<text>"
BEYOND = {"A0312", "A0503", "A0504", "A0506", "A0507", "A0508", "A0601", "A0602", "A0603", "A0604", "A0605"}
"""What archir refuses though each architecture alone may be right."""


def disagreement(text: str) -> str | None:
    """Return how archir and the interpreter differ on a program; None if they agree, "skipped: ..." if not
    comparable."""
    with work_budget(10 * MAX_WORK):  # within one budget, a text is read once
        return _disagreement(text)


def _disagreement(text: str) -> str | None:
    try:
        imported, own = files_of(text)
        runs = walks(parse(own, NAME), parse(imported, NAME))
    except TooMany:
        return "skipped: too many architectures"
    try:
        space = _loaded(text)
    except ArchError as error:
        return _refused(error, runs)
    wrong = [walk for walk in runs if walk.wrong is not None]
    if wrong:
        return f"archir accepts what is wrong: {wrong[0].wrong}, for {wrong[0].decisions}"
    kept = [walk for walk in runs if walk.kept]
    try:
        satisfying = space.satisfying
    except ArchError as error:
        if error.diagnostics[0].code != "A0510":
            raise
        satisfying = 0
    if satisfying != len(kept):
        return f"{satisfying} architectures satisfy the requirements, {len(kept)} should"
    if not any(walk.vague for walk in runs) and space.size != len(runs):
        return f"there are {space.size} architectures, there should be {len(runs)}"
    mine = Counter(_read(walk) for walk in kept)
    theirs = Counter(_drawn(space, architecture) for architecture in space.enumerate()) if kept else Counter()
    if mine != theirs:
        missing, surplus = list((mine - theirs).elements()), list((theirs - mine).elements())
        return f"other architectures: {missing[:1]} is missing, {surplus[:1]} is there instead"
    return None


def _loaded(text: str) -> Space:
    imported, own = files_of(text)
    if not imported:
        return archir.loads(own, name=NAME)
    with TemporaryDirectory() as name:
        (Path(name) / "imported.arch").write_text(imported)
        (Path(name) / "own.arch").write_text(own)
        return archir.load(Path(name) / "own.arch")


def _refused(error: ArchError, runs: list[Walk]) -> str | None:
    codes = {diagnostic.code for diagnostic in error.diagnostics}
    if codes & BEYOND:
        return f"skipped: {codes & BEYOND}"
    wrong = [walk for walk in runs if walk.wrong is not None]
    if not wrong:
        if codes == {"A0510"} and not any(walk.kept for walk in runs):
            return None
        if not any(walk.kept for walk in runs):
            return f"skipped: nothing is left, and {codes} is said of it"
        return f"archir refuses what is right: {error}"
    if len(error.diagnostics) == 1:  # of several, a run only meets the first
        for note in error.diagnostics[0].notes:
            if note.text.startswith("when ") and not any(_fits(note.text, walk) for walk in wrong):
                return f"nothing is wrong {note.text}: {error}"
    return None


def _fits(note: str, walk: Walk) -> bool:
    """True if the combination that a note names agrees with the choices of a run, as far as both name them."""
    labels_by_name: dict[str, set[str]] = {}  # a block that calls itself makes a choice of one name several times
    for name, label in walk.decisions:
        labels_by_name.setdefault(name, set()).add(label)
    for part in re.split(r", (?=[\w.\[\]]+ = )", note.removeprefix("when ")):
        path, _, label = part.rpartition(" = ")
        name = re.sub(r"^.*?([A-Za-z_]\w*(\[\d+\])*)$", r"\1", path)
        if name not in labels_by_name or not labels_by_name[name] & {label, ""}:
            return False
    return True


def _read(walk: Walk) -> tuple[object, ...]:
    assert walk.graph is not None
    return _described(walk.graph, walk.shapes, [name for name, _ in walk.decisions])


def _drawn(space: Space, architecture: archir.Architecture) -> tuple[object, ...]:
    graph = space.specialize(architecture)
    types = infer(graph)
    shapes = tuple(types[number].shape for number in graph.outputs.values())
    return _described(graph, shapes, [path.rsplit(".", 1)[-1] for path in architecture])


def _described(graph: Graph, shapes: tuple[tuple[int, ...], ...], names: list[str]) -> tuple[object, ...]:
    return (tuple(sorted(names)), shapes, canonical_hash(graph))

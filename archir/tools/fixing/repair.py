"""Files mended: the checker judges what every change comes to, and keeps those that leave fewer mistakes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from archir.diagnostics.errors import Diagnostic, Source
from archir.ir.op import OPS
from archir.tools.fixing import meaning, syntax
from archir.tools.fixing.changes import Change
from archir.tools.lsp.words import code_words

Check = Callable[[str], Sequence[Diagnostic]]
"""What is wrong with a text; everything, or its names alone."""

MOST_CHECKS = 40
"""Texts that are checked for each mistake."""
MOST_ROUNDS = 20
_LOOKED_AT = 150
"""Texts whose names are checked for each mistake."""
_SYNTAX = ("A0101", "A0102", "A0103")
Score = tuple[int, int]


@dataclass(frozen=True)
class Repair:
    """A mended text, what was done, and what is still wrong with it."""

    text: str
    changes: tuple[Change, ...]
    left: tuple[Diagnostic, ...]


def repaired(text: str, name: str, check: Check, names: Check) -> Repair:
    """A text with as many mistakes mended as can be, and never with more than it had.

    `name` is what the file is called in messages; `check` says all that is wrong with a text, `names` what is soon
    found.
    """
    before = problems = tuple(check(text))
    unchanged = text
    done: list[Change] = []
    for _ in range(MOST_ROUNDS):
        for problem in problems:
            found = _best(Source(name, text), problem, problems, check, names)
            if found is not None:
                change, problems = found
                text = change.of(text)
                done.append(change)
                break
        else:
            break
    if len(problems) >= len(before):
        return Repair(unchanged, (), before)
    return Repair(text, tuple(done), problems)


def changes(source: Source, problem: Diagnostic) -> list[Change]:
    """What may mend a mistake in a file, the likeliest first; nothing of it is checked."""
    known = _names(source.text, problem)
    if problem.code in _SYNTAX:
        return syntax.candidates(source.text, problem, known) if _in(problem, source) else []
    return meaning.candidates(source, problem, known)


def _in(problem: Diagnostic, source: Source) -> bool:
    return problem.span is not None and problem.span.source.name == source.name


def _best(
    source: Source, problem: Diagnostic, problems: tuple[Diagnostic, ...], check: Check, names: Check
) -> tuple[Change, tuple[Diagnostic, ...]] | None:
    """The first change that leaves no mistake, or the one that leaves the fewest and fewer than there were."""
    before = _score(tuple(names(source.text)) or problems)
    best: tuple[Score, Change, tuple[Diagnostic, ...]] | None = None
    left = MOST_CHECKS
    for change in changes(source, problem)[:_LOOKED_AT]:
        made = change.of(source.text)
        quick = tuple(names(made))
        limit = best[0] if best is not None else before
        if _score(quick) >= limit:
            continue
        left -= 1
        if left < 0:
            break
        said = quick or tuple(check(made))
        score = _score(said)
        if score < limit:
            best = score, change, said
            if not said or (len(said) < len(problems) and _among(said, problems)):
                break
    return (best[1], best[2]) if best is not None else None


def _among(said: Sequence[Diagnostic], problems: Sequence[Diagnostic]) -> bool:
    """Whether all that is said was said before."""
    return {(one.code, one.message) for one in said} <= {(one.code, one.message) for one in problems}


def _score(problems: Sequence[Diagnostic]) -> Score:
    """Mistakes that hide others count first."""
    syntactic = sum(problem.code in _SYNTAX for problem in problems)
    return syntactic, len(problems)


def _names(text: str, problem: Diagnostic) -> list[str]:
    """Names that may be meant at a place: those that are written nearest to it, then operations."""
    at = problem.span.start if problem.span is not None else 0
    written = sorted(
        (word for word in code_words(text) if word.kind in ("name", "number")), key=lambda w: abs(w.start - at)
    )
    return list(dict.fromkeys([word.text for word in written] + [name for name, op in OPS.items() if not op.internal]))

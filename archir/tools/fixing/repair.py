"""Fix errors of a program automatically: apply candidate changes that leave fewer errors according to the checker."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from archir.diagnostics.errors import Diagnostic, Source
from archir.ir.op import OPS
from archir.tools.fixing import semantic_fixes, syntax_fixes
from archir.tools.fixing.changes import Change
from archir.tools.lsp.lexer import code_tokens

Check = Callable[[str], Sequence[Diagnostic]]
"""A checker: a function from a text to its diagnostics."""

MAX_CHECKS = 40
"""Maximum number of candidates for one error that are considered after the quick check of their syntax and names."""
MAX_ROUNDS = 20
"""Maximum number of changes that are applied to one text."""
_MAX_NAME_CHECKS = 150
"""Maximum number of candidates for one error whose syntax and names are checked."""
_SYNTAX_CODES = ("A0101", "A0102", "A0103")
"""Codes of syntax errors."""
Score = tuple[int, int]
"""Number of syntax errors and number of all errors; less is better."""


@dataclass(frozen=True)
class Repair:
    """Result of a repair: the new text, the changes that were applied, and the remaining diagnostics."""

    text: str
    changes: tuple[Change, ...]
    remaining: tuple[Diagnostic, ...]


def repair_text(text: str, name: str, check: Check, check_names: Check) -> Repair:
    """Return the text with as many errors fixed as possible; the result never has more errors than the text.

    `name` is the file name in messages. `check` finds all errors of a text, `names` only errors of syntax and names,
    which is fast. If the number of errors cannot be reduced, the text is returned unchanged.
    """
    before = problems = tuple(check(text))
    original = text
    applied: list[Change] = []
    for _ in range(MAX_ROUNDS):
        for problem in problems:
            best = _best_change(Source(name, text), problem, problems, check, check_names)
            if best is not None:
                change, problems = best
                text = change.apply(text)
                applied.append(change)
                break
        else:
            break
    if len(problems) >= len(before):
        return Repair(original, (), before)
    return Repair(text, tuple(applied), problems)


def candidate_changes(source: Source, problem: Diagnostic) -> list[Change]:
    """Return changes of a file that may fix an error, the most likely first. The changes are not checked."""
    names = _candidate_names(source.text, problem)
    if problem.code in _SYNTAX_CODES:
        return syntax_fixes.candidates(source.text, problem, names) if _is_in(problem, source) else []
    return semantic_fixes.candidates(source, problem, names)


def _is_in(problem: Diagnostic, source: Source) -> bool:
    """True if a diagnostic points into the file."""
    return problem.span is not None and problem.span.source.name == source.name


def _best_change(
    source: Source, problem: Diagnostic, problems: tuple[Diagnostic, ...], check: Check, check_names: Check
) -> tuple[Change, tuple[Diagnostic, ...]] | None:
    """Return the best change for one error and the diagnostics that it leaves, or None if no change helps.

    The search stops at the first change that leaves no error, or fewer errors without a new one; otherwise the change
    with the fewest errors wins.
    """
    before = _score(tuple(check_names(source.text)) or problems)
    best: tuple[Score, Change, tuple[Diagnostic, ...]] | None = None
    checks_left = MAX_CHECKS
    for change in candidate_changes(source, problem)[:_MAX_NAME_CHECKS]:
        changed = change.apply(source.text)
        name_problems = tuple(check_names(changed))
        score_to_beat = best[0] if best is not None else before
        if _score(name_problems) >= score_to_beat:
            continue
        checks_left -= 1
        if checks_left < 0:
            break
        new_problems = name_problems or tuple(check(changed))
        score = _score(new_problems)
        if score < score_to_beat:
            best = score, change, new_problems
            if not new_problems or (len(new_problems) < len(problems) and _all_known(new_problems, problems)):
                break
    return (best[1], best[2]) if best is not None else None


def _all_known(new: Sequence[Diagnostic], problems: Sequence[Diagnostic]) -> bool:
    """True if each of the `said` diagnostics has the code and the message of one in `problems`."""
    return {(problem.code, problem.message) for problem in new} <= {
        (problem.code, problem.message) for problem in problems
    }


def _score(problems: Sequence[Diagnostic]) -> Score:
    """Count syntax errors, which hide other errors and therefore count first, and all errors."""
    syntactic = sum(problem.code in _SYNTAX_CODES for problem in problems)
    return syntactic, len(problems)


def _candidate_names(text: str, problem: Diagnostic) -> list[str]:
    """Return names and numbers that may be intended at an error: those of the file by distance, then all operations."""
    offset = problem.span.start if problem.span is not None else 0
    nearby = sorted(
        (token for token in code_tokens(text) if token.kind in ("name", "number")),
        key=lambda token: abs(token.start - offset),
    )
    return list(dict.fromkeys([token.text for token in nearby] + [name for name, op in OPS.items() if not op.internal]))

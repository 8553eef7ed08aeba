"""Automatic repair of programs: apply a candidate change if the checker then reports fewer errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from archir.diagnostics.errors import Diagnostic, Source
from archir.ir.op import OPS
from archir.tools.fixing import semantic_fixes, syntax_fixes
from archir.tools.fixing.changes import Change
from archir.tools.lsp.lexer import code_tokens

Check = Callable[[str], Sequence[Diagnostic]]
"""Checker: a function from a program's text to its diagnostics."""

MAX_CHECKS = 40
"""Maximum number of candidates per error that are fully checked, after the quick check of syntax and names."""
MAX_ROUNDS = 20
"""Maximum number of changes that are applied to one program."""
_MAX_NAME_CHECKS = 150
"""Maximum number of candidates per error that get the quick check of syntax and names."""
_SYNTAX_CODES = ("A0101", "A0102", "A0103")
"""Codes of syntax errors."""
Score = tuple[int, int]
"""Number of syntax errors, and number of all errors. Scores are compared in this order; a lower score is better."""


@dataclass(frozen=True)
class Repair:
    """Result of a repair: the new text, the changes that were applied, and the diagnostics that remain."""

    text: str
    changes: tuple[Change, ...]
    remaining: tuple[Diagnostic, ...]


def repair_text(text: str, name: str, check: Check, check_names: Check) -> Repair:
    """Return the text with as many errors fixed as possible; the result never has more errors than the text.

    `name` is the file name in messages. `check` finds all errors of a text; `check_names` finds only errors of syntax
    and names, which is fast. If the number of errors cannot be reduced, the text is returned unchanged.
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
    """Return unverified candidate changes that may fix an error, the most likely first."""
    names = _candidate_names(source.text, problem)
    if problem.code in _SYNTAX_CODES:
        return syntax_fixes.candidates(source.text, problem, names) if _is_in(problem, source) else []
    return semantic_fixes.candidates(source, problem, names)


def _is_in(problem: Diagnostic, source: Source) -> bool:
    """Return whether a diagnostic refers to the given file."""
    return problem.span is not None and problem.span.source.name == source.name


def _best_change(
    source: Source, problem: Diagnostic, problems: tuple[Diagnostic, ...], check: Check, check_names: Check
) -> tuple[Change, tuple[Diagnostic, ...]] | None:
    """Return the best change for one error and the diagnostics that remain after it, or None if no change helps.

    The search stops at the first change that leaves no error, or that leaves fewer errors and adds no new one.
    Otherwise, the change that leaves the fewest errors wins.
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
    """Return whether every diagnostic in `new` has the same code and message as one in `problems`."""
    return {(problem.code, problem.message) for problem in new} <= {
        (problem.code, problem.message) for problem in problems
    }


def _score(problems: Sequence[Diagnostic]) -> Score:
    """Return the number of syntax errors and of all errors. Syntax errors count first, as they hide other errors."""
    syntactic = sum(problem.code in _SYNTAX_CODES for problem in problems)
    return syntactic, len(problems)


def _candidate_names(text: str, problem: Diagnostic) -> list[str]:
    """Return candidate replacements for the text at an error.

    They are the names and numbers of the file, nearest first, followed by the names of all operations.
    """
    offset = problem.span.start if problem.span is not None else 0
    nearby = sorted(
        (token for token in code_tokens(text) if token.kind in ("name", "number")),
        key=lambda token: abs(token.start - offset),
    )
    return list(dict.fromkeys([token.text for token in nearby] + [name for name, op in OPS.items() if not op.internal]))

"""Candidate fixes for programs that parse: another name, number or argument where an error message points."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import get_close_matches
from itertools import pairwise

from archir.diagnostics.errors import Diagnostic, Source, Span
from archir.language.syntax.recovery import item_range
from archir.language.syntax.strict_parse import parsed_until
from archir.tools.fixing.changes import Change, distinct_changes, drop, insert, replace
from archir.tools.lsp.lexer import Token, code_tokens

_IMPORT = re.compile(r"`(import [^`]+)`")
"""Pattern of the import statement in a hint, such as "`import std.cells`"."""
_NEEDS = re.compile(r"needs (?:a tensor )?`(\w+)`")
"""Pattern of the missing parameter in messages such as "needs `kernel`" or "needs a tensor `x`"."""
_STEPS = range(-8, 9)
"""Differences that are added to a number of the program to get candidates for its replacement."""
_MAX_CANDIDATES = 60
"""Maximum number of candidate changes for one error."""


def candidates(source: Source, problem: Diagnostic, names: list[str]) -> list[Change]:
    """Return candidate changes that may fix an error of a file, the most likely first.

    `names` are candidate replacements for the name at the position of the error.
    """
    text, span = source.text, problem.span
    changes = []
    if span is not None and span.source.name == source.name:
        changes += [*_direct(problem), *_names(text, problem, span, names), *_missing_callees(problem, span, names)]
        changes += [*_argument_insertions(text, problem, span, names)]
    lines = _lines_of(source, problem)
    changes += [
        *_argument_deletions(text, lines),
        *_number_replacements(text, problem, lines, source),
        *_token_changes(text, lines),
    ]
    return distinct_changes(changes, text)[:_MAX_CANDIDATES]


def _missing_callees(problem: Diagnostic, span: Span, names: list[str]) -> Iterator[Change]:
    """Yield insertions of a function name, where the right-hand side of a pipe is not callable (A0206)."""
    if problem.code == "A0206":
        yield from (insert(span.start, name) for name in names if not name.isdigit())


def _direct(problem: Diagnostic) -> Iterator[Change]:
    """Yield the fixes that a diagnostic suggests itself.

    These are the import in its hint, and `output` at the position of its note "is this the output?".
    """
    for imported in _IMPORT.findall(problem.hint or ""):
        yield Change(f"`{imported}`", ((0, 0, f"{imported}\n"),))
    for note in problem.notes:
        if note.text == "is this the output?" and note.span is not None:
            yield insert(note.span.start, "output ")


def _names(text: str, problem: Diagnostic, span: Span, names: list[str]) -> Iterator[Change]:
    """Yield replacements of an unknown name by similar names.

    If a similar name occurs only once in the file and the unknown name more than once, the similar name may be a
    misspelled definition. The first candidates then rename that definition.
    """
    if problem.code not in ("A0201", "A0203", "A0204", "A0212", "A0302", "A0804"):
        return
    tokens = code_tokens(text)
    target = next((token for token in tokens if token.start >= span.start and token.kind in ("name", "keyword")), None)
    if problem.code == "A0203":  # the span may be the argument's value; its name is before that
        target = next(
            (token for token in reversed(tokens) if token.start <= span.start and token.kind == "name"), target
        )
    if target is None:
        return
    if problem.edit is not None:
        target = Token("name", problem.edit[0].text, problem.edit[0].start)
    similar = [problem.edit[1]] if problem.edit is not None else []
    similar += get_close_matches(target.text, sorted({*names, *_name_set(tokens)} - {target.text}), n=5, cutoff=0.6)
    uses = sum(token.text == target.text for token in tokens)
    for name in dict.fromkeys(similar):
        places = [token for token in tokens if token.text == name]
        if len(places) == 1 and uses > 1:
            yield replace(places[0].start, places[0].end, name, target.text)
    for name in dict.fromkeys(similar):
        yield replace(target.start, target.end, target.text, name)
    for name in dict.fromkeys(similar):
        places = [token for token in tokens if token.text == name]
        if len(places) == 1:
            yield replace(places[0].start, places[0].end, name, target.text)


def _name_set(tokens: list[Token]) -> set[str]:
    """Return the names among the given tokens."""
    return {token.text for token in tokens if token.kind == "name"}


def _argument_deletions(text: str, lines: list[tuple[int, int]]) -> Iterator[Change]:
    """Yield deletions of one argument or list item, in calls and lists within the given lines.

    `lines` are (start, end) offsets of lines.
    """
    for line in lines:
        tokens = code_tokens(text, *line)
        brackets: list[int] = []
        for number, token in enumerate(tokens):
            if token.text in "([":
                brackets.append(number)
            elif token.text in ")]" and brackets:
                begin = brackets.pop()
                yield from _item_deletions(text, tokens[begin : number + 1])


def _argument_insertions(text: str, problem: Diagnostic, span: Span, names: list[str]) -> Iterator[Change]:
    """Yield insertions of the argument that is missing according to the error message."""
    parameter = _NEEDS.search(problem.message)
    if parameter is None:
        return
    for call in re.finditer(r"\(", span.text):
        start = span.start + call.end()
        values = [parameter[1], *names, "1", "2", "3"] if parameter[1] in names else [*names, "1", "2", "3"]
        empty = text[start : start + 1] == ")"
        closing = _closing_bracket(text, start)
        for value in values[:30]:
            yield insert(start, value if empty else f"{value}, ")
            if not empty and closing is not None:
                yield insert(closing, f", {value}")
                yield insert(closing, f", {parameter[1]}={value}")
        break


def _closing_bracket(text: str, start: int) -> int | None:
    """Return the offset of the bracket that closes the one just before `start`.

    Returns None if it is more than 2,000 characters away.
    """
    depth = 1
    for token in code_tokens(text, start, min(len(text), start + 2_000)):
        depth += (token.text in "([{") - (token.text in ")]}")
        if depth == 0:
            return token.start
    return None


def _item_deletions(text: str, tokens: list[Token]) -> Iterator[Change]:
    """Yield deletions of one comma-separated item between brackets; items equal to their predecessor come first.

    `tokens` range from the opening to the closing bracket.
    """
    items, depth, begin = [], 0, 1
    for number, token in enumerate(tokens[1:], 1):
        depth += (token.text in "([{") - (token.text in ")]}")
        if (token.text == "," and depth == 0) or number == len(tokens) - 1:
            if number > begin:
                items.append((tokens[begin].start, tokens[number - 1].end))
            begin = number + 1
    if len(items) < 2:
        return
    repeated = [n for n in range(1, len(items)) if text[slice(*items[n])] == text[slice(*items[n - 1])]]
    for number in dict.fromkeys([*repeated, *range(len(items) - 1, 0, -1)]):
        yield drop(items[number - 1][1], items[number][1], text[slice(*items[number])])


def _number_replacements(
    text: str, problem: Diagnostic, lines: list[tuple[int, int]], source: Source
) -> Iterator[Change]:
    """Yield replacements of integers in the lines to which the error message points.

    Candidates are numbers within 8 of the old one, its half, and numbers in the message. The order prefers small
    changes, numbers divisible by high powers of two, and old numbers that the message mentions.
    """
    mentioned = [int(number) for number in re.findall(r"(?<![\w.])\d{1,9}(?![\w.])", problem.message)]
    literals: list[Token] = []
    for note in problem.notes:
        if note.span is not None and note.span.source.name == source.name and note.text.endswith("is written here"):
            literals.append(Token("number", note.span.text, note.span.start))
    for line in lines:
        literals += [token for token in code_tokens(text, *line) if token.kind == "number" and token.text.isdigit()]
    ranked: list[tuple[float, Token, int]] = []
    for order, token in enumerate(dict.fromkeys(literals)):
        value = int(token.text)
        for candidate in dict.fromkeys([*(value + step for step in _STEPS), value // 2, *mentioned]):
            if candidate > 0 and candidate != value and len(str(value)) < 10:
                is_mentioned = value in mentioned
                distance = abs(candidate - value) / (1 if candidate in range(value - 8, value + 9) else 8)
                ranked.append(
                    (min(distance, 12) - 2 * _roundness(candidate) - 6 * is_mentioned + order, token, candidate)
                )
    for _, token, candidate in sorted(ranked, key=lambda entry: entry[0]):
        yield replace(token.start, token.end, token.text, str(candidate))


def _roundness(value: int) -> int:
    """Return the exponent of the largest power of two that divides a positive number."""
    return (value & -value).bit_length() - 1


def _lines_of(source: Source, problem: Diagnostic) -> list[tuple[int, int]]:
    """Return (start, end) offsets of the lines of a file to which a diagnostic refers.

    These are the lines of its span, of the spans of its notes, and of calls listed in notes ("called at FILE:LINE:").
    """
    spans = [problem.span, *(note.span for note in problem.notes)]
    numbers = [span.line for span in spans if span is not None and span.source.name == source.name]
    called = rf"called at {re.escape(source.name)}:(\d+):"
    numbers += [int(line) for line in re.findall(called, "\n".join(note.text for note in problem.notes))]
    return [
        (source.line_starts[number - 1], source.line_starts[number - 1] + len(source.line(number)))
        for number in dict.fromkeys(numbers)
        if number <= len(source.line_starts)
    ]


def _token_changes(text: str, lines: list[tuple[int, int]]) -> Iterator[Change]:
    """Yield deletions of a token and swaps of two adjacent tokens, if the enclosing top-level item still parses.

    Only the first two of `lines`, (start, end) offsets, are tried.
    """
    for line in lines[:2]:
        tokens = code_tokens(text, *line)
        changes = []
        for first, second in pairwise(tokens):
            between = text[first.end : second.start]
            edits = ((first.start, second.end, f"{second.text}{between}{first.text}"),)
            changes.append(Change(f"swap `{first.text}` and `{second.text}`", edits))
        changes += [drop(token.start, token.end, token.text) for token in tokens]
        for change in distinct_changes(changes, text):
            changed = change.apply(text)
            begin, end = item_range(changed, line[0])
            if parsed_until(changed, begin, end) > end:
                yield change

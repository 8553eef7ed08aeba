"""Candidate fixes for syntax errors: delete, insert or swap tokens near the position where parsing stops."""

from __future__ import annotations

import re
from collections.abc import Iterator

from archir.diagnostics.errors import Diagnostic
from archir.language.syntax.recovery import item_range
from archir.language.syntax.strict_parse import parsed_until
from archir.tools.fixing.changes import Change, distinct_changes, drop, insert, replace
from archir.tools.lsp.lexer import KEYWORDS, Token, code_tokens

_INSERTED_SIGNS = (
    ",",
    ")",
    "(",
    "]",
    "[",
    "}",
    "{",
    "=",
    "|>",
    ":",
    ".",
    "=>",
    "..",
    "|",
    "+",
    "-",
    "*",
    "/",
    "==",
    "<=",
    '"',
)
"""Punctuation and operator tokens whose insertion is tried, the most likely first."""
_CLOSING_OF = {"(": ")", "[": "]", "{": "}"}
"""Closing bracket of each opening bracket."""
_TOKENS_BEFORE, _TOKENS_AFTER = 4, 2
"""Number of tokens before (_TOKENS_BEFORE) and after (_TOKENS_AFTER) an error at which changes are tried."""
_MAX_PARSED = 600
"""Maximum number of candidates per error that are parsed."""
_PLACEHOLDER = "x_"
"""Placeholder for any name in a candidate; if the candidate parses, it is replaced by each of the real names."""


def candidates(text: str, problem: Diagnostic, names: list[str]) -> list[Change]:
    """Return changes after which the top-level item with the error can be parsed, the most likely first.

    `names` are the names to try where a name is missing.
    """
    if problem.span is None:
        return []
    parseable, parses_left = [], _MAX_PARSED
    for change in distinct_changes(_changes(text, problem, parsed_until(text, 0, len(text))), text):
        parses_left -= 1
        if parses_left < 0:
            break
        changed = change.apply(text)
        if _parses(changed, change, text):
            parseable.append(change)
    changes = []
    for change in parseable:
        if any(_PLACEHOLDER in new for _, _, new in change.edits):
            changes += [_with_name(change, name) for name in names]
        else:
            changes.append(change)
    return changes


def _parses(changed: str, change: Change, text: str) -> bool:
    """Return whether the top-level item that contains the change parses in the text `changed`."""
    first_edit = min(start for start, _, _ in change.edits)
    begin, end = item_range(changed, min(first_edit, max(len(changed) - 1, 0)))
    return parsed_until(changed, begin, end) > end


def _with_name(change: Change, name: str) -> Change:
    """Return the change with its placeholder replaced by a name."""
    edits = tuple((start, end, new.replace(_PLACEHOLDER, name)) for start, end, new in change.edits)
    return Change(f"insert `{name}`", edits)


def _changes(text: str, problem: Diagnostic, stopped_at: int) -> Iterator[Change]:
    """Yield candidate changes near the error and near the offset `stopped_at`, the most likely first.

    `stopped_at` is where parsing stopped.
    """
    assert problem.span is not None
    places = [problem.span.start, stopped_at, *(note.span.start for note in problem.notes if note.span is not None)]
    tokens = code_tokens(text)
    numbers = []
    for place in dict.fromkeys(places):
        index = next((n for n, token in enumerate(tokens) if token.end > place), len(tokens))
        numbers += [n for n in range(index - _TOKENS_BEFORE, index + _TOKENS_AFTER + 1) if 0 <= n < len(tokens)]
    near = list(dict.fromkeys(numbers))
    yield from _direct(problem)
    yield from _deleted_repeats(text, tokens, near)
    yield from _misspelled(tokens, near)
    yield from _swapped(text, tokens, near)
    yield from _closing_brackets(text, problem)
    yield from _insertions(text, tokens, near, _INSERTED_SIGNS)
    for number in near:
        yield drop(tokens[number].start, tokens[number].end, tokens[number].text)
    yield from _insertions(text, tokens, near, ("\n", _PLACEHOLDER, *sorted(KEYWORDS)))
    for number in near:
        if number + 1 < len(tokens):
            yield Change(
                f"drop `{tokens[number].text}` and `{tokens[number + 1].text}`",
                ((tokens[number].start, tokens[number + 1].end, ""),),
            )


def _direct(problem: Diagnostic) -> Iterator[Change]:
    """Yield the fixes that a diagnostic suggests itself: its edit, or a missing comma."""
    if problem.edit is not None:
        span, new = problem.edit
        yield replace(span.start, span.end, span.text, new)
    if "comma missing" in (problem.hint or "") and problem.span is not None:
        before = problem.span.source.text[: problem.span.start].rstrip()
        yield insert(len(before), ",")


def _deleted_repeats(text: str, tokens: list[Token], near: list[int]) -> Iterator[Change]:
    """Yield deletions of a token, or a pair of tokens, that repeats the preceding one."""
    for number in near:
        for count in (1, 2):
            first, second = tokens[number : number + count], tokens[number + count : number + 2 * count]
            if [token.text for token in first] == [token.text for token in second]:
                yield drop(first[-1].end, second[-1].end, " ".join(token.text for token in second))


def _misspelled(tokens: list[Token], near: list[int]) -> Iterator[Change]:
    """Yield replacements of names by keywords of which they are probable misspellings."""
    for number in near:
        token = tokens[number]
        if token.kind == "name":
            for keyword in KEYWORDS:
                if _is_misspelling(token.text, keyword):
                    yield replace(token.start, token.end, token.text, keyword)


def _is_misspelling(word: str, keyword: str) -> bool:
    """Return whether two words differ by one inserted or deleted letter, or by two swapped letters."""
    if abs(len(word) - len(keyword)) > 1 or len(keyword) < 3:
        return False
    if sorted(word) == sorted(keyword):
        return sum(a != b for a, b in zip(word, keyword, strict=True)) == 2
    shorter, longer = sorted((word, keyword), key=len)
    return len(shorter) < len(longer) and any(longer[:n] + longer[n + 1 :] == shorter for n in range(len(longer)))


def _swapped(text: str, tokens: list[Token], near: list[int]) -> Iterator[Change]:
    """Yield swaps of two adjacent tokens."""
    for number in near:
        if number + 1 < len(tokens):
            first, second = tokens[number], tokens[number + 1]
            between = text[first.end : second.start]
            edits = ((first.start, second.end, f"{second.text}{between}{first.text}"),)
            yield Change(f"swap `{first.text}` and `{second.text}`", edits)


def _closing_brackets(text: str, problem: Diagnostic) -> Iterator[Change]:
    """Yield insertions of a closing bracket for the opening bracket at the error's position.

    A brace is closed after the lines that are indented more than its own line; for other brackets, closing is tried
    after each later token of the line.
    """
    span = problem.span
    assert span is not None
    if span.text not in _CLOSING_OF:
        return
    closing = _CLOSING_OF[span.text]
    begin = text.rfind("\n", 0, span.start) + 1
    indent = len(text[begin:]) - len(text[begin:].lstrip(" "))
    end = text.find("\n", span.start)
    end = len(text) if end < 0 else end
    if closing == "}":
        last_end = end
        for line in re.finditer(r"[^\n]*\n?", text[end + 1 :]):
            stripped = line[0].strip()
            if stripped and len(line[0]) - len(line[0].lstrip(" ")) <= indent:
                yield insert(last_end, f"\n{' ' * indent}}}")
                break
            if not line[0]:
                yield insert(len(text.rstrip()), f"\n{' ' * indent}}}")
                break
            if stripped:
                last_end = end + 1 + line.start() + len(line[0].rstrip())
        return
    line_text = text[:end].rstrip()
    for token in reversed(code_tokens(text, span.end, len(line_text))):
        yield insert(token.end, closing)


def _insertions(text: str, tokens: list[Token], near: list[int], new: tuple[str, ...]) -> Iterator[Change]:
    """Yield insertions of each text in `new` before the tokens `near`, last token first.

    If a token is the last one of its line, insertion after it is tried as well.
    """
    for text_to_insert in new:
        for number in sorted(near, key=lambda n: -tokens[n].start):
            token = tokens[number]
            if text_to_insert == "\n":
                line = text[text.rfind("\n", 0, token.start) + 1 : token.start]
                yield insert(token.start, "\n" + " " * (len(line) - len(line.lstrip(" "))))
                continue
            if text_to_insert == "," and number:
                before = tokens[number - 1].end
                yield insert(before, "," if text[before] in " \n" else ", ")
                continue
            padded = (
                f"{text_to_insert} "
                if text_to_insert[0].isalnum() or text_to_insert[0] not in "([.,)]"
                else text_to_insert
            )
            yield insert(token.start, padded)
            if number + 1 == len(tokens) or "\n" in text[token.end : tokens[number + 1].start]:
                yield insert(token.end, text_to_insert if text_to_insert in ",)]" else f" {text_to_insert}")

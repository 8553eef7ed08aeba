"""Lint rule for tags that look like misspellings of others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from archir.diagnostics.errors import Diagnostic, Span
from archir.diagnostics.hints import closest_name
from archir.language.elaboration.module import Module
from archir.language.elaboration.name_analysis import walk
from archir.language.syntax import ast

_MIN_SIMILARITY = 0.8
"""Minimum similarity (as in `difflib`) between a tag and its correction."""
COMMON_TAGS = ("operation", "width", "depth", "kernel", "heads", "expansion", "ratio", "edges", "attention", "layer")
"""Tags that are common in the example spaces."""
_MIN_LENGTH = 5
"""Minimum length of the shorter of two tags for one to count as a misspelling of the other."""
DIGITS = "0123456789"


def misspelled_tags(module: Module) -> Iterator[Diagnostic]:
    """A1411: warn about a tag that occurs once in a file and its imports, and looks like a misspelling.

    The correction is a similar tag that occurs more often, or an earlier or common tag that differs by a typical
    typo. Tags that differ only in digits are considered intentional.
    """
    places: dict[str, list[Span]] = defaultdict(list)
    for file in [module, *_imported(module, set())]:
        for tree in walk(file.tree):
            if isinstance(tree, ast.Choose):
                for tag, span in _tags_of(tree):
                    places[tag].append(span)
    frequent = [tag for tag, occurrences in places.items() if len(occurrences) > 1]
    for number, (tag, spans) in enumerate(places.items()):
        if len(spans) == 1 and spans[0].source is module.tree.span.source:
            correction, how = _closest(tag, frequent), "more often"
            if correction is None:
                correction, how = (
                    next((other for other in list(places)[:number] if _is_typo(tag, other)), None),
                    "before it",
                )
            if correction is None:
                correction, how = (
                    next((other for other in COMMON_TAGS if _is_typo(tag, other)), None),
                    "in other spaces",
                )
            if correction is not None:
                text, hint = f"the tag `@{tag}` is used once, `@{correction}` {how}", f"did you mean `@{correction}`?"
                yield Diagnostic("A1411", text, spans[0], hint, (), "warning")


def _is_typo(tag: str, other: str) -> bool:
    """Return True if two tags differ by a typical typo: two adjacent letters swapped, or one inner letter missing.

    Other differences are considered intentional: another letter (`@conv_w`, `@conv_h`), or one added at an end
    (`@width`, `@widths`).
    """
    shorter, longer = sorted((tag, other), key=len)
    if len(shorter) < _MIN_LENGTH or any(letter in DIGITS for letter in tag + other):
        return False
    if len(shorter) == len(longer):
        position = next((i for i, (a, b) in enumerate(zip(shorter, longer, strict=True)) if a != b), 0)
        return (
            shorter != longer
            and shorter[:position] + shorter[position : position + 2][::-1] + shorter[position + 2 :] == longer
        )
    return any(longer[:i] + longer[i + 1 :] == shorter for i in range(1, len(longer) - 1))


def _tags_of(tree: ast.Choose) -> Iterator[tuple[str, Span]]:
    """Yield (tag, span) for the tags of a choice, in source order."""
    source, end = tree.span.source, tree.span.start
    for tag in tree.tags:
        start = max(source.text.find(f"@{tag}", end), end)
        end = start + len(tag) + 1
        yield tag, Span(source, start, end)


def _imported(module: Module, seen: set[str]) -> Iterator[Module]:
    """Yield the modules that a module imports, directly or transitively, each once."""
    for other in module.imports:
        if other.path not in seen:
            seen.add(other.path)
            yield other
            yield from _imported(other, seen)


def _closest(tag: str, frequent: list[str]) -> str | None:
    """Return the tag in `frequent` most similar to `tag`; None if none is similar enough.

    Tags that differ from it only in trailing digits are not considered.
    """
    plain = tag.rstrip(DIGITS)
    return closest_name(tag, (other for other in frequent if other.rstrip(DIGITS) != plain), _MIN_SIMILARITY)

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
_MAX_LENGTH = 64
"""Maximum length of a tag that is compared with others."""
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
    earlier, common = _Typos(), _Typos()
    for tag in COMMON_TAGS:
        common.add(tag)
    frequent = [tag for tag, occurrences in places.items() if len(occurrences) > 1]
    for tag, spans in places.items():
        if len(spans) == 1 and spans[0].source is module.tree.span.source:
            correction, how = _closest(tag, frequent), "more often"
            if correction is None:
                correction, how = earlier.find(tag), "before it"
            if correction is None:
                correction, how = common.find(tag), "in other spaces"
            if correction is not None:
                text, hint = f"the tag `@{tag}` is used once, `@{correction}` {how}", f"did you mean `@{correction}`?"
                yield Diagnostic("A1411", text, spans[0], hint, (), "warning")
        earlier.add(tag)


class _Typos:
    """Tags among which a tag that differs by a typical typo is found without comparing it with each.

    Typical typos are two adjacent letters swapped, or one inner letter missing. Other differences are considered
    intentional: another letter (`@conv_w`, `@conv_h`), or one added at an end (`@width`, `@widths`). Tags with digits
    are left out, and so are very long ones.
    """

    def __init__(self) -> None:
        self._number: dict[str, int] = {}
        """The tags, numbered in order."""
        self._shortened: dict[str, str] = {}
        """The first tag that gives a text if an inner letter is left out."""

    def add(self, tag: str) -> None:
        """Add a tag."""
        if _is_comparable(tag):
            self._number.setdefault(tag, len(self._number))
            for shorter in _without_a_letter(tag):
                self._shortened.setdefault(shorter, tag)

    def find(self, tag: str) -> str | None:
        """Return the first tag from which `tag` differs by a typical typo; None if there is none."""
        if not _is_comparable(tag):
            return None
        variants = (*_without_a_letter(tag), *_with_letters_swapped(tag))
        similar = [variant for variant in variants if variant in self._number]
        if tag in self._shortened:
            similar.append(self._shortened[tag])
        return min(similar, key=self._number.__getitem__, default=None)


def _is_comparable(tag: str) -> bool:
    return _MIN_LENGTH <= len(tag) <= _MAX_LENGTH and not any(letter in DIGITS for letter in tag)


def _without_a_letter(tag: str) -> Iterator[str]:
    """Yield a tag without each of its inner letters."""
    yield from (tag[:i] + tag[i + 1 :] for i in range(1, len(tag) - 1))


def _with_letters_swapped(tag: str) -> Iterator[str]:
    """Yield a tag with each two adjacent letters swapped, except equal ones."""
    for i in range(len(tag) - 1):
        if tag[i] != tag[i + 1]:
            yield tag[:i] + tag[i + 1] + tag[i] + tag[i + 2 :]


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

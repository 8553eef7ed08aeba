"""Tags that look like others."""

from __future__ import annotations

import difflib
from collections import defaultdict
from collections.abc import Iterator

from archir.base.errors import Diagnostic, Span
from archir.language.elaboration.files import Module
from archir.language.elaboration.names.locals import walk
from archir.language.syntax import ast

_NEAR = 0.8


def lonely_tags(module: Module) -> Iterator[Diagnostic]:
    """A1411: a tag that is written once, in a file and what it imports, and nearly is another one.

    Tags that differ in their digits are meant to differ.
    """
    places: dict[str, list[Span]] = defaultdict(list)
    for file in [module, *_imported(module, set())]:
        for tree in walk(file.tree):
            if isinstance(tree, ast.Choose):
                for tag in tree.tags:
                    start = tree.span.start + max(tree.span.text.find(f"@{tag}"), 0)
                    places[tag].append(Span(tree.span.source, start, start + len(tag) + 1))
    for tag, spans in places.items():
        if len(spans) == 1 and spans[0].source is module.tree.span.source:
            near = _near(tag, [other for other, found in places.items() if len(found) > 1])
            if near is not None:
                text, hint = f"the tag `@{tag}` is written once, `@{near}` more often", f"did you mean `@{near}`?"
                yield Diagnostic("A1411", text, spans[0], hint, (), "warning")


def _imported(module: Module, seen: set[str]) -> Iterator[Module]:
    for other in module.imports:
        if other.path not in seen:
            seen.add(other.path)
            yield other
            yield from _imported(other, seen)


def _near(tag: str, others: list[str]) -> str | None:
    plain = tag.rstrip("0123456789")
    words = [other for other in others if other.rstrip("0123456789") != plain]
    return next(iter(difflib.get_close_matches(tag, words, 1, _NEAR)), None)

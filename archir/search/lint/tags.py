"""Tags that look like others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from archir.base.errors import Diagnostic, Span, nearest
from archir.language.elaboration.files import Module
from archir.language.elaboration.names.locals import walk
from archir.language.syntax import ast

_NEAR = 0.8
DIGITS = "0123456789"


def lonely_tags(module: Module) -> Iterator[Diagnostic]:
    """A1411: a tag that is written once, in a file and what it imports, and nearly is another one.

    Tags that differ in their digits are meant to differ.
    """
    places: dict[str, list[Span]] = defaultdict(list)
    for file in [module, *_imported(module, set())]:
        for tree in walk(file.tree):
            if isinstance(tree, ast.Choose):
                for tag, span in _written(tree):
                    places[tag].append(span)
    often = [tag for tag, found in places.items() if len(found) > 1]
    for tag, spans in places.items() if often else ():
        if len(spans) == 1 and spans[0].source is module.tree.span.source:
            near = _near(tag, often)
            if near is not None:
                text, hint = f"the tag `@{tag}` is written once, `@{near}` more often", f"did you mean `@{near}`?"
                yield Diagnostic("A1411", text, spans[0], hint, (), "warning")


def _written(tree: ast.Choose) -> Iterator[tuple[str, Span]]:
    """The tags of a choice, and where they are, one behind the other."""
    source, end = tree.span.source, tree.span.start
    for tag in tree.tags:
        start = max(source.text.find(f"@{tag}", end), end)
        end = start + len(tag) + 1
        yield tag, Span(source, start, end)


def _imported(module: Module, seen: set[str]) -> Iterator[Module]:
    for other in module.imports:
        if other.path not in seen:
            seen.add(other.path)
            yield other
            yield from _imported(other, seen)


def _near(tag: str, often: list[str]) -> str | None:
    plain = tag.rstrip(DIGITS)
    return nearest(tag, (other for other in often if other.rstrip(DIGITS) != plain), _NEAR)

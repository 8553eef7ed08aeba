"""Tags that look like others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from archir.diagnostics.errors import Diagnostic, Span, nearest
from archir.language.elaboration.files import Module
from archir.language.elaboration.locals import walk
from archir.language.syntax import ast

_NEAR = 0.8
USUAL = ("operation", "width", "depth", "kernel", "heads", "expansion", "ratio", "edges", "attention", "layer")
"""Tags of the examples."""
_SHORTEST = 5
"""Letters of tags that are compared where each is written once."""
DIGITS = "0123456789"


def lonely_tags(module: Module) -> Iterator[Diagnostic]:
    """A1411: a tag that is written once in a file and its imports, and nearly is another one: one that is written more
    often, or an earlier or usual one that it differs from by a slip of the keyboard.

    Tags that differ in their digits are meant to differ.
    """
    places: dict[str, list[Span]] = defaultdict(list)
    for file in [module, *_imported(module, set())]:
        for tree in walk(file.tree):
            if isinstance(tree, ast.Choose):
                for tag, span in _written(tree):
                    places[tag].append(span)
    often = [tag for tag, found in places.items() if len(found) > 1]
    for number, (tag, spans) in enumerate(places.items()):
        if len(spans) == 1 and spans[0].source is module.tree.span.source:
            near, how = _near(tag, often), "more often"
            if near is None:
                near, how = next((other for other in list(places)[:number] if _slip(tag, other)), None), "before it"
            if near is None:
                near, how = next((other for other in USUAL if _slip(tag, other)), None), "in other spaces"
            if near is not None:
                text, hint = f"the tag `@{tag}` is written once, `@{near}` {how}", f"did you mean `@{near}`?"
                yield Diagnostic("A1411", text, spans[0], hint, (), "warning")


def _slip(tag: str, other: str) -> bool:
    """Whether two tags differ by neighbouring letters that changed places, or by a letter inside that one lacks. Other
    letters, and longer or shorter ends, are rather meant: `@conv_w` and `@conv_h`, `@width` and `@widths`."""
    short, long = sorted((tag, other), key=len)
    if len(short) < _SHORTEST or any(one in DIGITS for one in tag + other):
        return False
    if len(short) == len(long):
        at = next((i for i, (a, b) in enumerate(zip(short, long, strict=True)) if a != b), 0)
        return short != long and short[:at] + short[at : at + 2][::-1] + short[at + 2 :] == long
    return any(long[:i] + long[i + 1 :] == short for i in range(1, len(long) - 1))


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

"""Pictures opened to a fixed depth, for formats with a layout engine of their own: groups, and edges between visible
boxes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from archir.pictures.outline import Box, Outline


@dataclass(frozen=True, slots=True)
class FlatPicture:
    """An outline with some boxes open. Edges connect visible closed boxes, each pair once."""

    root: Box
    opened: frozenset[int]
    edges: tuple[tuple[int, int], ...]


def flatten(outline: Outline, depth: int) -> FlatPicture:
    """Return an outline with its outermost `depth` levels open."""
    opened = outline.opened(depth)
    visible = dict(_visible(outline.root, opened))
    pairs = ((visible[source], visible[target]) for source, target in outline.leaf_edges)
    return FlatPicture(outline.root, opened, tuple(dict.fromkeys((a, b) for a, b in pairs if a != b)))


def _visible(box: Box, opened: frozenset[int]) -> Iterator[tuple[int, int]]:
    """Yield, for each box inside of a box, its number and the number of the closed box that shows it."""
    if box.number in opened:
        for part in box.parts:
            yield from _visible(part, opened)
    else:
        for inner in box.walk():
            yield inner.number, box.number

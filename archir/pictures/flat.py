"""Pictures expanded to a fixed depth, for formats that have a layout engine: groups, and edges between visible
boxes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from archir.pictures.outline import Box, Outline


@dataclass(frozen=True, slots=True)
class FlatPicture:
    """Outline with the boxes in `opened` expanded. Edges connect collapsed visible boxes, at most one per pair and
    direction."""

    root: Box
    opened: frozenset[int]
    edges: tuple[tuple[int, int], ...]


def flatten(outline: Outline, depth: int) -> FlatPicture:
    """Expand the outermost `depth` levels of an outline."""
    opened = outline.opened(depth)
    visible = dict(_visible(outline.root, opened))
    pairs = ((visible[source], visible[target]) for source, target in outline.leaf_edges)
    return FlatPicture(outline.root, opened, tuple(dict.fromkeys((a, b) for a, b in pairs if a != b)))


def _visible(box: Box, opened: frozenset[int]) -> Iterator[tuple[int, int]]:
    """Yield, for a box and each box inside it, the box's number and the number of the box that represents it.

    A box is represented by the visible, collapsed box that contains it, which may be the box itself.
    """
    if box.number in opened:
        for part in box.parts:
            yield from _visible(part, opened)
    else:
        for inner in box.walk():
            yield inner.number, box.number

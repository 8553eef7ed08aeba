"""A picture to a fixed depth, for formats that others lay out: nested groups, and edges between what is seen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from archir.pictures.outline import Box, Outline


@dataclass(frozen=True, slots=True)
class Flat:
    """An outline of which some boxes are open. Edges lead between boxes that are not, each pair once."""

    root: Box
    opened: frozenset[int]
    edges: tuple[tuple[int, int], ...]


def flat(outline: Outline, depth: int) -> Flat:
    """An outline with its outermost `depth` levels shown."""
    opened = outline.opened(depth)
    seen = dict(_seen(outline.root, opened))
    ends = ((seen[source], seen[target]) for source, target in outline.wires)
    return Flat(outline.root, opened, tuple(dict.fromkeys((a, b) for a, b in ends if a != b)))


def _seen(box: Box, opened: frozenset[int]) -> Iterator[tuple[int, int]]:
    """Each box without parts, and the box that is seen where it is."""
    if box.number in opened:
        for part in box.parts:
            yield from _seen(part, opened)
    else:
        for inner in box.walk():
            yield inner.number, box.number

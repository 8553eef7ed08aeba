"""Layout: coordinates of the parts of every open box, and of the edges between them.

Every box lays out its own parts, independently of its surroundings, in the order that `archir.pictures.order` computes.
`page.js` repeats this layout in the browser when boxes are opened or closed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from archir.pictures.labels import width
from archir.pictures.order import Plan, plan
from archir.pictures.outline import Box

TITLE, LINE, SMALL = 13.0, 15.0, 11.0
"""Font size of titles, height of further lines, and font size of these, in pixels."""
HEADER, PAD, GAP, LANE = 26.0, 16.0, 22.0, 14.0
"""Height of the title band of an open box; padding inside of its border; gap between boxes; gap between passing
edges."""
SWEEPS, WORK = 24, 200_000
"""Maximum number of passes that improve positions, and of slots visited by all passes together; large graphs get few
passes."""
PULL = (1.0, 0.001, 4.0)
"""Strength with which connected slots attract each other: two parts; a part and a passing edge; two passing edges.

Parts that directly follow each other are aligned, and edges that pass them are straight.
"""


Offset = Callable[[int, int], float]
"""Function that returns how far from the middle of a slot a tensor enters or leaves it."""


@dataclass(frozen=True, slots=True)
class Sheet:
    """A laid out box: its size, the corners of its parts, its edges, and the x positions where tensors enter and leave
    it.

    Coordinates are relative to the upper left corner.
    """

    width: float
    height: float
    corners: tuple[tuple[float, float], ...] = ()
    edges: tuple[Edge, ...] = ()
    entries: Mapping[int, float] | None = None
    exits: Mapping[int, float] | None = None


@dataclass(frozen=True, slots=True)
class Edge:
    """A segment: vertical from (x0, y0) down to `leave`, across to x1 at `arrive`, vertical down to y1."""

    x0: float
    y0: float
    leave: float
    arrive: float
    x1: float
    y1: float
    tensor: int
    source: int
    target: int


def closed_size(box: Box) -> tuple[float, float]:
    """Return width and height of a closed box, in whole pixels."""
    widest = max([width(box.title, TITLE, bold=True), *(width(line, SMALL) for line in box.lines)])
    padding = 44 if box.parts else 28
    return float(max(84, int(widest + padding))), 13 + TITLE + LINE * len(box.lines) + 6


def header_width(box: Box) -> float:
    """Return the minimum width of an open box, which its title needs."""
    return float(int(width(box.title, TITLE, bold=True) + width(box.header, SMALL) + 60))


def place(box: Box, opened: frozenset[int], plans: dict[int, Plan]) -> dict[int, Sheet]:
    """Return the layout of a box and of all visible boxes inside of it, by number. `plans` caches the order of
    parts."""
    sheets_: dict[int, Sheet] = {}
    if box.number not in opened:
        sheets_[box.number] = Sheet(*closed_size(box))
        return sheets_
    for part in box.parts:
        sheets_.update(place(part, opened, plans))
    if box.number not in plans:
        plans[box.number] = plan(box)
    sheets = [sheets_[part.number] for part in box.parts]
    sheets_[box.number] = _arrange(plans[box.number], sheets, header_width(box))
    return sheets_


def _arrange(order: Plan, sheets: Sequence[Sheet], least: float) -> Sheet:
    """Return the layout of an open box from the order and the layouts of its parts, at least `least` wide."""

    def size(slot: int) -> float:
        return sheets[order.parts[slot]].width if order.parts[slot] >= 0 else 0.0

    def enters(slot: int, tensor: int) -> float:
        sheet = sheets[order.parts[slot]] if order.parts[slot] >= 0 else None
        return 0.0 if sheet is None or sheet.entries is None else sheet.entries[tensor] - sheet.width / 2

    def leaves(slot: int, tensor: int) -> float:
        sheet = sheets[order.parts[slot]] if order.parts[slot] >= 0 else None
        return 0.0 if sheet is None or sheet.exits is None else sheet.exits[tensor] - sheet.width / 2

    middles = _slot_middles(order, [size(slot) for slot in range(len(order.parts))], enters, leaves)
    edges_at = [(middles[slot] - size(slot) / 2, middles[slot] + size(slot) / 2) for slot in range(len(order.parts))]
    left = min((edge[0] for edge in edges_at), default=0.0)
    content = max((edge[1] for edge in edges_at), default=0.0) - left
    total_width = max(least, content + 2 * PAD)
    shift = (total_width - content) / 2 - left
    middles = [middle + shift for middle in middles]

    tops, bottoms = _row_bounds(order, sheets, middles)
    corners = [(0.0, 0.0)] * len(sheets)
    for row, slots in enumerate(order.rows):
        for slot in slots:
            if order.parts[slot] >= 0:
                corners[order.parts[slot]] = (middles[slot] - size(slot) / 2, tops[row])
    edges = []
    for row, upper, lower, tensor in order.segments:
        above, under = order.parts[upper], order.parts[lower]
        start = tops[row] + (sheets[above].height if above >= 0 else 0.0)
        x0, x1 = middles[upper] + leaves(upper, tensor), middles[lower] + enters(lower, tensor)
        edges.append(Edge(x0, start, bottoms[row], tops[row + 1], x1, tops[row + 1], tensor, above, under))
    entries = {order.tensors[slot]: middles[slot] for slot in order.rows[0]}
    exits = {order.tensors[slot]: middles[slot] for slot in order.rows[-1]}
    return Sheet(total_width, bottoms[-1], tuple(corners), tuple(edges), entries, exits)


def _row_bounds(order: Plan, sheets: Sequence[Sheet], middles: Sequence[float]) -> tuple[list[float], list[float]]:
    """Return the top and bottom of each row: as high as its highest part, with larger gaps where edges go far
    sideways."""
    sideways = [0.0] * len(order.rows)
    for row, upper, lower, _ in order.segments:
        sideways[row] = max(sideways[row], abs(middles[upper] - middles[lower]))
    tops, bottoms, y = [], [], HEADER
    last = len(order.rows) - 1
    for row, slots in enumerate(order.rows):
        heights = [sheets[order.parts[slot]].height for slot in slots if order.parts[slot] >= 0]
        tops.append(y)
        y += max(heights, default=0.0)
        bottoms.append(y)
        if row < last:
            is_outer = row == 0 or row == last - 1
            y += (18.0 if is_outer else 28.0) + min(60.0, sideways[row] / 12)
    return tops, bottoms


def _slot_middles(order: Plan, sizes: Sequence[float], enters: Offset, leaves: Offset) -> list[float]:
    """Return the x position of each slot's middle: as near to its neighbours above and below as the order of its row
    allows."""
    middles = [0.0] * len(sizes)
    above: list[list[tuple[int, float, float]]] = [[] for _ in sizes]
    below: list[list[tuple[int, float, float]]] = [[] for _ in sizes]
    for _, upper, lower, tensor in order.segments:
        offset = leaves(upper, tensor) - enters(lower, tensor)
        pull = PULL[(order.parts[upper] < 0) + (order.parts[lower] < 0)]
        above[lower].append((upper, offset, pull))
        below[upper].append((lower, -offset, pull))
    distances = [_min_distances(order, sizes, row) for row in order.rows]
    for row, between in zip(order.rows, distances, strict=True):
        x = -sum(between) / 2
        for slot, step in zip(row, [0.0, *between], strict=False):
            x += step
            middles[slot] = x
    neighbours_of = [[*a, *b] for a, b in zip(above, below, strict=True)]
    count = len(order.rows)
    for sweep in range(max(4, min(SWEEPS, WORK // len(sizes)))):
        for i in range(count) if sweep % 2 == 0 else range(count - 1, -1, -1):
            targets, weights = [], []
            for slot in order.rows[i]:
                neighbours = above[slot] if sweep == 0 else below[slot] if sweep == 1 else neighbours_of[slot]
                total, weight = 0.0, 0.0
                for other, offset, pull in neighbours:
                    total += pull * (middles[other] + offset)
                    weight += pull
                targets.append(total / weight if neighbours else middles[slot])
                weights.append(weight if neighbours else 0.01)
            for slot, x in zip(order.rows[i], _spread(targets, weights, distances[i]), strict=True):
                middles[slot] = x
    if len(order.rows[0]) == len(order.rows[-1]) == 1:
        middles[order.rows[0][0]] = middles[order.rows[-1][0]]  # so that boxes in a chain are exactly aligned
    return middles


def _min_distances(order: Plan, sizes: Sequence[float], row: Sequence[int]) -> list[float]:
    """Return the minimum distances between the middles of neighbouring slots of a row."""
    return [
        (sizes[a] + sizes[b]) / 2 + (GAP if order.parts[a] >= 0 and order.parts[b] >= 0 else LANE)
        for a, b in pairwise(row)
    ]


def _spread(targets: Sequence[float], weights: Sequence[float], distances: Sequence[float]) -> list[float]:
    """Return the positions nearest to the targets, by weighted squares, that keep the order and minimum distances of
    slots.

    After subtracting the distances this is isotonic regression, solved by pooling adjacent violators.
    """
    pools: list[tuple[float, float, int]] = []
    offset = 0.0
    for i, (target, weight) in enumerate(zip(targets, weights, strict=True)):
        offset += distances[i - 1] if i else 0.0
        x, count = target - offset, 1
        while pools and pools[-1][0] > x:
            previous, previous_weight, size = pools.pop()
            x = (x * weight + previous * previous_weight) / (weight + previous_weight)
            weight, count = weight + previous_weight, count + size
        pools.append((x, weight, count))
    places: list[float] = []
    offset = 0.0
    for x, _, count in pools:
        for _ in range(count):
            offset += distances[len(places) - 1] if places else 0.0
            places.append(x + offset)
    return places

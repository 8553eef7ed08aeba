"""Where boxes stand: coordinates of the parts of every box that shows them, and of the edges between them.

Every box lays out its own parts, whatever surrounds it, in the order that `archir.pictures.order` found. `page.js` does
the same anew when boxes open and close.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from archir.pictures.labels import width
from archir.pictures.order import Plan, plan
from archir.pictures.outline import Box

TITLE, LINE, SMALL = 13.0, 15.0, 11.0
"""Size of titles, height of further lines, and their size."""
HEADER, PAD, GAP, LANE = 26.0, 16.0, 22.0, 14.0
"""Height of the band with an open box's title; room inside its border; between boxes; between edges that pass them."""
SWEEPS, WORK = 24, 200_000
"""How often places are improved, and how many of them at most; large graphs make do with a few rounds."""
PULL = (1.0, 0.001, 4.0)
"""How strongly slots that are joined draw near: parts; a part and an edge that passes parts by; two such edges.

What follows directly stands in one line, and edges around it are straight.
"""


Offset = Callable[[int, int], float]
"""How far from the middle of a slot a tensor enters or leaves it."""


@dataclass(frozen=True, slots=True)
class Sheet:
    """A laid out box: its size, where its parts stand, its edges, and where edges enter and leave it.

    Everything is relative to the left upper corner. An edge is a list of points: straight down, then aside, and so on.
    """

    width: float
    height: float
    corners: tuple[tuple[float, float], ...] = ()
    edges: tuple[Edge, ...] = ()
    entries: Mapping[int, float] | None = None
    exits: Mapping[int, float] | None = None


@dataclass(frozen=True, slots=True)
class Edge:
    """One segment: from (x0, y0) straight to `leave`, across to x1 at `arrive`, straight to y1."""

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
    """Width and height of a box that shows no parts, in whole pixels."""
    widest = max([width(box.title, TITLE, bold=True), *(width(line, SMALL) for line in box.lines)])
    room = 44 if box.parts else 28
    return float(max(84, int(widest + room))), 13 + TITLE + LINE * len(box.lines) + 6


def header_width(box: Box) -> float:
    """The least width of a box that shows its parts: that of its title."""
    return float(int(width(box.title, TITLE, bold=True) + width(box.header, SMALL) + 60))


def place(box: Box, opened: frozenset[int], plans: dict[int, Plan]) -> dict[int, Sheet]:
    """The sheets of a box and of all that is seen of its parts, by number. `plans` keeps what was planned."""
    found: dict[int, Sheet] = {}
    if box.number not in opened:
        found[box.number] = Sheet(*closed_size(box))
        return found
    for part in box.parts:
        found.update(place(part, opened, plans))
    if box.number not in plans:
        plans[box.number] = plan(box)
    sheets = [found[part.number] for part in box.parts]
    found[box.number] = _arrange(plans[box.number], sheets, header_width(box))
    return found


def _arrange(order: Plan, sheets: Sequence[Sheet], least: float) -> Sheet:
    def size(slot: int) -> float:
        return sheets[order.parts[slot]].width if order.parts[slot] >= 0 else 0.0

    def enters(slot: int, tensor: int) -> float:
        sheet = sheets[order.parts[slot]] if order.parts[slot] >= 0 else None
        return 0.0 if sheet is None or sheet.entries is None else sheet.entries[tensor] - sheet.width / 2

    def leaves(slot: int, tensor: int) -> float:
        sheet = sheets[order.parts[slot]] if order.parts[slot] >= 0 else None
        return 0.0 if sheet is None or sheet.exits is None else sheet.exits[tensor] - sheet.width / 2

    middles = _columns(order, [size(slot) for slot in range(len(order.parts))], enters, leaves)
    edges_at = [(middles[slot] - size(slot) / 2, middles[slot] + size(slot) / 2) for slot in range(len(order.parts))]
    left = min((edge[0] for edge in edges_at), default=0.0)
    content = max((edge[1] for edge in edges_at), default=0.0) - left
    whole = max(least, content + 2 * PAD)
    shift = (whole - content) / 2 - left
    middles = [middle + shift for middle in middles]

    tops, bottoms = _lines(order, sheets, middles)
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
    return Sheet(whole, bottoms[-1], tuple(corners), tuple(edges), entries, exits)


def _lines(order: Plan, sheets: Sequence[Sheet], middles: Sequence[float]) -> tuple[list[float], list[float]]:
    """Upper and lower end of each row: as high as its highest part, and more room where edges go far aside."""
    aside = [0.0] * len(order.rows)
    for row, upper, lower, _ in order.segments:
        aside[row] = max(aside[row], abs(middles[upper] - middles[lower]))
    tops, bottoms, y = [], [], HEADER
    last = len(order.rows) - 1
    for row, slots in enumerate(order.rows):
        heights = [sheets[order.parts[slot]].height for slot in slots if order.parts[slot] >= 0]
        tops.append(y)
        y += max(heights, default=0.0)
        bottoms.append(y)
        if row < last:
            near = row == 0 or row == last - 1
            y += (18.0 if near else 28.0) + min(60.0, aside[row] / 12)
    return tops, bottoms


def _columns(order: Plan, sizes: Sequence[float], enters: Offset, leaves: Offset) -> list[float]:
    """The middle of each slot: as near to its neighbours above and below as the order of its row allows."""
    middles = [0.0] * len(sizes)
    above: list[list[tuple[int, float, float]]] = [[] for _ in sizes]
    below: list[list[tuple[int, float, float]]] = [[] for _ in sizes]
    for _, upper, lower, tensor in order.segments:
        offset = leaves(upper, tensor) - enters(lower, tensor)
        pull = PULL[(order.parts[upper] < 0) + (order.parts[lower] < 0)]
        above[lower].append((upper, offset, pull))
        below[upper].append((lower, -offset, pull))
    room = [_room(order, sizes, row) for row in order.rows]
    for row, between in zip(order.rows, room, strict=True):
        x = -sum(between) / 2
        for slot, step in zip(row, [0.0, *between], strict=False):
            x += step
            middles[slot] = x
    both = [[*a, *b] for a, b in zip(above, below, strict=True)]
    count = len(order.rows)
    for sweep in range(max(4, min(SWEEPS, WORK // len(sizes)))):
        for i in range(count) if sweep % 2 == 0 else range(count - 1, -1, -1):
            wanted, weights = [], []
            for slot in order.rows[i]:
                near = above[slot] if sweep == 0 else below[slot] if sweep == 1 else both[slot]
                total, weight = 0.0, 0.0
                for other, offset, pull in near:
                    total += pull * (middles[other] + offset)
                    weight += pull
                wanted.append(total / weight if near else middles[slot])
                weights.append(weight if near else 0.01)
            for slot, x in zip(order.rows[i], _spread(wanted, weights, room[i]), strict=True):
                middles[slot] = x
    if len(order.rows[0]) == len(order.rows[-1]) == 1:
        middles[order.rows[0][0]] = middles[order.rows[-1][0]]  # so that boxes in a line stand right below each other
    return middles


def _room(order: Plan, sizes: Sequence[float], row: Sequence[int]) -> list[float]:
    """The least distances between the middles of neighbours."""
    return [
        (sizes[a] + sizes[b]) / 2 + (GAP if order.parts[a] >= 0 and order.parts[b] >= 0 else LANE)
        for a, b in pairwise(row)
    ]


def _spread(wanted: Sequence[float], weights: Sequence[float], room: Sequence[float]) -> list[float]:
    """The places nearest to those wanted, by weighted squares, that keep the order and the room between neighbours.

    Without the room this is isotonic regression, which pooling adjacent violators solves.
    """
    pools: list[tuple[float, float, int]] = []
    passed = 0.0
    for i, (want, weight) in enumerate(zip(wanted, weights, strict=True)):
        passed += room[i - 1] if i else 0.0
        x, count = want - passed, 1
        while pools and pools[-1][0] > x:
            other, heavy, many = pools.pop()
            x = (x * weight + other * heavy) / (weight + heavy)
            weight, count = weight + heavy, count + many
        pools.append((x, weight, count))
    places: list[float] = []
    passed = 0.0
    for x, _, count in pools:
        for _ in range(count):
            passed += room[len(places) - 1] if places else 0.0
            places.append(x + passed)
    return places

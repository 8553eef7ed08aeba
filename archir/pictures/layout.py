"""Layout: the order of the parts of a box in rows, and coordinates of all boxes and edges.

Rows go from top to bottom, with few edge crossings (layered graph drawing). The order does not depend on box sizes, so
that it is computed once, whichever boxes are expanded. Each box lays out its own parts, independently of its
surroundings. `page.js` repeats this in the browser when a box is expanded or collapsed, with the orders computed here.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

from archir.pictures.labels import width
from archir.pictures.outline import Box

_ORDER_SWEEPS = 6
"""Maximum number of crossing-reduction passes over the rows."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Order of the parts of a box: slots in rows, and edge segments between slots of adjacent rows.

    A slot holds a part or, with part -1, an edge passing through the row. The first row holds the tensors that
    enter the box, the last row those that leave it. A segment is (row of the upper slot, upper slot, lower slot,
    tensor).
    """

    parts: tuple[int, ...]
    tensors: tuple[int, ...]
    rows: tuple[tuple[int, ...], ...]
    segments: tuple[tuple[int, int, int, int], ...]


def plan(box: Box) -> Plan:
    """Assign the parts of a box to rows and order each row.

    Rows are longest-path layers. Crossings are reduced with the barycentre heuristic: each row is sorted by the
    mean position of its neighbours.
    """
    rank = _ranks(box)
    last = max(rank, default=-1) + 2
    parts: list[int] = list(range(len(box.parts)))
    tensors = [-1] * len(parts)
    rows: list[list[int]] = [[] for _ in range(last + 1)]
    for part, row in enumerate(rank):
        rows[row + 1].append(part)

    def slot(row: int, tensor: int) -> int:
        parts.append(-1)
        tensors.append(tensor)
        rows[row].append(len(parts) - 1)
        return len(parts) - 1

    entries: dict[int, int] = {}
    exits: dict[int, int] = {}
    chains: dict[tuple[int | None, int], list[int]] = {}
    segments: dict[tuple[int, int, int, int], None] = {}
    for source, target, tensor in box.links:
        if source is None and tensor not in entries:
            entries[tensor] = slot(0, tensor)
        if target is None and tensor not in exits:
            exits[tensor] = slot(last, tensor)
        start = entries[tensor] if source is None else source
        row = 0 if source is None else rank[source] + 1
        end_row = last if target is None else rank[target] + 1
        chain = chains.setdefault((source, tensor), [start])
        while row + len(chain) < end_row:
            chain.append(slot(row + len(chain), tensor))
        for i, (upper, lower) in enumerate(pairwise(chain[: end_row - row])):
            segments[row + i, upper, lower, tensor] = None
        end = exits[tensor] if target is None else target
        segments[end_row - 1, chain[end_row - row - 1], end, tensor] = None
    ordered = _ordered(rows, sorted(segments))
    return Plan(tuple(parts), tuple(tensors), tuple(map(tuple, ordered)), tuple(sorted(segments)))


def _ranks(box: Box) -> list[int]:
    """Return the row of each part (longest-path layering); parts without inputs are put just above their first
    reader."""
    count = len(box.parts)
    above: list[set[int]] = [set() for _ in range(count)]
    below: list[set[int]] = [set() for _ in range(count)]
    fed = [False] * count
    for source, target, _ in box.links:
        if source is not None and target is not None:
            above[target].add(source)
            below[source].add(target)
        elif target is not None:
            fed[target] = True
    rank = [0] * count
    waiting = [len(parts) for parts in above]
    ready = [part for part in range(count) if not waiting[part]]
    for part in ready:
        for lower in below[part]:
            rank[lower] = max(rank[lower], rank[part] + 1)
            waiting[lower] -= 1
            if not waiting[lower]:
                ready.append(lower)
    for part in range(count):
        if not above[part] and not fed[part] and below[part]:
            rank[part] = max(0, min(rank[lower] for lower in below[part]) - 1)
    return rank


def _ordered(rows: list[list[int]], segments: Sequence[tuple[int, int, int, int]]) -> list[list[int]]:
    """Reorder each row in repeated sweeps; return the order with the fewest crossings."""
    above: dict[int, list[int]] = {}
    below: dict[int, list[int]] = {}
    for _, upper, lower, _ in segments:
        below.setdefault(upper, []).append(lower)
        above.setdefault(lower, []).append(upper)
    best, fewest = rows, _crossings(rows, below)
    for sweep in range(_ORDER_SWEEPS):
        if not fewest:
            break
        down = sweep % 2 == 0
        rows = [list(row) for row in rows]
        for i in range(1, len(rows)) if down else range(len(rows) - 2, -1, -1):
            positions = {slot: k for k, slot in enumerate(rows[i - 1 if down else i + 1])}
            connected = {slot: [positions[n] for n in (above if down else below).get(slot, [])] for slot in rows[i]}
            means = {slot: fmean(connected[slot] or [k]) for k, slot in enumerate(rows[i])}
            rows[i].sort(key=lambda slot: means[slot])
        crossings = _crossings(rows, below)
        if crossings < fewest:
            best, fewest = rows, crossings
    return best


def _crossings(rows: list[list[int]], below: dict[int, list[int]]) -> int:
    count = 0
    for upper, lower in pairwise(rows):
        place = {slot: k for k, slot in enumerate(lower)}
        seen: list[int] = []
        for slot in upper:
            targets = sorted(place[target] for target in below.get(slot, []))
            count += sum(len(seen) - bisect_right(seen, target) for target in targets)
            for target in targets:
                insort(seen, target)
    return count


TITLE, LINE, SMALL = 13.0, 15.0, 11.0
"""Font size of titles; line height and font size of the other text lines. In pixels."""
HEADER, PAD, GAP, LANE = 26.0, 16.0, 22.0, 14.0
"""In pixels: height of the title band of an expanded box; padding inside its border; gap between boxes; gap next
to an edge that passes through a row."""
SWEEPS, WORK = 24, 200_000
"""Maximum number of position-improving passes, and of slot visits in all passes together, so that large graphs
get fewer passes."""
PULL = (1.0, 0.001, 4.0)
"""Strength of attraction between connected slots: two parts; a part and a passing edge; two passing edges.

The attraction aligns parts that directly follow each other, and straightens edges that pass through rows.
"""


Offset = Callable[[int, int], float]
"""Maps (slot, tensor) to the horizontal distance from the slot's centre at which the tensor enters or leaves it."""


@dataclass(frozen=True, slots=True)
class Sheet:
    """Layout of a box: size, top left corners of its parts, edges, and x coordinates at which tensors enter and
    leave.

    Coordinates are relative to the top left corner of the box.
    """

    width: float
    height: float
    corners: tuple[tuple[float, float], ...] = ()
    edges: tuple[Edge, ...] = ()
    entries: Mapping[int, float] | None = None
    exits: Mapping[int, float] | None = None


@dataclass(frozen=True, slots=True)
class Edge:
    """Edge segment between two rows: vertical from (x0, y0) to y = `leave`, then across to x1 at y = `arrive`, then
    vertical to y1."""

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
    """Return the width and height of a collapsed box in whole pixels."""
    widest = max([width(box.title, TITLE, bold=True), *(width(line, SMALL) for line in box.lines)])
    padding = 44 if box.parts else 28
    return float(max(84, int(widest + padding))), 13 + TITLE + LINE * len(box.lines) + 6


def header_width(box: Box) -> float:
    """Return the minimum width in pixels of an expanded box, given by its title and header text."""
    return float(int(width(box.title, TITLE, bold=True) + width(box.header, SMALL) + 60))


def place(box: Box, opened: frozenset[int]) -> dict[int, Sheet]:
    """Lay out a box and all visible boxes inside it; return the layouts by box number."""
    if box.number not in opened:
        return {box.number: Sheet(*closed_size(box))}
    sheets: dict[int, Sheet] = {}
    for part in box.parts:
        sheets.update(place(part, opened))
    inner = [sheets[part.number] for part in box.parts]
    sheets[box.number] = _arrange(plan(box), inner, header_width(box))
    return sheets


def _arrange(order: Plan, sheets: Sequence[Sheet], least: float) -> Sheet:
    """Lay out an expanded box, given the order and the layouts of its parts; its width is at least `least` pixels."""

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
    """Return the top and bottom y of each row. Rows are as high as their highest part; gaps grow with horizontal
    edge length."""
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
    """Return the x coordinate of each slot's centre, as close to connected slots as the order within its row allows."""
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
    return [
        (sizes[a] + sizes[b]) / 2 + (GAP if order.parts[a] >= 0 and order.parts[b] >= 0 else LANE)
        for a, b in pairwise(row)
    ]


def _spread(targets: Sequence[float], weights: Sequence[float], distances: Sequence[float]) -> list[float]:
    """Return the slot positions that are closest to the targets and keep the order and the minimum distances.

    Closeness is measured by the weighted sum of squared distances. After the minimum distances are subtracted, the
    problem is isotonic regression, which the pool-adjacent-violators algorithm solves.
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

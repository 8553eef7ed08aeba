"""Layout: the order of the parts of a box in rows, and coordinates of all boxes and edges.

Rows go from top to bottom, with few edge crossings (layered graph drawing). The order does not depend on box sizes, so
that it is computed once, whichever boxes are expanded. Each box lays out its own parts, independently of its
surroundings. `page.js` repeats this in the browser when a box is expanded or collapsed, with the orders computed here.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate, pairwise
from math import ceil, inf
from random import Random
from statistics import fmean

from archir.pictures.labels import width
from archir.pictures.outline import Box, Link

_ORDER_SWEEPS = 16
"""Maximum number of crossing-reduction passes over the rows."""
_ATTEMPTS, _MAX_SHUFFLED = 12, 60
"""Number of orders from which the passes start, and maximum number of slots for which it is more than two."""
_MAX_SWAPPED = 400
"""Maximum number of slots for which crossings are also reduced by swapping neighbours."""
_PORT, _PORTS = 14.0, 60.0
"""Maximum distance in pixels between two edges at one side of a box, and of the outermost of them together."""


Segment = tuple[int, int, int, int]
"""Part of an edge: (row of the upper slot, upper slot, lower slot, tensor)."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Order of the parts of a box: slots in rows, and edge segments between slots of adjacent rows.

    A slot holds a part or, with part -1, an edge passing through the row. The first row holds the tensors that
    enter the box, the last row those that leave it. A segment is (row of the upper slot, upper slot, lower slot,
    tensor, port of the upper slot, port of the lower slot); a port is the distance in pixels from the centre of a
    collapsed box. Parts in the `margin` are in no row.
    """

    parts: tuple[int, ...]
    tensors: tuple[int, ...]
    rows: tuple[tuple[int, ...], ...]
    segments: tuple[tuple[int, int, int, int, float, float], ...]
    margin: tuple[int, ...]


def plan(box: Box) -> Plan:
    """Assign the parts of a box to rows and order each row."""
    order, names = numbered_plan(box)
    return replace(
        order,
        tensors=tuple(-1 if tensor < 0 else names[tensor] for tensor in order.tensors),
        segments=tuple((*segment[:3], names[segment[3]], *segment[4:]) for segment in order.segments),
    )


def numbered_plan(box: Box) -> tuple[Plan, list[int]]:
    """Return the plan of a box with its tensors numbered from 0, and the tensors in this order: first those that enter
    or leave the box. Boxes that look the same have the same plan."""
    crossing = dict.fromkeys(tensor for source, target, tensor in box.links if source is None or target is None)
    names = list(crossing | dict.fromkeys(tensor for _, _, tensor in box.links))
    number = {tensor: i for i, tensor in enumerate(names)}
    links = tuple((source, target, number[tensor]) for source, target, tensor in box.links)
    return _plan(tuple(part.is_beside for part in box.parts), links), names


@lru_cache(1024)
def _plan(is_beside: tuple[bool, ...], links: tuple[Link, ...]) -> Plan:
    """Plan a box whose tensors are numbered from 0.

    A tensor that passes through a row has one slot there; if that causes crossings, one for each of its readers.
    """
    plan = _plan_with(is_beside, links, False)
    if not (crossings := _plan_crossings(plan)) or len(plan.parts) > _MAX_SWAPPED:
        return plan
    split = _plan_with(is_beside, links, True)
    return split if _plan_crossings(split) < crossings else plan


def _plan_crossings(plan: Plan) -> int:
    below: list[list[int]] = [[] for _ in plan.parts]
    for _, upper, lower, *_ in plan.segments:
        below[upper].append(lower)
    return _crossings([list(row) for row in plan.rows], below)


def _plan_with(is_beside: tuple[bool, ...], links: tuple[Link, ...], is_split: bool) -> Plan:
    """Plan a box; with `is_split`, every reader of a tensor has an edge of its own, unless edges are neighbours."""
    rank = _ranks(len(is_beside), links)
    margin = tuple(part for part, aside in enumerate(is_beside) if aside)
    last = max((rank[part] for part in range(len(rank)) if part not in margin), default=-1) + 2
    parts: list[int] = list(range(len(rank)))
    tensors = [-1] * len(parts)
    rows: list[list[int]] = [[] for _ in range(last + 1)]
    for part, row in enumerate(rank):
        if part not in margin:
            rows[row + 1].append(part)

    def slot(row: int, tensor: int) -> int:
        parts.append(-1)
        tensors.append(tensor)
        rows[row].append(len(parts) - 1)
        return len(parts) - 1

    entries: dict[int, int] = {}
    exits: dict[int, int] = {}
    chains: dict[tuple[int, int | None, int | None, int], list[int]] = {}
    segments: dict[Segment, None] = {}
    for source, target, tensor in links:
        if source is None and tensor not in entries:
            entries[tensor] = slot(0, tensor)
        if target is None and tensor not in exits:
            exits[tensor] = slot(last, tensor)
        start = entries[tensor] if source is None else source
        row = 0 if source is None else rank[source] + 1
        end_row = last if target is None else rank[target] + 1
        end = exits[tensor] if target is None else target
        chain = chains.setdefault((is_split, source, target if is_split else -1, tensor), [start])
        while row + len(chain) < end_row:
            chain.append(slot(row + len(chain), tensor))
        for i, (upper, lower) in enumerate(pairwise([*chain[: end_row - row], end])):
            segments[row + i, upper, lower, tensor] = None
    order = sorted(segments)
    ordered = _ordered(rows, order, len(parts))
    if is_split:
        ordered, order = _merged(ordered, order, parts, tensors)
    return Plan(tuple(parts), tuple(tensors), tuple(map(tuple, ordered)), _with_ports(ordered, order, parts), margin)


def _merged(
    rows: list[list[int]], segments: Sequence[Segment], parts: list[int], tensors: list[int]
) -> tuple[list[list[int]], list[Segment]]:
    """Merge neighbours through which the same tensor passes on from the same slot."""
    above = {lower: upper for _, upper, lower, _ in segments}
    same: dict[int, int] = {}
    merged = []
    for row in rows:
        kept: list[int] = []
        for slot in row:
            before = kept[-1] if kept else slot
            if (
                before != slot and slot in above and before in above
                and parts[slot] == parts[before] == -1
                and tensors[slot] == tensors[before]
                and same.get(above[slot], above[slot]) == same.get(above[before], above[before])
            ):  # fmt: skip
                same[slot] = before
            else:
                kept.append(slot)
        merged.append(kept)
    joined = {(row, same.get(upper, upper), same.get(lower, lower), tensor) for row, upper, lower, tensor in segments}
    return merged, sorted(joined)


def _ranks(count: int, links: Sequence[Link]) -> list[int]:
    """Return the row of each part: the first one below its inputs, or a later one if edges then take fewer rows."""
    above: list[set[int]] = [set() for _ in range(count)]
    below: list[set[int]] = [set() for _ in range(count)]
    reads: list[set[int]] = [set() for _ in range(count)]
    makes: list[set[int]] = [set() for _ in range(count)]
    readers: dict[int, set[int | None]] = {}
    for source, target, tensor in links:
        readers.setdefault(tensor, set()).add(target)
        if source is not None:
            makes[source].add(tensor)
        if target is not None:
            reads[target].add(tensor)
        if source is not None and target is not None:
            above[target].add(source)
            below[source].add(target)
    rank = [0] * count
    waiting = [len(parts) for parts in above]
    ready = [part for part in range(count) if not waiting[part]]
    for part in ready:
        for lower in below[part]:
            rank[lower] = max(rank[lower], rank[part] + 1)
            waiting[lower] -= 1
            if not waiting[lower]:
                ready.append(lower)
    for part in reversed(ready):
        if not below[part]:
            continue
        lowest = min(rank[lower] for lower in below[part]) - 1
        others = [[p for p in readers[tensor] if p != part] for tensor in reads[part]]
        free = [lowest if None in near else max((rank[p] for p in near if p is not None), default=0) for near in others]
        lengths = {
            row: sum(max(0, row - other) for other in free) - row * len(makes[part])
            for row in (rank[part], *free, lowest)
            if rank[part] <= row <= lowest
        }
        rank[part] = -min((length, -row) for row, length in lengths.items())[1]
    return rank


def _ordered(rows: list[list[int]], segments: Sequence[Segment], count: int) -> list[list[int]]:
    """Reorder each row in repeated sweeps; return the order with the fewest crossings.

    A row is sorted by the mean position of its neighbours (barycentre heuristic), then neighbours in it are swapped
    as long as this removes crossings.
    """
    above: list[list[int]] = [[] for _ in range(count)]
    below: list[list[int]] = [[] for _ in range(count)]
    for _, upper, lower, _ in segments:
        below[upper].append(lower)
        above[lower].append(upper)
    best, fewest = rows, _crossings(rows, below)
    swaps = count <= _MAX_SWAPPED
    rng = Random(0)
    for attempt in range(_ATTEMPTS if count <= _MAX_SHUFFLED else 2):
        rows = [row[::-1] if attempt == 1 else rng.sample(row, len(row)) if attempt else row for row in rows]
        for sweep in range(_ORDER_SWEEPS):
            if not fewest:
                return best
            down = sweep % 2 == 0
            rows = [list(row) for row in rows]
            for i in range(1, len(rows)) if down else range(len(rows) - 2, -1, -1):
                positions = {slot: k for k, slot in enumerate(rows[i - 1 if down else i + 1])}
                connected = {slot: [positions[n] for n in (above if down else below)[slot]] for slot in rows[i]}
                means = {slot: fmean(connected[slot] or [k]) for k, slot in enumerate(rows[i])}
                rows[i].sort(key=lambda slot: means[slot])
            crossings = _crossings(rows, below)
            if swaps and crossings:
                _swap_neighbours(rows, above, below)
                crossings = _crossings(rows, below)
            if crossings < fewest:
                best, fewest = [list(row) for row in rows], crossings
    return best


def _swap_neighbours(rows: list[list[int]], above: list[list[int]], below: list[list[int]]) -> None:
    """Swap neighbours in the rows, in place, as long as this removes crossings."""
    place = {slot: k for row in rows for k, slot in enumerate(row)}

    def crossings(left: int, right: int) -> int:
        return sum(place[a] > place[b] for near in (above, below) for a in near[left] for b in near[right])

    swapped = True
    while swapped:
        swapped = False
        for row in rows:
            for k in range(len(row) - 1):
                left, right = row[k], row[k + 1]
                if crossings(right, left) < crossings(left, right):
                    row[k], row[k + 1] = right, left
                    place[left], place[right] = k + 1, k
                    swapped = True


def _crossings(rows: list[list[int]], below: list[list[int]]) -> int:
    count = 0
    for upper, lower in pairwise(rows):
        place = {slot: k for k, slot in enumerate(lower)}
        seen: list[int] = []
        for slot in upper:
            targets = sorted(place[target] for target in below[slot])
            count += sum(len(seen) - bisect_right(seen, target) for target in targets)
            for target in targets:
                insort(seen, target)
    return count


def _with_ports(
    rows: list[list[int]], segments: Sequence[Segment], parts: list[int]
) -> tuple[tuple[int, int, int, int, float, float], ...]:
    """Add the ports of segments, so that different tensors touch a box at different points, in the order of the slots
    from which they come and to which they go.

    The only tensor that comes straight from a box in the row above enters at the centre.
    """
    place = {slot: float(k) for row in rows for k, slot in enumerate(row)}
    into: dict[int, dict[tuple[int, int], float]] = {}
    out: dict[int, dict[int, list[float]]] = {}
    for _, upper, lower, tensor in segments:
        into.setdefault(lower, {})[upper, tensor] = place[upper]
        out.setdefault(upper, {}).setdefault(tensor, []).append(place[lower])
    entering: dict[tuple[int, int, int], float] = {}
    leaving: dict[tuple[int, int], float] = {}
    for lower, ends in into.items():
        order = sorted(ends, key=lambda end: (ends[end], end))
        direct = [i for i, (upper, _) in enumerate(order) if parts[upper] >= 0]
        centre = direct[0] if len(direct) == 1 else (len(order) - 1) / 2
        entering |= {(lower, *end): offset for end, offset in zip(order, _ports(len(order), centre), strict=True)}
    for upper, tensors in out.items():
        order_out = sorted(tensors, key=lambda tensor: (fmean(tensors[tensor]), tensor))
        ports = _ports(len(order_out), (len(order_out) - 1) / 2)
        leaving |= {(upper, tensor): offset for tensor, offset in zip(order_out, ports, strict=True)}
    return tuple(
        (row, upper, lower, tensor, leaving[upper, tensor], entering[lower, upper, tensor])
        for row, upper, lower, tensor in segments
    )


def _ports(count: int, centre: float) -> list[float]:
    step = min(_PORT, _PORTS / 2 / max(centre, count - 1 - centre, 1))
    return [(i - centre) * step for i in range(count)]


TITLE, LINE, SMALL = 13.0, 15.0, 11.0
"""Font size of titles; line height and font size of the other text lines. In pixels."""
HEADER, PAD, GAP, LANE = 26.0, 16.0, 22.0, 14.0
"""In pixels: height of the title band of an expanded box; padding inside its border; gap between boxes; gap next
to an edge that passes through a row."""
MIN_COLUMN = 400.0
"""Height in pixels up to which lists of alternatives are stacked in one column."""
SWEEPS, WORK = 120, 200_000
"""Maximum number of position-improving passes, and of slot visits in all passes together, so that large graphs
get fewer passes."""
SQUARED_SWEEPS, NEAR = 4, 1.0
"""Passes that minimise squared distances; the later ones minimise distances, so that chains are straight even where
they have branches. Distances below NEAR pixels count alike."""
SNAP = 60.0
"""Distance in pixels up to which a box is moved right under the box whose result it reads."""
PULL = (1.0, 0.001, 4.0)
"""Strength of attraction between connected slots: two parts; a part and a passing edge; two passing edges.

The attraction aligns parts that directly follow each other, and straightens edges that pass through rows.
"""


Offset = Callable[[int, int, float], float]
"""Maps (slot, tensor, port) to the horizontal distance from the slot's centre at which the tensor enters or leaves
it: the port, or the place in an expanded box."""


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

    def enters(slot: int, tensor: int, port: float) -> float:
        sheet = sheets[order.parts[slot]] if order.parts[slot] >= 0 else None
        return port if sheet is None or sheet.entries is None else sheet.entries[tensor] - sheet.width / 2

    def leaves(slot: int, tensor: int, port: float) -> float:
        sheet = sheets[order.parts[slot]] if order.parts[slot] >= 0 else None
        return port if sheet is None or sheet.exits is None else sheet.exits[tensor] - sheet.width / 2

    middles = _slot_middles(order, [size(slot) for slot in range(len(order.parts))], enters, leaves)
    edges_at = [(middles[slot] - size(slot) / 2, middles[slot] + size(slot) / 2) for row in order.rows for slot in row]
    left = min((edge[0] for edge in edges_at), default=0.0)
    content = max((edge[1] for edge in edges_at), default=0.0) - left
    total_width = max(least, content + 2 * PAD)
    shift = (total_width - content) / 2 - left
    middles = [middle + shift for middle in middles]

    tops, bottoms = _row_bounds(order, sheets, middles)
    corners = [(0.0, 0.0)] * len(sheets)
    rights = [max((middles[slot] + size(slot) / 2 for slot in row), default=0.0) for row in order.rows]
    margin = _corners_beside(order, sheets, total_width, tops, bottoms, rights)
    if margin is None:
        margin, total_width, lowest = _columns(order, sheets, total_width, bottoms[-1])
        bottoms[-1] = max(bottoms[-1], lowest)
    for part, corner in zip(order.margin, margin, strict=True):
        corners[part] = corner
    tops[-1] = bottoms[-1]
    for row, slots in enumerate(order.rows):
        for slot in slots:
            if order.parts[slot] >= 0:
                corners[order.parts[slot]] = (middles[slot] - size(slot) / 2, tops[row])
    edges = []
    for row, upper, lower, tensor, leaving, entering in order.segments:
        above, under = order.parts[upper], order.parts[lower]
        start = tops[row] + (sheets[above].height if above >= 0 else 0.0)
        x0, x1 = middles[upper] + leaves(upper, tensor, leaving), middles[lower] + enters(lower, tensor, entering)
        edges.append(Edge(x0, start, bottoms[row], tops[row + 1], x1, tops[row + 1], tensor, above, under))
    entries = {order.tensors[slot]: middles[slot] for slot in order.rows[0]}
    exits = {order.tensors[slot]: middles[slot] for slot in order.rows[-1]}
    return Sheet(total_width, bottoms[-1], tuple(corners), tuple(edges), entries, exits)


def _corners_beside(
    order: Plan,
    sheets: Sequence[Sheet],
    width: float,
    tops: Sequence[float],
    bottoms: Sequence[float],
    rights: Sequence[float],
) -> list[tuple[float, float]] | None:
    """Stack the parts in the margin at the right of rows that leave enough room in a box of the given width, as high as
    possible; return their corners, or None if there is not enough room.

    `rights` are the right ends of the rows.
    """
    offsets = [0.0, *accumulate(sheets[part].height + GAP / 2 for part in order.margin)]
    x = width - PAD - max((sheets[part].width for part in order.margin), default=0.0)
    for first in range(1, len(tops)):
        end = tops[first] + offsets[-1] - GAP / 2
        near = [rights[row] for row in range(first, len(tops)) if bottoms[row - 1] < end]
        if end <= bottoms[-1] and max(near) + GAP <= x:
            return [(x, tops[first] + offset) for offset in offsets[:-1]]
    return None


def _columns(
    order: Plan, sheets: Sequence[Sheet], width: float, height: float
) -> tuple[list[tuple[float, float]], float, float]:
    """Stack the parts beside the others in columns, at the right of a box of the given size, which are as high as the
    box if possible; return their corners, and the width and the height of the box with them."""
    stack = sum(sheets[part].height + GAP / 2 for part in order.margin)
    columns = max(1, ceil(stack / (max(height, MIN_COLUMN) - HEADER)))
    corners: list[tuple[float, float]] = []
    x, y, lowest = width - PAD + GAP, HEADER + PAD, 0.0
    for part in order.margin:
        sheet = sheets[part]
        if y > HEADER + PAD + stack / columns:
            x, y = width - PAD + GAP, HEADER + PAD
        corners.append((x, y))
        y += sheet.height + GAP / 2
        width, lowest = max(width, x + sheet.width + PAD), max(lowest, y - GAP / 2 + PAD)
    return corners, width, lowest


def _row_bounds(order: Plan, sheets: Sequence[Sheet], middles: Sequence[float]) -> tuple[list[float], list[float]]:
    """Return the top and bottom y of each row. Rows are as high as their highest part; gaps grow with horizontal
    edge length."""
    sideways = [0.0] * len(order.rows)
    for row, upper, lower, *_ in order.segments:
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
    for _, upper, lower, tensor, leaving, entering in order.segments:
        offset = leaves(upper, tensor, leaving) - enters(lower, tensor, entering)
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
                    target = middles[other] + offset
                    if sweep > SQUARED_SWEEPS:
                        pull /= NEAR + abs(middles[slot] - target)
                    total += pull * target
                    weight += pull
                targets.append(total / weight if neighbours else middles[slot])
                weights.append(weight if neighbours else 0.01)
            for slot, x in zip(order.rows[i], _spread(targets, weights, distances[i]), strict=True):
                middles[slot] = x
    for row, between in zip(order.rows, distances, strict=True):
        for k, slot in enumerate(row):
            direct = [middles[other] + offset for other, offset, pull in above[slot] if pull >= 1]
            if len(direct) == 1 and abs(direct[0] - middles[slot]) < SNAP:
                low = middles[row[k - 1]] + between[k - 1] if k else -inf
                high = middles[row[k + 1]] - between[k] if k + 1 < len(row) else inf
                middles[slot] = max(low, min(high, direct[0]))
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

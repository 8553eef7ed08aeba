"""Orders the parts of a box in rows from top to bottom, with few edge crossings (layered graph drawing).

The order does not depend on box sizes, so that it is computed once, whichever boxes are expanded.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from archir.pictures.outline import Box

_SWEEPS = 6
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
    for sweep in range(_SWEEPS):
        if not fewest:
            break
        down = sweep % 2 == 0
        rows = [list(row) for row in rows]
        for i in range(1, len(rows)) if down else range(len(rows) - 2, -1, -1):
            positions = {slot: k for k, slot in enumerate(rows[i - 1 if down else i + 1])}
            neighbours = above if down else below
            current = {slot: k for k, slot in enumerate(rows[i])}
            rows[i].sort(
                key=lambda slot: (_mean([positions[n] for n in neighbours.get(slot, [])], current[slot]), current[slot])
            )
        crossings = _crossings(rows, below)
        if crossings < fewest:
            best, fewest = rows, crossings
    return best


def _mean(numbers: Sequence[float], default: float) -> float:
    """Return the mean of `numbers`, or `default` if there are none."""
    return sum(numbers) / len(numbers) if numbers else default


def _crossings(rows: list[list[int]], below: dict[int, list[int]]) -> int:
    """Count the pairs of segments that cross."""
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

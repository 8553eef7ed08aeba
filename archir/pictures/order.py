"""The order of a box's parts: rows from top to bottom, and few crossings between them.

It does not depend on how large the parts are, so that it is made once, whatever opens and closes.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from archir.pictures.outline import Box

_SWEEPS = 6


@dataclass(frozen=True, slots=True)
class Plan:
    """The order of a box's parts: slots in rows, and segments from slots of a row to slots of the next.

    A slot holds a part, or an edge that passes by: then its part is -1. The first row holds what enters the box, the
    last what leaves it. Segments are (row of the upper slot, upper slot, lower slot, tensor).
    """

    parts: tuple[int, ...]
    tensors: tuple[int, ...]
    rows: tuple[tuple[int, ...], ...]
    segments: tuple[tuple[int, int, int, int], ...]


def plan(box: Box) -> Plan:
    """Layers by longest paths; crossings reduced by ordering each row by the mean position of its neighbours."""
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
            near = {slot: k for k, slot in enumerate(rows[i - 1 if down else i + 1])}
            known = above if down else below
            here = {slot: k for k, slot in enumerate(rows[i])}
            rows[i].sort(key=lambda slot: (_mean([near[n] for n in known.get(slot, [])], here[slot]), here[slot]))
        found = _crossings(rows, below)
        if found < fewest:
            best, fewest = rows, found
    return best


def _mean(numbers: Sequence[float], otherwise: float) -> float:
    return sum(numbers) / len(numbers) if numbers else otherwise


def _crossings(rows: list[list[int]], below: dict[int, list[int]]) -> int:
    count = 0
    for upper, lower in pairwise(rows):
        place = {slot: k for k, slot in enumerate(lower)}
        seen: list[int] = []
        for slot in upper:
            ends = sorted(place[end] for end in below.get(slot, []))
            count += sum(len(seen) - bisect_right(seen, end) for end in ends)
            for end in ends:
                insort(seen, end)
    return count

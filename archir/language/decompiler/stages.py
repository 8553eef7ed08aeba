"""Loops over long lists become loops over stages: so many rounds alike, of which the first may differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

from archir.language.decompiler.outline import (
    FRESH,
    Carry,
    Column,
    Expr,
    First,
    Item,
    Loop,
    Many,
    Step,
    Test,
    Times,
    Up,
    filled,
    is_constant,
    values,
)
from archir.language.decompiler.repeats import joined_rounds

FEWEST = 5
"""Rounds of a loop that may be written in stages."""


def staged(items: Sequence[Item]) -> tuple[Item, ...]:
    """The same statements, long lists in stages."""
    made: list[Item] = []
    for item in items:
        if not isinstance(item, Step):
            item = replace(item, items=staged(item.items))
        made.append(_staged(item) if isinstance(item, Loop) else item)
    return tuple(made)


def _staged(loop: Loop) -> Loop:
    nested = any(not isinstance(item, Step) for item in loop.items)
    if nested or type(loop.rounds) is not int or loop.rounds < FEWEST:
        return loop
    parts = list(dict.fromkeys(part for depth, _, value in values(loop.items) for part in of_loop(value, depth)))
    columns = [_column(part, loop.rounds) for part in parts]
    if not any(isinstance(part, Column) for part in parts) or any(column is None for column in columns):
        return loop
    rows = list(zip(*(column for column in columns if column is not None), strict=True))
    best: tuple[list[int], tuple[int, ...]] | None = None
    for size in range(min(3, len(columns) + 1)):
        for differing in combinations(range(len(columns)), size):
            starts = _starts(rows, differing)
            if best is None or len(starts) < len(best[0]):
                best = starts, differing
    assert best is not None
    starts, differing = best
    if 2 * len(starts) > loop.rounds:
        return loop
    ends = [*starts[1:], loop.rounds]
    swap: dict[Expr, Expr] = {}
    for place, part in enumerate(parts):
        firsts = [rows[start][place] for start in starts]
        if place in differing:
            later = [rows[end - 1][place] for start, end in zip(starts, ends, strict=True) if end - start > 1]
            usual = max(later, key=later.count)
            rests = [rows[e - 1][place] if e - s > 1 else usual for s, e in zip(starts, ends, strict=True)]
            swap[part] = First(joined_rounds(firsts), joined_rounds(rests))
        else:
            value = joined_rounds(firsts)
            swap[part] = value if is_constant(value) else Up(value)
    found = iter([_moved(value, depth, swap) for depth, _, value in values(loop.items)])
    inside = tuple((next(FRESH), next(FRESH)) for _ in loop.carries)
    inner = tuple(Carry(a, carry.inside, carry.left, b) for (a, b), carry in zip(inside, loop.carries, strict=True))
    outer = tuple(Carry(carry.before, a, b, carry.after) for (a, b), carry in zip(inside, loop.carries, strict=True))
    rounds = joined_rounds([end - start for start, end in zip(starts, ends, strict=True)])
    return Loop((Loop(filled(loop.items, found), rounds, inner),), len(starts), outer)


def of_loop(value: Expr, depth: int) -> Iterator[Column | First]:
    """The lists and first rounds in an expression that belong to the loop which is `depth` further out."""
    match value:
        case Up():
            if depth:
                yield from of_loop(value.of, depth - 1)
        case Column():
            if depth:
                yield from of_loop(value.of, depth - 1)
            else:
                yield value
        case First():
            if depth:
                yield from of_loop(value.first, depth - 1)
                yield from of_loop(value.rest, depth - 1)
            else:
                yield value
        case Times():
            yield from of_loop(value.of, depth)
        case Many():
            for item in value.items:
                yield from of_loop(item, depth)
        case Test():
            for item in value.sides:
                yield from of_loop(item, depth)


def _column(part: Column | First, rounds: int) -> tuple[Any, ...] | None:
    """The values of all rounds, if they are known."""
    if isinstance(part, Column):
        return part.of if isinstance(part.of, tuple) else None
    known = is_constant(part.first) and is_constant(part.rest)
    return (part.first, *(part.rest,) * (rounds - 1)) if known else None


def _starts(rows: Sequence[tuple[Any, ...]], differing: Sequence[int]) -> list[int]:
    """Where stages begin: all rounds of one are alike, but for some columns of the first."""
    starts: list[int] = []
    place = 0
    while place < len(rows):
        starts.append(place)
        end = place + 1
        if end < len(rows) and all(
            a == b for i, (a, b) in enumerate(zip(rows[place], rows[end], strict=True)) if i not in differing
        ):
            while end < len(rows) and rows[end] == rows[place + 1]:
                end += 1
        place = end
    return starts


def _moved(value: Expr, depth: int, swap: dict[Expr, Expr]) -> Expr:
    """An expression of a loop's rounds in those of a loop in a loop."""
    match value:
        case Up():
            return Up(Up(value.of)) if depth == 0 else Up(_moved(value.of, depth - 1, swap))
        case Column():
            return swap[value] if depth == 0 else Column(_moved(value.of, depth - 1, swap))
        case First():
            if depth == 0:
                return swap[value]
            return First(_moved(value.first, depth - 1, swap), _moved(value.rest, depth - 1, swap))
        case Times():
            return replace(value, of=_moved(value.of, depth, swap))
        case Many():
            return Many(tuple(_moved(item, depth, swap) for item in value.items))
        case Test():
            return Test(value.sign, tuple(_moved(item, depth, swap) for item in value.sides))
    return value

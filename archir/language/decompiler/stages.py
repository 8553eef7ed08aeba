"""Stage detection: turns a loop with long per-iteration lists into a loop over stages that contains a loop.

Within a stage, all iterations use the same arguments, except that the first may differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

from archir.language.decompiler.loop_rolling import merge_rounds
from archir.language.decompiler.program_tree import (
    FRESH_NUMBERS,
    Carry,
    Condition,
    Expr,
    FirstRound,
    Item,
    ListExpr,
    Loop,
    Multiple,
    Outer,
    PerRound,
    Step,
    expressions_in,
    is_constant,
    with_expressions,
)

MIN_ROUNDS = 5
"""Minimum number of iterations of a loop that may be split into stages."""


def detect_stages(items: Sequence[Item]) -> tuple[Item, ...]:
    """Return the statements with loops over long lists replaced by nested loops over stages."""
    rewritten: list[Item] = []
    for item in items:
        if not isinstance(item, Step):
            item = replace(item, items=detect_stages(item.items))
        rewritten.append(_split_loop(item) if isinstance(item, Loop) else item)
    return tuple(rewritten)


def _split_loop(loop: Loop) -> Loop:
    """Split a loop into stages if there are at most half as many stages as iterations; else return it unchanged."""
    nested = any(not isinstance(item, Step) for item in loop.items)
    if nested or type(loop.rounds) is not int or loop.rounds < MIN_ROUNDS:
        return loop
    parts = list(
        dict.fromkeys(part for depth, _, value in expressions_in(loop.items) for part in loop_lists(value, depth))
    )
    columns = [_constant_column(part, loop.rounds) for part in parts]
    if not any(isinstance(part, PerRound) for part in parts) or any(column is None for column in columns):
        return loop
    rows = list(zip(*(column for column in columns if column is not None), strict=True))
    best: tuple[list[int], tuple[int, ...]] | None = None
    for size in range(min(3, len(columns) + 1)):
        for differing in combinations(range(len(columns)), size):
            starts = _stage_starts(rows, differing)
            if best is None or len(starts) < len(best[0]):
                best = starts, differing
    assert best is not None
    starts, differing = best
    if 2 * len(starts) > loop.rounds:
        return loop
    stops = [*starts[1:], loop.rounds]
    swap: dict[Expr, Expr] = {}
    for place, part in enumerate(parts):
        firsts = [rows[start][place] for start in starts]
        if place in differing:
            later = [rows[end - 1][place] for start, end in zip(starts, stops, strict=True) if end - start > 1]
            most_common = max(later, key=later.count)
            rests = [rows[e - 1][place] if e - s > 1 else most_common for s, e in zip(starts, stops, strict=True)]
            swap[part] = FirstRound(merge_rounds(firsts), merge_rounds(rests))
        else:
            value = merge_rounds(firsts)
            swap[part] = value if is_constant(value) else Outer(value)
    expressions = iter([_nested(value, depth, swap) for depth, _, value in expressions_in(loop.items)])
    inside = tuple((next(FRESH_NUMBERS), next(FRESH_NUMBERS)) for _ in loop.carries)
    inner = tuple(Carry(a, carry.inside, carry.updated, b) for (a, b), carry in zip(inside, loop.carries, strict=True))
    outer = tuple(Carry(carry.before, a, b, carry.after) for (a, b), carry in zip(inside, loop.carries, strict=True))
    rounds = merge_rounds([end - start for start, end in zip(starts, stops, strict=True)])
    return Loop((Loop(with_expressions(loop.items, expressions), rounds, inner),), len(starts), outer)


def loop_lists(value: Expr, depth: int) -> Iterator[PerRound | FirstRound]:
    """Yield the per-iteration lists and first-iteration values in an expression that belong to the loop `depth`
    levels out."""
    match value:
        case Outer():
            if depth:
                yield from loop_lists(value.of, depth - 1)
        case PerRound():
            if depth:
                yield from loop_lists(value.of, depth - 1)
            else:
                yield value
        case FirstRound():
            if depth:
                yield from loop_lists(value.first, depth - 1)
                yield from loop_lists(value.later, depth - 1)
            else:
                yield value
        case Multiple():
            yield from loop_lists(value.of, depth)
        case ListExpr():
            for item in value.items:
                yield from loop_lists(item, depth)
        case Condition():
            for item in value.sides:
                yield from loop_lists(item, depth)


def _constant_column(part: PerRound | FirstRound, rounds: int) -> tuple[Any, ...] | None:
    """Return the value of an expression in each iteration if all of them are constants, else None."""
    if isinstance(part, PerRound):
        return part.of if isinstance(part.of, tuple) else None
    is_known = is_constant(part.first) and is_constant(part.later)
    return (part.first, *(part.later,) * (rounds - 1)) if is_known else None


def _stage_starts(rows: Sequence[tuple[Any, ...]], differing: Sequence[int]) -> list[int]:
    """Return the index of the first row of each stage.

    The rows of a stage are equal, except that the first row of the stage may differ in the columns `differing`.
    """
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


def _nested(value: Expr, depth: int, swap: dict[Expr, Expr]) -> Expr:
    """Rewrite an expression of the loop body for use in the inner loop, once the loop has been split into stages."""
    match value:
        case Outer():
            return Outer(Outer(value.of)) if depth == 0 else Outer(_nested(value.of, depth - 1, swap))
        case PerRound():
            return swap[value] if depth == 0 else PerRound(_nested(value.of, depth - 1, swap))
        case FirstRound():
            if depth == 0:
                return swap[value]
            return FirstRound(_nested(value.first, depth - 1, swap), _nested(value.later, depth - 1, swap))
        case Multiple():
            return replace(value, of=_nested(value.of, depth, swap))
        case ListExpr():
            return ListExpr(tuple(_nested(item, depth, swap) for item in value.items))
        case Condition():
            return Condition(value.sign, tuple(_nested(item, depth, swap) for item in value.sides))
    return value

"""Loop rolling: turns repeated statements into loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from archir.language.decompiler.program_tree import (
    FRESH_NUMBERS,
    WILD,
    Body,
    Carry,
    Expr,
    FirstRound,
    Item,
    Loop,
    Outer,
    PerRound,
    Step,
    expressions_in,
    inputs_of,
    is_constant,
    outputs_of,
    renumbered,
    sizes_read_by,
    structure_of,
    with_expressions,
)

MAX_PERIOD = 96
"""Maximum number of statements in a loop body."""
MAX_CHANGING_ARGUMENTS = 6
"""Maximum number of arguments that may differ between the iterations of a loop with several statements."""


def roll_loops(items: Sequence[Item], outputs: Sequence[int], is_block: Callable[[str], bool]) -> tuple[Item, ...]:
    """Replace repeated sequences of statements by loops, trying short loop bodies first."""
    rolled = tuple(items)
    for period in range(1, MAX_PERIOD + 1):
        if 2 * period > len(rolled):
            break
        rolled = _roll_period(rolled, period, outputs, is_block)
    return rolled


def _roll_period(
    items: tuple[Item, ...], period: int, outputs: Sequence[int], is_block: Callable[[str], bool]
) -> tuple[Item, ...]:
    """Replace repeated sequences of exactly `period` statements by loops."""
    rolled: list[Item] = []
    place = 0
    shapes = [_statement_key(item) for item in items]
    while place < len(items):
        if (
            place + 2 * period <= len(items)
            and shapes[place : place + period] == shapes[place + period : place + 2 * period]
        ):
            rounds = 2
            while shapes[place : place + period] == shapes[place + rounds * period : place + (rounds + 1) * period]:
                rounds += 1
            loop, rounds_used = _roll_at(items, place, period, rounds, outputs, is_block)
            if loop is not None:
                rolled.append(loop)
                place += rounds_used * period
                continue
        rolled.append(items[place])
        place += 1
    return tuple(rolled)


def _statement_key(item: Item) -> object:
    """Return a comparison key for what a statement does, independent of the values that it reads and writes."""
    if isinstance(item, Step):
        return item.callee, len(item.reads), len(item.writes), tuple(item.arguments), item.weights
    return structure_of(Body((), (item,), ()))


def _roll_at(
    items: Sequence[Item], place: int, period: int, rounds: int, outputs: Sequence[int], is_block: Callable[[str], bool]
) -> tuple[Loop | None, int]:
    """Return the loop that starts at index `place` and its number of iterations, or (None, 0) if none is worthwhile."""
    first = items[place : place + period]
    is_worthwhile = any(not isinstance(item, Step) or is_block(item.callee) for item in first)
    parts = [items[place + i * period : place + (i + 1) * period] for i in range(rounds)]
    links = [_links(part, before) for part, before in zip(parts[1:], parts, strict=False)]
    rounds_used = 1
    while rounds_used < rounds and links[rounds_used - 1] is not None and links[rounds_used - 1] == links[0]:
        rounds_used += 1
    while rounds_used > 1:
        carries = _carries(items, place, period, rounds_used, links[0] or (), outputs)
        if carries is not None:
            break
        rounds_used -= 1
    if rounds_used < 2 or not (is_worthwhile or rounds_used * period >= 6 or (period > 1 and rounds_used > 2)):
        return None, 0
    assert carries is not None
    swap = {carry.before: carry.inside for carry in carries}
    body = renumbered(parts[0], lambda number: swap.get(number, number))
    columns = zip(*(list(expressions_in(part)) for part in parts[:rounds_used]), strict=True)
    try:
        merged = [merge([value for *_, value in column], column[0][0], merge_rounds) for column in columns]
    except UnmergeableError:
        return None, 0
    changed = sum(not is_constant(value) and not isinstance(value, Outer) for value in merged)
    max_changed = (
        (2 if rounds_used > 2 else 0) if not is_worthwhile else MAX_CHANGING_ARGUMENTS if rounds_used > 2 else 2
    )
    if changed > max_changed and not (period == 1 and is_worthwhile):
        return None, 0
    return Loop(with_expressions(body, iter(merged)), rounds_used, tuple(carries)), rounds_used


def _outputs_of(items: Sequence[Item]) -> list[int]:
    """Return the values that the statements define, in statement order."""
    return [number for item in items for number in outputs_of(item)]


def _links(part: Sequence[Item], before: Sequence[Item]) -> tuple[object, ...] | None:
    """Return where each read of an iteration comes from: this iteration, the previous one, or outside of the loop."""
    own = {number: i for i, number in enumerate(_outputs_of(part))}
    last = {number: i for i, number in enumerate(_outputs_of(before))}
    links: list[object] = []
    for item in part:
        for number in inputs_of(item):
            links.append(
                ("own", own[number]) if number in own else ("last", last[number]) if number in last else number
            )
    return tuple(links)


def _carries(
    items: Sequence[Item], place: int, period: int, rounds: int, links: Sequence[object], outputs: Sequence[int]
) -> list[Carry] | None:
    """Return the loop-carried values, or None if these iterations cannot form a loop.

    Iterations cannot form a loop if the first one is wired differently from the others, or if a later statement reads a
    value that an iteration defines and that the loop does not carry.
    """
    first, final = items[place : place + period], items[place + (rounds - 1) * period : place + rounds * period]
    first_outputs = _outputs_of(first)
    carried: dict[int, int] = {}
    swapped: dict[int, int] = {}
    reads = [number for item in first for number in inputs_of(item)]
    for number, link in zip(reads, links, strict=True):
        match link:
            case ("own", int(position)):
                if number != first_outputs[position]:
                    return None
            case ("last", int(position)):
                if number in first_outputs or carried.setdefault(position, number) != number:
                    return None
                if swapped.setdefault(number, position) != position:
                    return None
            case _:
                if number != link:
                    return None
    free = {link for link in links if isinstance(link, int)}
    if free & carried.keys() or free & set(swapped):
        return None
    later = {number for item in items[place + rounds * period :] for number in inputs_of(item)} | set(outputs)
    later |= {size for item in items[place + rounds * period :] for size in sizes_read_by(item)}
    final_outputs = _outputs_of(final)
    middle = {
        number
        for i in range(rounds - 1)
        for number in _outputs_of(items[place + i * period : place + (i + 1) * period])
    }
    if middle & later:
        return None
    if any(number in later and i not in carried for i, number in enumerate(final_outputs)):
        return None
    return [Carry(before, next(FRESH_NUMBERS), first_outputs[i], final_outputs[i]) for i, before in carried.items()]


def merge_rounds(column: Sequence[Expr]) -> Expr:
    """Merge the values of an argument in all iterations into one expression inside the loop.

    Raises UnmergeableError if one of the values is a wildcard.
    """
    if any(value is WILD for value in column):
        raise UnmergeableError
    if all(value == column[0] and type(value) is type(column[0]) for value in column):
        return column[0]
    if all(value == column[1] and type(value) is type(column[1]) for value in column[2:]):
        return FirstRound(column[0], column[1])
    return PerRound(tuple(column))


def merge(column: Sequence[Expr], depth: int, base: Callable[[Sequence[Expr]], Expr]) -> Expr:
    """Merge corresponding expressions of several bodies into one.

    `depth` is the number of loops around the expressions. Once the loops are unwrapped, `base` merges what differs.
    Raises UnmergeableError if no single expression describes all of the expressions.
    """
    if depth == 0:
        return base(column)
    concrete = [value for value in column if value is not WILD]
    if not concrete:
        return WILD
    if all(is_constant(value) and value == concrete[0] and type(value) is type(concrete[0]) for value in concrete):
        return concrete[0]
    outer = [value.of if isinstance(value, Outer) else value for value in column]
    if all(is_constant(value) or isinstance(value, Outer) for value in concrete):
        return Outer(merge(outer, depth - 1, base))
    if all(is_constant(value) or isinstance(value, Outer | FirstRound) for value in concrete):
        firsts = [
            value.first if isinstance(value, FirstRound) else unwrapped
            for value, unwrapped in zip(column, outer, strict=True)
        ]
        later_values = [
            value.later if isinstance(value, FirstRound) else unwrapped
            for value, unwrapped in zip(column, outer, strict=True)
        ]
        return FirstRound(merge(firsts, depth - 1, base), merge(later_values, depth - 1, base))
    if all(isinstance(value, PerRound) for value in concrete):
        return PerRound(merge([value.of if isinstance(value, PerRound) else WILD for value in column], depth - 1, base))
    raise UnmergeableError


class UnmergeableError(Exception):
    """Raised when expressions inside loops differ in a way that no single expression describes."""

"""Statements that repeat become loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from archir.language.decompiler.outline import (
    FRESH,
    WILD,
    Body,
    Carry,
    Column,
    Expr,
    First,
    Item,
    Loop,
    Step,
    Up,
    filled,
    form,
    is_constant,
    read_by,
    renamed,
    sizes_in,
    values,
    written_by,
)

LONGEST = 96
"""Statements that may be one round."""
MOST_CHANGED = 6
"""Numbers that may differ from round to round, of rounds of several statements."""


def looped(items: Sequence[Item], outputs: Sequence[int], is_block: Callable[[str], bool]) -> tuple[Item, ...]:
    """The same statements, with loops for those that come again and again; the shortest rounds first."""
    found = tuple(items)
    for period in range(1, LONGEST + 1):
        if 2 * period > len(found):
            break
        found = _of_period(found, period, outputs, is_block)
    return found


def _of_period(
    items: tuple[Item, ...], period: int, outputs: Sequence[int], is_block: Callable[[str], bool]
) -> tuple[Item, ...]:
    made: list[Item] = []
    place = 0
    shapes = [_shape(item) for item in items]
    while place < len(items):
        if (
            place + 2 * period <= len(items)
            and shapes[place : place + period] == shapes[place + period : place + 2 * period]
        ):
            rounds = 2
            while shapes[place : place + period] == shapes[place + rounds * period : place + (rounds + 1) * period]:
                rounds += 1
            loop, taken = _loop(items, place, period, rounds, outputs, is_block)
            if loop is not None:
                made.append(loop)
                place += taken * period
                continue
        made.append(items[place])
        place += 1
    return tuple(made)


def _shape(item: Item) -> object:
    """What a statement is, whatever it reads."""
    if isinstance(item, Step):
        return item.callee, len(item.reads), len(item.writes), tuple(item.arguments), item.weights
    return form(Body((), (item,), ()))


def _loop(
    items: Sequence[Item], place: int, period: int, rounds: int, outputs: Sequence[int], is_block: Callable[[str], bool]
) -> tuple[Loop | None, int]:
    """The loop that begins here, and how many rounds it has; None if there is none that is worth it."""
    first = items[place : place + period]
    worth = any(not isinstance(item, Step) or is_block(item.callee) for item in first)
    parts = [items[place + i * period : place + (i + 1) * period] for i in range(rounds)]
    links = [_links(part, before) for part, before in zip(parts[1:], parts, strict=False)]
    taken = 1
    while taken < rounds and links[taken - 1] is not None and links[taken - 1] == links[0]:
        taken += 1
    while taken > 1:
        carries = _carries(items, place, period, taken, links[0] or (), outputs)
        if carries is not None:
            break
        taken -= 1
    if taken < 2 or not (worth or taken * period >= 6 or (period > 1 and taken > 2)):
        return None, 0
    assert carries is not None
    swap = {carry.before: carry.inside for carry in carries}
    body = renamed(parts[0], lambda number: swap.get(number, number))
    columns = zip(*(list(values(part)) for part in parts[:taken]), strict=True)
    try:
        merged = [merge([value for *_, value in column], column[0][0], joined_rounds) for column in columns]
    except UnlikeError:
        return None, 0
    changed = sum(not is_constant(value) and not isinstance(value, Up) for value in merged)
    most = (2 if taken > 2 else 0) if not worth else MOST_CHANGED if taken > 2 else 2
    if changed > most and not (period == 1 and worth):
        return None, 0
    return Loop(filled(body, iter(merged)), taken, tuple(carries)), taken


def _flat(items: Sequence[Item]) -> list[int]:
    return [number for item in items for number in written_by(item)]


def _links(part: Sequence[Item], before: Sequence[Item]) -> tuple[object, ...] | None:
    """For each read of a round: what of this round or of the one before, or what else, it is."""
    own = {number: i for i, number in enumerate(_flat(part))}
    last = {number: i for i, number in enumerate(_flat(before))}
    found: list[object] = []
    for item in part:
        for number in read_by(item):
            found.append(
                ("own", own[number]) if number in own else ("last", last[number]) if number in last else number
            )
    return tuple(found)


def _carries(
    items: Sequence[Item], place: int, period: int, rounds: int, links: Sequence[object], outputs: Sequence[int]
) -> list[Carry] | None:
    """What goes from round to round; None if the first round is unlike, or if something of the others is read later."""
    first, final = items[place : place + period], items[place + (rounds - 1) * period : place + rounds * period]
    written = _flat(first)
    carried: dict[int, int] = {}
    swapped: dict[int, int] = {}
    reads = [number for item in first for number in read_by(item)]
    for number, link in zip(reads, links, strict=True):
        match link:
            case ("own", int(position)):
                if number != written[position]:
                    return None
            case ("last", int(position)):
                if number in written or carried.setdefault(position, number) != number:
                    return None
                if swapped.setdefault(number, position) != position:
                    return None
            case _:
                if number != link:
                    return None
    free = {link for link in links if isinstance(link, int)}
    if free & carried.keys() or free & set(swapped):
        return None
    later = {number for item in items[place + rounds * period :] for number in read_by(item)} | set(outputs)
    later |= {size for item in items[place + rounds * period :] for size in sizes_in(item)}
    ends = _flat(final)
    middle = {
        number for i in range(rounds - 1) for number in _flat(items[place + i * period : place + (i + 1) * period])
    }
    if middle & later:
        return None
    if any(number in later and i not in carried for i, number in enumerate(ends)):
        return None
    return [Carry(before, next(FRESH), written[i], ends[i]) for i, before in carried.items()]


def joined_rounds(column: Sequence[Expr]) -> Expr:
    """One expression for the values of all rounds, at the depth of the loop."""
    if any(value is WILD for value in column):
        raise UnlikeError
    if all(value == column[0] and type(value) is type(column[0]) for value in column):
        return column[0]
    if all(value == column[1] and type(value) is type(column[1]) for value in column[2:]):
        return First(column[0], column[1])
    return Column(tuple(column))


def merge(column: Sequence[Expr], depth: int, base: Callable[[Sequence[Expr]], Expr]) -> Expr:
    """One expression for those that stand at one place, so deep in loops, in several bodies: what differs is joined
    by `base` where nothing is around it."""
    if depth == 0:
        return base(column)
    known = [value for value in column if value is not WILD]
    if not known:
        return WILD
    if all(is_constant(value) and value == known[0] and type(value) is type(known[0]) for value in known):
        return known[0]
    outer = [value.of if isinstance(value, Up) else value for value in column]
    if all(is_constant(value) or isinstance(value, Up) for value in known):
        return Up(merge(outer, depth - 1, base))
    if all(is_constant(value) or isinstance(value, Up | First) for value in known):
        firsts = [value.first if isinstance(value, First) else one for value, one in zip(column, outer, strict=True)]
        rests = [value.rest if isinstance(value, First) else one for value, one in zip(column, outer, strict=True)]
        return First(merge(firsts, depth - 1, base), merge(rests, depth - 1, base))
    if all(isinstance(value, Column) for value in known):
        return Column(merge([value.of if isinstance(value, Column) else WILD for value in column], depth - 1, base))
    raise UnlikeError


class UnlikeError(Exception):
    """Loops whose rounds differ in ways that no one expression says."""

"""Bodies that differ in what is there or not become one form with options.

An option is a value `result` and one it is made from, `before`: where it is off, `before` stands in its place, and what
only `result` needs is gone. A projection of a shortcut is one, and so is the sum at the end of a residual branch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from archir.language.decompiler.outline import (
    FRESH,
    WILD,
    Body,
    Item,
    Option,
    Step,
    filled,
    form,
    read_by,
    renamed,
    values,
    written_by,
)

MOST_STEPS = 60
"""Statements of a body that is looked at."""
MOST_TRIED = 4_000
"""Options that are tried for one pair of bodies."""
MOST_LOOKED = 100_000
"""Options, alone or with others, that are looked at for it."""


@dataclass(frozen=True)
class Cut:
    """The places of statements that are gone, and the values that stand for each other then."""

    gone: frozenset[int]
    result: int
    before: int


def joined(bodies: Sequence[Body]) -> list[Body]:
    """Bodies of as few forms as options allow; each computes what it did."""
    found = list(bodies)
    left = sorted({form(body): place for place, body in reversed([*enumerate(bodies)])}.items(), key=lambda one: one[1])
    forms = [shape for shape, _ in sorted(left, key=lambda one: -len(bodies[one[1]].items))]
    examples = dict(left)
    while len(forms) > 1:
        whole, *others = forms
        base = bodies[examples[whole]]
        possible = _cuts(base)
        cuts: dict[object, tuple[Cut, ...]] = {whole: ()}
        for other in others:
            way = _way(base, bodies[examples[other]], {cut for cut_ in cuts.values() for cut in cut_}, possible)
            if way is not None and _apart([*{cut for one in cuts.values() for cut in one} | {*way}]):
                cuts[other] = way
        every = sorted({cut for one in cuts.values() for cut in one}, key=lambda cut: max(cut.gone))
        if every:
            for place, body in enumerate(bodies):
                shape = form(body)
                if shape in cuts:
                    found[place] = _optional(base, body, every, cuts[shape])
        forms = [one for one in others if one not in cuts]
    return found


def _way(base: Body, wanted: Body, known: set[Cut], every: Sequence[Cut]) -> tuple[Cut, ...] | None:
    """The cuts, of `every` one there is, that make a body of the form of another; those that are known come first."""
    if len(base.inputs) != len(wanted.inputs) or len(base.items) <= len(wanted.items):
        return None
    shape, all_of_it, callees = form(wanted), _callees(base), _callees(wanted)
    cuts = [*sorted(known, key=lambda cut: max(cut.gone)), *every]
    looked = tried = 0
    found: list[tuple[int, tuple[Cut, ...]]] = []
    stack: list[tuple[Cut, ...]] = [()]
    while stack and not (found and len(found[0][1]) <= len(stack[0])):
        way = stack.pop(0)
        taken = {place for cut in way for place in cut.gone}
        for cut in cuts:
            looked += 1
            if looked > MOST_LOOKED or tried > MOST_TRIED:
                break
            if cut.gone & taken:
                continue
            left = [callee for place, callee in enumerate(all_of_it) if place not in taken and place not in cut.gone]
            if not _inside(callees, left):
                continue
            if len(left) > len(callees):
                if len(way) < 2:
                    stack.append((*way, cut))
                continue
            tried += 1
            after = _cut(base, (*way, cut))
            if form(after) == shape:
                pairs = zip(values(after.items), values(wanted.items), strict=True)
                found.append((sum(a == b for (*_, a), (*_, b) in pairs), (*way, cut)))
    return max(found, key=lambda one: one[0])[1] if found else None


def _cuts(base: Body) -> list[Cut]:
    """What may be cut out of a body that is not too long: few statements before many."""
    found = []
    for last, item in enumerate(base.items if len(base.items) <= MOST_STEPS else ()):
        if len(written_by(item)) == 1:
            gone = ((_gone(base, written_by(item)[0], before), before) for before in _above(base, last))
            found += [Cut(places, written_by(item)[0], before) for places, before in gone if last in places]
    return sorted(found, key=lambda cut: len(cut.gone))[:MOST_TRIED]


def _above(base: Body, last: int) -> list[int]:
    """The values that a statement depends on."""
    makers = {number: item for item in base.items for number in written_by(item)}
    found: dict[int, None] = {}
    stack = [*read_by(base.items[last])]
    while stack:
        number = stack.pop()
        if number not in found:
            found[number] = None
            if number in makers:
                stack += read_by(makers[number])
    return [*found]


def _gone(base: Body, result: int, before: int) -> frozenset[int]:
    """The statements that nothing needs where `before` stands for `result`."""
    outputs = {before if number == result else number for number in base.outputs}
    gone = set()
    needed = set(outputs)
    for place in range(len(base.items) - 1, -1, -1):
        item = base.items[place]
        if needed.isdisjoint(written_by(item)):
            gone.add(place)
        else:
            needed.update(before if number == result else number for number in read_by(item))
    return frozenset(gone)


def _cut(base: Body, cuts: Sequence[Cut]) -> Body:
    """The body without what is cut out."""
    swap = {cut.result: cut.before for cut in cuts}
    gone = {place for cut in cuts for place in cut.gone}

    def name(number: int) -> int:
        while number in swap:
            number = swap[number]
        return number

    items = [item for place, item in enumerate(base.items) if place not in gone]
    return Body(base.inputs, renamed(items, name), tuple(map(name, base.outputs)), base.types)


def _callees(body: Body) -> list[object]:
    return [item.callee if isinstance(item, Step) else type(item) for item in body.items]


def _inside(few: Sequence[object], many: Sequence[object]) -> bool:
    """Whether a sequence is part of another, in order."""
    rest = iter(many)
    return all(any(one == other for other in rest) for one in few)


def _apart(cuts: Sequence[Cut]) -> bool:
    """Whether no two cuts have a statement in common, and each keeps what another begins with."""
    places = [place for cut in cuts for place in cut.gone]
    return len(places) == len(set(places))


def _optional(base: Body, body: Body, every: Sequence[Cut], off: Sequence[Cut]) -> Body:
    """A body in the form of the base with an option for each cut; those in `off` are off in it."""
    gone = {place: cut for cut in every for place in cut.gone}
    absent = {place for cut in off for place in cut.gone}
    own = iter(body.items)
    known: dict[int, int] = dict(zip(base.inputs, body.inputs, strict=True))
    mine: list[Item | None] = []
    for place, item in enumerate(base.items):
        if place in absent:
            mine.append(None)
            continue
        one = next(own)
        mine.append(one)
        known |= dict(zip(_every(item), _every(one), strict=True))

    def name(number: int) -> int:
        return known.setdefault(number, next(FRESH))

    after = {cut.result: next(FRESH) for cut in every}
    items: list[Item] = []
    inside: dict[Cut, list[Item]] = {cut: [] for cut in every}
    for place, item in enumerate(base.items):
        found = mine[place]
        if found is None:
            (found,) = renamed([item], name)
            (found,) = filled([found], iter([WILD for _ in values([found])]))
        else:
            # reads as the base has them, since what is off stands for what is on
            (bare,) = renamed([item], name)
            (found,) = filled([bare], iter([value for *_, value in values([found])]))
        cut = gone.get(place)
        if cut is None:
            (found,) = renamed([found], lambda n: _after(n, after, known))
            items.append(found)
            continue
        (found,) = _outside([found], inside[cut], cut, after, known)
        inside[cut].append(found)
        if place == max(cut.gone):
            flag = cut not in off
            before = _after(name(cut.before), after, known)
            items.append(Option(tuple(inside[cut]), flag, before, name(cut.result), after[cut.result]))
    outputs = tuple(_after(name(number), after, known) for number in base.outputs)
    return Body(body.inputs, tuple(items), outputs, body.types)


def _every(item: Item) -> list[int]:
    return list(written_by(item))


def _after(number: int, after: dict[int, int], known: dict[int, int]) -> int:
    """What stands for a value behind its option."""
    for result, later in after.items():
        if known.get(result) == number:
            return later
    return number


def _outside(
    items: Sequence[Item], inside: Sequence[Item], cut: Cut, after: dict[int, int], known: dict[int, int]
) -> tuple[Item, ...]:
    """Statements of an option, which read what other options leave."""
    others = {result: later for result, later in after.items() if result != cut.result}
    del inside
    return tuple(
        replace(item, reads=tuple(_after(n, others, known) for n in item.reads)) if isinstance(item, Step) else item
        for item in renamed(items, lambda n: n)
    )

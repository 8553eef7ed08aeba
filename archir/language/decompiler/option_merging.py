"""Merges bodies that differ in optional parts into one structure with options.

An option is a conditional part that computes a value `result` from a value `before`. If the option is off, readers of
`result` read `before` instead, and the statements needed only for `result` are absent. Examples are the projection in a
shortcut and the addition at the end of a residual branch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

from archir.language.decompiler.program_tree import (
    FRESH_NUMBERS,
    WILD,
    Body,
    Item,
    Option,
    Step,
    expressions_in,
    inputs_of,
    outputs_of,
    renumbered,
    structure_of,
    with_expressions,
)

MAX_BODY_STATEMENTS = 60
"""Maximum number of statements of a body that is searched for options."""
MAX_CUTS_TRIED = 4_000
"""Maximum number of options, or combinations of them, whose removal is tried for a pair of bodies."""
MAX_CUTS_CONSIDERED = 100_000
"""Maximum number of options, or combinations of them, that are enumerated for a pair of bodies; most are rejected
without being tried."""


@dataclass(frozen=True)
class Cut:
    """Optional part of a body.

    Without the part, the statements with the indices `gone` are absent, and the value `before` replaces `result`.
    """

    gone: frozenset[int]
    result: int
    before: int


def merge_bodies(bodies: Sequence[Body]) -> list[Body]:
    """Merge bodies into as few structures as options allow; each body still computes the same values as before."""
    merged = list(bodies)
    left = sorted(
        {structure_of(body): place for place, body in reversed([*enumerate(bodies)])}.items(),
        key=lambda entry: entry[1],
    )
    forms = [shape for shape, _ in sorted(left, key=lambda entry: -len(bodies[entry[1]].items))]
    examples = dict(left)
    while len(forms) > 1:
        largest, *others = forms
        base = bodies[examples[largest]]
        possible = _possible_cuts(base)
        cuts: dict[object, tuple[Cut, ...]] = {largest: ()}
        for other in others:
            other_cuts = _find_cuts(
                base, bodies[examples[other]], {cut for cut_ in cuts.values() for cut in cut_}, possible
            )
            if other_cuts is not None and _are_disjoint(
                [*{cut for entry in cuts.values() for cut in entry} | {*other_cuts}]
            ):
                cuts[other] = other_cuts
        every = sorted({cut for entry in cuts.values() for cut in entry}, key=lambda cut: max(cut.gone))
        if every:
            for place, body in enumerate(bodies):
                shape = structure_of(body)
                if shape in cuts:
                    merged[place] = _with_options(base, body, every, cuts[shape])
        forms = [entry for entry in others if entry not in cuts]
    return merged


def _find_cuts(base: Body, target: Body, preferred: set[Cut], every: Sequence[Cut]) -> tuple[Cut, ...] | None:
    """Return the cuts that reduce `base` to the structure of `target`, or None. Cuts in `preferred` are tried before
    `every`."""
    if len(base.inputs) != len(target.inputs) or len(base.items) <= len(target.items):
        return None
    shape, base_callees, target_callees = structure_of(target), _callees(base), _callees(target)
    cuts = [*sorted(preferred, key=lambda cut: max(cut.gone)), *every]
    considered = tried = 0
    matches: list[tuple[int, tuple[Cut, ...]]] = []
    queue: deque[tuple[Cut, ...]] = deque([()])
    while queue and not (matches and len(matches[0][1]) <= len(queue[0])):
        partial = queue.popleft()
        taken = {place for cut in partial for place in cut.gone}
        for cut in cuts:
            considered += 1
            if considered > MAX_CUTS_CONSIDERED or tried > MAX_CUTS_TRIED:
                queue.clear()
                break
            if cut.gone & taken:
                continue
            left = [callee for place, callee in enumerate(base_callees) if place not in taken and place not in cut.gone]
            if not _is_subsequence(target_callees, left):
                continue
            if len(left) > len(target_callees):
                if len(partial) < 2:
                    queue.append((*partial, cut))
                continue
            tried += 1
            after = _without_cuts(base, (*partial, cut))
            if structure_of(after) == shape:
                pairs = zip(expressions_in(after.items), expressions_in(target.items), strict=True)
                matches.append((sum(a == b for (*_, a), (*_, b) in pairs), (*partial, cut)))
    return max(matches, key=lambda match: match[0])[1] if matches else None


def _possible_cuts(base: Body) -> list[Cut]:
    """Return the possible cuts of a body, fewest removed statements first; none if it exceeds MAX_BODY_STATEMENTS."""
    cuts = []
    for last, item in enumerate(base.items if len(base.items) <= MAX_BODY_STATEMENTS else ()):
        if len(outputs_of(item)) == 1:
            gone = (
                (_unneeded_statements(base, outputs_of(item)[0], before), before) for before in _ancestors(base, last)
            )
            cuts += [Cut(places, outputs_of(item)[0], before) for places, before in gone if last in places]
    return sorted(cuts, key=lambda cut: len(cut.gone))[:MAX_CUTS_TRIED]


def _ancestors(base: Body, last: int) -> list[int]:
    """Return the values that the statement at index `last` depends on, directly or indirectly."""
    producers = {number: item for item in base.items for number in outputs_of(item)}
    ancestors: dict[int, None] = {}
    stack = [*inputs_of(base.items[last])]
    while stack:
        number = stack.pop()
        if number not in ancestors:
            ancestors[number] = None
            if number in producers:
                stack += inputs_of(producers[number])
    return [*ancestors]


def _unneeded_statements(base: Body, result: int, before: int) -> frozenset[int]:
    """Return the indices of the statements that become dead when `before` replaces `result`."""
    outputs = {before if number == result else number for number in base.outputs}
    unneeded = set()
    needed = set(outputs)
    for place in range(len(base.items) - 1, -1, -1):
        item = base.items[place]
        if needed.isdisjoint(outputs_of(item)):
            unneeded.add(place)
        else:
            needed.update(before if number == result else number for number in inputs_of(item))
    return frozenset(unneeded)


def _without_cuts(base: Body, cuts: Sequence[Cut]) -> Body:
    """Return the body with the optional parts `cuts` removed."""
    replacements = {cut.result: cut.before for cut in cuts}
    removed = {place for cut in cuts for place in cut.gone}

    def name(number: int) -> int:
        while number in replacements:
            number = replacements[number]
        return number

    items = [item for place, item in enumerate(base.items) if place not in removed]
    return Body(base.inputs, renumbered(items, name), tuple(map(name, base.outputs)), base.types)


def _callees(body: Body) -> list[object]:
    """Return the callee of each statement; for loops and options, the statement type instead."""
    return [item.callee if isinstance(item, Step) else type(item) for item in body.items]


def _is_subsequence(part: Sequence[object], sequence: Sequence[object]) -> bool:
    """Return True if `part` is a (not necessarily contiguous) subsequence of `sequence`."""
    remaining = iter(sequence)
    return all(any(item == candidate for candidate in remaining) for item in part)


def _are_disjoint(cuts: Sequence[Cut]) -> bool:
    """Return True if no two cuts have a statement in common."""
    places = [place for cut in cuts for place in cut.gone]
    return len(places) == len(set(places))


def _with_options(base: Body, body: Body, all_cuts: Sequence[Cut], off: Sequence[Cut]) -> Body:
    """Rewrite `body` in the structure of `base`, with one option per cut in `all_cuts`.

    The options in `off` are switched off.
    """
    cut_by_place = {place: cut for cut in all_cuts for place in cut.gone}
    absent = {place for cut in off for place in cut.gone}
    own = iter(body.items)
    numbering: dict[int, int] = dict(zip(base.inputs, body.inputs, strict=True))
    own_items: list[Item | None] = []
    for place, item in enumerate(base.items):
        if place in absent:
            own_items.append(None)
            continue
        own_item = next(own)
        own_items.append(own_item)
        numbering |= dict(zip(_output_list(item), _output_list(own_item), strict=True))

    def name(number: int) -> int:
        return numbering.setdefault(number, next(FRESH_NUMBERS))

    after = {cut.result: next(FRESH_NUMBERS) for cut in all_cuts}
    items: list[Item] = []
    inside: dict[Cut, list[Item]] = {cut: [] for cut in all_cuts}
    for place, item in enumerate(base.items):
        new_item = own_items[place]
        if new_item is None:
            (new_item,) = renumbered([item], name)
            (new_item,) = with_expressions([new_item], iter([WILD for _ in expressions_in([new_item])]))
        else:
            # takes its reads from the base, where values of options that are off are already replaced
            (bare,) = renumbered([item], name)
            (new_item,) = with_expressions([bare], iter([value for *_, value in expressions_in([new_item])]))
        cut = cut_by_place.get(place)
        if cut is None:
            (new_item,) = renumbered([new_item], lambda n: _value_after_option(n, after, numbering))
            items.append(new_item)
            continue
        (new_item,) = _with_other_options([new_item], cut, after, numbering)
        inside[cut].append(new_item)
        if place == max(cut.gone):
            flag = cut not in off
            before = _value_after_option(name(cut.before), after, numbering)
            items.append(Option(tuple(inside[cut]), flag, before, name(cut.result), after[cut.result]))
    outputs = tuple(_value_after_option(name(number), after, numbering) for number in base.outputs)
    return Body(body.inputs, tuple(items), outputs, body.types)


def _output_list(item: Item) -> list[int]:
    return list(outputs_of(item))


def _value_after_option(number: int, after: dict[int, int], numbering: dict[int, int]) -> int:
    """Return the value after the option if `number` is the result of an option, else `number` itself."""
    for result, later in after.items():
        if numbering.get(result) == number:
            return later
    return number


def _with_other_options(
    items: Sequence[Item], cut: Cut, after: dict[int, int], numbering: dict[int, int]
) -> tuple[Item, ...]:
    """Redirect the reads of statements inside an option from the results of other options to the values after these
    options."""
    others = {result: later for result, later in after.items() if result != cut.result}
    return tuple(
        replace(item, reads=tuple(_value_after_option(n, others, numbering) for n in item.reads))
        if isinstance(item, Step)
        else item
        for item in renumbered(items, lambda n: n)
    )

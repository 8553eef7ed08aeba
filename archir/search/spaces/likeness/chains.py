"""Cells that come one after the other, all the same: their values tell apart what the value of one of them does.

Values are polynomials of random numbers with coefficients that are not negative. Where g(f(f(x))) is that of two
architectures alike, so is f(x): the coefficients of f follow one by one from those of the whole, the first one as a
root, of which one is positive. This holds where choices matter to f alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from archir.ir.graph import NodeId
from archir.search.spaces.likeness.steps import Number, Step

_BEGIN = -1
_ZERO = Step()


def places(step: Step) -> set[int]:
    """The positions of the choices that a step looks at."""
    several = [factor for _, factor in step.reads] + [second for _, second, _ in step.then]
    found = {place for one in several if isinstance(one, Number) for place in one.places}
    return found | ({step.place} if step.cases else set())


def shortened(steps: dict[NodeId, Step], root: NodeId) -> NodeId:
    """A node that tells apart what the root does; steps that it needs are added. Where all choices matter to equal
    pieces one after the other, it has one of these; elsewhere, it is the root."""
    pieces = _pieces(steps, root)
    varied = [i for i, piece in enumerate(pieces) if any(places(steps[one]) for one in piece)]
    if len(varied) < 2 or varied[0] == 0 or varied != [*range(varied[0], varied[-1] + 1)]:
        return root
    begin, last = varied[0], varied[-1]
    first = _form(steps, pieces[begin], pieces[begin - 1][-1])
    if any(_form(steps, pieces[i], pieces[i - 1][-1]) != first for i in range(begin + 1, last + 1)):
        return root
    moved = {pieces[last][-1]: pieces[begin][-1]}
    for piece in pieces[last + 1 :]:
        for one in piece:
            moved[one] = max(steps) + 1
            steps[moved[one]] = _renamed(steps[one], moved)
    return moved[root]


def _pieces(steps: Mapping[NodeId, Step], root: NodeId) -> list[list[NodeId]]:
    """What is behind a node as a chain of pieces: each reads the last node of the one before, and zeros."""
    stack, seen = [root], {root}
    last: dict[NodeId, NodeId] = {}
    while stack:
        one = stack.pop()
        for other in steps[one].needs:
            last[other] = max(last.get(other, other), one)
            if other not in seen:
                seen.add(other)
                stack.append(other)
    found: list[list[NodeId]] = [[]]
    far = _BEGIN
    for one in sorted(one for one in seen if steps[one] != _ZERO):
        found[-1].append(one)
        if far <= one:
            found.append([])
        far = max(far, last.get(one, one))
    return found[:-1] if not found[-1] else found


def _form(steps: Mapping[NodeId, Step], piece: Sequence[NodeId], begin: NodeId) -> list[Step]:
    """Equal for pieces that make equal functions of what is before them."""
    names = {one: _BEGIN - i for i, one in enumerate([begin, *piece])}
    return [_renamed(steps[one], names) for one in piece]


def _renamed(step: Step, names: Mapping[NodeId, NodeId]) -> Step:
    reads = tuple([(names.get(one, one), factor) for one, factor in step.reads])
    return replace(step, reads=reads, cases=tuple([names.get(one, one) for one in step.cases]))

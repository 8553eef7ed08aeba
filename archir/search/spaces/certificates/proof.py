"""That no path is within all limits, by looking for one everywhere that multipliers do not rule out.

Beginnings of paths are followed layer by layer. One is left out if no end of it can be within the limits: if the least
that is still to come of one column is too much, or the least of all columns together, each times its multiplier. Of
beginnings that are in one state and have used as much of each limit, the one of the least objective goes on. If nothing
is left, no path is within the limits: that does not depend on where multipliers come from. They make it short.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import repeat
from operator import add, gt, mul

from archir.search.spaces.certificates.layers import Costs, Layer, State, Step, too_long

MOST_TRIED = 10_000_000
"""Steps from beginnings that are tried: about twenty seconds."""


def anything(layers: Sequence[Layer], start: Costs, target: int | None, multipliers: Sequence[int]) -> bool:
    """Whether a path's objective, the first column, is at most a target, and its other columns are at most 0; `start`
    is what all paths have. No target: any objective will do. Multipliers are at least 0. Raises ArchError (A3312)."""
    weights = tuple(multipliers) if target is not None else (0, *multipliers[1:])
    room = weights[0] * (target or 0)
    rests = _rests(layers, weights)
    if () not in rests[0]:
        return False
    beginnings: dict[tuple[State, Costs], int] = {((), start[1:]): start[0]}
    tried = 0
    for layer, rest in zip(layers, rests[1:], strict=True):
        ways = {state: _ways(steps, rest, weights) for state, steps in layer.items()}
        following: dict[tuple[State, Costs], int] = {}
        for (state, used), objective in beginnings.items():
            left = room - _weighed(weights, (objective, *used))
            for together, step, (least, *leasts) in ways[state]:
                if together > left:
                    break
                tried += 1
                total, more = objective + step.costs[0], tuple(map(add, used, step.costs[1:]))
                if (target is not None and total + least > target) or any(map(gt, map(add, more, leasts), repeat(0))):
                    continue
                key = step.after, more
                if key not in following or total < following[key]:
                    following[key] = total
            if tried > MOST_TRIED:
                raise too_long(MOST_TRIED)
        beginnings = following
    return bool(beginnings)


Rest = Mapping[State, tuple[Costs, int]]


def _ways(steps: Sequence[Step], rest: Rest, weights: Costs) -> list[tuple[int, Step, Costs]]:
    """Steps that lead to the end: the least that they and what follows cost together, and what follows in each column;
    the cheapest first."""
    there = [(step, *rest[step.after]) for step in steps if step.after in rest]
    ways = [(_weighed(weights, step.costs) + together, step, least) for step, least, together in there]
    return sorted(ways, key=lambda way: way[0])


def _weighed(weights: Sequence[int], costs: Sequence[int]) -> int:
    return sum(map(mul, weights, costs))


def _rests(layers: Sequence[Layer], weights: Costs) -> list[Rest]:
    """For each layer and state, and at the end, the least that is still to come in each column, and of all of them
    together; states from which there is no way to the end are left out."""
    found: list[Rest] = [{(): ((0,) * len(weights), 0)}]
    for layer in reversed(layers):
        after = found[-1]
        found.append({state: one for state, steps in layer.items() if (one := _least(steps, after, weights))})
    return found[::-1]


def _least(steps: Sequence[Step], after: Rest, weights: Costs) -> tuple[Costs, int] | None:
    ways = _ways(steps, after, weights)
    if not ways:
        return None
    least = tuple([min(step.costs[i] + more[i] for _, step, more in ways) for i in range(len(weights))])
    return least, ways[0][0]

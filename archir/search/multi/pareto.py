"""Pareto dominance of values that are better the less they are: ranks, fronts, crowding, hypervolume."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

Values = Sequence[tuple[float, ...]]


def front(values: Values) -> list[int]:
    """The positions of what nothing dominates, ordered by value; the first one of those that are equal."""
    if not values:
        return []
    from moocore import is_nondominated

    return sorted(map(int, np.flatnonzero(is_nondominated(np.array(values, float)))), key=lambda i: values[i])


def ranks(values: Values) -> list[int]:
    """For each, how many fronts must be taken away until nothing dominates it."""
    if not values:
        return []
    from moocore import pareto_rank

    return [int(rank) for rank in pareto_rank(np.array(values, float))]


def crowding(values: Values) -> list[float]:
    """The crowding distances of one front: in each objective, how far the two neighbours are apart, as a part of what
    all of the front are; infinite at its ends (Deb et al. 2002, section III-B)."""
    points = np.array(values, float)
    found = np.zeros(len(points))
    for column in points.T:
        order = np.argsort(column, kind="stable")
        found[order[[0, -1]]] = np.inf
        extent = column[order[-1]] - column[order[0]]
        if extent > 0:
            found[order[1:-1]] += (column[order[2:]] - column[order[:-2]]) / extent
    return found.tolist()


def hypervolume(values: Values, reference: Sequence[float]) -> float:
    """The volume of what is dominated, up to a reference point."""
    if not values:
        return 0.0
    from moocore import hypervolume as volume

    return float(volume(np.array(values, float), ref=np.array(reference, float)))

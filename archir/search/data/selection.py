"""Which images of a source are used, and for what: functions of labels and seeds, the same on every machine."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from archir.base.errors import fail
from archir.search.seeds import mixed, permutations

Numbers = NDArray[np.int64]

HELD_OUT = 0.2
"""Part of the images that is held out where a source does not say which."""


def held_out(labels: Numbers) -> tuple[Numbers, Numbers]:
    """Rows to train on and rows that are held out, of every class the same part, ascending.

    No seed has a say: what one run trains on or chooses by would be what another one is tested on.
    """
    drawn = permutations(0)
    train, held = [], []
    for label in np.unique(labels):
        (found,) = (labels == label).nonzero()
        found = found[drawn(len(found))]
        count = max(1, round(HELD_OUT * len(found))) if len(found) > 1 else 0
        held.append(found[:count])
        train.append(found[count:])
    return np.sort(np.concatenate(train)), np.sort(np.concatenate(held))


def stratified(labels: Numbers, count: int, seed: int, what: str) -> Numbers:
    """`count` rows, ascending: of every class the same part, up to one image. `what` for is part of the seed."""
    drawn = permutations(mixed(seed, what))
    share, seen, taken, rows = Fraction(count, len(labels)), 0, 0, []
    for label in np.unique(labels):
        (found,) = (labels == label).nonzero()
        seen += len(found)
        quota = int(share * seen + Fraction(1, 2)) - taken
        taken += quota
        rows.append(found[drawn(len(found))[:quota]])
    return np.sort(np.concatenate(rows))


def some_classes(names: tuple[str, ...], count: int, seed: int) -> Numbers:
    """The numbers of `count` of the classes, drawn by a seed, ascending. Raises ArchError (A1113)."""
    if not 2 <= count <= len(names):
        raise fail("A1113", f"{count} classes cannot be chosen of {len(names)}", None, "choose at least two")
    return np.sort(permutations(mixed(seed, "classes"))(len(names))[:count])


def limited(labels: Numbers, limit: int | None, seed: int) -> Numbers:
    """All rows, or as many as the limit says, of every class the same part. Raises ArchError (A1113)."""
    if limit is not None and limit < 1:
        raise fail("A1113", f"at least one image is needed, not {limit}")
    if limit is None or limit >= len(labels):
        return np.arange(len(labels))
    return stratified(labels, limit, seed, "limit")


def halves(labels: Numbers, share: float, seed: int) -> tuple[Numbers, Numbers]:
    """The rows that weights are trained on in a search, and those that choose: each class divided alike, by the seed.

    Raises ArchError (A1113) if a half would be empty.
    """
    count = round(share * len(labels))
    if not 0 < count < len(labels):
        raise fail("A1113", f"{share} of {len(labels)} images leaves a half without images")
    first = stratified(labels, count, seed, "halves")
    return first, np.setdiff1d(np.arange(len(labels)), first)

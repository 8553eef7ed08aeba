"""Which images of a source are used, and for what: functions of labels and seeds, the same on every machine."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from archir.diagnostics.errors import fail
from archir.utils.seeds import mixed, permutations

Numbers = NDArray[np.int64]

HELD_OUT = 0.2
"""Part of the images that is held out where a source does not say which."""


def held_out(labels: Numbers, apart: int | None = None) -> tuple[Numbers, Numbers]:
    """Rows to train on and rows that are held out, of every class the same part, ascending.

    No seed has a say: what one run trains on or chooses by would be what another one is tested on. Of rows that share
    something unless they are so many `apart`, the last ones are held out.
    """
    if apart is not None:
        rows = np.arange(len(labels))
        return cut(rows, len(rows) - int(HELD_OUT * len(rows)), apart)
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


def halves(
    labels: Numbers, share: float, seed: int, rows: Numbers | None = None, apart: int | None = None
) -> tuple[Numbers, Numbers]:
    """The samples that weights are trained on in a search, and those that choose: each class divided alike, by the
    seed. If samples share something unless their `rows` are so many `apart`, the first ones are for weights.

    Raises ArchError (A1113) if a half would be empty.
    """
    count, everything = round(share * len(labels)), np.arange(len(labels))
    if 0 < count < len(labels) and apart is not None:
        first, rest = cut(everything if rows is None else rows, count, apart)
    else:
        first = stratified(labels, count, seed, "halves")
        rest = np.setdiff1d(everything, first)
    if len(first) == 0 or len(rest) == 0:
        raise fail("A1113", f"{share} of {len(labels)} samples leaves a half without samples")
    return first, rest


def cut(rows: Numbers, count: int, apart: int) -> tuple[Numbers, Numbers]:
    """The places of the first `count` of ascending rows, and of those that are so many rows `apart` from them all."""
    return np.arange(count), (rows >= rows[count - 1] + apart).nonzero()[0]

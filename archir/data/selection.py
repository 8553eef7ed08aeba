"""Selects the samples for training, model selection and testing.

All functions depend only on labels and seeds, so that every machine selects the same samples.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from archir.diagnostics.errors import fail
from archir.utils.seeds import derive_seed, permutation_stream

Indices = NDArray[np.int64]

HELD_OUT = 0.2
"""Fraction of samples to hold out if a source has no held-out part."""


def split_held_out(labels: Indices, min_gap: int | None = None) -> tuple[Indices, Indices]:
    """Split samples into training rows and held-out rows, both ascending, stratified by class.

    The split is independent of any seed: otherwise, one run would be tested on samples that another run used for
    training or model selection. For time series (with `min_gap`), the last rows are held out, at least `min_gap`
    rows after the others.
    """
    if min_gap is not None:
        rows = np.arange(len(labels))
        return split_by_time(rows, len(rows) - int(HELD_OUT * len(rows)), min_gap)
    permute = permutation_stream(0)
    train, test = [], []
    for label in np.unique(labels):
        (members,) = (labels == label).nonzero()
        members = members[permute(len(members))]
        count = max(1, round(HELD_OUT * len(members))) if len(members) > 1 else 0
        test.append(members[:count])
        train.append(members[count:])
    return np.sort(np.concatenate(train)), np.sort(np.concatenate(test))


def stratified_rows(labels: Indices, count: int, seed: int, purpose: str) -> Indices:
    """Sample `count` rows, returned in ascending order, stratified by class to within one sample.

    `labels` has shape [n]; `purpose` is mixed into the seed.
    """
    permute = permutation_stream(derive_seed(seed, purpose))
    share, seen, taken, rows = Fraction(count, len(labels)), 0, 0, []
    for label in np.unique(labels):
        (members,) = (labels == label).nonzero()
        seen += len(members)
        quota = int(share * seen + Fraction(1, 2)) - taken
        taken += quota
        rows.append(members[permute(len(members))[:quota]])
    return np.sort(np.concatenate(rows))


def sample_classes(names: tuple[str, ...], count: int, seed: int) -> Indices:
    """Sample `count` class numbers with a seed; return them in ascending order. Raises ArchError (A1113)."""
    if not 2 <= count <= len(names):
        raise fail("A1113", f"cannot choose {count} of {len(names)} classes", None, "choose at least two classes")
    return np.sort(permutation_stream(derive_seed(seed, "classes"))(len(names))[:count])


def limit_rows(labels: Indices, limit: int | None, seed: int) -> Indices:
    """Return all rows, or a stratified sample of `limit` rows if there are more. Raises ArchError (A1113) if `limit`
    is below 1."""
    if limit is not None and limit < 1:
        raise fail("A1113", f"at least one image is needed, not {limit}")
    if limit is None or limit >= len(labels):
        return np.arange(len(labels))
    return stratified_rows(labels, limit, seed, "limit")


def split_for_search(
    labels: Indices, share: float, seed: int, rows: Indices | None = None, min_gap: int | None = None
) -> tuple[Indices, Indices]:
    """Split a search's training samples into rows for training weights and rows for selecting architectures.

    `share` is the fraction of samples on which weights are trained; the seeded split is stratified by class. For time
    series (with `min_gap`), weights are trained on the first samples, and `rows` are the indices of the samples in the
    series. Raises ArchError (A1113) if either set of rows would be empty.
    """
    count, everything = round(share * len(labels)), np.arange(len(labels))
    if 0 < count < len(labels) and min_gap is not None:
        first, second = split_by_time(everything if rows is None else rows, count, min_gap)
    else:
        first = stratified_rows(labels, count, seed, "halves")
        second = np.setdiff1d(everything, first)
    if len(first) == 0 or len(second) == 0:
        raise fail("A1113", f"{share} of {len(labels)} samples leaves a half without samples")
    return first, second


def split_by_time(rows: Indices, count: int, min_gap: int) -> tuple[Indices, Indices]:
    """Split ascending rows by time; return two arrays of indices.

    The first has the indices of the first `count` rows. The second has the indices of all rows that come at least
    `min_gap` after the last of these.
    """
    return np.arange(count), (rows >= rows[count - 1] + min_gap).nonzero()[0]

"""Selects the samples for training, for model selection and for testing, as row subsets of a source's parts.

The selection depends only on labels and seeds, so that every machine selects the same samples.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from archir.data.inputs import Inputs
from archir.data.readers.source import HELD_OUT, Part, Raw, Source
from archir.data.sources import read, source_label
from archir.diagnostics.errors import fail
from archir.utils.seeds import derive_seed, permutation_stream

Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Rows:
    """Subset of the rows of a part (the training or held-out samples of a source).

    `inputs` are the raw inputs of the whole part; `targets` are the targets of the subset only. `labelled` is True if
    the only target is a label. For time series, rows at least `min_gap` apart share no values; for other data,
    `min_gap` is None.
    """

    inputs: Mapping[str, Raw]
    rows: Indices
    targets: Mapping[str, NDArray[Any]]
    labelled: bool
    min_gap: int | None

    @classmethod
    def of(cls, part: Part, source: Source) -> Rows:
        """Return the subset with all rows of a source's part."""
        return cls(part.inputs, np.arange(len(part)), part.targets, bool(source.classes), source.min_gap)

    @property
    def strata(self) -> Indices:
        """Stratum of each row [n]: its label, or 0 if there are no labels."""
        if not self.labelled:
            return np.zeros(len(self.rows), np.int64)
        labels: Indices = next(iter(self.targets.values())).astype(np.int64)
        return labels

    def chosen(self, rows: Indices) -> Rows:
        """Return the subset at the given positions in this subset, in the given order."""
        return replace(self, rows=self.rows[rows], targets={name: array[rows] for name, array in self.targets.items()})

    def of_classes(self, numbers: Indices) -> Rows:
        """Return the subset with the given classes, renumbered from 0."""
        kept = self.chosen(np.isin(self.strata, numbers).nonzero()[0])
        return replace(kept, targets={name: np.searchsorted(numbers, array) for name, array in kept.targets.items()})


def split_source(
    source: Any, inputs: Inputs, labelled: bool = True, by_class: bool = False
) -> tuple[Rows, Rows, tuple[str, ...]]:
    """Return the training rows, held-out rows and class names of a source.

    With `labelled=False`, integer targets are numbers and not labels, and there are no class names. With `by_class`,
    the training rows are those of the first half of the classes, and the held-out rows those of the other classes.
    Raises ArchError (A11xx).
    """
    data = read(source, inputs)
    data = data if labelled else replace(data, classes=())
    everything = Rows.of(data.train, data)
    if by_class:
        held_out = everything if data.held_out is None else Rows.of(data.held_out, data)
        if len(data.classes) < 4:
            text = f"a split by classes needs at least four, and {source_label(source)} has {len(data.classes)}"
            raise fail("A1113", text)
        half = len(data.classes) // 2
        first = everything.chosen((everything.strata < half).nonzero()[0])
        return first, held_out.chosen((held_out.strata >= half).nonzero()[0]), data.classes
    if data.held_out is None:
        first, second = (everything.chosen(rows) for rows in split_held_out(everything.strata, data.min_gap))
        return first, second, data.classes
    return everything, Rows.of(data.held_out, data), data.classes


def selected(
    source: Any, inputs: Inputs, *, seed: int = 0, limit: int | None = None, classes: int | None = None,
    labelled: bool = True, by_class: bool = False,
) -> tuple[Rows, Rows, tuple[str, ...]]:  # fmt: skip
    """Return training rows, held-out rows and class names of a source, after a seeded selection of classes and
    samples.

    `classes` is the number of classes to keep, `limit` the maximum number of samples per part; both are sampled
    with the seed. `labelled`, `by_class`: see `split_source`. Raises ArchError (A11xx).
    """
    train, test, names = split_source(source, inputs, labelled, by_class)
    if classes is not None:
        if not names:
            raise fail("A1113", f"`classes` chooses among labels, and {source_label(source)} has none")
        numbers = sample_classes(names, classes, seed)
        names = tuple(names[number] for number in numbers)
        train, test = train.of_classes(numbers), test.of_classes(numbers)
    if len(train.rows) == 0 or len(test.rows) == 0:
        raise fail("A1113", f"no sample of {source_label(source)} is left to train on, or to hold out")
    first, second = (part.chosen(limit_rows(part.strata, limit, seed)) for part in (train, test))
    return first, second, names


def minibatch(source: Any, inputs: Inputs, count: int, seed: int) -> tuple[Rows, Indices]:
    """Return the training part of a source, and `count` of its rows sampled with a seed. Raises ArchError (A11xx)."""
    train, _, _ = split_source(source, inputs)
    if not 2 <= count <= len(train.rows):
        raise fail("A1111", f"a minibatch of {source_label(source)} has 2 to {len(train.rows)} samples, not {count}")
    return train, permutation_stream(seed)(len(train.rows))[:count]


class Recorded(Protocol):
    """Samples of a split, with their row numbers in the source if known."""

    def __len__(self) -> int:
        """Return the number of samples."""

    @property
    def targets(self) -> Mapping[str, ArrayLike]:
        """Targets by name, each [n, ...]."""

    @property
    def rows(self) -> ArrayLike | None:
        """Row numbers [n] in the part of the source; None if unknown."""


def record(source: str, seed: int, splits: Mapping[str, Recorded]) -> dict[str, Any]:
    """Return JSON data that identify the splits of a run: sample counts, and SHA-256 of rows and targets."""
    return {
        "source": source,
        "seed": seed,
        "splits": {
            name: {"images": len(split), "rows": _hash(split.rows), "labels": _hash(*split.targets.values())}
            for name, split in splits.items()
        },
    }


def verify(stored: Mapping[str, Any], source: str, seed: int, splits: Mapping[str, Recorded]) -> None:
    """Check that splits equal the recorded ones. Raises ArchError (A1114) that names those that differ."""
    now = record(source, seed, splits)
    before = stored.get("splits")
    before = before if isinstance(before, dict) else {}
    differ = [name for name in now["splits"] | before if before.get(name) != now["splits"].get(name)]
    if differ or stored.get("seed") != seed:
        hint = "the data was changed since, or divided with other settings: start a new run"
        what = f"splits {', '.join(differ)}" if differ else f"seed {stored.get('seed')}"
        raise fail("A1114", f"`{source}` does not give the {what} that this run began with", None, hint)


def _hash(*arrays: ArrayLike | None) -> str:
    """Return the SHA-256 of arrays, converted to little-endian float64 or int64."""
    digest = hashlib.sha256()
    for array in arrays:
        values = np.asarray(array if array is not None else [])
        digest.update(values.astype("<f8" if values.dtype.kind == "f" else "<i8").tobytes())
    return digest.hexdigest()


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

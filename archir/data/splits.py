"""The samples of a source that are trained on and those that are held out, by their rows."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from archir.data.inputs import Inputs
from archir.data.readers.encoded import Raw
from archir.data.readers.source import Part, Source
from archir.data.selection import Numbers, held_out, limited, some_classes
from archir.data.sources import called, read
from archir.diagnostics.errors import fail
from archir.utils.seeds import permutations


@dataclass(frozen=True, eq=False)
class Rows:
    """Some rows of a part: raw inputs of all of it, the targets of these, whether the only target is a label, and how
    far apart rows are that share nothing, if they are of a series."""

    inputs: Mapping[str, Raw]
    rows: Numbers
    targets: Mapping[str, NDArray[Any]]
    labelled: bool
    apart: int | None

    @classmethod
    def of(cls, part: Part, source: Source) -> Rows:
        """All rows of a source's part."""
        return cls(part.inputs, np.arange(len(part)), part.targets, bool(source.classes), source.apart)

    @property
    def strata(self) -> Numbers:
        """What samples are divided by, each kind alike: their labels, or nothing."""
        if not self.labelled:
            return np.zeros(len(self.rows), np.int64)
        labels: Numbers = next(iter(self.targets.values())).astype(np.int64)
        return labels

    def chosen(self, rows: Numbers) -> Rows:
        """Some of them, in this order."""
        return replace(self, rows=self.rows[rows], targets={name: one[rows] for name, one in self.targets.items()})

    def of_classes(self, numbers: Numbers) -> Rows:
        """Those of some classes, which are numbered anew."""
        kept = self.chosen(np.isin(self.strata, numbers).nonzero()[0])
        return replace(kept, targets={name: np.searchsorted(numbers, one) for name, one in kept.targets.items()})


def divided(source: Any, inputs: Inputs, labelled: bool = True) -> tuple[Rows, Rows, tuple[str, ...]]:
    """The rows to train on, those that are held out, and the names of the classes: none if what looks like a label
    is a number, not `labelled`. Raises ArchError (A11xx)."""
    found = read(source, inputs)
    found = found if labelled else replace(found, classes=())
    everything = Rows.of(found.train, found)
    if found.held_out is None:
        first, rest = (everything.chosen(rows) for rows in held_out(everything.strata, found.apart))
        return first, rest, found.classes
    return everything, Rows.of(found.held_out, found), found.classes


def selected(
    source: Any, inputs: Inputs, *, seed: int = 0, limit: int | None = None, classes: int | None = None,
    labelled: bool = True,
) -> tuple[Rows, Rows, tuple[str, ...]]:  # fmt: skip
    """The same of so many of the classes, and of so many samples of either part at most, drawn by the seed."""
    train, rest, names = divided(source, inputs, labelled)
    if classes is not None:
        if not names:
            raise fail("A1113", f"`classes` chooses among labels, and {called(source)} has none")
        numbers = some_classes(names, classes, seed)
        names = tuple(names[number] for number in numbers)
        train, rest = train.of_classes(numbers), rest.of_classes(numbers)
    if len(train.rows) == 0 or len(rest.rows) == 0:
        raise fail("A1113", f"no sample of {called(source)} is left to train on, or to hold out")
    first, second = (part.chosen(limited(part.strata, limit, seed)) for part in (train, rest))
    return first, second, names


def minibatch(source: Any, inputs: Inputs, count: int, seed: int) -> tuple[Rows, Numbers]:
    """The training part of a source, and which `count` of it a seed draws. Raises ArchError (A11xx)."""
    train, _, _ = divided(source, inputs)
    if not 2 <= count <= len(train.rows):
        raise fail("A1111", f"a minibatch of {called(source)} has 2 to {len(train.rows)} samples, not {count}")
    return train, permutations(seed)(len(train.rows))[:count]


class Recorded(Protocol):
    """Samples, and maybe which rows of their source's part they are."""

    def __len__(self) -> int:
        """How many."""

    @property
    def targets(self) -> Mapping[str, ArrayLike]:
        """Targets by name, each [n, ...]."""

    @property
    def rows(self) -> ArrayLike | None:
        """Integers [n]."""


def record(source: str, seed: int, splits: Mapping[str, Recorded]) -> dict[str, Any]:
    """What a run stores to know its splits again, for JSON: how many samples, and SHA-256 of their rows and targets."""
    return {
        "source": source,
        "seed": seed,
        "splits": {
            name: {"images": len(split), "rows": _hash(split.rows), "labels": _hash(*split.targets.values())}
            for name, split in splits.items()
        },
    }


def verify(stored: Mapping[str, Any], source: str, seed: int, splits: Mapping[str, Recorded]) -> None:
    """Whether splits are the recorded ones. Raises ArchError (A1114) naming those that differ."""
    now = record(source, seed, splits)
    before = stored.get("splits")
    before = before if isinstance(before, dict) else {}
    differ = [name for name in now["splits"] | before if before.get(name) != now["splits"].get(name)]
    if differ or stored.get("seed") != seed:
        hint = "the data was changed since, or divided with other settings: start a new run"
        what = f"splits {', '.join(differ)}" if differ else f"seed {stored.get('seed')}"
        raise fail("A1114", f"`{source}` does not give the {what} that this run began with", None, hint)


def _hash(*arrays: ArrayLike | None) -> str:
    found = hashlib.sha256()
    for array in arrays:
        listed = np.asarray(array if array is not None else [])
        found.update(listed.astype("<f8" if listed.dtype.kind == "f" else "<i8").tobytes())
    return found.hexdigest()

"""The images of a source that are trained on and those that are held out, by their rows."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from archir.base.errors import fail
from archir.search.data.readers.encoded import Raw
from archir.search.data.selection import Numbers, held_out, limited, some_classes
from archir.search.data.sources import read
from archir.search.seeds import permutations

Size = tuple[int, int, int]


@dataclass(frozen=True, eq=False)
class Rows:
    """Some rows of raw pixels, and their labels."""

    pixels: Raw
    rows: Numbers
    labels: Numbers

    def chosen(self, rows: Numbers) -> Rows:
        """Some of them, in this order."""
        return Rows(self.pixels, self.rows[rows], self.labels[rows])

    def of_classes(self, numbers: Numbers) -> Rows:
        """Those of some classes, which are numbered anew."""
        kept = self.chosen(np.isin(self.labels, numbers).nonzero()[0])
        return replace(kept, labels=np.searchsorted(numbers, kept.labels))


def divided(source: str, size: Size) -> tuple[Rows, Rows, tuple[str, ...]]:
    """The rows to train on, those that are held out, and the names of the classes. Raises ArchError (A11xx)."""
    found = read(source, size)
    train, held = found.train, found.held_out
    if held is None:
        first, rest = (Rows(train.pixels, rows, train.labels[rows]) for rows in held_out(train.labels))
    else:
        first, rest = (Rows(part.pixels, np.arange(len(part.labels)), part.labels) for part in (train, held))
    return first, rest, found.classes


def selected(
    source: str, size: Size, *, seed: int = 0, limit: int | None = None, classes: int | None = None
) -> tuple[Rows, Rows, tuple[str, ...]]:
    """The same of so many of the classes, and of so many images of either part at most, drawn by the seed."""
    train, rest, names = divided(source, size)
    if classes is not None:
        numbers = some_classes(names, classes, seed)
        names = tuple(names[number] for number in numbers)
        train, rest = train.of_classes(numbers), rest.of_classes(numbers)
    if len(train.rows) == 0 or len(rest.rows) == 0:
        raise fail("A1113", f"no image of `{source}` is left to train on, or to hold out")
    first, second = (part.chosen(limited(part.labels, limit, seed)) for part in (train, rest))
    return first, second, names


def minibatch(source: str, size: Size, count: int, seed: int) -> tuple[Rows, Numbers]:
    """The training part of a source, and which `count` of it a seed draws. Raises ArchError (A11xx)."""
    train, _, _ = divided(source, size)
    if not 2 <= count <= len(train.rows):
        raise fail("A1111", f"a minibatch of `{source}` has 2 to {len(train.rows)} images, not {count}")
    return train, permutations(seed)(len(train.rows))[:count]


class Labelled(Protocol):
    """Labelled images, and maybe which rows of their source's part they are."""

    @property
    def labels(self) -> ArrayLike:
        """Integers [n]."""

    @property
    def rows(self) -> ArrayLike | None:
        """Integers [n]."""


def record(source: str, seed: int, splits: Mapping[str, Labelled]) -> dict[str, Any]:
    """What a run stores to know its splits again, for JSON: how many images, and SHA-256 of their rows and labels."""
    return {
        "source": source,
        "seed": seed,
        "splits": {
            name: {"images": len(np.asarray(split.labels)), "rows": _hash(split.rows), "labels": _hash(split.labels)}
            for name, split in splits.items()
        },
    }


def verify(stored: Mapping[str, Any], source: str, seed: int, splits: Mapping[str, Labelled]) -> None:
    """Whether splits are the recorded ones. Raises ArchError (A1114) naming those that differ."""
    now = record(source, seed, splits)
    before = stored.get("splits")
    before = before if isinstance(before, dict) else {}
    differ = [name for name in now["splits"] | before if before.get(name) != now["splits"].get(name)]
    if differ or stored.get("seed") != seed:
        hint = "the data was changed since, or divided with other settings: start a new run"
        what = f"splits {', '.join(differ)}" if differ else f"seed {stored.get('seed')}"
        raise fail("A1114", f"`{source}` does not give the {what} that this run began with", None, hint)


def _hash(numbers: ArrayLike | None) -> str:
    listed = np.asarray(numbers if numbers is not None else [])
    return hashlib.sha256(listed.astype("<i8").tobytes()).hexdigest()

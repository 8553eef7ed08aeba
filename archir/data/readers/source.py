"""What the readers of sources give, and what they check."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from archir.data.inputs import Inputs
from archir.data.readers.encoded import Raw
from archir.diagnostics.errors import ArchError, fail
from archir.plugins.registry import Registry

MOST = 100_000
"""Classes that data may have."""
LARGEST = 1 << 34
"""Bytes that one array of a file may have."""
PACKED = 20
"""What a byte of a packed file may stand for where arrays are large: images pack to a fifth of their size."""
SMALL = 1 << 26
"""Bytes up to which all arrays of a file together may be packed as densely as they like."""


@dataclass(frozen=True, eq=False)
class Part:
    """Samples: raw inputs and targets by their names, each with a row for every sample."""

    inputs: Mapping[str, Raw]
    targets: Mapping[str, NDArray[Any]]

    def __len__(self) -> int:
        return len(next(iter({**self.inputs, **self.targets}.values())))


def of_images(pixels: Raw, labels: NDArray[np.int64]) -> Part:
    """Images with a label [n] each."""
    return Part({"image": pixels}, {"label": labels})


@dataclass(frozen=True, eq=False)
class Source:
    """The samples to train on, those held out if the source says which, and the names of the classes if the only target
    is a label.

    Samples of a series are in its order, and two of one part share nothing if they are `apart` rows or more from each
    other: such parts are divided by a cut, and others by drawing.
    """

    train: Part
    held_out: Part | None
    classes: tuple[str, ...]
    apart: int | None = None

    @property
    def parts(self) -> tuple[Part, ...]:
        """The parts there are."""
        return (self.train,) if self.held_out is None else (self.train, self.held_out)


SOURCES: Registry[str, Callable[[str, Inputs], Any]] = Registry("source of data", "sources of data")
"""How sources are read, by what their names begin with."""

Reader = TypeVar("Reader", bound=Callable[[str, Inputs], Any])


def source(name: str) -> Callable[[Reader], Reader]:
    """Register a function as the source `NAME:REST`: of the rest, and the inputs of the net, it gives a `Source`, or
    whatever Python has that can be one (see `archir.data.objects`)."""

    def register(read: Reader) -> Reader:
        SOURCES.register(name, read)
        return read

    return register


def classes_of(*parts: Part, certain: bool = False) -> tuple[str, ...]:
    """The names of classes of parts whose only target is a label, an integer from 0 for each sample; else none.

    Integers are taken for labels where there are twice as many samples as different ones and more samples than the
    largest one, or if it is `certain`.
    """
    columns = [next(iter(part.targets.values())) for part in parts if len(part.targets) == 1]
    labels = [one for one in columns if one.ndim == 1 and one.dtype.kind in "iub" and len(one)]
    if len(labels) < len(parts) or any(int(one.min()) < 0 or int(one.max()) >= MOST for one in labels):
        return ()
    found = np.concatenate(labels)
    if not certain and (2 * len(np.unique(found)) > len(found) or int(found.max()) >= len(found)):
        return ()
    return numbered(*labels)


def labelled(where: str, labels: NDArray[Any], classes: int | None = None) -> NDArray[np.int64]:
    """Labels [n] as int64. Raises ArchError (A1102) unless they are integers from 0, below the number of classes."""
    if not np.issubdtype(labels.dtype, np.integer) or labels.ndim != 1 or len(labels) == 0:
        raise fail("A1102", f"{where} must hold integers from 0, got {labels.dtype} of shape {list(labels.shape)}")
    low, high, most = int(labels.min()), int(labels.max()), MOST if classes is None else classes
    if low < 0 or high >= most:
        wrong = low if low < 0 else high
        hint = "-1 often means that labels were left out: that part cannot be used" if low < 0 else None
        raise fail("A1102", f"{where} must hold integers from 0 to {most - 1}, got {wrong}", None, hint)
    return labels.astype(np.int64)


def numbered(*parts: NDArray[np.int64]) -> tuple[str, ...]:
    """Names for classes that have none: their numbers."""
    return tuple(map(str, range(max(int(labels.max()) for labels in parts) + 1)))


def unreadable(path: Path | str, error: object) -> ArchError:
    """The diagnostic for a source that cannot be read."""
    return fail("A1101", f"cannot read {path}: {error}")

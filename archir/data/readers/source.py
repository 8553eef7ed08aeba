"""Data sources as returned by all readers, the registry of readers, and checks shared by readers."""

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

MAX_CLASSES = 100_000
"""Maximum number of classes of a data set."""
MAX_ARRAY_BYTES = 1 << 34
"""Maximum size in bytes of one array in a file (16 GiB)."""
MAX_COMPRESSION = 20
"""Maximum ratio of uncompressed to compressed size for large arrays; images compress to about a fifth of their
size."""
UNCHECKED_BYTES = 1 << 26
"""The arrays of a file may have any compression ratio if their total uncompressed size is at most this many
bytes (64 MiB)."""


@dataclass(frozen=True, eq=False)
class Part:
    """Training or held-out part of a source: raw inputs and targets by name, each with one row per sample."""

    inputs: Mapping[str, Raw]
    targets: Mapping[str, NDArray[Any]]

    def __len__(self) -> int:
        return len(next(iter({**self.inputs, **self.targets}.values())))


def image_part(pixels: Raw, labels: NDArray[np.int64]) -> Part:
    """Return a part of images with one label each; `labels` has shape [n]."""
    return Part({"image": pixels}, {"label": labels})


@dataclass(frozen=True, eq=False)
class Source:
    """Data set: training samples, held-out samples (None if the source defines none), and class names.

    `classes` is () unless the only target is a label. For time series, the samples are in temporal order, and two
    samples of a part share no values if they are at least `min_gap` rows apart. Parts of time series are split by time,
    all other parts at random.
    """

    train: Part
    held_out: Part | None
    classes: tuple[str, ...]
    min_gap: int | None = None

    @property
    def parts(self) -> tuple[Part, ...]:
        """The parts of the source: training, then held-out if there is one."""
        return (self.train,) if self.held_out is None else (self.train, self.held_out)


SOURCES: Registry[str, Callable[[str, Inputs], Any]] = Registry(
    "source of data", "sources of data", "archir.data.readers"
)
"""Readers of data sources, by the prefix in the source's name."""

Reader = TypeVar("Reader", bound=Callable[[str, Inputs], Any])


def source(name: str) -> Callable[[Reader], Reader]:
    """Return a decorator that registers a function as the reader for sources `NAME:REST`.

    The function receives REST and the inputs of the net. It returns a `Source`, or any Python object that
    `archir.data.python_data` can convert to one.
    """

    def register(read: Reader) -> Reader:
        """Register `read` under the name."""
        SOURCES.register(name, read)
        return read

    return register


def classes_of(*parts: Part, are_labels: bool = False) -> tuple[str, ...]:
    """Return the class names of parts whose only target is a label (an integer from 0); else ().

    Integers count as labels if there are at least twice as many samples as distinct values, and more samples than
    the largest value; `are_labels` skips this heuristic.
    """
    columns = [next(iter(part.targets.values())) for part in parts if len(part.targets) == 1]
    labels = [column for column in columns if column.ndim == 1 and column.dtype.kind in "iub" and len(column)]
    if len(labels) < len(parts) or any(int(column.min()) < 0 or int(column.max()) >= MAX_CLASSES for column in labels):
        return ()
    all_labels = np.concatenate(labels)
    if not are_labels and (
        2 * len(np.unique(all_labels)) > len(all_labels) or int(all_labels.max()) >= len(all_labels)
    ):
        return ()
    return number_names(*labels)


def check_labels(display_name: str, labels: NDArray[Any], classes: int | None = None) -> NDArray[np.int64]:
    """Check labels [n] and return them as int64.

    Raises ArchError (A1102) unless all labels are integers with 0 <= label < `classes` (default: MAX_CLASSES).
    """
    if not np.issubdtype(labels.dtype, np.integer) or labels.ndim != 1 or len(labels) == 0:
        raise fail(
            "A1102", f"{display_name} must hold integers from 0, got {labels.dtype} of shape {list(labels.shape)}"
        )
    low, high, limit = int(labels.min()), int(labels.max()), MAX_CLASSES if classes is None else classes
    if low < 0 or high >= limit:
        wrong = low if low < 0 else high
        hint = "-1 often means that labels are withheld: this part cannot be used" if low < 0 else None
        raise fail("A1102", f"{display_name} must hold integers from 0 to {limit - 1}, got {wrong}", None, hint)
    return labels.astype(np.int64)


def number_names(*parts: NDArray[np.int64]) -> tuple[str, ...]:
    """Return the class numbers as class names, for data sets without class names."""
    return tuple(map(str, range(max(int(labels.max()) for labels in parts) + 1)))


def read_error(path: Path | str, error: object) -> ArchError:
    """Return the error (A1101) for an unreadable source."""
    return fail("A1101", f"cannot read {path}: {error}")

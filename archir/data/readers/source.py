"""Data sources as returned by all readers, the registry of readers, and what several readers need."""

from __future__ import annotations

import importlib
import io
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from archir.data.inputs import Inputs
from archir.data.resizing import Resizing, random_crop_boxes
from archir.diagnostics.errors import ArchError, describe_error, fail
from archir.diagnostics.hints import suggest_file
from archir.plugins.registry import Registry

if TYPE_CHECKING:  # Pillow is imported with the first image
    from PIL import Image

HELD_OUT = 0.2
"""Fraction of samples to hold out if a source has no held-out part."""
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


_MAX_PIXELS = 1 << 26
"""Maximum number of pixels of an image, according to its file header."""
CHUNKS = 2 * (os.cpu_count() or 1)
"""Number of chunks into which a batch of images is divided for the decoding threads.

Submitting images to threads one by one takes as long as decoding a small image.
"""

Fetch = Callable[[int], tuple[str, bytes]]
"""Maps a row number to the image's name (for messages) and its file content."""


@dataclass(frozen=True, eq=False)
class EncodedImages:
    """Lazy array of image files: indexing with row numbers decodes them to uint8 [n, C, H, W].

    `fetch` loads the file of a row, `count` is the number of images, and `size` is the [C, H, W] to which images
    are converted, as `resizing` says. Indexing raises ArchError (A1104) if a file cannot be decoded.
    """

    fetch: Fetch
    count: int
    size: tuple[int, int, int]
    resizing: Resizing = field(default_factory=Resizing)

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, rows: NDArray[np.int64]) -> NDArray[np.uint8]:
        return self._decode(rows, lambda position, picture: self.resizing.fit(picture, self.size[1:]))

    def random_crops(
        self, rows: NDArray[np.int64], draws: NDArray[np.float64], area: tuple[float, float], ratio: tuple[float, float]
    ) -> NDArray[np.uint8]:
        """Decode a random part of each image (see `random_crop_boxes`) instead of its centre."""

        def crop(position: int, picture: Image.Image) -> Image.Image:
            (box,) = random_crop_boxes([picture.height], [picture.width], draws[[position]], area, ratio)
            return self.resizing.fit_box(picture, tuple(box.tolist()), self.size[1:])

        return self._decode(rows, crop)

    def _decode(self, rows: NDArray[np.int64], fit: Callable[[int, Image.Image], Image.Image]) -> NDArray[np.uint8]:
        """Decode images; `fit` returns a decoded image in the net's size, given its position in the batch."""
        numbers = rows.tolist()
        ascending = sorted(range(len(numbers)), key=numbers.__getitem__)  # read sources sequentially
        files = {position: self.fetch(numbers[position]) for position in ascending}
        images = np.empty((len(numbers), *self.size), np.uint8)

        def put(chunk: list[int]) -> None:
            """Decode one chunk of images into the batch."""
            for position in chunk:
                images[position] = decode_image(*files[position], self.size[0], partial(fit, position))

        positions = list(files)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow warns about harmless oddities; real failures raise
            chunks = [positions[begin::CHUNKS] for begin in range(min(CHUNKS, len(positions)))]
            list(_threads().map(put, chunks))
        return images


@cache
def _threads() -> ThreadPoolExecutor:
    """Return the decoding thread pool. A forked process creates its own, since threads do not survive a fork."""
    return ThreadPoolExecutor(os.cpu_count(), "decode")


os.register_at_fork(after_in_child=_threads.cache_clear)


def decode_image(
    name: str, content: bytes, channels: int, fit: Callable[[Image.Image], Image.Image]
) -> NDArray[np.uint8]:
    """Decode an image file to uint8 [C, H, W]; `fit` resizes the decoded image. Raises ArchError (A1104)."""
    from PIL import Image

    try:
        with Image.open(io.BytesIO(content)) as image:
            if image.width * image.height > _MAX_PIXELS:
                raise fail("A1104", f"{name} claims to be an image of {image.width} x {image.height} pixels")
            picture: Image.Image = image
            if picture.mode != (mode := "RGB" if channels == 3 else "L"):
                picture = picture.convert(mode)
            pixels = np.asarray(fit(picture))
    except (OSError, ValueError, SyntaxError, EOFError, IndexError, OverflowError, Image.DecompressionBombError) as e:
        raise fail("A1104", f"{name} cannot be decoded as an image: {e}") from None
    return pixels[None] if channels == 1 else pixels.transpose(2, 0, 1)


Raw = NDArray[np.uint8] | NDArray[np.float32] | EncodedImages
"""Input array [n, ...] of a source: uint8 pixels, float32 numbers (images in [0, 1]), or encoded image files."""


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

    @classmethod
    def of(cls, parts: Sequence[Part], classes: tuple[str, ...] = (), min_gap: int | None = None) -> Source:
        """Return the source with one or two parts: training samples, and held-out samples if there are two."""
        return cls(parts[0], parts[1] if len(parts) > 1 else None, classes, min_gap)

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
    return tuple(map(str, range(int(all_labels.max()) + 1)))


def check_labels(display_name: str, labels: NDArray[Any], classes: int | None = None) -> NDArray[np.int64]:
    """Check labels [n] and return them as int64.

    Raises ArchError (A1102) unless all labels are integers with 0 <= label < `classes` (default: MAX_CLASSES).
    """
    if not np.issubdtype(labels.dtype, np.integer) or labels.ndim != 1 or len(labels) == 0:
        shape = list(labels.shape)
        raise fail("A1102", f"{display_name} must hold integers from 0, got {labels.dtype} of shape {shape}")
    low, high, limit = int(labels.min()), int(labels.max()), MAX_CLASSES if classes is None else classes
    if low < 0 or high >= limit:
        wrong = low if low < 0 else high
        hint = "-1 often means that labels are withheld: this part cannot be used" if low < 0 else None
        raise fail("A1102", f"{display_name} must hold integers from 0 to {limit - 1}, got {wrong}", None, hint)
    return labels.astype(np.int64)


def read_error(path: Path | str, error: Exception | str) -> ArchError:
    """Return the error (A1101) for an unreadable source."""
    reason = error if isinstance(error, str) else describe_error(error)
    return fail("A1101", f"cannot read {path}: {reason}", None, suggest_file(Path(path)))


def existing_path(name: str | Path) -> Path:
    """Convert a name to a path. Raises ArchError (A1101) if it does not exist."""
    if not Path(name).exists():
        raise fail("A1101", f"there is no file or folder {name}", None, suggest_file(Path(name)))
    return Path(name)


def split_targets(name: str) -> tuple[Path, list[str]]:
    """Split `PATH#TARGET,TARGET` into path and target columns."""
    path, _, targets = name.partition("#")
    return Path(path), [target.strip() for target in targets.split(",") if target.strip()]


def split_files(files: Sequence[Path]) -> list[list[Path]]:
    """Divide files into those of the training part and, if there are any, those of the held-out part.

    Names of held-out files start with `test` or `val`, names of the others with `train`; without such a name, files
    are for training.
    """
    test = [file for file in files if file.name.startswith(("test", "val"))]
    train = [file for file in files if file.name.startswith("train")] or [file for file in files if file not in test]
    return [train, test] if train and test else [train or test]


def require_package(package: str, extra: str, feature: str, or_else: str = "") -> Any:
    """Import an optional package.

    `extra` is the extra of archir that installs the package; `feature` is the text that messages use for the feature
    that needs it. Raises ArchError (A1112), with the install command and `or_else` as a hint, if the package is not
    installed.
    """
    try:
        return importlib.import_module(package)
    except ImportError as error:
        hint = f"pip install 'archir[{extra}]'{or_else}"
        raise fail("A1112", f"{feature} needs the package `{package.split('.')[0]}`: {error}", None, hint) from None

"""Samples of one input, indexed by row: either a tensor, or an object that computes rows on request.

Raw images are uint8, or float32 from 0 to 1. Networks get normalised float32 images of their input size. Other
floating-point inputs are normalised as well; integers are passed unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, Protocol
from weakref import WeakKeyDictionary, WeakValueDictionary

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from archir.data.readers.source import EncodedImages, Raw
from archir.data.resizing import Resizing
from archir.ir.types import TensorType

Device = torch.device | str

MAX_FLOAT_BYTES = 64 << 20
"""Maximum size in bytes of an input that is stored as float32; larger uint8 data are converted row by row on
request."""
MAX_STORED_BYTES = 1 << 30
"""Maximum size in bytes of decoded images that are kept in memory (uint8).

Larger sets of images are decoded on request.
"""
_CHUNK = 1024
"""Number of rows processed at a time."""
_STATISTICS_ROWS = 4096
"""Number of rows from which the statistics are estimated if rows are computed on request."""
_LUMINANCE = (0.299, 0.587, 0.114)
"""Weights of red, green and blue for the conversion to grey."""


class Pixels(Protocol):
    """Protocol of all samples of one input, [n, ...]. Tensors implement it."""

    def __len__(self) -> int:
        """Return the number n of samples."""

    def __getitem__(self, rows: Tensor) -> Tensor:
        """Return the samples at the given rows [k], in their order: [k, ...]."""

    def to(self, device: Device) -> Pixels:
        """Return the same samples such that indexing returns tensors on `device`.

        Row indices must also be on `device`, unless the samples have the attribute `reads_on`, which names another
        device.
        """


def reads_on(pixels: Pixels, device: Device) -> torch.device:
    """Return the device on which row indices must be, for samples on `device`: the CPU for samples that are read
    from files."""
    return torch.device(getattr(pixels, "reads_on", device))


@dataclass(frozen=True, eq=False)
class RowSubset:
    """Subset of other samples, selected by row."""

    pixels: Pixels
    rows: Tensor

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, rows: Tensor) -> Tensor:
        return self.pixels[self.rows[rows]]

    @property
    def reads_on(self) -> torch.device:
        """Device of the row indices."""
        return self.rows.device

    def to(self, device: Device) -> RowSubset:
        """Return the samples on a device, with the row indices on the device that the samples require."""
        pixels = self.pixels.to(device)
        return RowSubset(pixels, self.rows.to(reads_on(pixels, device)))


@dataclass(frozen=True, eq=False)
class Cast:
    """Samples cast to another dtype."""

    pixels: Pixels
    dtype: torch.dtype
    device: Device = "cpu"

    def __len__(self) -> int:
        return len(self.pixels)

    def __getitem__(self, rows: Tensor) -> Tensor:
        return self.pixels[rows].to(self.dtype)

    @property
    def reads_on(self) -> torch.device:
        """Device of row indices, as the underlying samples require it."""
        return reads_on(self.pixels, self.device)

    def to(self, device: Device) -> Cast:
        """Return the same samples on a device."""
        return replace(self, pixels=self.pixels.to(device), device=device)


@dataclass(frozen=True, eq=False)
class DecodedFiles:
    """Image files that are decoded to uint8 on request. Raises ArchError (A1104) for a file that cannot be decoded."""

    files: EncodedImages
    device: Device = "cpu"
    reads_on = torch.device("cpu")

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, rows: Tensor) -> Tensor:
        return _to_device(torch.from_numpy(self.files[rows.cpu().numpy()]), self.device)

    def random_crops(
        self, rows: Tensor, draws: NDArray[np.float64], area: tuple[float, float], ratio: tuple[float, float]
    ) -> Tensor:
        """Return a random part of each image instead of its centre (see `archir.data.resizing.random_crop_boxes`)."""
        images = self.files.random_crops(rows.cpu().numpy(), draws, area, ratio)
        return _to_device(torch.from_numpy(images), self.device)

    def to(self, device: Device) -> DecodedFiles:
        """Return the same samples on a device."""
        return replace(self, device=device)


@dataclass(frozen=True, eq=False)
class MemoryMapped:
    """Rows in a memory-mapped array, read from disk on request."""

    array: NDArray[Any]
    device: Device = "cpu"
    reads_on = torch.device("cpu")

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, rows: Tensor) -> Tensor:
        return _to_device(torch.from_numpy(self.array[rows.cpu().numpy()]), self.device)

    def to(self, device: Device) -> MemoryMapped:
        """Return the same samples on a device."""
        return replace(self, device=device)


def _to_device(samples: Tensor, device: Device) -> Tensor:
    """Move samples to a device; the copy to a GPU is asynchronous, from pinned memory."""
    if torch.device(device).type != "cuda":
        return samples.to(device)
    return samples.pin_memory().to(device, non_blocking=True)


def read_rows(pixels: Raw, rows: Tensor, keep_files: bool = False) -> Pixels:
    """Read rows of raw samples into memory.

    If the rows exceed `MAX_STORED_BYTES`, returns samples that are read or decoded on request instead; so it does for
    image files with `keep_files`, because random crops are taken from the original images.
    """
    if isinstance(pixels, np.memmap) and len(rows) * pixels[:1].nbytes > MAX_STORED_BYTES:
        return RowSubset(MemoryMapped(pixels), rows)
    if not isinstance(pixels, EncodedImages):
        return torch.from_numpy(pixels[rows.numpy()])
    channels, height, width = pixels.size
    decoded = DecodedFiles(pixels)
    if keep_files or len(rows) * channels * height * width > MAX_STORED_BYTES:
        return RowSubset(decoded, rows)
    return torch.cat([decoded[chunk] for chunk in rows.split(_CHUNK)])


@dataclass(frozen=True, eq=False)
class Normalised:
    """Raw samples that are converted to float32, resized to the net's input size and normalised on request."""

    raw: Pixels
    size: tuple[int, ...]
    mean: Tensor
    std: Tensor
    resizing: Resizing = field(default_factory=Resizing)

    def __len__(self) -> int:
        return len(self.raw)

    @property
    def reads_on(self) -> torch.device:
        """Device of row indices, as the raw samples require it."""
        return reads_on(self.raw, self.mean.device)

    def __getitem__(self, rows: Tensor) -> Tensor:
        return self.normalise(to_input_size(self.raw[rows], self.size, self.resizing))

    def normalise(self, images: Tensor) -> Tensor:
        """Return float32 samples of the net's input size as the net takes them."""
        return (images - self.mean) / self.std

    def to(self, device: Device) -> Normalised:
        """Return the same samples on a device. All calls for the same device share one copy as long as it is in use."""
        copies = _DEVICE_COPIES.setdefault(self, WeakValueDictionary())
        copy = copies.get(str(device))
        if copy is None:
            copy = replace(self, raw=self.raw.to(device), mean=self.mean.to(device), std=self.std.to(device))
            copies[str(device)] = copy
        return copy


_DEVICE_COPIES: WeakKeyDictionary[Normalised, WeakValueDictionary[str, Normalised]] = WeakKeyDictionary()
"""Copies of samples by device, for each original; a copy is forgotten when it is no longer in use."""


def select_rows(pixels: Pixels, rows: Tensor) -> Pixels:
    """Return a subset of samples by row: a tensor if the samples are a tensor, otherwise a `RowSubset`."""
    return pixels[rows] if isinstance(pixels, Tensor) else RowSubset(pixels, rows)


def normalise(raw: Pixels, size: tuple[int, ...], mean: Tensor, std: Tensor, resizing: Resizing) -> Pixels:
    """Return normalised samples of the net's input size.

    The result is a tensor if the float32 samples fit into `MAX_FLOAT_BYTES` or the raw samples are floating-point
    numbers in memory. Otherwise samples are normalised on request.
    """
    lazy = Normalised(raw, size, mean, std, resizing)
    is_small = 4 * len(raw) * prod(size) <= MAX_FLOAT_BYTES
    if not isinstance(raw, Tensor) or not (is_small or raw.is_floating_point()):
        return lazy
    return lazy[torch.arange(len(raw))]


def to_input_size(images: Tensor, size: tuple[int, ...], resizing: Resizing) -> Tensor:
    """Convert raw images to float32 from 0 to 1 with the channels, height and width of the net's input.

    Inputs that are not images are only converted to float32.
    """
    if len(size) != 3:
        return images.float()
    are_bytes, images = images.dtype == torch.uint8, to_channels(images, size[0])
    height, width = resizing.resized_size(images.shape[2], images.shape[3], size[1:])
    if images.shape[2:] != (height, width):
        mode = resizing.interpolation
        images = F.interpolate(images, (height, width), mode=mode, antialias=True, align_corners=False)
        images = images.clamp(0, 1) if are_bytes else images  # bicubic interpolation overshoots
    top, left, rows, columns = resizing.center_box(height, width, size[1:])
    return images[:, :, top : top + rows, left : left + columns].contiguous()


def to_channels(images: Tensor, channels: int) -> Tensor:
    """Convert raw images [n, C, H, W] to float32 from 0 to 1 with the given number of channels: grey or colours."""
    images = images.float().div(255) if images.dtype == torch.uint8 else images.float()
    if images.shape[1] == 1 and channels == 3:
        images = images.expand(-1, 3, -1, -1)
    elif images.shape[1] == 3 and channels == 1:
        weights = torch.tensor(_LUMINANCE).to(images.device, non_blocking=True)[:, None, None]
        images = (images * weights).sum(1, keepdim=True)
    return images


def channel_statistics(raw: Pixels, size: tuple[int, ...], resizing: Resizing) -> tuple[Tensor, Tensor]:
    """Compute the mean and standard deviation of each channel at the net's input size: [1, C, 1, 1] for images.

    If rows are computed on request, the statistics are estimated from 4,096 rows, the same in every run.
    """
    rows = torch.arange(len(raw))
    if not isinstance(raw, Tensor) and len(raw) > _STATISTICS_ROWS:
        rows = torch.randperm(len(raw), generator=torch.Generator().manual_seed(0))[:_STATISTICS_ROWS].sort().values
    axis = TensorType(size).channel_axis + 1
    reduced_axes = [i for i in range(len(size) + 1) if i != axis]
    shape = [1 if i in reduced_axes else size[axis - 1] for i in range(len(size) + 1)]
    total, squares = torch.zeros(2, *shape, dtype=torch.float64)
    for chunk in rows.split(_CHUNK):
        images = to_input_size(raw[chunk], size, resizing).double()
        total += images.sum(reduced_axes, keepdim=True)
        squares += images.square().sum(reduced_axes, keepdim=True)
    count = len(rows) * prod(size) // size[axis - 1]
    mean = total / count
    variance = (squares - count * mean.square()).clamp(min=0) / max(1, count - 1)
    deviation = variance.sqrt()
    return mean.float(), deviation.clamp(min=1e-6).float()

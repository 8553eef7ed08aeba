"""Inputs of samples, indexed by row: either a tensor, or an object that computes rows on request.

Raw images are uint8, or float32 from 0 to 1. Networks get float32 images of their input size, normalised. Other
floating-point numbers are normalised as well; integers are passed unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Any, Protocol
from weakref import WeakKeyDictionary, WeakValueDictionary

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from archir.data.readers.encoded import EncodedImages, Raw
from archir.ir.types import TensorType

Device = torch.device | str

MAX_FLOAT_BYTES = 64 << 20
"""Maximum size in bytes up to which all images are stored as float32; larger uint8 data is converted on request."""
MAX_STORED_BYTES = 1 << 30
"""Maximum size in bytes up to which decoded images are stored, as uint8; otherwise each image is decoded on request."""
_CHUNK = 1024
"""Number of rows that are processed at a time."""
_STATISTICS_ROWS = 4096
"""Number of rows from which statistics are computed if rows are computed on request."""
_LUMINANCE = (0.299, 0.587, 0.114)
"""Weights of red, green and blue in a grey image."""


class Pixels(Protocol):
    """All samples of one input, [n, ...]. Tensors implement this protocol."""

    def __len__(self) -> int:
        """Return the number of samples n."""

    def __getitem__(self, rows: Tensor) -> Tensor:
        """Return the samples at some rows [k], in their order: [k, ...]."""

    def to(self, device: Device) -> Pixels:
        """Return the same samples, which `[]` returns on a device. Rows must be on this device, or on the one of an
        attribute `reads_on`."""


def reads_on(pixels: Pixels, device: Device) -> torch.device:
    """Return the device on which `rows` must be to index samples that are on `device`: the CPU if files are read."""
    return torch.device(getattr(pixels, "reads_on", device))


@dataclass(frozen=True, eq=False)
class RowSubset:
    """Some rows of other samples."""

    pixels: Pixels
    rows: Tensor

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, rows: Tensor) -> Tensor:
        return self.pixels[self.rows[rows]]

    @property
    def reads_on(self) -> torch.device:
        """Device of the rows."""
        return self.rows.device

    def to(self, device: Device) -> RowSubset:
        """Return the samples on a device, and the rows where these samples require them."""
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
        """Device on which the underlying samples require rows."""
        return reads_on(self.pixels, self.device)

    def to(self, device: Device) -> Cast:
        """Return the same samples on a device."""
        return replace(self, pixels=self.pixels.to(device), device=device)


@dataclass(frozen=True, eq=False)
class DecodedFiles:
    """Image files, decoded to uint8 on request. Raises ArchError (A1104) for a file that cannot be decoded."""

    files: EncodedImages
    device: Device = "cpu"
    reads_on = torch.device("cpu")

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, rows: Tensor) -> Tensor:
        return _to_device(torch.from_numpy(self.files[rows.cpu().numpy()]), self.device)

    def to(self, device: Device) -> DecodedFiles:
        """Return the same samples on a device."""
        return replace(self, device=device)


@dataclass(frozen=True, eq=False)
class MemoryMapped:
    """Rows of a memory-mapped array, read from disk on request."""

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


def read_rows(pixels: Raw, rows: Tensor) -> Pixels:
    """Read some rows of raw samples into memory, or, if they exceed `MAX_STORED_BYTES`, return samples that read or
    decode them on request."""
    if isinstance(pixels, np.memmap) and len(rows) * pixels[:1].nbytes > MAX_STORED_BYTES:
        return RowSubset(MemoryMapped(pixels), rows)
    if not isinstance(pixels, EncodedImages):
        return torch.from_numpy(pixels[rows.numpy()])
    channels, height, width = pixels.size
    decoded = DecodedFiles(pixels)
    if len(rows) * channels * height * width > MAX_STORED_BYTES:
        return RowSubset(decoded, rows)
    return torch.cat([decoded[chunk] for chunk in rows.split(_CHUNK)])


@dataclass(frozen=True, eq=False)
class Normalised:
    """Raw samples that are converted to float32, resized to a net's input and normalised on request."""

    raw: Pixels
    size: tuple[int, ...]
    mean: Tensor
    std: Tensor

    def __len__(self) -> int:
        return len(self.raw)

    @property
    def reads_on(self) -> torch.device:
        """Device on which the raw samples require rows."""
        return reads_on(self.raw, self.mean.device)

    def __getitem__(self, rows: Tensor) -> Tensor:
        return (to_input_size(self.raw[rows], self.size) - self.mean) / self.std

    def to(self, device: Device) -> Normalised:
        """Return the raw samples, mean and standard deviation on a device; copies are shared by all who request the
        same device."""
        copies = _DEVICE_COPIES.setdefault(self, WeakValueDictionary())
        copy = copies.get(str(device))
        if copy is None:
            copy = replace(self, raw=self.raw.to(device), mean=self.mean.to(device), std=self.std.to(device))
            copies[str(device)] = copy
        return copy


_DEVICE_COPIES: WeakKeyDictionary[Normalised, WeakValueDictionary[str, Normalised]] = WeakKeyDictionary()
"""Copies of samples on devices, by the original samples, as long as a copy is in use."""


def select_rows(pixels: Pixels, rows: Tensor) -> Pixels:
    """Return some rows of samples; rows of a tensor are a tensor."""
    return pixels[rows] if isinstance(pixels, Tensor) else RowSubset(pixels, rows)


def normalise(raw: Pixels, size: tuple[int, ...], mean: Tensor, std: Tensor) -> Pixels:
    """Return normalised samples of a net's input size: as a tensor if they are few or float32 anyway, otherwise on
    request."""
    lazy = Normalised(raw, size, mean, std)
    is_small = 4 * len(raw) * prod(size) <= MAX_FLOAT_BYTES
    if not isinstance(raw, Tensor) or not (is_small or raw.is_floating_point()):
        return lazy
    return lazy[torch.arange(len(raw))]


def to_input_size(images: Tensor, size: tuple[int, ...]) -> Tensor:
    """Convert raw images to float32 from 0 to 1, with the channels, height and width that the net takes; other inputs
    are only converted to float32."""
    if len(size) != 3:
        return images.float()
    channels, height, width = size
    images = images.float().div(255) if images.dtype == torch.uint8 else images.float()
    if images.shape[1] == 1 and channels == 3:
        images = images.expand(-1, 3, -1, -1)
    elif images.shape[1] == 3 and channels == 1:
        weights = torch.tensor(_LUMINANCE).to(images.device, non_blocking=True)[:, None, None]
        images = (images * weights).sum(1, keepdim=True)
    if images.shape[2:] != (height, width):
        images = F.interpolate(images, (height, width), mode="bilinear", antialias=True, align_corners=False)
    return images.contiguous()


def channel_statistics(raw: Pixels, size: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Compute mean and standard deviation of each channel of samples resized to a net's input: [1, C, 1, 1] for images.

    If rows are computed on request, they are estimated from 4,096 rows, which are always the same.
    """
    rows = torch.arange(len(raw))
    if not isinstance(raw, Tensor) and len(raw) > _STATISTICS_ROWS:
        rows = torch.randperm(len(raw), generator=torch.Generator().manual_seed(0))[:_STATISTICS_ROWS].sort().values
    axis = TensorType(size).channel_axis + 1
    reduced_axes = [i for i in range(len(size) + 1) if i != axis]
    shape = [1 if i in reduced_axes else size[axis - 1] for i in range(len(size) + 1)]
    total, squares = torch.zeros(2, *shape, dtype=torch.float64)
    for chunk in rows.split(_CHUNK):
        images = to_input_size(raw[chunk], size).double()
        total += images.sum(reduced_axes, keepdim=True)
        squares += images.square().sum(reduced_axes, keepdim=True)
    count = len(rows) * prod(size) // size[axis - 1]
    mean = total / count
    variance = (squares - count * mean.square()).clamp(min=0) / max(1, count - 1)
    deviation = variance.sqrt()
    return mean.float(), deviation.clamp(min=1e-6).float()

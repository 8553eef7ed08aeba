"""Inputs by their rows: a tensor, or something that makes them when they are asked for.

Raw images are uint8, or float32 from 0 to 1; what networks see is float32, as large as their input and normalised.
Other numbers are normalised as well, and integers are as they come.
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

from archir.data.readers.encoded import Encoded, Raw
from archir.ir.types import TensorType

Device = torch.device | str

SMALL = 64 << 20
"""Bytes up to which all images are kept as float32; of more, uint8 ones are made float32 when they are asked for."""
KEPT = 1 << 30
"""Bytes up to which decoded images are kept, as uint8; of more, each is decoded again when it is asked for."""
_CHUNK = 1024
_SAMPLE = 4096
_LUMINANCE = (0.299, 0.587, 0.114)


class Pixels(Protocol):
    """Samples of an input [n, ...]. A tensor is one."""

    def __len__(self) -> int:
        """n."""

    def __getitem__(self, rows: Tensor) -> Tensor:
        """Those of some rows [k], in their order: [k, ...]."""

    def to(self, device: Device) -> Pixels:
        """The same, given out on a device. The rows are on it, too, unless an attribute `reads_on` says where else."""


def reads_on(pixels: Pixels, device: Device) -> torch.device:
    """Where samples that are given out on a device want their rows: on the CPU where they are read from files."""
    return torch.device(getattr(pixels, "reads_on", device))


@dataclass(frozen=True, eq=False)
class Chosen:
    """Some rows of other pixels."""

    pixels: Pixels
    rows: Tensor

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, rows: Tensor) -> Tensor:
        return self.pixels[self.rows[rows]]

    @property
    def reads_on(self) -> torch.device:
        """Where the rows are."""
        return self.rows.device

    def to(self, device: Device) -> Chosen:
        """The pixels on a device, and the rows where those want them."""
        moved = self.pixels.to(device)
        return Chosen(moved, self.rows.to(reads_on(moved, device)))


@dataclass(frozen=True, eq=False)
class Typed:
    """Other samples, of another type."""

    pixels: Pixels
    dtype: torch.dtype
    device: Device = "cpu"

    def __len__(self) -> int:
        return len(self.pixels)

    def __getitem__(self, rows: Tensor) -> Tensor:
        return self.pixels[rows].to(self.dtype)

    @property
    def reads_on(self) -> torch.device:
        """Where the other samples want their rows."""
        return reads_on(self.pixels, self.device)

    def to(self, device: Device) -> Typed:
        """The same, given out on a device."""
        return replace(self, pixels=self.pixels.to(device), device=device)


@dataclass(frozen=True, eq=False)
class Decoded:
    """Images of files, decoded to uint8 when they are asked for. Raises ArchError (A1104) for one that cannot be."""

    files: Encoded
    device: Device = "cpu"
    reads_on = torch.device("cpu")

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, rows: Tensor) -> Tensor:
        return _sent(torch.from_numpy(self.files[rows.cpu().numpy()]), self.device)

    def to(self, device: Device) -> Decoded:
        """The same, given out on a device."""
        return replace(self, device=device)


@dataclass(frozen=True, eq=False)
class Mapped:
    """Rows of an array on the disk, read when they are asked for."""

    array: NDArray[Any]
    device: Device = "cpu"
    reads_on = torch.device("cpu")

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, rows: Tensor) -> Tensor:
        return _sent(torch.from_numpy(self.array[rows.cpu().numpy()]), self.device)

    def to(self, device: Device) -> Mapped:
        """The same, given out on a device."""
        return replace(self, device=device)


def _sent(samples: Tensor, device: Device) -> Tensor:
    """Samples on a device; a GPU takes them when it has time, and nobody waits."""
    if torch.device(device).type != "cuda":
        return samples.to(device)
    return samples.pin_memory().to(device, non_blocking=True)


def settled(pixels: Raw, rows: Tensor) -> Pixels:
    """Some rows of raw samples; images of files are decoded once and kept, if there is room for all of them, and arrays
    on the disk are read."""
    if isinstance(pixels, np.memmap) and len(rows) * pixels[:1].nbytes > KEPT:
        return Chosen(Mapped(pixels), rows)
    if not isinstance(pixels, Encoded):
        return torch.from_numpy(pixels[rows.numpy()])
    channels, height, width = pixels.size
    decoded = Decoded(pixels)
    if len(rows) * channels * height * width > KEPT:
        return Chosen(decoded, rows)
    return torch.cat([decoded[some] for some in rows.split(_CHUNK)])


@dataclass(frozen=True, eq=False)
class Normalised:
    """Raw samples made float32, as large as a net's input, and normalised, when they are asked for."""

    raw: Pixels
    size: tuple[int, ...]
    mean: Tensor
    std: Tensor

    def __len__(self) -> int:
        return len(self.raw)

    @property
    def reads_on(self) -> torch.device:
        """Where the raw samples want their rows."""
        return reads_on(self.raw, self.mean.device)

    def __getitem__(self, rows: Tensor) -> Tensor:
        return (fitted(self.raw[rows], self.size) - self.mean) / self.std

    def to(self, device: Device) -> Normalised:
        """The raw pixels, mean and deviation on a device: there once, however many ask for them."""
        kept = _MOVED.setdefault(self, WeakValueDictionary())
        made = kept.get(str(device))
        if made is None:
            made = replace(self, raw=self.raw.to(device), mean=self.mean.to(device), std=self.std.to(device))
            kept[str(device)] = made
        return made


_MOVED: WeakKeyDictionary[Normalised, WeakValueDictionary[str, Normalised]] = WeakKeyDictionary()
"""Pixels on devices, by those that they were made of, while somebody has them."""


def chosen(pixels: Pixels, rows: Tensor) -> Pixels:
    """Some rows of pixels: a tensor of a tensor."""
    return pixels[rows] if isinstance(pixels, Tensor) else Chosen(pixels, rows)


def normalised(raw: Pixels, size: tuple[int, ...], mean: Tensor, std: Tensor) -> Pixels:
    """Normalised samples of a net's input size, at once if they are few or float32 anyway."""
    made = Normalised(raw, size, mean, std)
    few = 4 * len(raw) * prod(size) <= SMALL
    if not isinstance(raw, Tensor) or not (few or raw.is_floating_point()):
        return made
    return made[torch.arange(len(raw))]


def fitted(images: Tensor, size: tuple[int, ...]) -> Tensor:
    """Raw images as float32 ones from 0 to 1 with as many channels and pixels as the net takes; other numbers as
    float32."""
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


def statistics(raw: Pixels, size: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Mean and deviation of each channel of samples as large as a net's input: [1, C, 1, 1] of images.

    Of images that are decoded when they are asked for, of a sample of 4,096 that is always the same.
    """
    rows = torch.arange(len(raw))
    if not isinstance(raw, Tensor) and len(raw) > _SAMPLE:
        rows = torch.randperm(len(raw), generator=torch.Generator().manual_seed(0))[:_SAMPLE].sort().values
    axis = TensorType(size).channel_axis + 1
    others = [one for one in range(len(size) + 1) if one != axis]
    shape = [1 if one in others else size[axis - 1] for one in range(len(size) + 1)]
    total, squares = torch.zeros(2, *shape, dtype=torch.float64)
    for some in rows.split(_CHUNK):
        images = fitted(raw[some], size).double()
        total += images.sum(others, keepdim=True)
        squares += images.square().sum(others, keepdim=True)
    count = len(rows) * prod(size) // size[axis - 1]
    mean = total / count
    variance = (squares - count * mean.square()).clamp(min=0) / max(1, count - 1)
    deviation = variance.sqrt()
    return mean.float(), deviation.clamp(min=1e-6).float()

"""Labelled images in memory, from the bundled digits, an .npz file, or a folder with one folder per class.

The digits are 1,797 handwritten ones of 8 x 8 pixels (E. Alpaydin and C. Kaynak, UCI Machine Learning Repository,
CC BY 4.0; see digits.LICENSE.txt).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from archir.errors import fail

HELD_OUT = 0.2
"""Part of the images that is held out where a source does not say which."""
_IMAGES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff"}
_TEST_FOLDERS = ("test", "val", "valid", "validation")


@dataclass(frozen=True)
class Split:
    """Images [n, C, H, W] float32 and labels [n] int64."""

    images: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True)
class Data:
    """What a network trains on and what is held out; images are normalised by `mean` and `std` of the training part."""

    train: Split
    held_out: Split
    classes: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]


def load(source: str, size: Sequence[int], *, seed: int = 0) -> Data:
    """The images of a source, as large as a net's input [C, H, W]. Splits are stratified and seeded.

    `source` is `digits`, a path ending in .npz (`x_train`, `y_train`, `x_test`, `y_test`, or `images`, `labels`), or a
    folder with a folder per class, maybe below `train` and `test`. Raises ArchError (A11xx).
    """
    channels, height, width = size
    parts, classes = _parts(source, size, seed)
    fitted = [Split(_fit(part.images, channels, height, width), part.labels) for part in parts]
    mean, std = _statistics(fitted[0].images)
    train, held_out = (Split((part.images - mean) / std, part.labels) for part in fitted)
    return Data(train, held_out, classes, tuple(mean.flatten().tolist()), tuple(std.flatten().tolist()))


def minibatch(source: str, size: Sequence[int], count: int, *, seed: int = 0) -> Split:
    """`count` images drawn from the training part of a source with a seed, as large as a net's input [C, H, W].

    They are normalised by the mean and deviation of the source's own pixels; only what is drawn is made as large.
    Raises ArchError (A11xx).
    """
    channels, height, width = size
    train, _ = _parts(source, size, seed)[0]
    if not 2 <= count <= len(train):
        raise fail("A1111", f"a minibatch of `{source}` has 2 to {len(train)} images, not {count}")
    drawn = torch.randperm(len(train), generator=torch.Generator().manual_seed(seed))[:count]
    images = _fit(train.images, channels, *train.images.shape[2:])
    mean, std = _statistics(images)
    return Split((_fit(images[drawn], channels, height, width) - mean) / std, train.labels[drawn])


def _parts(source: str, size: Sequence[int], seed: int) -> tuple[tuple[Split, Split], tuple[str, ...]]:
    """Training and held-out images of a source, 0 to 1, as large as it has them, and the names of the classes."""
    channels, height, width = size
    if channels not in (1, 3):
        raise fail("A1103", f"the net's input has {channels} channels; images have 1 or 3")
    if source == "digits":
        with np.load(str(files("archir_torch") / "digits.npz"), allow_pickle=False) as arrays:
            images = torch.from_numpy(arrays["images"]).float().div(16)[:, None]
            return _split(images, torch.from_numpy(arrays["labels"]).long(), seed), tuple(map(str, range(10)))
    if source.endswith(".npz"):
        return _npz(Path(source), seed)
    return _folder(Path(source), (height, width), channels, seed)


def _statistics(images: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and deviation of each channel [1, C, 1, 1]."""
    return images.mean((0, 2, 3), keepdim=True), images.std((0, 2, 3), keepdim=True).clamp(min=1e-6)


def _split(images: Tensor, labels: Tensor, seed: int) -> tuple[Split, Split]:
    """Every class divided in the same proportion."""
    generator = torch.Generator().manual_seed(seed)
    train, held_out = [], []
    for label in labels.unique():
        found = (labels == label).nonzero().flatten()
        found = found[torch.randperm(len(found), generator=generator)]
        count = max(1, round(HELD_OUT * len(found))) if len(found) > 1 else 0
        held_out.append(found[:count])
        train.append(found[count:])
    first, second = torch.cat(train).sort().values, torch.cat(held_out).sort().values
    return Split(images[first], labels[first]), Split(images[second], labels[second])


def _fit(images: Tensor, channels: int, height: int, width: int) -> Tensor:
    """Images with as many channels and pixels as the net takes."""
    if images.shape[1] == 1 and channels == 3:
        images = images.expand(-1, 3, -1, -1)
    elif images.shape[1] == 3 and channels == 1:
        images = (images * torch.tensor([0.299, 0.587, 0.114])[:, None, None]).sum(1, keepdim=True)
    if images.shape[2:] != (height, width):
        images = F.interpolate(images, (height, width), mode="bilinear", antialias=True, align_corners=False)
    return images.contiguous()


def _npz(path: Path, seed: int) -> tuple[tuple[Split, Split], tuple[str, ...]]:
    try:
        with np.load(path, allow_pickle=False) as arrays:
            named = {name: arrays[name] for name in arrays.files}
    except (OSError, ValueError, BadZipFile) as error:
        raise fail("A1101", f"cannot read {path}: {error}") from None
    if {"x_train", "y_train", "x_test", "y_test"} <= named.keys():
        pairs = [("x_train", "y_train"), ("x_test", "y_test")]
        train, held_out = (_pair(path, named, *pair) for pair in pairs)
        parts = (train, held_out)
    elif {"images", "labels"} <= named.keys():
        whole = _pair(path, named, "images", "labels")
        parts = _split(whole.images, whole.labels, seed)
    else:
        hint = "it needs x_train, y_train, x_test and y_test, or images and labels"
        raise fail("A1102", f"{path} has the arrays {', '.join(named) or 'none'}", None, hint)
    count = int(max(part.labels.max() for part in parts)) + 1
    return parts, tuple(map(str, range(count)))


def _pair(path: Path, arrays: dict[str, NDArray[Any]], images: str, labels: str) -> Split:
    x, y = arrays[images], arrays[labels]
    if len(x) != len(y) or y.ndim != 1 or len(x) == 0:
        raise fail("A1102", f"{path}: `{images}` has {len(x)} images, `{labels}` shape {list(y.shape)}")
    if not np.issubdtype(y.dtype, np.integer) or y.min() < 0:
        raise fail("A1102", f"{path}: `{labels}` must hold integers from 0, got {y.dtype}")
    if x.ndim == 3:
        x = x[:, None]
    elif x.ndim == 4 and x.shape[1] not in (1, 3) and x.shape[3] in (1, 3):
        x = x.transpose(0, 3, 1, 2)
    if x.ndim != 4 or x.shape[1] not in (1, 3):
        hint = "images are [n, H, W], [n, H, W, C] or [n, C, H, W] with 1 or 3 channels"
        raise fail("A1102", f"{path}: `{images}` has shape {list(arrays[images].shape)}", None, hint)
    scale = 255 if x.dtype == np.uint8 else 1
    return Split(
        torch.from_numpy(np.ascontiguousarray(x, dtype=np.float32)) / scale, torch.from_numpy(y.astype(np.int64))
    )


def _folder(path: Path, size: tuple[int, int], channels: int, seed: int) -> tuple[tuple[Split, Split], tuple[str, ...]]:
    if not path.is_dir():
        hint = "data is `digits`, a file ending in .npz, or a folder with a folder per class"
        raise fail("A1101", f"there is no folder {path}", None, hint)
    test = next((path / name for name in _TEST_FOLDERS if (path / name).is_dir()), None)
    if (path / "train").is_dir() and test is not None:
        classes = _classes(path / "train")
        return (_images(path / "train", classes, size, channels), _images(test, classes, size, channels)), classes
    classes = _classes(path)
    whole = _images(path, classes, size, channels)
    return _split(whole.images, whole.labels, seed), classes


def _classes(path: Path) -> tuple[str, ...]:
    found = tuple(sorted(entry.name for entry in path.iterdir() if entry.is_dir() and not entry.name.startswith(".")))
    if len(found) < 2:
        raise fail("A1102", f"{path} must have a folder for each of two or more classes, it has {len(found)}")
    return found


def _images(path: Path, classes: tuple[str, ...], size: tuple[int, int], channels: int) -> Split:
    from PIL import Image, UnidentifiedImageError

    images, labels = [], []
    for label, name in enumerate(classes):
        folder = path / name
        for file in sorted(folder.iterdir()) if folder.is_dir() else []:
            if file.suffix.lower() not in _IMAGES:
                continue
            try:
                with Image.open(file) as image:
                    resized = image.convert("RGB" if channels == 3 else "L").resize(
                        (size[1], size[0]), Image.Resampling.BILINEAR
                    )
            except (OSError, UnidentifiedImageError, ValueError) as error:
                raise fail("A1104", f"{file} is no image that can be read: {error}") from None
            pixels = torch.from_numpy(np.array(resized)).float().div(255)
            images.append(pixels[None] if channels == 1 else pixels.permute(2, 0, 1))
            labels.append(label)
    if not images:
        raise fail("A1102", f"there are no images in {path}")
    return Split(torch.stack(images), torch.tensor(labels))


def augmented(images: Tensor, generator: torch.Generator, *, flip: bool) -> Tensor:
    """Each image shifted by up to an eighth of its size, zeros coming in, and mirrored half of the time if `flip`."""
    count, _, height, width = images.shape
    y, x = (torch.randint(-(s // 8), s // 8 + 1, (count,), generator=generator) for s in (height, width))
    pad_y, pad_x = height // 8, width // 8
    padded = F.pad(images, (pad_x, pad_x, pad_y, pad_y))
    rows = (torch.arange(height) + y[:, None] + pad_y).to(images.device)
    columns = (torch.arange(width) + x[:, None] + pad_x).to(images.device)
    which = torch.arange(count, device=images.device)[:, None, None]
    shifted = padded.permute(0, 2, 3, 1)[which, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)
    if flip:
        mirrored = torch.rand(count, generator=generator).to(images.device) < 0.5
        shifted = torch.where(mirrored[:, None, None, None], shifted.flip(3), shifted)
    return shifted.contiguous()

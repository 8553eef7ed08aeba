"""From the name of a source to images as a network takes them."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from archir.base.errors import fail
from archir.search.data import Rows, selected
from archir.search.data import minibatch as drawn_from
from archir.search.data.readers.encoded import Encoded, Raw
from archir_torch.data.pixels import Pixels, normalised, settled, statistics
from archir_torch.data.split import Data, Split


def load(
    source: str, size: Sequence[int], *, seed: int = 0, limit: int | None = None, classes: int | None = None,
    weights: float = 0.5,
) -> Data:  # fmt: skip
    """The images of a source, as large as a net's input [C, H, W].

    `source` is `digits`, a file ending in .npz or .parquet, a folder of IDX or Parquet files or with a folder of images
    for each class, or what is meant by `npz:PATH`, `idx:DIR`, `parquet:PATH`, `images:DIR`, `hf:NAME`. Where it does
    not say what is held out, a fifth of every class is, the same whatever the seed. Of `classes` so many are drawn, and
    used alone; `limit` is the most images of either part; of the training part, `weights` is the share of what weights
    see in a search: all three by the seed. Raises ArchError (A11xx).
    """
    wanted = _image(size)
    train, rest, names = selected(source, wanted, seed=seed, limit=limit, classes=classes)
    raw = [settled(part.pixels, torch.from_numpy(part.rows)) for part in (train, rest)]
    mean, std = statistics(raw[0], wanted)
    first, second = (
        _split(normalised(pixels, wanted, mean, std), part) for pixels, part in zip(raw, (train, rest), strict=True)
    )
    return Data(first, second, names, tuple(mean.flatten().tolist()), tuple(std.flatten().tolist()), weights, seed)


def minibatch(source: str, size: Sequence[int], count: int, *, seed: int = 0) -> Split:
    """`count` images drawn from the training part of a source with a seed, as large as a net's input [C, H, W].

    They are normalised by the mean and deviation of the source's own pixels; only what is drawn is made as large.
    Raises ArchError (A11xx).
    """
    wanted = _image(size)
    train, drawn = drawn_from(source, wanted, count, seed)
    whole = settled(train.pixels, torch.from_numpy(train.rows))
    mean, std = statistics(whole, (wanted[0], *_own(train.pixels)))
    return _split(normalised(whole[torch.from_numpy(drawn)], wanted, mean, std), train.chosen(drawn))


def _split(pixels: Pixels, part: Rows) -> Split:
    return Split(pixels, torch.from_numpy(part.labels), torch.from_numpy(part.rows))


def _image(size: Sequence[int]) -> tuple[int, int, int]:
    channels, height, width = size
    if channels not in (1, 3):
        raise fail("A1103", f"the net's input has {channels} channels; images have 1 or 3")
    return channels, height, width


def _own(pixels: Raw) -> tuple[int, int]:
    """Height and width of raw pixels."""
    height, width = pixels.size[1:] if isinstance(pixels, Encoded) else pixels.shape[2:]
    return height, width

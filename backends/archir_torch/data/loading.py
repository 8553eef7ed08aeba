"""From the name of a source to samples as a network takes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from archir.data import Rows, selected
from archir.data import minibatch as drawn_from
from archir.data.inputs import Input, Size, as_inputs
from archir.data.readers.encoded import Encoded, Raw
from archir_torch.data.pixels import Pixels, Typed, normalised, settled, statistics
from archir_torch.data.split import Data, Scale, Split


def load(
    source: Any, size: Size, *, seed: int = 0, limit: int | None = None, classes: int | None = None,
    weights: float = 0.5, labelled: bool = True,
) -> Data:  # fmt: skip
    """The samples of a source as a net takes them: its inputs, or the size [C, H, W] of its one image.

    `source` is `digits`, a file ending in .npz or .parquet, a folder of IDX or Parquet files or with a folder of images
    for each class, what is meant by `npz:PATH`, `idx:DIR`, `parquet:PATH`, `images:DIR`, `hf:NAME`, or what Python has:
    arrays, a dataset. Where it does not say what is held out, a fifth is, of every class, the same whatever the seed.
    Of `classes` so many are drawn, and used alone; `limit` is the most samples of either part; of the training part,
    `weights` is the share of what weights see in a search: all three by the seed. Integers that
    look like labels are numbers unless targets are `labelled`. Raises ArchError (A11xx).
    """
    wanted = as_inputs(size)
    train, rest, names = selected(source, wanted, seed=seed, limit=limit, classes=classes, labelled=labelled)
    made: list[dict[str, Pixels]] = [{}, {}]
    scales, known = {}, {}
    for one in wanted:
        raw = [settled(part.inputs[one.name], torch.from_numpy(part.rows)) for part in (train, rest)]
        scales[one.name] = _scale(raw[0], one)
        if one.type.dtype not in _DTYPES:
            of: Literal["pixels", "numbers"] = "numbers"
            if one.is_image and _are_pixels(train.inputs[one.name]):
                of = "pixels"
            mean, std = map(_listed, scales[one.name])
            known[one.name] = Scale(mean, std, of)
        for kept, pixels in zip(made, raw, strict=True):
            kept[one.name] = _scaled(pixels, one, *scales[one.name])
    mean, std = map(_listed, scales[wanted[0].name])
    return Data(_split(made[0], train), _split(made[1], rest), names, mean, std, weights, seed, train.apart, known)


def minibatch(source: Any, size: Size, count: int, *, seed: int = 0) -> Split:
    """`count` samples drawn from the training part of a source with a seed, as a net takes them.

    They are normalised by the mean and deviation of the source's own pixels; only what is drawn is made as large.
    Raises ArchError (A11xx).
    """
    wanted = as_inputs(size)
    train, drawn = drawn_from(source, wanted, count, seed)
    made = {}
    for one in wanted:
        whole = settled(train.inputs[one.name], torch.from_numpy(train.rows))
        scale = _scale(whole, one, own=_own(train.inputs[one.name]) if one.is_image else None)
        made[one.name] = _scaled(whole[torch.from_numpy(drawn)], one, *scale)
    return _split(made, train.chosen(drawn))


def _scale(raw: Pixels, one: Input, own: tuple[int, ...] | None = None) -> tuple[Tensor, Tensor]:
    """Mean and deviation of each channel of an input; nothing of integers."""
    if one.type.dtype in _DTYPES:
        return torch.empty(0), torch.empty(0)
    shape = one.type.shape
    return statistics(raw, shape if own is None else (shape[0], *own))


def _are_pixels(raw: Raw) -> bool:
    """Whether images are bytes, or real numbers from 0 to 1."""
    return isinstance(raw, Encoded) or raw.dtype == np.uint8 or bool(raw.min() >= 0 and raw.max() <= 1)


def _listed(numbers: Tensor) -> tuple[float, ...]:
    return tuple(numbers.flatten().tolist())


def _scaled(raw: Pixels, one: Input, mean: Tensor, std: Tensor) -> Pixels:
    """An input as a net takes it."""
    if one.type.dtype not in _DTYPES:
        return normalised(raw, one.type.shape, mean, std)
    return raw.to(_DTYPES[one.type.dtype]) if isinstance(raw, Tensor) else Typed(raw, _DTYPES[one.type.dtype])


_DTYPES = {"i32": torch.int32, "i64": torch.int64}


def _split(inputs: Mapping[str, Pixels], part: Rows) -> Split:
    targets = {name: torch.from_numpy(np.ascontiguousarray(_plain(one))) for name, one in part.targets.items()}
    return Split(inputs, targets, torch.from_numpy(part.rows))


def _plain(target: NDArray[Any]) -> NDArray[Any]:
    """Targets as int64, or float32."""
    return target.astype(np.float32 if target.dtype.kind == "f" else np.int64, copy=False)


def _own(pixels: Raw) -> tuple[int, int]:
    """Height and width of raw pixels."""
    height, width = pixels.size[1:] if isinstance(pixels, Encoded) else pixels.shape[2:]
    return height, width

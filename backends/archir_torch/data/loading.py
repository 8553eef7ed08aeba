"""Loading of samples: from a data source to normalised tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from archir.data import Rows, selected
from archir.data import minibatch as sample_rows
from archir.data.inputs import Input, InputSpec, as_inputs
from archir.data.readers.source import EncodedImages, Raw
from archir.data.resizing import Resizing
from archir.diagnostics.errors import fail
from archir_torch.data.pixels import Cast, Pixels, channel_statistics, normalise, read_rows
from archir_torch.data.split import Data, Scale, Split


def load(
    source: Any, size: InputSpec, *, seed: int = 0, limit: int | None = None, classes: int | None = None,
    weights: float = 0.5, labelled: bool = True, by_class: bool = False, resizing: Resizing | None = None,
    keep_files: bool = False, pixels: tuple[Sequence[float], Sequence[float]] | None = None,
) -> Data:  # fmt: skip
    """Load a data source for the inputs of a net, or for a single image input of size [C, H, W].

    `source` is `digits`; a file ending in .npz or .parquet; a folder with IDX or Parquet files, or with one subfolder
    of images per class; an explicit `npz:PATH`, `idx:DIR`, `parquet:PATH`, `images:DIR` or `hf:NAME`; or a Python
    object: arrays or a dataset. If the source does not define a held-out part, a fifth of every class is held out,
    independently of the seed.

    `classes` is the number of classes to sample; samples of other classes are left out. `limit` is the maximum number
    of samples in the training part and in the held-out part. `weights` is the fraction of the training part on which
    a search trains network weights. The seed determines the selected classes and samples. With `by_class`, the first
    half of the classes is the training part, and the other half is held out. Integer targets that look like class
    labels are treated as numbers unless `labelled` is set. `resizing` is how images are resized to the net's input;
    `keep_files` is set if random parts of training images are needed. `pixels` is the mean and standard deviation by
    which images are normalised, by default those of the training part. Raises ArchError (A0933, A11xx).
    """
    specs = tuple(replace(spec, resizing=resizing or spec.resizing) for spec in as_inputs(size))
    train, held_out, names = selected(
        source, specs, seed=seed, limit=limit, classes=classes, labelled=labelled, by_class=by_class
    )
    inputs: list[dict[str, Pixels]] = [{}, {}]
    moments, scales = {}, {}
    for spec in specs:
        raw = [
            read_rows(part.inputs[spec.name], torch.from_numpy(part.rows), kept)
            for part, kept in ((train, keep_files), (held_out, False))
        ]
        moments[spec.name] = _moments(raw[0], spec) if pixels is None else _given_moments(pixels, spec, raw[0])
        if spec.type.dtype not in _DTYPES:
            kind: Literal["pixels", "numbers"] = "numbers"
            if spec.is_image and _are_pixels(train.inputs[spec.name]):
                kind = "pixels"
            mean, std = map(_to_tuple, moments[spec.name])
            scales[spec.name] = Scale(mean, std, kind)
        for part_inputs, samples in zip(inputs, raw, strict=True):
            part_inputs[spec.name] = _prepare(samples, spec, *moments[spec.name])
    mean, std = map(_to_tuple, moments[specs[0].name])
    return Data(
        _split(inputs[0], train), _split(inputs[1], held_out), names, mean, std, weights, seed, train.min_gap, scales
    )


def minibatch(source: Any, size: InputSpec, count: int, *, seed: int = 0) -> Split:
    """Sample `count` rows of the training part of a source with a seed, in the form that a net takes.

    The samples are normalised by the mean and standard deviation of the source at its own resolution; only the
    sampled rows are resized. Raises ArchError (A11xx).
    """
    specs = as_inputs(size)
    train, rows = sample_rows(source, specs, count, seed)
    inputs = {}
    for spec in specs:
        samples = read_rows(train.inputs[spec.name], torch.from_numpy(train.rows))
        scale = _moments(samples, spec, raw_size=_raw_size(train.inputs[spec.name]) if spec.is_image else None)
        inputs[spec.name] = _prepare(samples[torch.from_numpy(rows)], spec, *scale)
    return _split(inputs, train.chosen(rows))


def _moments(raw: Pixels, spec: Input, raw_size: tuple[int, ...] | None = None) -> tuple[Tensor, Tensor]:
    """Return the mean and standard deviation of each channel of an input; empty tensors for integer inputs.

    With `raw_size`, the statistics of images are computed at this height and width instead of the net's input size.
    """
    if spec.type.dtype in _DTYPES:
        return torch.empty(0), torch.empty(0)
    shape = spec.type.shape
    return channel_statistics(raw, shape if raw_size is None else (shape[0], *raw_size), spec.resizing)


def _given_moments(pixels: tuple[Sequence[float], Sequence[float]], spec: Input, raw: Pixels) -> tuple[Tensor, Tensor]:
    """Return a given mean and standard deviation of an image input, each [1, C, 1, 1]. Raises ArchError (A0933)."""
    channels = spec.type.shape[0] if spec.is_image else 0
    mean, std = (torch.tensor([*numbers], dtype=torch.float32) for numbers in pixels)
    if len(mean) not in (1, channels) or not channels:
        text = f"the input `{spec.name}` is {spec.type}, not an image of {len(mean)} channels"
        raise fail("A0933", f"{text}: it cannot be normalised by the given mean and deviation of pixels")
    if isinstance(raw, Tensor) and raw.is_floating_point() and not 0 <= float(raw.min()) <= float(raw.max()) <= 1:
        text = f"the images of `{spec.name}` are numbers from {float(raw.min()):g} to {float(raw.max()):g}"
        raise fail("A0933", f"{text}, not pixels: a mean and deviation of pixels are for bytes, or numbers from 0 to 1")
    return mean.expand(channels).reshape(1, -1, 1, 1), std.expand(channels).reshape(1, -1, 1, 1)


def _are_pixels(raw: Raw) -> bool:
    """Return True if raw inputs are images: encoded files, unsigned bytes, or real numbers from 0 to 1."""
    return isinstance(raw, EncodedImages) or raw.dtype == np.uint8 or bool(raw.min() >= 0 and raw.max() <= 1)


def _to_tuple(numbers: Tensor) -> tuple[float, ...]:
    return tuple(numbers.flatten().tolist())


def _prepare(raw: Pixels, spec: Input, mean: Tensor, std: Tensor) -> Pixels:
    """Convert raw samples to the form that a net takes: normalised, or, for integer inputs, cast to the input's
    dtype."""
    if spec.type.dtype not in _DTYPES:
        return normalise(raw, spec.type.shape, mean, std, spec.resizing)
    return raw.to(_DTYPES[spec.type.dtype]) if isinstance(raw, Tensor) else Cast(raw, _DTYPES[spec.type.dtype])


_DTYPES = {"i32": torch.int32, "i64": torch.int64}
"""Torch dtypes of integer inputs, which are not normalised."""


def _split(inputs: Mapping[str, Pixels], part: Rows) -> Split:
    targets = {
        name: torch.from_numpy(np.ascontiguousarray(_as_int64_or_float32(target)))
        for name, target in part.targets.items()
    }
    return Split(inputs, targets, torch.from_numpy(part.rows))


def _as_int64_or_float32(target: NDArray[Any]) -> NDArray[Any]:
    """Cast targets to int64, or to float32 if they are floating-point numbers."""
    return target.astype(np.float32 if target.dtype.kind == "f" else np.int64, copy=False)


def _raw_size(pixels: Raw) -> tuple[int, int]:
    """Return the height and width of raw images."""
    height, width = pixels.size[1:] if isinstance(pixels, EncodedImages) else pixels.shape[2:]
    return height, width

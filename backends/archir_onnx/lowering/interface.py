"""Inputs and outputs of a model: precision, memory layout, sizes, and preprocessing inside the model."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper

from archir.diagnostics.errors import fail
from archir.ir.types import TensorType
from archir.passes.resize import open_axes
from archir_onnx.lowering.builder import Builder
from archir_onnx.lowering.export_options import ExportOptions, Normalization, PixelNormalization

Arrays = Mapping[str, NDArray[Any]]

_VALID_LIMIT = re.compile("[1-9][0-9]{0,11}")
"""Regular expression for valid upper limits of integer inputs in the metadata."""

ELEMENT_TYPES = {
    "f32": TensorProto.FLOAT,
    "f16": TensorProto.FLOAT16,
    "bf16": TensorProto.BFLOAT16,
    "i64": TensorProto.INT64,
    "i32": TensorProto.INT32,
    "bool": TensorProto.BOOL,
}
"""ONNX element type by archir's dtype."""


def lower_input(g: Builder, name: str, kind: TensorType) -> str:
    """Add the preprocessing of an input; return the name of the value that the network reads.

    The input is converted to the model's precision. If the model normalises the input itself, normalisation is added,
    and images are transposed to channels first. Raises ArchError (A0933) if the number of channels of the input
    differs from that of its normalisation.
    """
    g.scope = name
    scale = g.options.normalization_of(name)
    if scale is not None:
        name = _normalize(g, name, kind, scale)
    if isinstance(scale, PixelNormalization):
        return name
    if kind.dtype == "f32" and g.options.precision != "float32":
        return g.node("Cast", name, to=helper.np_dtype_to_tensor_dtype(np.dtype(g.options.dtype)))
    return name


def lower_output(g: Builder, name: str, value: str, kind: TensorType) -> None:
    """Add the node that writes an output of the model, converted to float32."""
    if kind.dtype == "f32" and g.options.precision != "float32":
        g.nodes.append(helper.make_node("Cast", [value], [name], name=f"{name}/Cast", to=TensorProto.FLOAT))
    else:
        g.nodes.append(helper.make_node("Identity", [value], [name], name=f"{name}/Identity"))


_LIMIT_PREFIX = "below."
"""Prefix of the metadata keys that hold upper limits of integer inputs."""


def limit_metadata(inputs: Mapping[str, TensorType]) -> dict[str, str]:
    """Return the metadata entries that record the exclusive upper limits of integer inputs."""
    return {
        f"{_LIMIT_PREFIX}{name}": str(kind.integer_limit)
        for name, kind in inputs.items()
        if kind.integer_limit is not None
    }


def input_limit(metadata: Mapping[str, str], name: str) -> int:
    """Return the exclusive upper limit of an integer input according to a model's metadata.

    Returns 2 if the limit is missing or invalid.
    """
    text = metadata.get(f"{_LIMIT_PREFIX}{name}", "")
    return int(text) if _VALID_LIMIT.fullmatch(text) else 2


_RAW_PREFIX = "as it comes."
"""Prefix of the metadata keys of non-image inputs that the model normalises itself."""


def raw_metadata(inputs: Mapping[str, TensorType], options: ExportOptions) -> dict[str, str]:
    """Return the metadata entries that mark non-image inputs as normalised by the model.

    Images need no entry, as their type identifies them.
    """
    normalizations = {name: options.normalization_of(name) for name in inputs}
    return {
        f"{_RAW_PREFIX}{name}": "numbers"
        for name, normalization in normalizations.items()
        if normalization is not None and type(normalization) is Normalization
    }


def is_raw(metadata: Mapping[str, str], name: str) -> bool:
    """Return True if a model's metadata say that the model itself normalises this non-image input."""
    return f"{_RAW_PREFIX}{name}" in metadata


def input_info(name: str, kind: TensorType, options: ExportOptions, tokens: int | None = None) -> onnx.ValueInfoProto:
    """Return the ONNX declaration of an input.

    If the number of tokens is dynamic, `tokens` is the number declared in the net.
    """
    if not isinstance(options.normalization_of(name), PixelNormalization):
        return _info(name, kind, options, tokens)
    channels, height, width = _dims(kind, options, None)
    return helper.make_tensor_value_info(name, TensorProto.UINT8, [_batch(options), height, width, channels])


def output_info(name: str, kind: TensorType, options: ExportOptions) -> onnx.ValueInfoProto:
    """Return the ONNX declaration of an output. Sizes that depend on dynamic axes are left to shape inference."""
    if options.has_open_sizes and (kind.rank > 1 or "tokens" in options.dynamic):
        return helper.make_tensor_value_info(name, ELEMENT_TYPES[kind.dtype], [_batch(options), *[None] * kind.rank])
    return helper.make_tensor_value_info(name, ELEMENT_TYPES[kind.dtype], [_batch(options), *kind.shape])


def _info(name: str, kind: TensorType, options: ExportOptions, tokens: int | None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(
        name, ELEMENT_TYPES[kind.dtype], [_batch(options), *_dims(kind, options, tokens)]
    )


def _batch(options: ExportOptions) -> str | int:
    return "batch" if "batch" in options.dynamic else options.batch


def _dims(kind: TensorType, options: ExportOptions, tokens: int | None) -> list[str | int]:
    """Return the sizes of an input without the batch axis; dynamic axes are given by name."""
    names = ("height", "width") if tokens is None else ("tokens",) * kind.rank
    dims: list[str | int] = [*kind.shape]
    for axis, name in zip(open_axes(kind, tokens), names, strict=False):
        if name in options.dynamic:
            dims[axis] = name
    return dims


def _normalize(g: Builder, name: str, kind: TensorType, scale: Normalization) -> str:
    """Add the normalisation of an input; return the name of the result.

    Raises ArchError (A0933) if the type or the number of channels of the input does not fit the normalisation.
    """
    pixels, channels = isinstance(scale, PixelNormalization), len(scale.mean)
    fits = kind.channels == channels or (pixels and channels == 1)  # one number for all channels
    if kind.dtype != "f32" or (pixels and kind.rank != 3) or not fits:
        wanted = f"{'an image' if pixels else 'numbers'} of {channels} channels"
        raise fail("A0933", f"the input `{name}` is {kind}, not {wanted}: it cannot be normalised")
    mean, std = _broadcastable(scale, kind.rank, kind.channel_axis)
    if not pixels:
        return g.node("Div", g.node("Sub", name, g.constant(mean, np.float32)), g.constant(std, np.float32))
    x = g.node("Cast", g.transpose(name, 0, 3, 1, 2), to=helper.np_dtype_to_tensor_dtype(np.dtype(g.options.dtype)))
    return g.node("Add", g.node("Mul", x, g.number(1 / (255 * std))), g.number(-mean / std))


def _broadcastable(scale: Normalization, rank: int, axis: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return mean and standard deviation, reshaped to broadcast over samples with channels on `axis`."""
    shape = [-1 if position == axis else 1 for position in range(rank)]
    return np.reshape(scale.mean, shape), np.reshape(scale.std, shape)


def normalize_inputs(inputs: Arrays, options: ExportOptions) -> Arrays:
    """Convert raw model inputs to network inputs: normalised, and images with channels first."""
    converted = dict(inputs)
    for name, array in inputs.items():
        normalization = options.normalization_of(name)
        if isinstance(normalization, PixelNormalization):
            array = np.moveaxis(array, 3, 1).astype(np.float32) / np.float32(255)
        if normalization is not None:
            mean, std = (statistic.astype(np.float32) for statistic in _batch_statistics(array, normalization))
            converted[name] = ((array - mean) / std).astype(np.float32)
    return converted


def denormalize_inputs(inputs: Arrays, options: ExportOptions) -> dict[str, NDArray[Any]]:
    """Convert network inputs to raw model inputs (inverse of `normalize_inputs`).

    They are denormalised, and images are converted to uint8 [batch, H, W, C].
    """
    converted = dict(inputs)
    for name, array in inputs.items():
        normalization = options.normalization_of(name)
        if normalization is not None:
            mean, std = _batch_statistics(array, normalization)
            converted[name] = (array * std + mean).astype(np.float32)
        if isinstance(normalization, PixelNormalization):
            converted[name] = np.moveaxis(np.clip(np.rint(converted[name] * 255), 0, 255).astype(np.uint8), 1, 3)
    return converted


def _batch_statistics(batch: NDArray[Any], scale: Normalization) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return mean and standard deviation reshaped to broadcast over a batch."""
    return _broadcastable(scale, batch.ndim - 1, TensorType(batch.shape[1:]).channel_axis)

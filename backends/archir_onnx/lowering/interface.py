"""Where a model begins and ends: inputs and outputs in the precision, the layout and the sizes that users see."""

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
from archir.passes.resize import along
from archir_onnx.lowering.builder import Builder
from archir_onnx.lowering.form import Form, Pixels, Scale

Arrays = Mapping[str, NDArray[Any]]

_LIMIT = re.compile("[1-9][0-9]{0,11}")

ELEMENTS = {
    "f32": TensorProto.FLOAT,
    "f16": TensorProto.FLOAT16,
    "bf16": TensorProto.BFLOAT16,
    "i64": TensorProto.INT64,
    "i32": TensorProto.INT32,
    "bool": TensorProto.BOOL,
}


def taken(g: Builder, name: str, kind: TensorType) -> str:
    """An input as the network takes it: in the model's precision; as it comes, normalised, of an image channels
    first. Raises ArchError (A0933) if it is to be normalised, and has other channels."""
    g.scope = name
    scale = g.form.scale(name)
    if scale is not None:
        name = _normalised(g, name, kind, scale)
    if isinstance(scale, Pixels):
        return name
    if kind.dtype == "f32" and g.form.precision != "float32":
        return g.node("Cast", name, to=helper.np_dtype_to_tensor_dtype(np.dtype(g.form.dtype)))
    return name


def given(g: Builder, name: str, value: str, kind: TensorType) -> None:
    """Call a value like the output it is."""
    if kind.dtype == "f32" and g.form.precision != "float32":
        g.nodes.append(helper.make_node("Cast", [value], [name], name=f"{name}/Cast", to=TensorProto.FLOAT))
    else:
        g.nodes.append(helper.make_node("Identity", [value], [name], name=f"{name}/Identity"))


_BELOW = "below."


def limits(inputs: Mapping[str, TensorType]) -> dict[str, str]:
    """What a model says of its inputs of integers: what they must be below, in its metadata."""
    return {f"{_BELOW}{name}": str(kind.below) for name, kind in inputs.items() if kind.below is not None}


def limit(metadata: Mapping[str, str], name: str) -> int:
    """What the integers of an input are below, as far as a model's metadata say so; zeros and ones suit any."""
    said = metadata.get(f"{_BELOW}{name}", "")
    return int(said) if _LIMIT.fullmatch(said) else 2


_RAW = "as it comes."


def comes(inputs: Mapping[str, TensorType], form: Form) -> dict[str, str]:
    """What a model says of its inputs of numbers that it normalises itself; images show it by their type."""
    scaled = {name: form.scale(name) for name in inputs}
    return {f"{_RAW}{name}": "numbers" for name, one in scaled.items() if one is not None and type(one) is Scale}


def is_raw(metadata: Mapping[str, str], name: str) -> bool:
    """Whether a model's metadata say that it normalises an input of numbers itself."""
    return f"{_RAW}{name}" in metadata


def input_info(name: str, kind: TensorType, form: Form, tokens: int | None = None) -> onnx.ValueInfoProto:
    """An input's declaration; `tokens` are how many there are where their number is open."""
    if not isinstance(form.scale(name), Pixels):
        return _info(name, kind, form, tokens)
    channels, height, width = _dims(kind, form, None)
    return helper.make_tensor_value_info(name, TensorProto.UINT8, [_batch(form), height, width, channels])


def output_info(name: str, kind: TensorType, form: Form) -> onnx.ValueInfoProto:
    """An output's declaration; sizes that depend on open ones are left to shape inference."""
    if form.resizable and (kind.rank > 1 or "tokens" in form.dynamic):
        return helper.make_tensor_value_info(name, ELEMENTS[kind.dtype], [_batch(form), *[None] * kind.rank])
    return helper.make_tensor_value_info(name, ELEMENTS[kind.dtype], [_batch(form), *kind.shape])


def _info(name: str, kind: TensorType, form: Form, tokens: int | None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, ELEMENTS[kind.dtype], [_batch(form), *_dims(kind, form, tokens)])


def _batch(form: Form) -> str | int:
    return "batch" if "batch" in form.dynamic else form.batch


def _dims(kind: TensorType, form: Form, tokens: int | None) -> list[str | int]:
    names = ("height", "width") if tokens is None else ("tokens",) * kind.rank
    dims: list[str | int] = [*kind.shape]
    for axis, name in zip(along(kind, tokens), names, strict=False):
        if name in form.dynamic:
            dims[axis] = name
    return dims


def _normalised(g: Builder, name: str, kind: TensorType, scale: Scale) -> str:
    pixels, channels = isinstance(scale, Pixels), len(scale.mean)
    if kind.dtype != "f32" or (pixels and kind.rank != 3) or kind.channels != channels:
        wanted = f"{'an image' if pixels else 'numbers'} of {channels} channels"
        raise fail("A0933", f"the input `{name}` is {kind}, not {wanted}: there is nothing to normalise")
    mean, std = _along(scale, kind.rank, kind.channel_axis)
    if not pixels:
        return g.node("Div", g.node("Sub", name, g.constant(mean, np.float32)), g.constant(std, np.float32))
    x = g.node("Cast", g.transpose(name, 0, 3, 1, 2), to=helper.np_dtype_to_tensor_dtype(np.dtype(g.form.dtype)))
    return g.node("Add", g.node("Mul", x, g.number(1 / (255 * std))), g.number(-mean / std))


def _along(scale: Scale, rank: int, axis: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and deviation, for samples of a rank whose channels are along an axis."""
    shape = [-1 if place == axis else 1 for place in range(rank)]
    return np.reshape(scale.mean, shape), np.reshape(scale.std, shape)


def seen(inputs: Arrays, form: Form) -> Arrays:
    """What the network sees of a model's inputs: of those as they come, the normalised ones, channels first."""
    found = dict(inputs)
    for name, array in inputs.items():
        scale = form.scale(name)
        if isinstance(scale, Pixels):
            array = np.moveaxis(array, 3, 1).astype(np.float32) / np.float32(255)
        if scale is not None:
            mean, std = (one.astype(np.float32) for one in _around(array, scale))
            found[name] = ((array - mean) / std).astype(np.float32)
    return found


def unseen(inputs: Arrays, form: Form) -> dict[str, NDArray[Any]]:
    """The inverse of what is seen: normalised inputs as they come, images as uint8 [batch, H, W, C]."""
    found = dict(inputs)
    for name, array in inputs.items():
        scale = form.scale(name)
        if scale is not None:
            mean, std = _around(array, scale)
            found[name] = (array * std + mean).astype(np.float32)
        if isinstance(scale, Pixels):
            found[name] = np.moveaxis(np.clip(np.rint(found[name] * 255), 0, 255).astype(np.uint8), 1, 3)
    return found


def _around(batch: NDArray[Any], scale: Scale) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    return _along(scale, batch.ndim - 1, TensorType(batch.shape[1:]).channel_axis)

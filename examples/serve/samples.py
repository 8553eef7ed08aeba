"""What clients send, as arrays: whatever is wrong with it is an HTTPException of the 4xx kind that says so."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from model import Arrays, Slot
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError
from starlette.exceptions import HTTPException

_IMAGES = {"image/png": "PNG", "image/jpeg": "JPEG"}
_MODES = {1: "L", 3: "RGB"}
_KINDS: dict[str, set[type]] = {"f": {float, int}, "i": {int}, "u": {int}, "b": {bool}}
"""What JSON has for a dtype's numbers."""
_WRITTEN = 40
"""Characters of a number in JSON, with blanks around it."""
_PIXEL = 10
"""Bytes of a pixel in a file: four channels of 16 bits that do not pack, and a little more."""
_ROOM = 1 << 14
"""What is in a body besides: names, headers, a colour profile."""
_PARSED = 20
"""Bytes that a byte of JSON takes at most as Python has it: `0,` is an object and a place in a list."""


def accepted(inputs: Sequence[Slot]) -> list[str]:
    """The content types that a model's samples may come in."""
    raw = ["application/octet-stream"] if len(inputs) == 1 else []
    return ["application/json", *raw, *(_IMAGES if is_image(inputs) else [])]


def most_bytes(kind: str, inputs: Sequence[Slot]) -> int:
    """The largest body of a sample that comes in this content type."""
    if kind == "application/json":
        return _ROOM + sum(_WRITTEN * one.size + len(one.name) for one in inputs)
    if kind in _IMAGES:
        height, width, _ = inputs[0].shape
        return _ROOM + _PIXEL * height * width
    return sum(one.nbytes for one in inputs)


def memory(kind: str, length: int, inputs: Sequence[Slot]) -> int:
    """About what a body of so many bytes takes until it is answered: itself, what is parsed of it, and the sample."""
    return length * (_PARSED if kind == "application/json" else 2) + 2 * sum(one.nbytes for one in inputs)


def is_image(inputs: Sequence[Slot]) -> bool:
    """Whether a model takes what images hold: bytes, [height, width, 1 or 3]."""
    return (
        len(inputs) == 1 and inputs[0].dtype == np.uint8 and len(inputs[0].shape) == 3 and inputs[0].shape[2] in _MODES
    )


def decoded(kind: str, body: bytes, inputs: Sequence[Slot]) -> Arrays:
    """The sample of a request's body, by its content type."""
    if kind not in accepted(inputs):
        raise HTTPException(415, f"the content type is {kind or 'missing'}: {', '.join(accepted(inputs))} are taken")
    if kind == "application/json":
        return _from_json(body, inputs)
    (slot,) = inputs
    return {slot.name: _from_image(kind, body, slot) if kind in _IMAGES else _from_bytes(body, slot)}


def _from_json(body: bytes, inputs: Sequence[Slot]) -> Arrays:
    try:
        given = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise HTTPException(400, f"the body is no JSON: {error}") from None
    if not isinstance(given, dict) or given.keys() != {"inputs"}:
        raise HTTPException(422, 'the body is {"inputs": ...}, and nothing else')
    values = given["inputs"]
    if len(inputs) == 1 and not isinstance(values, dict):
        values = {inputs[0].name: values}
    names = [one.name for one in inputs]
    if not isinstance(values, dict) or values.keys() != {*names}:
        raise HTTPException(422, f"`inputs` has a value for each of {', '.join(names)}, and for nothing else")
    return {one.name: _from_lists(values[one.name], one) for one in inputs}


def _from_lists(value: Any, slot: Slot) -> NDArray[Any]:
    # level by level: numpy alone would take strings for numbers, and make room for the longest one many times over
    level, depth = [value], 0
    for size in slot.shape:
        fits = all(isinstance(one, list) and len(one) == size for one in level)
        if size == 1 and not fits:
            continue  # such an axis may be left out
        if not fits:
            where = f"at depth {depth}, there must be lists of {size}"
            raise HTTPException(422, f"`{slot.name}` has the shape {list(slot.shape)}: {where}")
        level, depth = [item for one in level for item in one], depth + 1
    if not {type(one) for one in level} <= _KINDS[slot.dtype.kind]:
        raise HTTPException(422, f"`{slot.name}` holds {slot.dtype} numbers")
    try:
        with np.errstate(over="ignore"):
            array = np.array(level, slot.dtype).reshape(slot.shape)
    except OverflowError:
        raise HTTPException(422, f"`{slot.name}` has numbers beyond {slot.dtype}") from None
    return _finite(array, slot)


def _from_bytes(body: bytes, slot: Slot) -> NDArray[Any]:
    if len(body) != slot.nbytes:
        wanted = f"{slot.nbytes} bytes: {slot.dtype}, little end first, of the shape {list(slot.shape)}"
        raise HTTPException(422, f"the body has {len(body)} bytes; a sample has {wanted}")
    if slot.dtype.kind == "b":
        return np.frombuffer(body, np.uint8).astype(np.bool_).reshape(slot.shape)
    return _finite(np.frombuffer(body, slot.dtype.newbyteorder("<")).astype(slot.dtype).reshape(slot.shape), slot)


def _from_image(kind: str, body: bytes, slot: Slot) -> NDArray[Any]:
    height, width, channels = slot.shape
    try:
        with Image.open(io.BytesIO(body), formats=[_IMAGES[kind]]) as image:
            size = image.size
            pixels = np.asarray(image.convert(_MODES[channels])) if size == (width, height) else None
    except UnidentifiedImageError:  # its text names an object in memory
        raise HTTPException(422, f"the body is no {kind}") from None
    except Exception as error:  # decoders of damaged files raise whatever comes to them
        raise HTTPException(422, f"the body cannot be read as {kind}: {error}") from None
    if pixels is None:
        raise HTTPException(422, f"the image has {size[0]}x{size[1]} pixels; the model takes {width}x{height}")
    return pixels.reshape(slot.shape)


def _finite(array: NDArray[Any], slot: Slot) -> NDArray[Any]:
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise HTTPException(422, f"`{slot.name}` has numbers that are not finite as {slot.dtype}")
    return array

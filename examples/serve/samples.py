"""Decode request bodies into arrays; every mistake in them is an HTTPException of status 4xx that describes it."""

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
"""Modes of Pillow by number of channels."""
_KINDS: dict[str, set[type]] = {"f": {float, int}, "i": {int}, "u": {int}, "b": {bool}}
"""Types of JSON's numbers by kind of dtype."""
_NUMBER_CHARS = 40
"""Maximum characters of a number in JSON, with the blanks around it."""
_PIXEL_BYTES = 10
"""Maximum bytes of a pixel in an image file: four channels of 16 bits that do not compress, and a little more."""
_OVERHEAD = 1 << 14
"""Bytes of the rest of a body: names, headers, a colour profile."""
_PARSED_BYTES = 20
"""Maximum memory of a parsed byte of JSON, in bytes: `0,` becomes an object and an entry of a list."""


def accepted_types(inputs: Sequence[Slot]) -> list[str]:
    """Return the content types that a model accepts."""
    raw = ["application/octet-stream"] if len(inputs) == 1 else []
    return ["application/json", *raw, *(_IMAGES if is_image(inputs) else [])]


def max_bytes(kind: str, inputs: Sequence[Slot]) -> int:
    """Return the size limit of a body of a content type."""
    if kind == "application/json":
        return _OVERHEAD + sum(_NUMBER_CHARS * slot.size + len(slot.name) for slot in inputs)
    if kind in _IMAGES:
        height, width, _ = inputs[0].shape
        return _OVERHEAD + _PIXEL_BYTES * height * width
    return sum(slot.nbytes for slot in inputs)


def memory(kind: str, length: int, inputs: Sequence[Slot]) -> int:
    """Estimate the memory of a body of `length` bytes until it is answered: the body, its parsed form, and the
    sample."""
    return length * (_PARSED_BYTES if kind == "application/json" else 2) + 2 * sum(slot.nbytes for slot in inputs)


def is_image(inputs: Sequence[Slot]) -> bool:
    """True if the model's input has the type of an image: bytes, [height, width, 1 or 3]."""
    return (
        len(inputs) == 1 and inputs[0].dtype == np.uint8 and len(inputs[0].shape) == 3 and inputs[0].shape[2] in _MODES
    )


def decode(kind: str, body: bytes, inputs: Sequence[Slot]) -> Arrays:
    """Return the sample in a request's body. Raises HTTPException for bodies that are not valid."""
    if kind not in accepted_types(inputs):
        reason = _float_image_reason(inputs) if kind in _IMAGES else ""
        raise HTTPException(
            415, f"the content type is {kind or 'missing'}: {', '.join(accepted_types(inputs))} are taken{reason}"
        )
    if kind == "application/json":
        return _from_json(body, inputs)
    (slot,) = inputs
    return {slot.name: _from_image(kind, body, slot) if kind in _IMAGES else _from_bytes(body, slot)}


def _float_image_reason(inputs: Sequence[Slot]) -> str:
    """Return why a model takes no files of images if it takes one image of normalised numbers; "" otherwise."""
    if len(inputs) != 1 or inputs[0].dtype.kind != "f" or len(inputs[0].shape) != 3:
        return ""
    numbers = f"the model takes normalised {inputs[0].dtype} numbers"
    return f"; {numbers}: to send image files, write it by archir export or archir compile with --preprocess"


def _from_json(body: bytes, inputs: Sequence[Slot]) -> Arrays:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise HTTPException(400, f"the body is not JSON: {error}") from None
    if not isinstance(document, dict) or document.keys() != {"inputs"}:
        raise HTTPException(422, 'the body is {"inputs": ...}, and nothing else')
    values = document["inputs"]
    if len(inputs) == 1 and not isinstance(values, dict):
        values = {inputs[0].name: values}
    names = [slot.name for slot in inputs]
    if not isinstance(values, dict) or values.keys() != {*names}:
        raise HTTPException(422, f"`inputs` has a value for each of {', '.join(names)}, and for nothing else")
    return {slot.name: _from_lists(values[slot.name], slot) for slot in inputs}


def _from_lists(value: Any, slot: Slot) -> NDArray[Any]:
    # checked level by level, because numpy alone would convert strings to numbers, and allocate the length of the
    # longest string for each element
    level, depth = [value], 0
    for size in slot.shape:
        fits = all(isinstance(item, list) and len(item) == size for item in level)
        if size == 1 and not fits:
            continue  # such an axis may be left out
        if not fits:
            where = f"at depth {depth}, there must be lists of {size}"
            raise HTTPException(422, f"`{slot.name}` has the shape {list(slot.shape)}: {where}")
        level, depth = [item for items in level for item in items], depth + 1
    if not {type(item) for item in level} <= _KINDS[slot.dtype.kind]:
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
    except UnidentifiedImageError:  # its message contains the address of an object
        raise HTTPException(422, f"the body is not {kind}") from None
    except Exception as error:  # decoders of damaged files raise errors of any class
        raise HTTPException(422, f"the body cannot be read as {kind}: {error}") from None
    if pixels is None:
        raise HTTPException(422, f"the image has {size[0]}x{size[1]} pixels; the model takes {width}x{height}")
    return pixels.reshape(slot.shape)


def _finite(array: NDArray[Any], slot: Slot) -> NDArray[Any]:
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise HTTPException(422, f"`{slot.name}` has numbers that are not finite as {slot.dtype}")
    return array

"""Raw arrays as the inputs of a net take them: which is which, how they lie, and whether they can be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from archir.data.inputs import Input, Inputs, refused
from archir.data.readers.encoded import Encoded, Raw
from archir.data.readers.source import Part, Source
from archir.diagnostics.errors import fail

_PIECE = 1 << 24


def matched(source: Source, inputs: Inputs, what: str) -> Source:
    """A source whose inputs have the names and forms that a net wants. Raises ArchError (A1102, A1103)."""
    parts = [Part(_named(part.inputs, inputs, what), part.targets) for part in source.parts]
    for part in parts:
        counts = {name: len(array) for name, array in {**part.inputs, **part.targets}.items()}
        if len(set(counts.values())) > 1:
            found = " and ".join(f"{count} of `{name}`" for name, count in counts.items())
            raise fail("A1102", f"{what} has {found}: every sample has one of each")
    return replace(source, train=parts[0], held_out=parts[1] if len(parts) > 1 else None)


def _named(arrays: Mapping[str, Raw], inputs: Inputs, what: str) -> dict[str, Raw]:
    """By the names of a net's inputs: the only one of the only one, and else of the same name."""
    if len(arrays) == len(inputs) == 1:
        (array,) = arrays.values()
        return {inputs[0].name: _fitted(array, inputs[0], what)}
    for one in inputs:
        if one.name not in arrays:
            known = ", ".join(f"`{name}`" for name in arrays)
            raise refused(one, f"{what} has {known}", "several inputs are told apart by their names")
    return {one.name: _fitted(arrays[one.name], one, what) for one in inputs}


def _fitted(array: Raw, one: Input, what: str) -> Raw:
    if isinstance(array, Encoded):
        return array
    if one.is_image:
        return _image(array, one, what)
    shape = one.type.shape
    given = array.shape[1:]
    if [size for size in given if size != 1] != [size for size in shape if size != 1]:
        raise refused(one, f"a sample of {what} is {list(given)}")
    array = array.reshape(len(array), *shape)
    return integers(array, one, what) if one.type.dtype in ("i32", "i64") else numbers(array, one, what)


def _image(array: NDArray[Any], one: Input, what: str) -> NDArray[Any]:
    """Images [n, C, H, W] as bytes, or float32; they may be [n, H, W] or [n, H, W, C], and of any height and width."""
    channels = one.type.shape[0]
    wanted = {channels, 1, 3} if channels in (1, 3) else {channels}
    given = array
    if array.ndim == 3:
        array = array[:, None]
    elif array.ndim == 4 and array.shape[1] not in wanted and array.shape[3] in wanted:
        array = array.transpose(0, 3, 1, 2)
    if array.ndim != 4 or 0 in array.shape or array.shape[1] not in wanted:
        raise refused(
            one, f"{what} has shape {list(given.shape)}", "images are [n, H, W], [n, H, W, C] or [n, C, H, W]"
        )
    if array.dtype == np.uint8:
        return np.ascontiguousarray(array) if not isinstance(array, np.memmap) else array
    return numbers(array, one, what)


def numbers(array: NDArray[Any], one: Input, what: str) -> NDArray[np.float32]:
    """Real numbers that are finite, as float32."""
    if array.dtype.kind not in "fiub":
        raise refused(one, f"{what} holds {array.dtype}")
    require_finite(array, f"the input `{one.name}` of {what}")
    if array.dtype == np.float32 and (array.flags.c_contiguous or isinstance(array, np.memmap)):
        return array
    return np.ascontiguousarray(array, dtype=np.float32)


def integers(array: NDArray[Any], one: Input, what: str) -> NDArray[Any]:
    """Integers from 0, below what the net looks up."""
    if array.dtype.kind not in "iub":
        raise refused(one, f"{what} holds {array.dtype}", "tokens are integers from 0")
    low, high = (int(array.min()), int(array.max())) if array.size else (0, 0)
    if low < 0:
        raise refused(one, f"{what} holds {low}", "tokens are integers from 0")
    if one.type.below is not None and high >= one.type.below:
        raise refused(one, f"{what} holds {high}, and the net looks up integers below {one.type.below}")
    return array


def require_finite(array: NDArray[Any], what: str) -> None:
    """Raise ArchError (A1102) for NaN and infinities, and say in which sample."""
    if array.dtype.kind != "f":
        return
    rows = max(1, _PIECE // max(1, array[:1].size))
    for begin in range(0, len(array), rows):
        wrong = ~np.isfinite(array[begin : begin + rows]).reshape(min(rows, len(array) - begin), -1).all(1)
        if wrong.any():
            row = begin + int(wrong.argmax())
            raise fail("A1102", f"{what} holds values that are not finite, first in sample {row}")

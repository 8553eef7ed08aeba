"""Writes safetensors files array by array, without a second copy of the data in memory."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from archir.utils.files import write_atomic

CODES = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "int64": "I64", "int32": "I32",
    "int16": "I16", "int8": "I8", "uint8": "U8", "bool": "BOOL",
}  # fmt: skip
"""Maps numpy types to the element types of safetensors."""
HEADER_ALIGNMENT = 8
"""Alignment of the header size in bytes."""


def write_tensors(path: Path, arrays: Mapping[str, NDArray[Any]], metadata: Mapping[str, str] | None = None) -> None:
    """Write named arrays, and text metadata, to a safetensors file."""
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    end = 0
    for name, array in arrays.items():
        start, end = end, end + array.nbytes
        code = CODES[array.dtype.name]
        header[name] = {"dtype": code, "shape": [*array.shape], "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % HEADER_ALIGNMENT)

    def pieces() -> Iterator[bytes | memoryview]:
        """Yield the header and then the bytes of each array."""
        yield len(text).to_bytes(8, "little") + text
        for array in arrays.values():
            if array.nbytes:
                yield np.ascontiguousarray(array).reshape(-1).view(np.uint8).data

    write_atomic(path, pieces())

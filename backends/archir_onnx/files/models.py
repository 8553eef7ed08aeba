"""Models on disk: whole or not there, and with the weights beside them where they are too large for one file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import external_data_helper, helper

from archir.utils.files import Bytes, write_atomic

MOST_BYTES = 2**31 - 2**20
"""A protobuf holds less than 2 GiB."""

_GRAPH = onnx.ModelProto.GRAPH_FIELD_NUMBER
_INITIALIZER = onnx.GraphProto.INITIALIZER_FIELD_NUMBER
_RAW_DATA = onnx.TensorProto.RAW_DATA_FIELD_NUMBER
_ALIGNMENT = 4096


@dataclass(frozen=True)
class Model:
    """A model, and its weights apart: they are large, and protobuf would copy them several times on their way."""

    proto: onnx.ModelProto
    weights: dict[str, NDArray[Any]]

    def whole(self) -> onnx.ModelProto:
        """The model with its weights inside, less than 2 GiB."""
        made = onnx.ModelProto()
        made.CopyFrom(self.proto)
        for name, array in self.weights.items():
            made.graph.initializer.append(_header(name, array))
            made.graph.initializer[-1].raw_data = bytes(_data(array))
        return made


def save(model: Model, path: Path, most_bytes: int = MOST_BYTES) -> list[Path]:
    """Write a model; the files written. Over `most_bytes`, the weights go into `NAME.onnx.data` beside it."""
    if sum(array.nbytes for array in model.weights.values()) < most_bytes:
        write_atomic(path, _encoded(model))
        return [path]
    beside = path.with_name(f"{path.name}.data")
    proto = onnx.ModelProto()
    proto.CopyFrom(model.proto)
    parts: list[Bytes] = []
    offset = 0
    for name, array in model.weights.items():
        tensor = proto.graph.initializer.add()
        tensor.CopyFrom(_header(name, array))
        tensor.raw_data = b""  # the helper wants the field there
        external_data_helper.set_external_data(tensor, location=beside.name, offset=offset, length=array.nbytes)
        tensor.ClearField("raw_data")
        padding = -array.nbytes % _ALIGNMENT
        parts += [_data(array), b"\0" * padding]
        offset += array.nbytes + padding
    write_atomic(beside, parts)
    write_atomic(path, proto.SerializeToString())
    return [path, beside]


def _header(name: str, array: NDArray[Any]) -> onnx.TensorProto:
    return onnx.TensorProto(name=name, dims=array.shape, data_type=helper.np_dtype_to_tensor_dtype(array.dtype))


def _data(array: NDArray[Any]) -> Bytes:
    """An array's bytes, little end first, without a copy where it lies in memory like that."""
    ordered = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"), copy=False))
    return ordered.reshape(-1).view(np.uint8).data


def _encoded(model: Model) -> Iterator[Bytes]:
    """What `whole().SerializeToString()` would hold, in pieces, straight from where the weights lie."""
    outer = onnx.ModelProto()
    outer.CopyFrom(model.proto)
    outer.ClearField("graph")
    inner = model.proto.graph.SerializeToString()
    tensors: list[tuple[bytes, Bytes]] = []
    for name, array in model.weights.items():
        header = _header(name, array).SerializeToString() + _field(_RAW_DATA, array.nbytes)
        tensors.append((_field(_INITIALIZER, len(header) + array.nbytes) + header, _data(array)))
    yield outer.SerializeToString()
    yield _field(_GRAPH, len(inner) + sum(len(header) + len(data) for header, data in tensors))
    yield inner
    for pair in tensors:
        yield from pair


def _field(number: int, length: int) -> bytes:
    """How protobuf begins a field of so many bytes: number and kind, then the length, seven bits a byte."""
    return _varint(number << 3 | 2) + _varint(length)


def _varint(value: int) -> bytes:
    digits = bytearray()
    while value > 0x7F:
        digits.append(value & 0x7F | 0x80)
        value >>= 7
    digits.append(value)
    return bytes(digits)

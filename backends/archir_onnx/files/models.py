"""Atomic writing of model files, with weights in an external data file if they are too large for one file."""

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

MAX_BYTES = 2**31 - 2**20
"""Maximum bytes of weights stored in the model file itself: a protobuf message must be below 2 GiB."""

_GRAPH = onnx.ModelProto.GRAPH_FIELD_NUMBER
_INITIALIZER = onnx.GraphProto.INITIALIZER_FIELD_NUMBER
_RAW_DATA = onnx.TensorProto.RAW_DATA_FIELD_NUMBER
_ALIGNMENT = 4096
"""Alignment in bytes of tensors in an external data file."""


@dataclass(frozen=True)
class Model:
    """A model and its weights, kept separately because weights are large and protobuf would copy them several times."""

    proto: onnx.ModelProto
    weights: dict[str, NDArray[Any]]

    def to_proto(self) -> onnx.ModelProto:
        """Return the model as a single protobuf message that includes the weights; it must be smaller than 2 GiB."""
        proto = onnx.ModelProto()
        proto.CopyFrom(self.proto)
        for name, array in self.weights.items():
            proto.graph.initializer.append(_tensor_header(name, array))
            proto.graph.initializer[-1].raw_data = bytes(_data(array))
        return proto


def save(model: Model, path: Path, max_bytes: int = MAX_BYTES) -> list[Path]:
    """Write a model; return the paths of the written files.

    If the weights have `max_bytes` or more, they are written to `NAME.onnx.data` beside the model.
    """
    if sum(array.nbytes for array in model.weights.values()) < max_bytes:
        write_atomic(path, _serialize(model))
        return [path]
    data_file = path.with_name(f"{path.name}.data")
    proto = onnx.ModelProto()
    proto.CopyFrom(model.proto)
    parts: list[Bytes] = []
    offset = 0
    for name, array in model.weights.items():
        tensor = proto.graph.initializer.add()
        tensor.CopyFrom(_tensor_header(name, array))
        tensor.raw_data = b""  # the helper wants the field there
        external_data_helper.set_external_data(tensor, location=data_file.name, offset=offset, length=array.nbytes)
        tensor.ClearField("raw_data")
        padding = -array.nbytes % _ALIGNMENT
        parts += [_data(array), b"\0" * padding]
        offset += array.nbytes + padding
    write_atomic(data_file, parts)
    write_atomic(path, proto.SerializeToString())
    return [path, data_file]


def _tensor_header(name: str, array: NDArray[Any]) -> onnx.TensorProto:
    """Return a tensor message without its data."""
    return onnx.TensorProto(name=name, dims=array.shape, data_type=helper.np_dtype_to_tensor_dtype(array.dtype))


def _data(array: NDArray[Any]) -> Bytes:
    """Return an array's bytes in little-endian order, without copying if it is already stored in this order."""
    ordered = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"), copy=False))
    return ordered.reshape(-1).view(np.uint8).data


def _serialize(model: Model) -> Iterator[Bytes]:
    """Yield the bytes of `Model.to_proto()` in chunks, without copying the weights."""
    outer = onnx.ModelProto()
    outer.CopyFrom(model.proto)
    outer.ClearField("graph")
    inner = model.proto.graph.SerializeToString()
    tensors: list[tuple[bytes, Bytes]] = []
    for name, array in model.weights.items():
        header = _tensor_header(name, array).SerializeToString() + _field(_RAW_DATA, array.nbytes)
        tensors.append((_field(_INITIALIZER, len(header) + array.nbytes) + header, _data(array)))
    yield outer.SerializeToString()
    yield _field(_GRAPH, len(inner) + sum(len(header) + len(data) for header, data in tensors))
    yield inner
    for pair in tensors:
        yield from pair


def _field(number: int, length: int) -> bytes:
    """Return the protobuf header of a length-delimited field.

    It consists of the field number with the wire type, and the length, both as varints.
    """
    return _varint(number << 3 | 2) + _varint(length)


def _varint(value: int) -> bytes:
    """Encode an integer as a protobuf varint: seven bits per byte."""
    digits = bytearray()
    while value > 0x7F:
        digits.append(value & 0x7F | 0x80)
        value >>= 7
    digits.append(value)
    return bytes(digits)


def report_path(path: Path) -> Path:
    """Return the path of the quantisation report that belongs to a model file."""
    return path.with_name(f"{path.name}.int8.json")

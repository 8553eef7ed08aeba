"""Models on disk: whole or not there, and with the weights beside them where they are too large for one file."""

from __future__ import annotations

from pathlib import Path

import onnx
from onnx import external_data_helper

from archir.files import write_atomic

MOST_BYTES = 2**31 - 2**20
"""A protobuf holds less than 2 GiB."""


def save(model: onnx.ModelProto, path: Path, most_bytes: int = MOST_BYTES) -> list[Path]:
    """Write a model; the files written. Over `most_bytes`, the weights go into `NAME.onnx.data` beside it."""
    if sum(len(tensor.raw_data) for tensor in model.graph.initializer) < most_bytes:
        write_atomic(path, model.SerializeToString())
        return [path]
    beside = path.with_name(f"{path.name}.data")
    model = onnx.ModelProto.FromString(model.SerializeToString()) if model.ByteSize() < MOST_BYTES else model
    parts: list[bytes] = []
    offset = 0
    for tensor in model.graph.initializer:
        data = tensor.raw_data
        external_data_helper.set_external_data(tensor, location=beside.name, offset=offset, length=len(data))
        tensor.ClearField("raw_data")
        padding = -len(data) % 4096
        parts += [data, b"\0" * padding]
        offset += len(data) + padding
    write_atomic(beside, b"".join(parts))
    write_atomic(path, model.SerializeToString())
    return [path, beside]

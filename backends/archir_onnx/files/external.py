"""Data beside a model, looked at before anything reads it: neither onnx's checker nor onnxruntime refuse all that they
should."""

from __future__ import annotations

import stat
from collections.abc import Iterable, Iterator
from math import prod
from pathlib import Path, PurePosixPath
from typing import Any

import onnx
from onnx import helper

from archir.diagnostics.errors import fail
from archir.utils.files import read_bytes

MOST_BYTES = 1 << 31
"""What protobuf can hold."""
BESIDE = "models whose data is in files beside them are moved together with these"
_KEYS = {"location", "offset", "length", "checksum"}


def read(path: Path) -> onnx.ModelProto:
    """A model without the data beside it, and without `value_info`: exporters write wrong shapes there.

    Raises ArchError (A0916) if it is no model, or its data may not be read.
    """
    try:
        model = onnx.load_model_from_string(read_bytes(path, MOST_BYTES))
    except OSError as error:
        raise fail("A0916", f"cannot read the model {path}: {error.strerror}") from None
    except Exception as error:  # protobuf's, which has no types to name it by
        raise fail("A0916", f"{path} is no ONNX model: {error}", None, _meant(path)) from None
    if not model.HasField("graph"):
        raise fail("A0916", f"{path} is no ONNX model: it has no graph")
    if not _legible(model):
        raise fail("A0916", f"{path} is no ONNX model: it holds names or texts that are not UTF-8")
    for tensor in _all(model):
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            _check(tensor, path)
    del model.graph.value_info[:]
    return model


def _meant(path: Path) -> str | None:
    """What a file that is no model may be."""
    if path.suffix == ".arch":
        return f"`archir compile {path} -o {path.stem}.onnx` writes the network of a program as ONNX"
    if path.suffix in (".pt", ".pth", ".ckpt", ".bin", ".safetensors"):
        return "for a file of weights, name what makes the module, --torch package.module:callable, and it by --weights"
    if path.suffix == ".py":
        return "of a module in Python, name what makes it: --torch package.module:callable"
    return None


def _legible(message: Any) -> bool:
    """Whether all texts of a message are text: protobuf gives bytes where they are not UTF-8."""
    pending = [message]
    while pending:
        for field, value in pending.pop().ListFields():
            if field.type not in (field.TYPE_STRING, field.TYPE_MESSAGE):
                continue
            many = [value] if isinstance(value, str | bytes) or hasattr(value, "ListFields") else value
            if field.type == field.TYPE_MESSAGE:
                pending.extend(many)
            elif any(isinstance(one, bytes) for one in many):
                return False
    return True


def files(model: onnx.ModelProto, path: Path) -> list[Path]:
    """The model's file and those that its data is in."""
    locations = {
        entry.value
        for tensor in _all(model)
        if tensor.data_location == onnx.TensorProto.EXTERNAL
        for entry in tensor.external_data
        if entry.key == "location"
    }
    return [path, *(path.parent / location for location in sorted(locations))]


def tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    """All tensors of a graph: its weights, those of attributes, and those of graphs inside."""
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    for node in graph.node:
        yield from _held(node.attribute)


def _all(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """All tensors of a model, those of its functions among them."""
    yield from tensors(model.graph)
    for function in model.functions:
        yield from _held(function.attribute_proto)
        for node in function.node:
            yield from _held(node.attribute)


def _held(attributes: Iterable[onnx.AttributeProto]) -> Iterator[onnx.TensorProto]:
    """The tensors that attributes hold."""
    for attribute in attributes:
        for sparse in [*([attribute.sparse_tensor] if attribute.HasField("sparse_tensor") else []),
                       *attribute.sparse_tensors]:  # fmt: skip
            yield from (sparse.values, sparse.indices)
        yield from ([attribute.t] if attribute.HasField("t") else [])
        yield from attribute.tensors
        for inner in [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]:
            yield from tensors(inner)


def _check(tensor: onnx.TensorProto, path: Path) -> None:
    """Raise ArchError (A0916) unless a tensor's data is a part of an ordinary file in the model's folder."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    where = f"the data of `{tensor.name}` in {path}"
    if len(entries) < len(tensor.external_data):
        raise fail("A0916", f"{where} has an entry twice: readers may take either")
    if unknown := sorted(entries.keys() - _KEYS):
        raise fail("A0916", f"{where} has an entry `{unknown[0]}`, which means nothing")
    location = entries.get("location", "")
    odd = location in ("", ".", "..") or any(character in location for character in "\0\\")
    if odd or len(PurePosixPath(location).parts) != 1:
        raise fail("A0916", f"{where} is said to be in `{location}`, which is no file of the model's folder")
    beside = path.parent / location
    try:
        facts = beside.lstat()
    except OSError as error:
        raise fail("A0916", f"{where} is in {beside}, which cannot be read: {error.strerror}", None, BESIDE) from None
    if not stat.S_ISREG(facts.st_mode) or facts.st_nlink != 1:
        raise fail("A0916", f"{where} is in {beside}, which is a link or no file", None, "put a copy in its place")
    try:
        offset, length = (_number(entries.get(key, standing)) for key, standing in (("offset", "0"), ("length", "-1")))
    except ValueError:
        raise fail("A0916", f"{where} has an offset or a length that is no number") from None
    size = _bytes(tensor)
    if any(dim < 0 for dim in tensor.dims):
        raise fail("A0916", f"`{tensor.name}` in {path} has a negative size")
    if offset < 0 or offset + size > facts.st_size or length not in (-1, size):
        text = f"{where} is said to be {length} bytes from {offset} on, of {facts.st_size}; it needs {size}"
        raise fail("A0916", text)


def _number(text: str) -> int:
    """A number as all readers take it: Python alone reads blanks, underscores and digits of other scripts."""
    number = int(text)
    if str(number) != text:
        raise ValueError(text)
    return number


def _bytes(tensor: onnx.TensorProto) -> int:
    try:
        size: int = prod(tensor.dims) * helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize
    except KeyError:
        raise fail("A0916", f"`{tensor.name}` has elements of an unknown type {tensor.data_type}") from None
    return size

"""Reading of model files, with safety checks of their external data.

The checks are needed because onnx's checker and onnxruntime do not perform all of them.
"""

from __future__ import annotations

import stat
from collections.abc import Iterable, Iterator
from math import prod
from pathlib import Path, PurePosixPath
from typing import Any

import onnx
from onnx import helper

from archir.diagnostics.errors import describe_error, fail
from archir.utils.files import read_bytes

MAX_BYTES = 1 << 31
"""Maximum size of a model file in bytes, which is the limit of a protobuf message."""
MOVED_HINT = "a model with external data must be moved together with its data files"
"""Hint shown if external data files are missing."""
_KEYS = {"location", "offset", "length", "checksum"}
"""Valid keys of the entries that describe a tensor's external data."""


def load_model(path: Path) -> onnx.ModelProto:
    """Load a model without its external data and without `value_info`, which some exporters fill with wrong shapes.

    Raises ArchError (A0916) if the file is not a valid model, or its external data fails the safety checks.
    """
    try:
        model = onnx.load_model_from_string(read_bytes(path, MAX_BYTES))
    except OSError as error:
        raise fail("A0916", f"cannot read the model {path}: {describe_error(error)}") from None
    except Exception as error:  # protobuf's errors have no public class
        raise fail("A0916", f"{path} is not an ONNX model: {error}", None, _wrong_kind_hint(path)) from None
    if not model.HasField("graph"):
        raise fail("A0916", f"{path} is not an ONNX model: it has no graph")
    if not _is_utf8(model):
        raise fail("A0916", f"{path} is not an ONNX model: it contains strings that are not UTF-8")
    for tensor in _all_tensors(model):
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            _check_external_data(tensor, path)
    del model.graph.value_info[:]
    return model


def _wrong_kind_hint(path: Path) -> str | None:
    """Return a hint if a file of another kind was given as a model: a program, a weights file or Python code."""
    if path.suffix == ".arch":
        return f"convert the program to ONNX first: `archir compile {path} -o {path.stem}.onnx`"
    if path.suffix in (".pt", ".pth", ".ckpt", ".bin", ".safetensors"):
        return "for a weights file, name the module with --torch package.module:callable, and the file with --weights"
    if path.suffix == ".py":
        return "for a Python module, name the callable that creates it: --torch package.module:callable"
    return None


def _is_utf8(message: Any) -> bool:
    """Return True if all strings in a protobuf message are valid UTF-8; protobuf returns invalid ones as bytes."""
    pending = [message]
    while pending:
        for field, value in pending.pop().ListFields():
            if field.type not in (field.TYPE_STRING, field.TYPE_MESSAGE):
                continue
            values = [value] if isinstance(value, str | bytes) or hasattr(value, "ListFields") else value
            if field.type == field.TYPE_MESSAGE:
                pending.extend(values)
            elif any(isinstance(text, bytes) for text in values):
                return False
    return True


def model_files(model: onnx.ModelProto, path: Path) -> list[Path]:
    """Return the paths of a model file and of its external data files."""
    locations = {
        entry.value
        for tensor in _all_tensors(model)
        if tensor.data_location == onnx.TensorProto.EXTERNAL
        for entry in tensor.external_data
        if entry.key == "location"
    }
    return [path, *(path.parent / location for location in sorted(locations))]


def graph_tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    """Yield all tensors stored in a graph: initializers, and tensors in attributes and subgraphs."""
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    for node in graph.node:
        yield from _attribute_tensors(node.attribute)


def _all_tensors(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Yield all tensors stored in a model, including those in its functions."""
    yield from graph_tensors(model.graph)
    for function in model.functions:
        yield from _attribute_tensors(function.attribute_proto)
        for node in function.node:
            yield from _attribute_tensors(node.attribute)


def _attribute_tensors(attributes: Iterable[onnx.AttributeProto]) -> Iterator[onnx.TensorProto]:
    """Yield the tensors stored in attributes, including those in subgraphs."""
    for attribute in attributes:
        for sparse in [*([attribute.sparse_tensor] if attribute.HasField("sparse_tensor") else []),
                       *attribute.sparse_tensors]:  # fmt: skip
            yield from (sparse.values, sparse.indices)
        yield from ([attribute.t] if attribute.HasField("t") else [])
        yield from attribute.tensors
        for inner in [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]:
            yield from graph_tensors(inner)


def _check_external_data(tensor: onnx.TensorProto, path: Path) -> None:
    """Check that a tensor's external data lies inside a regular file in the model's folder.

    Raises ArchError (A0916).
    """
    entries = {entry.key: entry.value for entry in tensor.external_data}
    subject = f"the data of `{tensor.name}` in {path}"
    if len(entries) < len(tensor.external_data):
        raise fail("A0916", f"{subject} has a duplicate entry, which is ambiguous")
    if unknown := sorted(entries.keys() - _KEYS):
        raise fail("A0916", f"{subject} has an unknown entry `{unknown[0]}`")
    location = entries.get("location", "")
    is_invalid = location in ("", ".", "..") or any(character in location for character in "\0\\")
    if is_invalid or len(PurePosixPath(location).parts) != 1:
        raise fail("A0916", f"{subject} has the location `{location}`, which is not a file in the model's folder")
    data_file = path.parent / location
    try:
        status = data_file.lstat()
    except OSError as error:
        raise fail(
            "A0916", f"{subject} is in {data_file}, which cannot be read: {describe_error(error)}", None, MOVED_HINT
        ) from None
    if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
        raise fail("A0916", f"{subject} is in {data_file}, which is a link or no file", None, "replace it by a copy")
    try:
        offset, length = (_parse_int(entries.get(key, default)) for key, default in (("offset", "0"), ("length", "-1")))
    except ValueError:
        raise fail("A0916", f"{subject} has an offset or a length that is not a number") from None
    size = _data_bytes(tensor)
    if any(dim < 0 for dim in tensor.dims):
        raise fail("A0916", f"`{tensor.name}` in {path} has a negative size")
    if offset < 0 or offset + size > status.st_size or length not in (-1, size):
        text = f"{subject} has offset {offset} and length {length} in a file of {status.st_size} bytes; it needs {size}"
        raise fail("A0916", text)


def _parse_int(text: str) -> int:
    """Parse a decimal integer strictly. In contrast, `int` also accepts blanks, underscores and non-ASCII digits."""
    number = int(text)
    if str(number) != text:
        raise ValueError(text)
    return number


def _data_bytes(tensor: onnx.TensorProto) -> int:
    """Return the size of a tensor's data in bytes. Raises ArchError (A0916) if its elements have no fixed size."""
    try:
        dtype = helper.tensor_dtype_to_np_dtype(tensor.data_type)
    except KeyError:
        raise fail("A0916", f"`{tensor.name}` has elements of an unknown type {tensor.data_type}") from None
    if dtype.hasobject:  # the file's bytes would be used as pointers
        raise fail("A0916", f"`{tensor.name}` has strings as external data, which ONNX does not allow")
    return int(prod(tensor.dims) * dtype.itemsize)

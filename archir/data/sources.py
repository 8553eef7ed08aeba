"""Reads data sources by name, and matches their arrays to the inputs of a net.

The reader is selected by prefix, file suffix or folder content. Names, axis order, shapes and value ranges of the
arrays are matched.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from archir.data.inputs import Input, Inputs, image_shape, input_error
from archir.data.readers.source import SOURCES, EncodedImages, Part, Raw, Source, split_targets
from archir.diagnostics.errors import fail
from archir.diagnostics.hints import suggest

_CHUNK_ELEMENTS = 1 << 24
"""Maximum number of elements checked for NaN and infinity at once."""


def read(source: Any, inputs: Inputs) -> Source:
    """Read a source and match it to the inputs of a net.

    `source` is a name (`digits`, a path, `PREFIX:REST` or `MODULE:FUNCTION`), a Path, or a Python object such as
    arrays or a dataset. Image files are decoded to the size of the net's input. Raises ArchError (A11xx).
    """
    if isinstance(source, PurePath):
        source = str(source)
    data = _read_named(source, inputs) if isinstance(source, str) else _from_python(source, "`data`")
    return _match_inputs(data, inputs, source_label(source))


def _from_python(data: Any, source_name: str) -> Source:
    if isinstance(data, Source):
        return data
    from archir.data import python_data

    return python_data.read(data, source_name)


def source_label(source: Any) -> str:
    """Return the name of a source for use in messages."""
    return f"`{source}`" if isinstance(source, str | PurePath) else "`data`"


def _read_named(source: str, inputs: Inputs) -> Source:
    if source == "digits":
        from archir.data.readers import digits

        image_shape(inputs, "`digits`")
        return digits.read()
    prefix, colon, location = source.partition(":")
    if module_of(source) is not None and not Path(source).exists():
        from archir.data import python_data

        return python_data.call_function(source)
    format_name, name = (prefix, location) if colon and SOURCES.find(prefix) else (_detect_format(Path(source)), source)
    return _from_python(SOURCES[format_name](name, inputs), f"`{source}`")


def module_of(source: Any) -> str | None:
    """Return the module of a source written `MODULE:FUNCTION`; None for any other source."""
    module, colon, function = source.partition(":") if isinstance(source, str) else ("", "", "")
    named = colon and function.isidentifier() and all(part.isidentifier() for part in module.split("."))
    return module if named and SOURCES.find(module) is None else None


def origin(source: Any) -> str:
    """Return where a source's samples come from, without options such as target columns.

    Sources with the same origin have the same samples.
    """
    text = str(source) if isinstance(source, str | PurePath) else f"data {id(source)}"
    prefix, colon, location = text.partition(":")
    prefix_name, name = (prefix, location) if colon and SOURCES.find(prefix) else ("", text)
    name = name.partition("@")[0] if prefix_name == "series" else name
    name = name.partition("#")[0] if prefix_name in ("", "parquet", "hf", "csv", "series") else name
    if prefix_name == "hf" or text == "digits":
        return text.partition("#")[0]
    try:
        return str(Path(name).resolve())
    except (OSError, ValueError):  # not a path; the reader reports that
        return name


def _detect_format(path: Path) -> str:
    """Return the reader prefix for a path, based on its suffix or folder content. Raises ArchError (A1101)."""
    if path.suffix in (".npz", ".npy", ".parquet"):
        return path.suffix[1:]
    suffix = path.suffix.partition("#")[0]
    if suffix in (".csv", ".parquet"):
        return suffix[1:]
    if path.suffix == ".txt":
        return "text"
    folder, targets = split_targets(str(path))
    if targets and folder.is_dir() and not path.exists():
        return "parquet" if _has_files(folder, *_PARQUET) else "csv"
    formats = ", ".join(sorted(SOURCES))
    if path.is_file():
        hint = f"one of {formats} and `:` before the path name its format: `text:{path}` reads it as text"
        raise fail("A1101", f"the suffix of {path} names no format of data", None, hint)
    if not path.is_dir():
        hint = f"data is `digits`, a file, a folder, `MODULE:FUNCTION`, or begins with {formats} and `:`"
        word, colon, _ = str(path).partition(":")
        correction = suggest(word, SOURCES if colon else ["digits"])
        hint = f"{correction} {hint[0].upper()}{hint[1:]}" if correction else hint
        raise fail("A1101", f"there is no file or folder {path}", None, hint)
    if _has_files(path, "*-ubyte", "*-ubyte.gz"):
        return "idx"
    if _has_files(path, "*.npy"):
        return "npy"
    if (path / "masks").is_dir() or (path / "train" / "masks").is_dir():
        return "masks"
    return "parquet" if _has_files(path, *_PARQUET) else "images"


_PARQUET = ("*.parquet", "data/*.parquet")


def _has_files(folder: Path, *patterns: str) -> bool:
    return any(file for pattern in patterns for file in folder.glob(pattern))


def _match_inputs(source: Source, inputs: Inputs, source_name: str) -> Source:
    """Return a source with the input names and shapes that a net expects.

    `source_name` names the source in messages. Raises ArchError: A1102 (arrays of different lengths, or
    non-finite values), A1103 (an array does not fit an input).
    """
    parts = [Part(_by_input_name(part.inputs, inputs, source_name), part.targets) for part in source.parts]
    for part in parts:
        counts = {name: len(array) for name, array in {**part.inputs, **part.targets}.items()}
        if len(set(counts.values())) > 1:
            lengths = " and ".join(f"{count} of `{name}`" for name, count in counts.items())
            raise fail("A1102", f"{source_name} has {lengths}: every sample has one of each")
    return replace(source, train=parts[0], held_out=parts[1] if len(parts) > 1 else None)


def _by_input_name(arrays: Mapping[str, Raw], inputs: Inputs, source_name: str) -> dict[str, Raw]:
    """Return the arrays by input name.

    If there is one array and one input, the array's name is ignored; otherwise, arrays must have the names of the
    inputs.
    """
    if len(arrays) == len(inputs) == 1:
        (array,) = arrays.values()
        return {inputs[0].name: _fit_array(array, inputs[0], source_name)}
    for net_input in inputs:
        if net_input.name not in arrays:
            names = ", ".join(f"`{name}`" for name in arrays)
            hint = "with several inputs, arrays must have the names of the inputs"
            raise input_error(net_input, f"{source_name} has {names}", hint)
    return {net_input.name: _fit_array(arrays[net_input.name], net_input, source_name) for net_input in inputs}


def _fit_array(array: Raw, net_input: Input, source_name: str) -> Raw:
    if isinstance(array, EncodedImages):
        return replace(array, resizing=net_input.resizing)
    if net_input.is_image:
        return _fit_images(array, net_input, source_name)
    shape = net_input.type.shape
    sample_shape = array.shape[1:]
    if [size for size in sample_shape if size != 1] != [size for size in shape if size != 1]:
        raise input_error(net_input, f"a sample of {source_name} is {list(sample_shape)}")
    array = array.reshape(len(array), *shape)
    return (
        _as_indices(array, net_input, source_name)
        if net_input.type.dtype in ("i32", "i64")
        else _as_float32(array, net_input, source_name)
    )


def _fit_images(array: NDArray[Any], net_input: Input, source_name: str) -> NDArray[Any]:
    """Convert images to [n, C, H, W]; uint8 stays, other numbers become float32.

    Accepts [n, H, W], [n, H, W, C] and [n, C, H, W] of any height and width. Raises ArchError (A1102, A1103).
    """
    channels = net_input.type.shape[0]
    channel_counts = {channels, 1, 3} if channels in (1, 3) else {channels}
    original = array
    if array.ndim == 3:
        array = array[:, None]
    elif array.ndim == 4 and array.shape[1] not in channel_counts and array.shape[3] in channel_counts:
        array = array.transpose(0, 3, 1, 2)
    if array.ndim != 4 or 0 in array.shape or array.shape[1] not in channel_counts:
        hint = "images are [n, H, W], [n, H, W, C] or [n, C, H, W]"
        raise input_error(net_input, f"{source_name} has shape {list(original.shape)}", hint)
    if array.dtype == np.uint8:
        return np.ascontiguousarray(array) if not isinstance(array, np.memmap) else array
    return _as_float32(array, net_input, source_name)


def _as_float32(array: NDArray[Any], net_input: Input, source_name: str) -> NDArray[np.float32]:
    if array.dtype.kind not in "fiub":
        raise input_error(net_input, f"{source_name} holds {array.dtype}")
    _require_finite(array, f"the input `{net_input.name}` of {source_name}")
    if array.dtype == np.float32 and (array.flags.c_contiguous or isinstance(array, np.memmap)):
        return array
    return np.ascontiguousarray(array, dtype=np.float32)


def _as_indices(array: NDArray[Any], net_input: Input, source_name: str) -> NDArray[Any]:
    """Check that an array has integers that are valid indices into the net's embedding tables; return it unchanged.

    Raises ArchError (A1103).
    """
    if array.dtype.kind not in "iub":
        raise input_error(net_input, f"{source_name} holds {array.dtype}", "tokens are integers from 0")
    low, high = (int(array.min()), int(array.max())) if array.size else (0, 0)
    if low < 0:
        raise input_error(net_input, f"{source_name} holds {low}", "tokens are integers from 0")
    limit = net_input.type.integer_limit
    if limit is not None and high >= limit:
        raise input_error(net_input, f"{source_name} holds {high}, and the net looks up integers below {limit}")
    return array


def _require_finite(array: NDArray[Any], display_name: str) -> None:
    """Raise ArchError (A1102) if an array has NaN or infinity; the message names the first such sample."""
    if array.dtype.kind != "f":
        return
    rows = max(1, _CHUNK_ELEMENTS // max(1, array[:1].size))
    for begin in range(0, len(array), rows):
        wrong = ~np.isfinite(array[begin : begin + rows]).reshape(min(rows, len(array) - begin), -1).all(1)
        if wrong.any():
            row = begin + int(wrong.argmax())
            raise fail("A1102", f"{display_name} holds values that are not finite, first in sample {row}")

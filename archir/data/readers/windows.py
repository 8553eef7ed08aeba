"""Fixed-length windows of long sequences: bytes or tokens of texts, and time series. The last fifth is held out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from archir.data.inputs import Input, Inputs, input_error
from archir.data.readers.csv import read_columns
from archir.data.readers.source import HELD_OUT, Part, Source, existing_path, read_error, source, split_targets
from archir.diagnostics.errors import fail, join_names
from archir.diagnostics.hints import suggest
from archir.utils.files import read_bytes

MAX_BYTES = 1 << 30
"""Maximum size in bytes of one text file (1 GiB)."""
_TEXTS = (".txt", ".md", ".rst", ".py", ".arch")
"""File name suffixes of texts."""


@source("text")
def read_text(name: str, inputs: Inputs) -> Source:
    """Read tokens as windows with the length of the net's input; the targets are the tokens shifted by one.

    `name` is a text file or a folder of texts (tokens are bytes), or an .npy file of token ids. A folder with
    train.txt and test.txt defines its own held-out part. Raises ArchError (A1101, A1102, A1103).
    """
    path = existing_path(name)
    net_input = _single_input(inputs, f"`{path}`")
    if net_input.type.rank != 1 or net_input.type.dtype not in ("i32", "i64"):
        raise input_error(net_input, f"`{path}` holds tokens", "a net of tokens has an input such as i64[128]")
    train, test = (path / f"{name}.txt" for name in ("train", "test"))
    has_parts = train.is_file() and test.is_file()
    return token_windows(
        [_read_tokens(train), _read_tokens(test)] if has_parts else [_read_tokens(path)], net_input, str(path)
    )


def token_windows(parts: Sequence[NDArray[Any]], net_input: Input, source_name: str) -> Source:
    """Divide token sequences [n] into windows. A second sequence is the held-out part; if there is none, the last
    fifth is.

    Raises ArchError (A1102) if a part has fewer tokens than a window plus one.
    """
    (length,) = net_input.type.shape
    if len(parts) == 1:
        (sequence,) = parts
        parts = list(np.split(sequence, [len(sequence) - int(HELD_OUT * len(sequence))]))
    windows = []
    for tokens in parts:
        count = (len(tokens) - 1) // length
        if count < 1:
            message = f"{source_name} has {len(tokens)} tokens in a part, but a window needs {length} and one more"
            raise fail("A1102", message)
        windows.append(Part(
            {net_input.name: tokens[: count * length].reshape(count, length)},
            {"next": tokens[1 : count * length + 1].reshape(count, length)},
        ))  # fmt: skip
    return Source.of(windows)


def _read_tokens(path: Path) -> NDArray[Any]:
    """Read tokens [n] from a text file, a folder of texts (joined by newlines), or an .npy file. Raises ArchError
    (A1101, A1102)."""
    try:
        if path.suffix == ".npy":
            ids = np.load(path, allow_pickle=False)
            if ids.ndim != 1 or ids.dtype.kind not in "iu" or (len(ids) and int(ids.min()) < 0):
                raise fail("A1102", f"{path} must hold integers from 0 [n], got {ids.dtype} of {list(ids.shape)}")
            return np.asarray(ids)
        files = [path] if path.is_file() else _text_files(path)
        if not files:
            raise fail("A1101", f"there is no text in {path}", None, f"texts are files ending in {', '.join(_TEXTS)}")
        return np.frombuffer(b"\n".join(read_bytes(file, MAX_BYTES) for file in files), np.uint8)
    except (OSError, ValueError) as error:
        raise read_error(path, error) from None


def _text_files(folder: Path) -> list[Path]:
    """Return the text files in a folder and its subfolders, in an order that is the same on every machine."""
    files = (file for file in folder.rglob("*") if file.suffix in _TEXTS and file.is_file())
    return sorted(files, key=lambda file: file.relative_to(folder).parts)


@source("series")
def read_series(name: str, inputs: Inputs) -> Source:
    """Read `FILE#COLUMN,COLUMN@HORIZON` as windows of a time series.

    Inputs are windows [length, columns] of all numeric columns, with the length of the net's input. Targets are
    the next HORIZON steps (default 1) of the named columns: [horizon] for one column, else [horizon, columns]. A
    window starts every HORIZON rows, so that adjacent windows overlap. Raises ArchError (A1101, A1102, A1103).
    """
    location, _, horizon_text = name.partition("@")
    horizon = int(horizon_text) if horizon_text.isdigit() else 1 if not horizon_text else 0
    path, targets = split_targets(location)
    if horizon < 1:
        example = f"series:{path}#{','.join(targets) or 'COLUMN'}@24"
        raise fail("A1102", f"`{horizon_text}` is not a number of steps", None, example)
    net_input = _single_input(inputs, f"`{path}`")
    columns = read_columns(path)
    numbers = {key: _as_numbers(cells) for key, cells in columns.items()}
    numeric = {key: column for key, column in numbers.items() if column is not None}
    for target in targets:
        if target not in numeric:
            raise fail("A1102", f"{path} has no column of numbers `{target}`", None, suggest(target, numeric))
    if not numeric:
        raise fail("A1102", f"{path} has no column of numbers")
    target_names = targets or list(numeric)
    values, target_values = (np.stack([numeric[key] for key in keys], 1) for keys in (list(numeric), target_names))
    shape = net_input.type.shape
    if shape[-1] != values.shape[1] and not (len(shape) == 1 and values.shape[1] == 1):
        raise input_error(net_input, f"`{path}` has {values.shape[1]} columns of numbers: {join_names(list(numeric))}")
    length = shape[0]
    windows = []
    split = len(values) - int(HELD_OUT * len(values))
    for begin, end in ((0, split), (split, len(values))):
        starts = range(begin, end - length - horizon + 1, horizon)
        if not starts:
            text = f"{path} has {end - begin} rows in a part, but a window needs {length} and {horizon} more"
            raise fail("A1102", text)
        x = np.stack([values[start : start + length] for start in starts]).reshape(len(starts), *shape)
        y = np.stack([target_values[start + length : start + length + horizon] for start in starts])
        windows.append(Part({net_input.name: x}, {"ahead": y[..., 0] if len(target_names) == 1 else y}))
    return Source.of(windows, min_gap=-(-length // horizon) + 1)


def _single_input(inputs: Inputs, source_name: str) -> Input:
    if len(inputs) > 1:
        raise input_error(inputs[1], f"{source_name} is for nets with one input")
    return inputs[0]


def _as_numbers(cells: Any) -> NDArray[np.float32] | None:
    try:
        array = np.array([float(cell) for cell in cells], np.float32)
    except (TypeError, ValueError):
        return None
    return array if np.isfinite(array).all() else None

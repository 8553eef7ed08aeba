"""Samples from the columns of a data set: texts and tokens, sounds, arrays named like the net's inputs, or a
table.

With a target column, each row is a sample. Text without targets is joined into one long token sequence, in
which the target of each token is the next one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from archir.data.inputs import Input, Inputs
from archir.data.readers import sound, table, windows
from archir.data.readers.source import Part, Source, classes_of
from archir.diagnostics.errors import fail, join_names
from archir.diagnostics.hints import suggest

Columns = Mapping[str, Sequence[Any]]

IGNORED_CLASS = -1
"""Class number for missing target tokens, where a row is shorter than the net's input; losses ignore it."""


def source_of_columns(
    parts: Sequence[Columns],
    inputs: Inputs,
    targets: Sequence[str],
    names: Mapping[str, Sequence[str]],
    source_name: str,
) -> Source:
    """Convert tables of columns to a source: one table for training and, optionally, a held-out one.

    Columns are matched to inputs by name; a single input also takes the only column that fits its type. `targets`
    are column names, by default `label` or the only column that is not an input. `names` maps columns to their
    class names. `source_name` names the data set in messages. Raises ArchError: A1102 (columns are missing or
    unsuitable), A1103 (they do not fit an input), A1104 (a sound cannot be decoded).
    """
    columns = [name for name in parts[0] if all(name in part for part in parts)]
    for target in targets:
        if target in parts[0] and target not in columns:
            raise fail(
                "A1102", f"the held-out part of {source_name} has no column `{target}`", None, _column_hint(columns)
            )
        if target not in columns:
            raise fail(
                "A1102",
                f"{source_name} has no column `{target}`",
                None,
                suggest(target, columns) or _column_hint(columns),
            )
    parts = [{name: part[name] for name in columns} for part in parts]
    if not columns or not all(len(part[columns[0]]) for part in parts):
        raise fail(
            "A1102",
            f"a part of {source_name} has no rows" if columns else f"the parts of {source_name} share no column",
        )
    if len(inputs) == 1 and _takes_tokens(inputs[0]):
        texts = _named_or_only_column(parts, inputs[0], targets, _is_text)
        if texts is None:
            texts = next((spec for spec in targets if len(targets) == 1 and _is_text(parts[0][spec][0])), None)
            targets = [] if texts is not None else targets
        if texts is not None and not targets:
            tokens = [_join_tokens(part[texts], f"`{texts}` of {source_name}") for part in parts]
            return windows.token_windows(tokens, inputs[0], source_name)
    column_of = {spec.name: _input_column(parts, spec, targets, len(inputs) == 1) for spec in inputs}
    if len(inputs) == 1 and None in column_of.values():
        return table.source_of_table(parts, targets, source_name)
    if lacking := [name for name, column in column_of.items() if column is None]:
        hint = f"inputs are columns by their names: {_column_hint(columns)}"
        raise fail("A1102", f"{source_name} has no column for the input `{lacking[0]}`", None, hint)
    if not targets:
        others = [name for name in columns if name not in column_of.values()]
        targets = ["label"] if "label" in others else others if len(others) == 1 else []
    if not targets:
        raise fail(
            "A1102", f"which column of {source_name} is the target?", None, f"name it: {source_name}#{columns[-1]}"
        )
    rates: dict[int, Any] = {}
    words = {name: _vocabulary(parts, name) for name in targets}
    tables = [
        Part(
            {spec.name: _input_array(part[column_of[spec.name] or ""], spec,
            f"`{column_of[spec.name]}` of {source_name}", rates)
             for spec in inputs},
            {name: _target_array(part[name], words[name], inputs, f"`{name}` of {source_name}") for name in targets},
        )
        for part in parts
    ]  # fmt: skip
    classes = tuple(names.get(targets[0]) or words[targets[0]] or ()) if len(targets) == 1 else ()
    return Source(tables[0], tables[1] if len(tables) > 1 else None, classes or classes_of(*tables))


def _column_hint(columns: Sequence[str]) -> str:
    """Return a hint that lists the columns of a data set."""
    return f"columns are {join_names(columns)}"


def _takes_tokens(spec: Input) -> bool:
    """Return True if an input is a token sequence: one-dimensional, of integers."""
    return spec.type.rank == 1 and spec.type.dtype in ("i32", "i64")


def _is_text(cell: Any) -> bool:
    """Return True if a cell is text: a string, or a list of token ids."""
    return isinstance(cell, str) or (isinstance(cell, Sequence) and all(isinstance(token, int) for token in cell))


def _is_sound(cell: Any) -> bool:
    """Return True if a cell is a sound, as represented by the package `datasets`."""
    return isinstance(cell, Mapping) and ("array" in cell or "bytes" in cell)


def _is_array(cell: Any) -> bool:
    """Return True if a cell is a list of values."""
    return isinstance(cell, Sequence) and not isinstance(cell, str)


def _named_or_only_column(parts: Sequence[Columns], spec: Input, targets: Sequence[str], fits: Any) -> str | None:
    """Return the column for an input: the one with its name, else the only non-target column whose cells satisfy
    `fits`.

    None if there is no such column, or more than one.
    """
    if spec.name in parts[0] and spec.name not in targets:
        return spec.name
    matching = [name for name, cells in parts[0].items() if name not in targets and len(cells) and fits(cells[0])]
    return matching[0] if len(matching) == 1 else None


def _input_column(parts: Sequence[Columns], spec: Input, targets: Sequence[str], is_only_input: bool) -> str | None:
    """Return the column for an input, or None. If the net has several inputs, columns are matched by name only."""
    if not is_only_input:
        return spec.name if spec.name in parts[0] and spec.name not in targets else None
    if _takes_tokens(spec):
        return _named_or_only_column(parts, spec, targets, _is_text)
    return _named_or_only_column(parts, spec, targets, lambda cell: _is_sound(cell) or _is_array(cell))


def _join_tokens(cells: Sequence[Any], display_name: str) -> NDArray[Any]:
    """Join all texts of a column into one token sequence: UTF-8 bytes with newlines between strings, or token ids."""
    if all(isinstance(cell, str) for cell in cells):
        return np.frombuffer("\n".join(cells).encode(), np.uint8)
    return np.concatenate([_token_ids(cell, display_name) for cell in cells])


def _token_ids(cell: Any, display_name: str) -> NDArray[np.int64]:
    """Return the token ids of a cell; for a string, its UTF-8 bytes. Raises ArchError (A1102)."""
    if isinstance(cell, str):
        return np.frombuffer(cell.encode(), np.uint8).astype(np.int64)
    if not _is_text(cell):
        raise fail("A1102", f"{display_name} must hold texts, or ids of tokens")
    try:
        return np.array(cell, np.int64)
    except OverflowError:
        raise fail("A1102", f"{display_name} holds a token beyond 64 bits") from None


def _input_array(cells: Sequence[Any], spec: Input, display_name: str, rates: dict[int, Any]) -> NDArray[Any]:
    """Convert a column to an input array [n, ...]. Raises ArchError (A1102, A1103, A1104)."""
    if _takes_tokens(spec):
        return _pad_rows([_token_ids(cell, display_name) for cell in cells], spec.type.shape[0], 0)
    if len(cells) and _is_sound(cells[0]):
        return np.stack(
            [sound.decode_sound(cell, spec, f"sound {row} of {display_name}", rates) for row, cell in enumerate(cells)]
        )
    return _numeric_array(cells, display_name)


def _numeric_array(cells: Sequence[Any], display_name: str) -> NDArray[Any]:
    """Stack the cells of a column into a numeric array [n, ...]; floats become float32. Raises ArchError (A1102)."""
    try:
        array = np.array(cells)
    except ValueError:
        raise fail("A1102", f"rows of {display_name} have different shapes") from None
    if array.dtype.kind not in "fiub":
        raise fail("A1102", f"{display_name} holds no numbers")
    return array.astype(np.float32) if array.dtype.kind == "f" else array


def _pad_rows(rows: Sequence[NDArray[np.int64]], length: int, fill: int) -> NDArray[np.int64]:
    """Truncate rows, or pad them with `fill`, to the given length; return int64 [n, length]."""
    padded = np.full((len(rows), length), fill, np.int64)
    for i, row in enumerate(rows):
        padded[i, : len(row)] = row[:length]
    return padded


def _vocabulary(parts: Sequence[Columns], name: str) -> list[str]:
    """Return the sorted distinct strings in a target column; [] if it has anything but strings."""
    cells = [cell for part in parts for cell in part[name]]
    return sorted({*cells}) if all(isinstance(cell, str) for cell in cells) else []


def _target_array(cells: Sequence[Any], words: Sequence[str], inputs: Inputs, display_name: str) -> NDArray[Any]:
    """Convert a column to a target array: class numbers of strings, one class per token (padded with IGNORED_CLASS),
    or numbers."""
    if words:
        return np.searchsorted(words, [str(cell) for cell in cells]).astype(np.int64)
    if len(inputs) == 1 and _takes_tokens(inputs[0]) and all(_is_array(cell) and _is_text(cell) for cell in cells):
        return _pad_rows([_token_ids(cell, display_name) for cell in cells], inputs[0].type.shape[0], IGNORED_CLASS)
    return _numeric_array(cells, display_name)

"""Columns of a data set as samples: texts and tokens, sounds, arrays by the names of a net's inputs, or a table.

With a target, every row is a sample. Texts without one are a single text, whose next tokens are the targets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from archir.data.inputs import Input, Inputs
from archir.data.readers import sound, table, windows
from archir.data.readers.source import Part, Source, classes_of
from archir.diagnostics.errors import fail, listed, suggest

Columns = Mapping[str, Sequence[Any]]

LEFT_OUT = -1
"""The class of a token that there is not."""


def samples(
    parts: Sequence[Columns], inputs: Inputs, targets: Sequence[str], names: Mapping[str, Sequence[str]], where: str
) -> Source:
    """The parts of a data set, of which the second one is held out. `names` are those of classes, by column. Raises
    ArchError (A1102, A1103, A1104)."""
    columns = [name for name in parts[0] if all(name in part for part in parts)]
    for target in targets:
        if target in parts[0] and target not in columns:
            raise fail("A1102", f"the held-out part of {where} has no column `{target}`", None, _known(columns))
        if target not in columns:
            raise fail("A1102", f"{where} has no column `{target}`", None, suggest(target, columns) or _known(columns))
    parts = [{name: part[name] for name in columns} for part in parts]
    if not columns or not all(len(part[columns[0]]) for part in parts):
        raise fail("A1102", f"a part of {where} has no rows" if columns else f"the parts of {where} share no column")
    if len(inputs) == 1 and _is_tokens(inputs[0]):
        texts = _of(parts, inputs[0], targets, _is_text)
        if texts is None:
            texts = next((one for one in targets if len(targets) == 1 and _is_text(parts[0][one][0])), None)
            targets = [] if texts is not None else targets
        if texts is not None and not targets:
            tokens = [_joined(part[texts], f"`{texts}` of {where}") for part in parts]
            return windows.of_tokens(tokens, inputs[0], where)
    found = {one.name: _column(parts, one, targets, len(inputs) == 1) for one in inputs}
    if len(inputs) == 1 and None in found.values():
        return table.arranged(parts, targets, where)
    if lacking := [name for name, column in found.items() if column is None]:
        hint = f"inputs are columns by their names: {_known(columns)}"
        raise fail("A1102", f"{where} has no column for the input `{lacking[0]}`", None, hint)
    if not targets:
        rest = [name for name in columns if name not in found.values()]
        targets = ["label"] if "label" in rest else rest if len(rest) == 1 else []
    if not targets:
        raise fail("A1102", f"which column of {where} is the target?", None, f"name it: {where}#{columns[-1]}")
    rates: dict[int, Any] = {}
    words = {name: _words(parts, name) for name in targets}
    made = [
        Part(
            {one.name: _given(part[found[one.name] or ""], one, f"`{found[one.name]}` of {where}", rates)
             for one in inputs},
            {name: _target(part[name], words[name], inputs, f"`{name}` of {where}") for name in targets},
        )
        for part in parts
    ]  # fmt: skip
    classes = tuple(names.get(targets[0]) or words[targets[0]] or ()) if len(targets) == 1 else ()
    return Source(made[0], made[1] if len(made) > 1 else None, classes or classes_of(*made))


def _known(columns: Sequence[str]) -> str:
    return f"columns are {listed(columns)}"


def _is_tokens(one: Input) -> bool:
    return one.type.rank == 1 and one.type.dtype in ("i32", "i64")


def _is_text(cell: Any) -> bool:
    """Whether a cell is a text, or the ids of one."""
    return isinstance(cell, str) or (isinstance(cell, Sequence) and all(isinstance(one, int) for one in cell))


def _is_sound(cell: Any) -> bool:
    return isinstance(cell, Mapping) and ("array" in cell or "bytes" in cell)


def _is_array(cell: Any) -> bool:
    return isinstance(cell, Sequence) and not isinstance(cell, str)


def _of(parts: Sequence[Columns], one: Input, targets: Sequence[str], form: Any) -> str | None:
    """The column of an input: that of its name, or the only one of a form that is no target."""
    if one.name in parts[0] and one.name not in targets:
        return one.name
    found = [name for name, cells in parts[0].items() if name not in targets and len(cells) and form(cells[0])]
    return found[0] if len(found) == 1 else None


def _column(parts: Sequence[Columns], one: Input, targets: Sequence[str], alone: bool) -> str | None:
    """The column of an input; of several inputs, that of its name."""
    if not alone:
        return one.name if one.name in parts[0] and one.name not in targets else None
    if _is_tokens(one):
        return _of(parts, one, targets, _is_text)
    return _of(parts, one, targets, lambda cell: _is_sound(cell) or _is_array(cell))


def _joined(cells: Sequence[Any], what: str) -> NDArray[Any]:
    """All texts of a column as one: bytes, with a new line between two; or ids."""
    if all(isinstance(cell, str) for cell in cells):
        return np.frombuffer("\n".join(cells).encode(), np.uint8)
    return np.concatenate([_ids(cell, what) for cell in cells])


def _ids(cell: Any, what: str) -> NDArray[np.int64]:
    """The tokens of a cell. Raises ArchError (A1102)."""
    if isinstance(cell, str):
        return np.frombuffer(cell.encode(), np.uint8).astype(np.int64)
    if not _is_text(cell):
        raise fail("A1102", f"{what} must hold texts, or ids of tokens")
    try:
        return np.array(cell, np.int64)
    except OverflowError:
        raise fail("A1102", f"{what} holds a token beyond 64 bits") from None


def _given(cells: Sequence[Any], one: Input, what: str, rates: dict[int, Any]) -> NDArray[Any]:
    """A column as an input. Raises ArchError (A1102, A1103, A1104)."""
    if _is_tokens(one):
        return _filled([_ids(cell, what) for cell in cells], one.type.shape[0], 0)
    if len(cells) and _is_sound(cells[0]):
        return np.stack([sound.heard(cell, one, f"sound {row} of {what}", rates) for row, cell in enumerate(cells)])
    return _arrays(cells, what)


def _arrays(cells: Sequence[Any], what: str) -> NDArray[Any]:
    try:
        found = np.array(cells)
    except ValueError:
        raise fail("A1102", f"rows of {what} are of unlike shapes") from None
    if found.dtype.kind not in "fiub":
        raise fail("A1102", f"{what} holds no numbers")
    return found.astype(np.float32) if found.dtype.kind == "f" else found


def _filled(rows: Sequence[NDArray[np.int64]], length: int, fill: int) -> NDArray[np.int64]:
    """Rows of one length: cut off, or filled up."""
    made = np.full((len(rows), length), fill, np.int64)
    for place, row in enumerate(rows):
        made[place, : len(row)] = row[:length]
    return made


def _words(parts: Sequence[Columns], name: str) -> list[str]:
    """The different words of a target, in order; nothing of one that holds no words."""
    cells = [cell for part in parts for cell in part[name]]
    return sorted({*cells}) if all(isinstance(cell, str) for cell in cells) else []


def _target(cells: Sequence[Any], words: Sequence[str], inputs: Inputs, what: str) -> NDArray[Any]:
    """A column as a target: classes by their words; of tokens one each, as many as a net takes."""
    if words:
        return np.searchsorted(words, [str(cell) for cell in cells]).astype(np.int64)
    if len(inputs) == 1 and _is_tokens(inputs[0]) and all(_is_array(cell) and _is_text(cell) for cell in cells):
        return _filled([_ids(cell, what) for cell in cells], inputs[0].type.shape[0], LEFT_OUT)
    return _arrays(cells, what)

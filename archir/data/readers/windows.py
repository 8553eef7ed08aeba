"""Windows of what is long: the bytes of texts, and series of numbers. The last fifth of either is held out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from archir.data.inputs import Input, Inputs, refused
from archir.data.readers import table
from archir.data.readers.source import Part, Source, unreadable
from archir.data.selection import HELD_OUT
from archir.diagnostics.errors import fail, listed, suggest
from archir.utils.files import read_bytes

MOST_BYTES = 1 << 30
_TEXTS = (".txt", ".md", ".rst", ".py", ".arch")


def text(path: Path, inputs: Inputs) -> Source:
    """Windows of tokens, as many as the net takes, and of the tokens that come after each: the bytes of a file, of the
    texts of a folder, or the ids of an array in a .npy file. Raises ArchError (A1101, A1102, A1103)."""
    one = _only(inputs, f"`{path}`")
    if one.type.rank != 1 or one.type.dtype not in ("i32", "i64"):
        raise refused(one, f"`{path}` holds tokens", "a net of tokens has an input such as i64[128]")
    train, test = (path / f"{name}.txt" for name in ("train", "test"))
    both = train.is_file() and test.is_file()
    return of_tokens([_tokens(train), _tokens(test)] if both else [_tokens(path)], one, str(path))


def of_tokens(parts: Sequence[NDArray[Any]], one: Input, where: str) -> Source:
    """Windows of tokens [n], of which the last fifth is held out unless there is a second part. Raises ArchError
    (A1102)."""
    (length,) = one.type.shape
    if len(parts) == 1:
        (whole,) = parts
        parts = list(np.split(whole, [len(whole) - int(HELD_OUT * len(whole))]))
    made = []
    for tokens in parts:
        count = (len(tokens) - 1) // length
        if count < 1:
            raise fail("A1102", f"{where} has {len(tokens)} tokens in a part: a window has {length}, and one after it")
        made.append(Part(
            {one.name: tokens[: count * length].reshape(count, length)},
            {"next": tokens[1 : count * length + 1].reshape(count, length)},
        ))  # fmt: skip
    return Source(made[0], made[1], ())


def _tokens(path: Path) -> NDArray[Any]:
    try:
        if path.suffix == ".npy":
            ids = np.load(path, allow_pickle=False)
            if ids.ndim != 1 or ids.dtype.kind not in "iu" or (len(ids) and int(ids.min()) < 0):
                raise fail("A1102", f"{path} must hold integers from 0 [n], got {ids.dtype} of {list(ids.shape)}")
            return np.asarray(ids)
        files = [path] if path.is_file() else _texts(path)
        if not files:
            raise fail("A1101", f"there is no text in {path}", None, f"texts are files ending in {', '.join(_TEXTS)}")
        return np.frombuffer(b"\n".join(read_bytes(file, MOST_BYTES) for file in files), np.uint8)
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from None


def _texts(folder: Path) -> list[Path]:
    """The texts of a folder and of folders in it, in the order of their paths, name by name, on every machine."""
    found = (one for one in folder.rglob("*") if one.suffix in _TEXTS and one.is_file())
    return sorted(found, key=lambda one: one.relative_to(folder).parts)


def series(name: str, inputs: Inputs) -> Source:
    """`FILE#COLUMN,COLUMN@HORIZON`: windows [length, columns] of a table's columns, as long as the net's input, and of
    the named columns what comes in as many steps after each [horizon], or [horizon, columns].

    A window begins where another one's horizon does, so neighbours overlap. Raises ArchError (A1101, A1102, A1103).
    """
    rest, _, ahead = name.partition("@")
    horizon = int(ahead) if ahead.isdigit() else 1 if not ahead else 0
    path, targets = table.parted(rest)
    if horizon < 1:
        raise fail(
            "A1102", f"`{ahead}` is no number of steps", None, f"series:{path}#{','.join(targets) or 'COLUMN'}@24"
        )
    one = _only(inputs, f"`{path}`")
    columns = table.columns(path)
    numbers = {key: _numbers(cells) for key, cells in columns.items()}
    known = {key: column for key, column in numbers.items() if column is not None}
    for target in targets:
        if target not in known:
            raise fail("A1102", f"{path} has no column of numbers `{target}`", None, suggest(target, known))
    if not known:
        raise fail("A1102", f"{path} has no column of numbers")
    wanted = targets or list(known)
    values, aims = (np.stack([known[key] for key in keys], 1) for keys in (list(known), wanted))
    shape = one.type.shape
    if shape[-1] != values.shape[1] and not (len(shape) == 1 and values.shape[1] == 1):
        raise refused(one, f"`{path}` has {values.shape[1]} columns of numbers: {listed(list(known))}")
    length = shape[0]
    made = []
    for begin, end in (
        (0, len(values) - int(HELD_OUT * len(values))),
        (len(values) - int(HELD_OUT * len(values)), len(values)),
    ):
        starts = range(begin, end - length - horizon + 1, horizon)
        if not starts:
            raise fail(
                "A1102", f"{path} has {end - begin} rows in a part: a window has {length}, and {horizon} after it"
            )
        x = np.stack([values[at : at + length] for at in starts])
        y = np.stack([aims[at + length : at + length + horizon] for at in starts])
        made.append(Part({one.name: x.reshape(len(x), *shape)}, {"ahead": y[..., 0] if len(wanted) == 1 else y}))
    return Source(made[0], made[1], (), apart=-(-length // horizon) + 1)


def _only(inputs: Inputs, what: str) -> Input:
    if len(inputs) > 1:
        raise refused(inputs[1], f"{what} is for nets with one input")
    return inputs[0]


def _numbers(cells: Any) -> NDArray[np.float32] | None:
    try:
        found = np.array([float(cell) for cell in cells], np.float32)
    except (TypeError, ValueError):
        return None
    return found if np.isfinite(found).all() else None

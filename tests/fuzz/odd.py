"""Odd values, and what is damaged by putting them into other things."""

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
    """Any JSON value."""
    if depth and rng.random() < 0.2:
        items = [value(rng, depth - 1) for _ in range(rng.randrange(4))]
        return items if rng.random() < 0.5 else {str(rng.choice(TEXTS)): item for item in items}
    if rng.random() < 0.01:
        return nested(rng.choice([20, 60, 300]))
    return rng.choice(PLAIN)


def nested(depth: int) -> Any:
    """A list in a list in a list."""
    found: Any = []
    for _ in range(depth):
        found = [found]
    return found


def places(data: Any) -> list[tuple[Any, Any]]:
    """Every key and index of a JSON value, with what holds it."""
    found: list[tuple[Any, Any]] = []
    left = [data]
    while left:
        one = left.pop()
        if isinstance(one, dict):
            found += [(one, key) for key in one]
            left += one.values()
        elif isinstance(one, list):
            found += [(one, index) for index in range(len(one))]
            left += one
    return found


def damaged(data: Any, rng: random.Random, most: int = 3) -> Any:
    """A JSON value, with a few of its parts dropped, exchanged, doubled, renamed or replaced."""
    data = deepcopy(data)
    for _ in range(rng.randint(1, most)):
        known = places(data)
        if not known:
            return value(rng)
        (holder, key), (other, there) = rng.choice(known), rng.choice(known)
        match rng.randrange(8):
            case 0:
                del holder[key]
            case 1:
                holder[key] = deepcopy(other[there])
            case 2 if isinstance(holder, list):
                holder.insert(key, deepcopy(other[there]))
            case 3 if isinstance(holder, dict):
                holder[rng.choice([str(there), *TEXTS])] = holder.pop(key)
            case 4 if type(holder[key]) in (int, float):
                holder[key] += rng.choice([-1, 1, 10, -1000])
            case 5 if isinstance(holder[key], str) and holder[key]:
                holder[key] = mangled(holder[key], rng)
            case _:
                holder[key] = value(rng)
    return data


def text_of(data: Any) -> str:
    """JSON as text, with the numbers that JSON has no words for as Python writes them."""
    import sys

    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    try:
        return json.dumps(data)
    finally:
        sys.set_int_max_str_digits(before)


def mangled(text: str, rng: random.Random, pieces: list[str] | None = None) -> str:
    """A text with a few stretches dropped, doubled, moved or replaced."""
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
    """Bytes with a few of them flipped, dropped, doubled or replaced."""
    found = bytearray(data)
    for _ in range(rng.randint(1, 5)):
        i = rng.randrange(len(found) + 1)
        match rng.randrange(5):
            case 0 if i < len(found):
                found[i] ^= 1 << rng.randrange(8)
            case 1:
                del found[i : i + rng.choice([1, 2, 8, 100])]
            case 2:
                found[i:i] = found[i : i + rng.choice([1, 8, 64])]
            case 3:
                found[i : i + 8] = rng.choice([b"\xff" * 8, b"\x00" * 8, b"\x80\x80\x80\x80\x01", b"\x7f"])
            case _:
                found[i:i] = rng.randbytes(rng.choice([1, 4, 16]))
    return bytes(found)

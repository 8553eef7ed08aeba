"""Bounds that are parts of the most a space costs: `macs <= 0.5x`."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction

from archir.language.elaboration.names.locals import latency_file

_COST = r'latency\("[^"]*"(?:, ?confidence=[\d.]{1,18})?\)|\w+(?:\([^()]*\))?'
_PART = re.compile(rf"(?<!\w)(({_COST})\s*(?:<=|>=|<|>)\s*)(\d{{1,18}}(?:\.\d{{1,18}})?)x\b")
"""Linear: it begins where words do, and takes numbers that are short."""


def in_numbers(text: str, most: Callable[[str], int]) -> str:
    """Bounds in which parts are numbers, given the most of each cost: `0.5x` is half of it, rounded down."""

    def number(found: re.Match[str]) -> str:
        before, cost, part = found.groups()
        return f"{before}{int(Fraction(part) * most(cost))}{'ns' if latency_file(cost) is not None else ''}"

    return _PART.sub(number, text)

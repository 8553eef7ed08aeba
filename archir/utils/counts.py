"""Counts as text."""

from __future__ import annotations

from math import log10


def format_count(number: int) -> str:
    """Format an integer with thousands separators, and with its order of magnitude if it has 13 to 300 digits."""
    return f"{number:,} (about {number:.2e})" if 10**12 <= number < 10**300 else f"{number:,}"


def count_noun(number: int, noun: str) -> str:
    """Format a count with its noun, such as `1 choice` or `2 choices`."""
    return f"{format_count(number)} {inflect(noun, number)}"


def inflect(noun: str, number: int | None) -> str:
    """Return a noun in the singular if the number is 1, and in the plural otherwise."""
    return noun if number == 1 else f"{noun}s"


def round_count(number: int) -> str:
    """Format an integer, and one of more than 12 digits as the nearest power of ten: `15,625`, `about 10^52`."""
    return f"{number:,}" if number < 10**12 else f"about 10^{log10(number):.0f}"

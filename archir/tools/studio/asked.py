"""What a page asks: its fields, read with their types and sizes, and places as a browser counts them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MOST_TEXT = 400_000
"""Characters of a program: as many as the parser takes work for, about."""
MOST_NUMBER = 2**62
MOST_DRAWN = 12


class AskedError(ValueError):
    """A question that no page of ours asks."""


class Asked:
    """A question's fields."""

    def __init__(self, fields: Any) -> None:
        if not isinstance(fields, dict):
            raise AskedError("a question is an object")
        self._fields: Mapping[str, Any] = fields

    def text(self, name: str = "text", most: int = MOST_TEXT) -> str:
        """A text. Raises AskedError, as all of these do."""
        value = self._fields.get(name)
        if not isinstance(value, str) or len(value) > most:
            raise AskedError(f"`{name}` is a text of at most {most:,} characters")
        try:
            value.encode()
        except UnicodeEncodeError:
            raise AskedError(f"`{name}` is no text: it holds half a character") from None
        return value

    def maybe(self, name: str) -> str | None:
        """A short text, or nothing."""
        return None if self._fields.get(name) is None else self.text(name, 200)

    def number(self, name: str, least: int, most: int) -> int:
        """A whole number."""
        return _number(name, self._fields.get(name), least, most)

    def labels(self, name: str) -> dict[str, Any] | None:
        """An architecture's labels by path, or nothing."""
        value = self._fields.get(name)
        if value is not None and not isinstance(value, dict):
            raise AskedError(f"`{name}` is an object")
        return value

    def bounds(self, known: tuple[str, ...]) -> dict[str, tuple[int, int]]:
        """The least and the most allowed of some costs."""
        value = self._fields.get("bounds", {})
        if not isinstance(value, dict) or not set(value) <= set(known):
            raise AskedError(f"`bounds` is an object with {', '.join(known)}")
        found = {}
        for name, pair in value.items():
            if not isinstance(pair, list) or len(pair) != 2:
                raise AskedError(f"a bound on {name} is two numbers")
            low, high = (_number(name, one, 0, MOST_NUMBER) for one in pair)
            found[name] = low, high
        return found


def _number(name: str, value: Any, least: int, most: int) -> int:
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 20:
        value = int(value)  # as numbers beyond 2^53 come from a browser
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise AskedError(f"`{name}` is a whole number from {least} to {most}")
    return value


def units(text: str, offset: int) -> int:
    """An offset as a browser counts it: characters beyond the first 65,536 are two."""
    return offset + sum(char > "\uffff" for char in text[:offset]) if not text.isascii() else offset


def offset(text: str, units: int) -> int:
    """The offset of a place as a browser counts it."""
    if text.isascii():
        return min(units, len(text))
    return len(text.encode("utf-16-le")[: 2 * units].decode("utf-16-le", "ignore"))

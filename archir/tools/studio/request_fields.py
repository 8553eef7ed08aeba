"""Validation of the fields of studio requests, and conversion of offsets between Python and browsers (UTF-16)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MAX_TEXT = 400_000
"""Maximum number of characters of a program, about as many as the parser's work budget allows."""
MAX_NUMBER = 2**62
"""Largest value of a cost bound in a request."""
MAX_SAMPLES = 12
"""Maximum number of architectures that one request may sample."""


class RequestError(ValueError):
    """Raised for malformed requests, which the studio's own page never sends."""


class RequestFields:
    """Fields of a request's JSON object.

    All methods raise RequestError if a field is missing, or has a wrong type or size.
    """

    def __init__(self, fields: Any) -> None:
        if not isinstance(fields, dict):
            raise RequestError("a request must be a JSON object")
        self._fields: Mapping[str, Any] = fields

    def text(self, name: str = "text", max_length: int = MAX_TEXT) -> str:
        """Return a string field of at most `max_length` characters."""
        value = self._fields.get(name)
        if not isinstance(value, str) or len(value) > max_length:
            raise RequestError(f"`{name}` must be a string of at most {max_length:,} characters")
        try:
            value.encode()
        except UnicodeEncodeError:
            raise RequestError(f"`{name}` is not valid text: it contains an unpaired surrogate") from None
        return value

    def optional_text(self, name: str) -> str | None:
        """Return a string field of at most 200 characters, or None if it is missing or null."""
        return None if self._fields.get(name) is None else self.text(name, 200)

    def number(self, name: str, least: int, most: int) -> int:
        """Return an integer field from `least` to `most`, both inclusive."""
        return _number(name, self._fields.get(name), least, most)

    def labels(self, name: str) -> dict[str, Any] | None:
        """Return an object field that maps paths of choices to an architecture's labels; None if it is missing or
        null."""
        value = self._fields.get(name)
        if value is not None and not isinstance(value, dict):
            raise RequestError(f"`{name}` must be an object")
        return value

    def bounds(self, costs: tuple[str, ...]) -> dict[str, tuple[int, int]]:
        """Return the allowed range (minimum, maximum) of each cost in the field `bounds`; empty if the field is
        missing.

        `costs` are the costs that may occur.
        """
        value = self._fields.get("bounds", {})
        if not isinstance(value, dict) or not set(value) <= set(costs):
            raise RequestError(f"`bounds` must be an object with no keys but {', '.join(costs)}")
        bounds = {}
        for name, pair in value.items():
            if not isinstance(pair, list) or len(pair) != 2:
                raise RequestError(f"a bound on {name} must be a list of two numbers")
            low, high = (_number(name, end, 0, MAX_NUMBER) for end in pair)
            bounds[name] = low, high
        return bounds


def _number(name: str, value: Any, least: int, most: int) -> int:
    """Return an integer given as a JSON number or a decimal string. Raises RequestError if it is out of range."""
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 20:
        value = int(value)  # a browser sends integers beyond 2^53 as strings
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise RequestError(f"`{name}` must be an integer from {least} to {most}")
    return value


def to_utf16_offset(text: str, offset: int) -> int:
    """Convert an offset in characters to one in UTF-16 code units, in which browsers count.

    Characters above U+FFFF count twice.
    """
    return offset + sum(char > "\uffff" for char in text[:offset]) if not text.isascii() else offset


def from_utf16_offset(text: str, units: int) -> int:
    """Convert an offset in UTF-16 code units, in which browsers count, to characters."""
    if text.isascii():
        return min(units, len(text))
    return len(text.encode("utf-16-le")[: 2 * units].decode("utf-16-le", "ignore"))

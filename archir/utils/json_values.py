"""Values that JSON can hold."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any


def replace_nonfinite(data: Any) -> Any:
    """Return JSON data in which infinite and NaN numbers, such as missing measurements, are null."""
    match data:
        case float():
            return data if isfinite(data) else None
        case Mapping():
            return {name: replace_nonfinite(value) for name, value in data.items()}
        case list() | tuple():
            return [replace_nonfinite(value) for value in data]
    return data

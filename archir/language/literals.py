"""Writes constants as literals of the language."""

from __future__ import annotations

import re
from typing import Any

from archir.diagnostics.errors import RuleError, require


def literal(value: Any) -> str:
    """Return the source text of a constant. Raises RuleError if there is no literal for it."""
    match value:
        case None:
            return "none"
        case bool():
            return "true" if value else "false"
        case str():
            require(not set('"\\\r\n') & {*value}, f"{value!r} cannot be written as a string")
            return f'"{value}"'
        case tuple():
            return f"[{', '.join(map(literal, value))}]"
        case float():
            require(value == value and abs(value) != float("inf"), f"{value} cannot be written as a number")
            return re.sub(r"e([+-])0+(?=\d)", r"e\1", repr(value))
        case int():
            return repr(value)
    raise RuleError(f"a value of this kind cannot be written: {value!r}")

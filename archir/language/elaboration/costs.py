"""The costs that bounds and tables name beside the usual ones: what they are called, and what they take.

`kv_bytes(batch=8, context=4096)` is one cost and `kv_bytes(context=1024)` another. Whatever is left out is as here; a
name alone is a call with nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from archir.diagnostics.errors import fail, suggest
from archir.language.elaboration.locals import COSTS, FURTHER, latency_file

Argument = int | str | None

BITS = {"f32": 32, "f16": 16, "bf16": 16, "int8": 8, "int4": 4}
"""Element types that numbers are stored in, and bits of one."""
MOST = 2**30
_CALL = re.compile(r"\s*(\w+)\s*(?:\((.*)\)\s*)?", re.DOTALL)
_ARGUMENT = re.compile(r'\s*(?:(\w+)\s*=\s*)?(?:(\d[\d_]*)([KMG]?)|"(\w*)")\s*')
_SUFFIX = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9}


@dataclass(frozen=True)
class Called:
    """A cost by its name, with all that it takes."""

    name: str
    arguments: Mapping[str, Argument]


def called(text: str) -> Called | None:
    """The cost of a text such as `kv_bytes(context=4K)`; None for usual costs, latencies, and what is no cost.

    Raises ArchError (A3321) for arguments that it does not take.
    """
    found = _CALL.fullmatch(text)
    if found is None or found[1] not in FURTHER:
        return None
    name, inside = found[1], (found[2] or "").strip()
    given: list[tuple[str | None, Argument]] = []
    for part in inside.split(",") if inside else ():
        one = _ARGUMENT.fullmatch(part)
        if one is None:
            raise fail("A3321", f"`{name}` cannot read `{part.strip()}`", None, usage(name))
        given.append((one[1], one[4] if one[2] is None else int(one[2]) * _SUFFIX[one[3]]))
    return completed(name, given)


def completed(name: str, given: list[tuple[str | None, Argument]]) -> Called:
    """A cost with these arguments, some by name. Raises ArchError (A3321)."""
    usual = FURTHER[name]
    arguments: dict[str, Argument] = {}
    for position, (key, value) in enumerate(given):
        if key is None and position < len(usual):
            key = list(usual)[position]
        if key not in usual or key in arguments:
            problem = f"takes no `{key}`" if key is not None and key not in arguments else "is given too much"
            raise fail("A3321", f"`{name}` {problem}", None, suggest(key or "", usual) or usage(name))
        _check(name, key, value)
        arguments[key] = value
    return Called(name, {**usual, **arguments})


def _check(name: str, key: str, value: Argument) -> None:
    if key == "dtype":
        if value not in BITS:
            raise fail("A3321", f"`{name}` knows no element type `{value}`", None, f"there are {', '.join(BITS)}")
    elif not isinstance(value, int) or not 1 <= value <= MOST:
        raise fail("A3321", f"`{key}` of `{name}` is a number from 1 to {MOST:,}, not `{value}`", None, usage(name))


def spelled(name: str, given: list[tuple[str | None, Argument]]) -> str:
    """The text of a call with these arguments."""
    values = [f'"{value}"' if isinstance(value, str) else str(value) for _, value in given]
    inside = [f"{key}={value}" if key else value for (key, _), value in zip(given, values, strict=True)]
    return f"{name}({', '.join(inside)})" if inside else name


def usage(name: str) -> str:
    """An example of a call."""
    examples = {"dtype": '"int8"', "batch": "1", "context": "4096"}
    inside = ", ".join(f"{key}={examples[key]}" for key in FURTHER[name])
    return f"write `{name}({inside})`" if inside else f"write `{name}`, which takes nothing"


def is_cost(text: str) -> bool:
    """Whether a text names a cost. Raises ArchError (A3321) for one with wrong arguments."""
    return text in COSTS or latency_file(text) is not None or called(text) is not None


def unit(text: str) -> str:
    """What a cost counts: "ns", "bytes", or empty for plain numbers."""
    if latency_file(text) is not None:
        return "ns"
    found = _CALL.fullmatch(text)
    return "bytes" if found is not None and found[1] in COSTS and found[1].endswith("_bytes") else ""

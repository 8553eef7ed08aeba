"""Costs with arguments, as bounds and tables name them besides the usual costs.

`kv_bytes(batch=8, context=4096)` and `kv_bytes(context=1024)` are different costs. Arguments that are left out have the
defaults of `COST_DEFAULTS`; a name alone is a call without arguments.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from archir.diagnostics.errors import fail
from archir.diagnostics.hints import suggest
from archir.language.elaboration.cost_names import COST_DEFAULTS, COSTS, latency_file

Argument = int | str | None

BITS = {"f32": 32, "f16": 16, "bf16": 16, "int8": 8, "int4": 4}
"""Bits of a number for each element type in which numbers are stored."""
MAX_ARGUMENT = 2**30
"""Maximum value of an integer argument."""
_CALL = re.compile(r"\s*(\w+)\s*(?:\((.*)\)\s*)?", re.DOTALL)
_ARGUMENT = re.compile(r'\s*(?:(\w+)\s*=\s*)?(?:(\d[\d_]*)([KMG]?)|"(\w*)")\s*')
_SUFFIX = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9}


@dataclass(frozen=True)
class CostCall:
    """A cost with arguments: its name and the values of all its arguments."""

    name: str
    arguments: Mapping[str, Argument]


def parse_cost_call(text: str) -> CostCall | None:
    """Parse a cost with arguments, such as `kv_bytes(context=4K)`.

    Returns None for usual costs, latencies, and texts that are no cost. Raises ArchError (A3321) for wrong arguments.
    """
    match = _CALL.fullmatch(text)
    if match is None or match[1] not in COST_DEFAULTS:
        return None
    name, inside = match[1], (match[2] or "").strip()
    arguments: list[tuple[str | None, Argument]] = []
    for part in inside.split(",") if inside else ():
        argument = _ARGUMENT.fullmatch(part)
        if argument is None:
            raise fail("A3321", f"`{name}` cannot read `{part.strip()}`", None, usage(name))
        arguments.append((argument[1], argument[4] if argument[2] is None else int(argument[2]) * _SUFFIX[argument[3]]))
    return cost_call(name, arguments)


def cost_call(name: str, given_arguments: list[tuple[str | None, Argument]]) -> CostCall:
    """Return the cost with these arguments and the defaults of the others. Raises ArchError (A3321) for wrong
    arguments."""
    defaults = COST_DEFAULTS[name]
    arguments: dict[str, Argument] = {}
    for position, (key, value) in enumerate(given_arguments):
        if key is None and position < len(defaults):
            key = list(defaults)[position]
        if key not in defaults or key in arguments:
            is_unknown = key is not None and key not in arguments
            problem = f"takes no `{key}`" if is_unknown else "is given too many arguments, or one of them twice"
            raise fail("A3321", f"`{name}` {problem}", None, suggest(key or "", defaults) or usage(name))
        _check(name, key, value)
        arguments[key] = value
    return CostCall(name, {**defaults, **arguments})


def _check(name: str, key: str, value: Argument) -> None:
    if key == "dtype":
        if value not in BITS:
            raise fail("A3321", f"`{value}` is no element type of `{name}`", None, f"there are {', '.join(BITS)}")
    elif not isinstance(value, int) or not 1 <= value <= MAX_ARGUMENT:
        raise fail(
            "A3321", f"`{key}` of `{name}` is a number from 1 to {MAX_ARGUMENT:,}, not `{value}`", None, usage(name)
        )


def cost_call_text(name: str, arguments: list[tuple[str | None, Argument]]) -> str:
    """Return the text of a cost with these arguments."""
    values = [f'"{value}"' if isinstance(value, str) else str(value) for _, value in arguments]
    inside = [f"{key}={value}" if key else value for (key, _), value in zip(arguments, values, strict=True)]
    return f"{name}({', '.join(inside)})" if inside else name


def usage(name: str) -> str:
    """Return a hint with an example of the cost and all its arguments."""
    examples = {"dtype": '"int8"', "batch": "1", "context": "4096"}
    inside = ", ".join(f"{key}={examples[key]}" for key in COST_DEFAULTS[name])
    return f"write `{name}({inside})`" if inside else f"write `{name}`, which takes no arguments"


def is_cost(text: str) -> bool:
    """Return whether a text names a cost. Raises ArchError (A3321) for a cost with wrong arguments."""
    return text in COSTS or latency_file(text) is not None or parse_cost_call(text) is not None


def unit(text: str) -> str:
    """Return the unit of a cost: "ns", "bytes", or "" for plain numbers."""
    if latency_file(text) is not None:
        return "ns"
    match = _CALL.fullmatch(text)
    return "bytes" if match is not None and match[1] in COSTS and match[1].endswith("_bytes") else ""

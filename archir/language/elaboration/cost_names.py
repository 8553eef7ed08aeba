"""Names of costs in programs, and costs with arguments, such as `kv_bytes(batch=8, context=4096)`.

Different arguments make different costs. Omitted arguments take the defaults of `COST_DEFAULTS`; a bare name is a call
without arguments.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from archir.diagnostics.errors import fail
from archir.diagnostics.hints import suggest

COST_DEFAULTS: dict[str, dict[str, int | str | None]] = {
    "flops": {},
    "macs_conv_linear": {},
    "weight_bytes": {"dtype": "f32"},
    "kv_bytes": {"batch": 1, "context": None, "dtype": "f16"},
    "prefill_macs": {"context": None},
    "decode_macs": {"context": None},
    "sram_bytes": {},
    "flash_bytes": {},
}
"""Costs that are computed on request only, with the defaults of their arguments; a `context` of None means the
network's own."""
COSTS = ("params", "macs", "activation_bytes", "kernels", "peak_bytes", *COST_DEFAULTS)
"""Names that denote costs of an architecture in a `require`."""
LATENCY = "latency"
"""Name of the latency function in a `require`: `latency("cpu.json")` is a cost in ns from that file."""


LATENCY_HINT = (
    f'put the path in quotes: `{LATENCY}("cpu.json")`; on a command line, put single quotes around the whole bound: '
    f"`'{LATENCY}(\"cpu.json\") <= 5ms'`"
)
"""Hint for a latency whose path has no quotes, for example because the shell removed them."""


def latency_name(file: str, confidence: float | None = None) -> str:
    """Return the cost name for a latency table or latency model, such as `latency("cpu.json")`."""
    return f'{LATENCY}("{file}")' if confidence is None else f'{LATENCY}("{file}", confidence={confidence:g})'


def latency_file(name: str) -> str | None:
    """Return the file name in a latency cost such as `latency("cpu.json")`; None for other names."""
    match = _LATENCY.fullmatch(name)
    return match and match[1]


def latency_confidence(name: str) -> float | None:
    """Return the confidence in a latency cost such as `latency("cpu.json", confidence=0.95)`, or None.

    The confidence is the probability that the network is no slower than the cost.
    """
    match = _LATENCY.fullmatch(name)
    return None if match is None or match[2] is None else float(match[2])


_LATENCY = re.compile(rf'{LATENCY}\("(.*?)"(?:,\s*confidence\s*=\s*(\d+(?:\.\d+)?))?\)', re.DOTALL)


Argument = int | str | None

BITS = {"f32": 32, "f16": 16, "bf16": 16, "int8": 8, "int4": 4}
"""Bits per number for each storage element type."""
MAX_ARGUMENT = 2**30
"""Maximum value of an integer argument."""
_CALL = re.compile(r"\s*(\w+)\s*(?:\((.*)\)\s*)?", re.DOTALL)
_ARGUMENT = re.compile(r'\s*(?:(\w+)\s*=\s*)?(?:(\d[\d_]*)([KMG]?)|"(\w*)")\s*')
_SUFFIX = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9}


@dataclass(frozen=True)
class CostCall:
    """Cost with arguments: its name and the values of all arguments, defaults included."""

    name: str
    arguments: Mapping[str, Argument]


def parse_cost_call(text: str) -> CostCall | None:
    """Parse a cost with arguments, such as `kv_bytes(context=4K)`.

    Returns None for costs without arguments, latencies, and texts that name no cost. Raises ArchError (A3321) if
    the arguments are invalid.
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
    """Return the cost with the given arguments, the others at their defaults. Raises ArchError (A3321) if any is
    invalid."""
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
            raise fail("A3321", f"`{value}` is not an element type of `{name}`", None, f"there are {', '.join(BITS)}")
    elif not isinstance(value, int) or not 1 <= value <= MAX_ARGUMENT:
        raise fail(
            "A3321", f"`{key}` of `{name}` is a number from 1 to {MAX_ARGUMENT:,}, not `{value}`", None, usage(name)
        )


def cost_call_text(name: str, arguments: list[tuple[str | None, Argument]]) -> str:
    """Return the source text of a cost with arguments."""
    values = [f'"{value}"' if isinstance(value, str) else str(value) for _, value in arguments]
    inside = [f"{key}={value}" if key else value for (key, _), value in zip(arguments, values, strict=True)]
    return f"{name}({', '.join(inside)})" if inside else name


def usage(name: str) -> str:
    """Return a hint that shows the cost with an example value for each argument."""
    examples = {"dtype": '"int8"', "batch": "1", "context": "4096"}
    inside = ", ".join(f"{key}={examples[key]}" for key in COST_DEFAULTS[name])
    return f"write `{name}({inside})`" if inside else f"write `{name}`, which takes no arguments"


def is_cost(text: str) -> bool:
    """Return True if a text names a cost. Raises ArchError (A3321) for a cost with invalid arguments."""
    if text.startswith(f"{LATENCY}(") and latency_file(text) is None:
        raise fail("A3321", f"`{LATENCY}` cannot read the arguments of `{text}`", None, LATENCY_HINT)
    return text in COSTS or latency_file(text) is not None or parse_cost_call(text) is not None


def unit(text: str) -> str:
    """Return the unit of a cost: "ns", "bytes", or "" for counts."""
    if latency_file(text) is not None:
        return "ns"
    match = _CALL.fullmatch(text)
    return "bytes" if match is not None and match[1] in COSTS and match[1].endswith("_bytes") else ""

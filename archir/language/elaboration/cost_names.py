"""Names of costs in programs, and the default arguments of the named costs that `archir.costs.rules` computes."""

from __future__ import annotations

import re

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
"""Costs that are computed only where they are asked for, and the defaults of their arguments; a context of None is the
network's own."""
COSTS = ("params", "macs", "activation_bytes", "kernels", "peak_bytes", *COST_DEFAULTS)
"""Names that stand for costs of an architecture in a `require`."""
LATENCY = "latency"
"""Name of the function for latencies in a `require`: `latency("cpu.json")` is a cost in nanoseconds by that table."""


def latency_name(file: str, confidence: float | None = None) -> str:
    """Return the name of the cost by the file of a table or a model."""
    return f'{LATENCY}("{file}")' if confidence is None else f'{LATENCY}("{file}", confidence={confidence:g})'


def latency_file(name: str) -> str | None:
    """Return the file in the name of a cost, such as `latency("cpu.json")`; None for other names."""
    match = _LATENCY.fullmatch(name)
    return match and match[1]


def latency_confidence(name: str) -> float | None:
    """Return the confidence in the name of a cost, such as `latency("cpu.json", confidence=0.95)`; None without one.

    It is the probability with which a network is no slower than the cost says.
    """
    match = _LATENCY.fullmatch(name)
    return None if match is None or match[2] is None else float(match[2])


_LATENCY = re.compile(rf'{LATENCY}\("(.*?)"(?:,\s*confidence\s*=\s*(\d+(?:\.\d+)?))?\)', re.DOTALL)

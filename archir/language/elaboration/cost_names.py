"""Names of costs in programs, and the default arguments of those that `archir.costs.rules` computes."""

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
"""Costs that are computed on request only, with the defaults of their arguments; a `context` of None means the
network's own."""
COSTS = ("params", "macs", "activation_bytes", "kernels", "peak_bytes", *COST_DEFAULTS)
"""Names that denote costs of an architecture in a `require`."""
LATENCY = "latency"
"""Name of the latency function in a `require`: `latency("cpu.json")` is a cost in ns from that file."""


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

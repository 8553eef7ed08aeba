"""Lookup of the rule that computes a named cost, such as `kv_bytes(context=4096)`."""

from __future__ import annotations

from collections.abc import Callable

from archir.costs import operation_counts, sequences, weights
from archir.costs.symbolic import Rule
from archir.diagnostics.errors import fail
from archir.ir.graph import Graph
from archir.language.elaboration.cost_names import parse_cost_call

RULE_FACTORIES: dict[str, Callable[..., Rule]] = {
    "flops": operation_counts.flops,
    "macs_conv_linear": operation_counts.macs_conv_linear,
    "weight_bytes": weights.weight_bytes,
    "flash_bytes": weights.flash_bytes,
    "kv_bytes": sequences.kv_bytes,
    "prefill_macs": sequences.prefill_macs,
    "decode_macs": sequences.decode_macs,
}
"""For each named cost, a function that builds its `Rule` from a graph and the arguments in the cost's name."""


def rule_of(graph: Graph, name: str) -> Rule:
    """Return the `Rule` of an additive cost by its name, which includes arguments.

    Raises ArchError: A1604 (there is no additive cost of this name), A3320, A3321.
    """
    call = parse_cost_call(name)
    if call is None or call.name not in RULE_FACTORIES:
        raise fail("A1604", f"`{name}` is not a cost that sums over operations")
    return RULE_FACTORIES[call.name](graph, **call.arguments)

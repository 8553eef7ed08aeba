"""From a cost's name, such as `kv_bytes(context=4096)`, to the rule that says what each operation contributes."""

from __future__ import annotations

from collections.abc import Callable

from archir.costs import conventions, sequences, weights
from archir.costs.symbolic import Rule
from archir.diagnostics.errors import fail
from archir.ir.graph import Graph
from archir.language.elaboration.costs import called

MAKERS: dict[str, Callable[..., Rule]] = {
    "flops": conventions.flops,
    "macs_conv_linear": conventions.macs_conv_linear,
    "weight_bytes": weights.weight_bytes,
    "flash_bytes": weights.flash_bytes,
    "kv_bytes": sequences.kv_bytes,
    "prefill_macs": sequences.prefill_macs,
    "decode_macs": sequences.decode_macs,
}
"""What makes the rule of each cost that adds up, for a graph and the arguments."""


def rule_of(graph: Graph, name: str) -> Rule:
    """The rule of a cost that adds up. Raises ArchError (A1604, A3320, A3321)."""
    found = called(name)
    if found is None or found.name not in MAKERS:
        raise fail("A1604", f"`{name}` is no cost that adds up")
    return MAKERS[found.name](graph, **found.arguments)

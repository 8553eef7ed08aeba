"""Bytes of weights: stored in one element type, or quantised to 8 bits in a microcontroller's flash memory."""

from __future__ import annotations

from archir.costs.operation_counts import LAYERS
from archir.costs.symbolic import Rule
from archir.ir.graph import Graph, NodeId
from archir.ir.op import Op
from archir.ir.types import TensorType
from archir.language.elaboration.cost_names import BITS
from archir.ops.norm import BatchNorm
from archir.ops.routing import ExpertLinear

WORD_BYTES = 4
"""Bytes of a number that is not quantised to 8 bits, such as a bias or a scale."""


def weight_bytes(graph: Graph, dtype: str) -> Rule:
    """Return the rule of the cost `weight_bytes`: bytes of all trained parameters, stored as `dtype`.

    The size of each tensor is rounded up to whole bytes.
    """

    def op_bytes(op: Op, *types: TensorType) -> int:
        return sum(
            -(-weight.elements * BITS[dtype] // 8) for weight in op.weights(*types).values() if not weight.buffer
        )

    return Rule(op_bytes, share_key=weight_key)


def flash_bytes(graph: Graph) -> Rule:
    """Return the rule of the cost `flash_bytes`: bytes of quantised weights in the flash of a microcontroller.

    Matrices and kernels take 8 bits per weight, plus a scale of 4 bytes per output channel. All other parameters take 4
    bytes each. A batch norm is folded into the preceding layer: the norm's scale is merged into the layer's scales, so
    only the norm's shift remains, with 4 bytes per channel.
    """

    def op_bytes(op: Op, *types: TensorType) -> int:
        if isinstance(op, BatchNorm):
            return WORD_BYTES * types[0].channels if op.affine else 0
        weights = [weight for weight in op.weights(*types).values() if not weight.buffer]
        return sum(
            weight.elements + WORD_BYTES * _scale_count(op) if len(weight.shape) >= 2 else WORD_BYTES * weight.elements
            for weight in weights
        )

    return Rule(op_bytes, share_key=weight_key)


def _scale_count(op: Op) -> int:
    """Return the number of quantisation scales: one per output channel (of each expert), 1 for a lookup table."""
    if not isinstance(op, LAYERS):
        return 1
    return op.channels * (op.experts if isinstance(op, ExpertLinear) else 1)


def weight_key(graph: Graph, number: NodeId) -> tuple[str, tuple[NodeId, ...]]:
    """Return the sharing key of a node's weights, which is its scope: equal scopes share their weights."""
    return graph[number].scope, ()

"""Bytes of weights: as numbers of one type, and as a microcontroller's flash holds them."""

from __future__ import annotations

from archir.costs.conventions import LAYERS
from archir.costs.symbolic import Rule
from archir.ir.graph import Graph, NodeId
from archir.ir.op import Op
from archir.ir.types import TensorType
from archir.language.elaboration.costs import BITS
from archir.ops.norm import BatchNorm
from archir.ops.routing import ExpertLinear

WORD = 4
"""Bytes of a bias, of a scale, and of any other number that is not in 8 bits."""


def weight_bytes(graph: Graph, dtype: str) -> Rule:
    """All trained parameters in numbers of one type; each tensor has whole bytes."""

    def of(op: Op, *types: TensorType) -> int:
        return sum(
            -(-weight.elements * BITS[dtype] // 8) for weight in op.weights(*types).values() if not weight.buffer
        )

    return Rule(of, once=scope)


def flash_bytes(graph: Graph) -> Rule:
    """Matrices and kernels in 8 bits with a scale for each channel of the result, and all else in words of 4 bytes.

    A batch norm is folded into what it follows: its scale into the scales, so that a word for each channel is left.
    """

    def of(op: Op, *types: TensorType) -> int:
        if isinstance(op, BatchNorm):
            return WORD * types[0].channels if op.affine else 0
        weights = [weight for weight in op.weights(*types).values() if not weight.buffer]
        return sum(
            weight.elements + WORD * _scales(op) if len(weight.shape) >= 2 else WORD * weight.elements
            for weight in weights
        )

    return Rule(of, once=scope)


def _scales(op: Op) -> int:
    """Numbers by which parts of a weight are multiplied: one for each channel of a result; of a table, one."""
    if not isinstance(op, LAYERS):
        return 1
    return op.channels * (op.experts if isinstance(op, ExpertLinear) else 1)


def scope(graph: Graph, number: NodeId) -> tuple[str, tuple[NodeId, ...]]:
    """What names a node's weights: those of equal scopes are the same."""
    return graph[number].scope, ()

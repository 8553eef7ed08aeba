"""Multiply-accumulates and operations as other tools count them."""

from __future__ import annotations

from archir.costs.symbolic import Rule
from archir.ir.graph import Graph
from archir.ir.op import Op
from archir.ir.types import TensorType
from archir.ops.conv import Convolution, ConvTranspose, Linear
from archir.ops.routing import ExpertLinear

LAYERS = (Convolution, ConvTranspose, Linear, ExpertLinear)
"""Operations that have weights which inputs are multiplied with."""


def flops(graph: Graph) -> Rule:
    """Two for each multiply-accumulate: a product, and a sum."""
    return Rule(lambda op, *types: 2 * op.macs(*types))


def macs_conv_linear(graph: Graph) -> Rule:
    """Multiply-accumulates of convolutions and linear maps alone: matrix products of attention count nothing."""

    def of(op: Op, *types: TensorType) -> int:
        return op.macs(*types) if isinstance(op, LAYERS) else 0

    return Rule(of)

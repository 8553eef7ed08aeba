"""Operation counts under the conventions of other tools: FLOPs, and MACs of convolutions and linear layers only."""

from __future__ import annotations

from archir.costs.symbolic import Rule
from archir.ir.graph import Graph
from archir.ir.op import Op
from archir.ir.types import TensorType
from archir.ops.conv import Convolution, ConvTranspose, Linear
from archir.ops.routing import ExpertLinear

LAYERS = (Convolution, ConvTranspose, Linear, ExpertLinear)
"""Operations that multiply their input by a weight."""


def flops(graph: Graph) -> Rule:
    """Return the rule of the cost `flops`: two operations for each multiply-accumulate (product and sum)."""
    return Rule(lambda op, *types: 2 * op.macs(*types))


def macs_conv_linear(graph: Graph) -> Rule:
    """Return the rule of the cost `macs_conv_linear`: multiply-accumulates of convolutions and linear layers only.

    The matrix products of attention are not counted.
    """

    def op_macs(op: Op, *types: TensorType) -> int:
        return op.macs(*types) if isinstance(op, LAYERS) else 0

    return Rule(op_macs)

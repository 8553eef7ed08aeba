"""Lowering of operations such as dropout, which have no effect in a deployed model."""

from __future__ import annotations

from archir.ir.op import Op
from archir.ops import random as ops
from archir_onnx.lowering.builder import Builder
from archir_onnx.lowering.rules import lowers


@lowers(ops.Dropout, ops.DropPath)
def no_op(g: Builder, op: Op, x: str) -> str:
    """Lower an operation that has an effect only in training: no node is added."""
    return x

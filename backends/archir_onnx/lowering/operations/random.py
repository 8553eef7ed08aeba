"""Operations that do nothing in a deployed model."""

from __future__ import annotations

from archir.ir.op import Op
from archir.ops import random as ops
from archir_onnx.lowering.builder import Builder
from archir_onnx.lowering.rules import lowers


@lowers(ops.Dropout, ops.DropPath)
def nothing(g: Builder, op: Op, x: str) -> str:
    return x

"""Lowering of lookups by integer indices."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper

from archir.ops import lookup as ops
from archir_onnx.lowering.builder import Builder
from archir_onnx.lowering.rules import lowers


@lowers(ops.Embedding)
def embedding(g: Builder, op: ops.Embedding, x: str, *, weight: str) -> str:
    """Lower an embedding lookup."""
    return g.node("Gather", weight, x, axis=0)


@lowers(ops.Gather)
def gather(g: Builder, op: ops.Gather, x: str, positions: str) -> str:
    """Lower a gather of positions within each sample to `GatherND` with one batch dimension."""
    if g.types[1].dtype != "i64":
        positions = g.node("Cast", positions, to=TensorProto.INT64)
    return g.node("GatherND", x, g.node("Unsqueeze", positions, g.constant([-1])), batch_dims=1)


@lowers(ops.OneHot)
def one_hot(g: Builder, op: ops.OneHot, x: str, *, one: str) -> str:
    """Lower one-hot encoding to `Equal` and `Where`.

    ONNX's `OneHot` counts negative numbers from the end, and onnxruntime lacks kernels for it for some integer types.
    """
    as_int64 = x if g.types[0].dtype == "i64" else g.node("Cast", x, to=TensorProto.INT64)
    is_class = g.node("Equal", g.node("Unsqueeze", as_int64, g.constant([-1])), g.constant(list(range(op.classes))))
    return g.node("Where", is_class, g.number(1), g.number(0))


@lowers(ops.Equal)
def equal(g: Builder, op: ops.Equal, x: str) -> str:
    """Lower the element-wise comparison of integers with a constant."""
    return g.node("Equal", x, g.constant(op.to, np.int64 if g.types[0].dtype == "i64" else np.int32))


@lowers(ops.ToNumbers)
def to_numbers(g: Builder, op: ops.ToNumbers, x: str, *, one: str) -> str:
    """Lower the conversion of integers or booleans to floating-point numbers."""
    return g.node("Cast", x, to=helper.np_dtype_to_tensor_dtype(np.dtype(g.options.dtype)))

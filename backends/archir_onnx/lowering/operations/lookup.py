"""Lookups by integers."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper

from archir.ops import lookup as ops
from archir_onnx.lowering.builder import Builder
from archir_onnx.lowering.rules import lowers


@lowers(ops.Embedding)
def embedding(g: Builder, op: ops.Embedding, x: str, *, weight: str) -> str:
    return g.node("Gather", weight, x, axis=0)


@lowers(ops.Gather)
def gather(g: Builder, op: ops.Gather, x: str, positions: str) -> str:
    """`GatherND` takes an index of one number for each position, of the sample that it is in."""
    if g.types[1].dtype != "i64":
        positions = g.node("Cast", positions, to=TensorProto.INT64)
    return g.node("GatherND", x, g.node("Unsqueeze", positions, g.constant([-1])), batch_dims=1)


@lowers(ops.OneHot)
def one_hot(g: Builder, op: ops.OneHot, x: str, *, one: str) -> str:
    """`OneHot` counts negative numbers from the end, and has no kernel for all integers."""
    whole = x if g.types[0].dtype == "i64" else g.node("Cast", x, to=TensorProto.INT64)
    met = g.node("Equal", g.node("Unsqueeze", whole, g.constant([-1])), g.constant(list(range(op.classes))))
    return g.node("Where", met, g.number(1), g.number(0))


@lowers(ops.Equal)
def equal(g: Builder, op: ops.Equal, x: str) -> str:
    return g.node("Equal", x, g.constant(op.to, np.int64 if g.types[0].dtype == "i64" else np.int32))


@lowers(ops.ToNumbers)
def to_numbers(g: Builder, op: ops.ToNumbers, x: str, *, one: str) -> str:
    return g.node("Cast", x, to=helper.np_dtype_to_tensor_dtype(np.dtype(g.form.dtype)))

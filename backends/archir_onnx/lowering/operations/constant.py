"""Numbers that are the same for every sample: constants, unless sizes are open."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from archir.ops import constant as ops
from archir_onnx.lowering.builder import Builder
from archir_onnx.lowering.rules import lowers


@lowers(ops.Sinusoidal)
def sinusoidal(g: Builder, op: ops.Sinusoidal, x: str) -> str:
    tokens, features = g.type.shape
    rates = op.base ** (-np.arange(0, features, 2) / features)
    if not g.form.resizable:
        angles = np.outer(np.arange(tokens), rates)
        waves = np.stack([np.sin(angles), np.cos(angles)], 2).reshape(tokens, -1)[:, :features]
        return g.spread(g.number(waves), g.type.shape)
    count = g.node("Cast", _count(g, x), to=TensorProto.FLOAT)
    turns = g.node("Mul", g.node("Unsqueeze", count, g.constant([1])), g.constant(rates, np.float32))
    pair = [g.node("Unsqueeze", g.node(name, turns), g.constant([2])) for name in ("Sin", "Cos")]
    joined = g.node("Reshape", g.node("Concat", *pair, axis=2), g.constant([0, -1]))
    made = g.node("Cast", g.slice(joined, 1, 0, features), to=helper.np_dtype_to_tensor_dtype(np.dtype(g.form.dtype)))
    return _for_all(g, made, 2)


@lowers(ops.Positions)
def positions(g: Builder, op: ops.Positions, x: str) -> str:
    if op.padding is not None:
        whole = x if g.types[0].dtype == "i64" else g.node("Cast", x, to=TensorProto.INT64)
        padded = g.node("Equal", whole, g.constant(op.padding))
        shown = g.node("Where", padded, g.constant(0), g.constant(1))
        count = g.node("Mul", g.node("CumSum", shown, g.constant(1)), shown)
        return g.node("Add", count, g.constant(op.padding))
    if not g.form.resizable:
        return g.spread(g.constant(np.arange(*g.type.shape)), g.type.shape)
    return _for_all(g, _count(g, x), 1)


@lowers(ops.Constant)
def constant(g: Builder, op: ops.Constant, x: str) -> str:
    kinds = {"i64": np.int64, "bool": np.bool_, "f32": g.form.dtype}
    said = numpy_helper.from_array(np.array(op.values, kinds[op.dtype]))  # in a node: what files store may be trained
    return g.spread(g.node("Constant", value=said), g.type.shape)


def _count(g: Builder, x: str) -> str:
    """0, 1, ... for the tokens that there are."""
    tokens = g.node("Squeeze", g.node("Shape", x, start=1, end=2))
    return g.node("Range", g.constant(0), tokens, g.constant(1))


def _for_all(g: Builder, value: str, rank: int) -> str:
    return g.node("Expand", value, g.node("Concat", g.batch(), g.constant([1] * rank), axis=0))

"""Lowering of values that are equal for all samples.

These are constants, unless the model accepts inputs of any size.
"""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from archir.ops import constant as ops
from archir_onnx.lowering.builder import Builder
from archir_onnx.lowering.rules import lowers


@lowers(ops.Sinusoidal)
def sinusoidal(g: Builder, op: ops.Sinusoidal, x: str) -> str:
    """Lower sinusoidal position encodings to a constant table.

    If the number of tokens is dynamic, the encodings are instead computed by the model, in float32.
    """
    tokens, features = g.type.shape
    rates = op.base ** (-np.arange(0, features, 2) / features)
    if not g.options.has_open_sizes:
        angles = np.outer(np.arange(tokens), rates)
        waves = np.stack([np.sin(angles), np.cos(angles)], 2).reshape(tokens, -1)[:, :features]
        return g.expand_to_batch(g.number(waves), g.type.shape)
    count = g.node("Cast", _token_positions(g, x), to=TensorProto.FLOAT)
    angles_at = g.node("Mul", g.node("Unsqueeze", count, g.constant([1])), g.constant(rates, np.float32))
    pair = [g.node("Unsqueeze", g.node(name, angles_at), g.constant([2])) for name in ("Sin", "Cos")]
    joined = g.node("Reshape", g.node("Concat", *pair, axis=2), g.constant([0, -1]))
    encoding = g.node(
        "Cast", g.slice(joined, 1, 0, features), to=helper.np_dtype_to_tensor_dtype(np.dtype(g.options.dtype))
    )
    return _expand_over_batch(g, encoding, 2)


@lowers(ops.Positions)
def positions(g: Builder, op: ops.Positions, x: str) -> str:
    """Lower position indices 0, 1, ... of tokens.

    With the attribute `padding`, tokens that are not padding get the indices `padding` + 1, `padding` + 2, ..., and
    padding tokens get `padding`.
    """
    if op.padding is not None:
        tokens = x if g.types[0].dtype == "i64" else g.node("Cast", x, to=TensorProto.INT64)
        padded = g.node("Equal", tokens, g.constant(op.padding))
        is_token = g.node("Where", padded, g.constant(0), g.constant(1))
        count = g.node("Mul", g.node("CumSum", is_token, g.constant(1)), is_token)
        return g.node("Add", count, g.constant(op.padding))
    if not g.options.has_open_sizes:
        return g.expand_to_batch(g.constant(np.arange(*g.type.shape)), g.type.shape)
    return _expand_over_batch(g, _token_positions(g, x), 1)


@lowers(ops.Constant)
def constant(g: Builder, op: ops.Constant, x: str) -> str:
    """Lower a constant tensor to a `Constant` node."""
    kinds = {"i64": np.int64, "bool": np.bool_, "f32": g.options.dtype}
    tensor = numpy_helper.from_array(np.array(op.values, kinds[op.dtype]))  # in a node: initializers may be trained
    return g.expand_to_batch(g.node("Constant", value=tensor), g.type.shape)


def _token_positions(g: Builder, x: str) -> str:
    """Return the indices 0, 1, ... of as many tokens as the input actually has."""
    tokens = g.node("Squeeze", g.node("Shape", x, start=1, end=2))
    return g.node("Range", g.constant(0), tokens, g.constant(1))


def _expand_over_batch(g: Builder, value: str, rank: int) -> str:
    """Expand a tensor without batch axis over the batch."""
    return g.node("Expand", value, g.node("Concat", g.batch_size(), g.constant([1] * rank), axis=0))

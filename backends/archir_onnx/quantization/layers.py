"""Layers of a model that can be quantised: nodes with trained weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Literal

import onnx

from archir.diagnostics.errors import fail, join_names
from archir.diagnostics.hints import suggest
from archir.utils.globs import matches

ResolvedMode = Literal["static", "dynamic", "int4"]
"""How layers are quantised: in int8, with activation ranges that are calibrated beforehand (static) or computed at run
time (dynamic), or with weights in 4 bits and activations in float32 (int4)."""

CONVOLUTIONS, PRODUCTS = ("Conv", "ConvTranspose"), ("Gemm", "MatMul")
"""Operators that count as layers: convolutions (CONVOLUTIONS) and matrix products (PRODUCTS)."""
MAX_CONVOLUTION_SHARE = 0.05
"""Maximum fraction of weights in convolutions for a network to count as a transformer.

Transformers use convolutions only to embed patches.
"""
REARRANGEMENTS = ("Reshape", "Flatten", "Transpose", "Squeeze", "Unsqueeze")
"""Operators that keep the values of a tensor."""
QUANTISED_OPERATORS = {
    "QuantizeLinear",
    "DequantizeLinear",
    "QLinearConv",
    "QLinearMatMul",
    "ConvInteger",
    "MatMulInteger",
    "MatMulNBits",
}
"""Operators that occur only in quantised models."""


@dataclass(frozen=True)
class Layer:
    """A node with trained weights: `weights` is the number of elements of its initializer `tensor`.

    `supports_per_channel` is True if the layer can have one scale per channel. `is_weight_left` is True if the weight
    is the left operand.
    """

    name: str
    operator: str
    weights: int
    tensor: str
    supports_per_channel: bool
    is_weight_left: bool
    output: str
    joins_tokens: bool = False
    """True if the layer is a convolution whose result becomes tokens that are concatenated with others, or a MatMul
    that reads concatenated tokens."""


def assign_names(model: onnx.ModelProto) -> None:
    """Rename nodes without a name, or with a duplicate name, to the name of their first result or one like it."""
    seen: set[str] = set()
    for node in model.graph.node:
        if not node.name or node.name in seen:
            node.name = node.output[0]
        while node.name in seen:
            node.name += "_"
        seen.add(node.name)


_HALF_TYPES = (onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16)


def layers(model: onnx.ModelProto) -> list[Layer]:
    """Return the layers of a model in order.

    Raises ArchError (A2802) if there are no layers, or if the model is already quantised.
    """
    if quantised_operators := sorted({node.op_type for node in model.graph.node} & QUANTISED_OPERATORS):
        raise fail(
            "A2802",
            f"the model is already quantised: it has {quantised_operators[0]}",
            None,
            "quantize the float32 model",
        )
    weights = {tensor.name: tensor for tensor in model.graph.initializer if tensor.data_type == onnx.TensorProto.FLOAT}
    layer_list = []
    joining = _joining_layers(model)
    for node in model.graph.node:
        if node.op_type in CONVOLUTIONS + PRODUCTS:
            is_left = node.op_type == "MatMul" and node.input[0] in weights
            name = node.input[0 if is_left else 1]
            if name in weights:
                dims = weights[name].dims
                plain = node.op_type != "MatMul" or (len(dims) == 2 and not is_left)
                layer_list.append(
                    Layer(
                        node.name, node.op_type, prod(dims), name, plain, is_left, node.output[0],
                        joins_tokens=node.output[0] in joining,
                    )
                )  # fmt: skip
    if not layer_list:
        half = any(tensor.data_type in _HALF_TYPES for tensor in model.graph.initializer)
        hint = "export it without --fp16 and --bf16" if half else None
        raise fail("A2802", "the model has no convolution and no linear map with float32 weights", None, hint)
    return layer_list


def _joining_layers(model: onnx.ModelProto) -> set[str]:
    """Return the outputs of layers next to a concatenation of tokens: of convolutions whose rearranged results are
    concatenated, and of MatMuls that read a concatenation."""
    producers = {name: node for node in model.graph.node for name in node.output}
    joining = set()
    for node in model.graph.node:
        if node.op_type == "MatMul" and (source := producers.get(node.input[0])) and source.op_type == "Concat":
            joining.add(node.output[0])
        for name in node.input if node.op_type == "Concat" else ():
            source = producers.get(name)
            while source and source.op_type in REARRANGEMENTS:
                source = producers.get(source.input[0])
                if source and source.op_type in CONVOLUTIONS:
                    joining.add(source.output[0])
    return joining


def candidate_modes(all_layers: Sequence[Layer]) -> tuple[ResolvedMode, ...]:
    """Return the quantisation modes that `auto` tries: both for transformers, else `static`.

    Dynamic quantisation would leave convolutions in float. A network counts as a transformer if at most
    MAX_CONVOLUTION_SHARE of its weights are in convolutions.
    """
    spatial = sum(layer.weights for layer in all_layers if layer.operator in CONVOLUTIONS)
    is_transformer = spatial <= MAX_CONVOLUTION_SHARE * sum(layer.weights for layer in all_layers)
    return ("dynamic", "static") if is_transformer else ("static",)


def excluded_layers(all_layers: Sequence[Layer], mode: ResolvedMode, patterns: Sequence[str]) -> dict[str, str]:
    """Return the layers that must stay in float, with the reason for each.

    Raises ArchError (A2804) if a pattern matches no layer.
    """
    for pattern in patterns:
        if not any(matches(pattern, layer.name) for layer in all_layers):
            names = [layer.name for layer in all_layers]
            hint = suggest(pattern, names) or f"layers are called {join_names(names, 4)}"
            raise fail("A2804", f"no layer matches `{pattern}`", None, hint)
    reasons = {}
    for layer in all_layers:
        if any(matches(pattern, layer.name) for pattern in patterns):
            reasons[layer.name] = "--keep"
        elif mode == "static" and layer.joins_tokens:
            reasons[layer.name] = "beside a concatenation of tokens"
        elif mode != "static" and layer.operator in CONVOLUTIONS:
            reasons[layer.name] = f"a convolution, in {mode} mode"
        elif mode != "static" and not layer.supports_per_channel:
            reasons[layer.name] = f"a table, in {mode} mode"
    return reasons

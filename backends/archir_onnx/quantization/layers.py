"""The layers of a model: nodes with trained weights, which are what int8 makes smaller."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Literal

import onnx

from archir.diagnostics.errors import fail, listed, suggest
from archir.utils.globs import matches

Arithmetic = Literal["static", "dynamic"]

CONVOLUTIONS, PRODUCTS = ("Conv", "ConvTranspose"), ("Gemm", "MatMul")
FEW = 0.05
"""The share of weights in convolutions up to which a network counts as a transformer: its patches' embedding."""
QUANTISED = {"QuantizeLinear", "DequantizeLinear", "QLinearConv", "QLinearMatMul", "ConvInteger", "MatMulInteger"}


@dataclass(frozen=True)
class Layer:
    """A node with `weights` numbers, of the name `tensor`.

    `plain` ones may have one scale per channel. Those that are `first` are multiplied from the left.
    """

    name: str
    operator: str
    weights: int
    tensor: str
    plain: bool
    first: bool
    output: str


def named(model: onnx.ModelProto) -> None:
    """Give nodes that have no name of their own that of their first result.

    Raises ArchError (A0916) if a name is no text: of what is not UTF-8, protobuf gives bytes, or raises.
    """
    try:
        names = [name for node in model.graph.node for name in (node.name, *node.input, *node.output)]
        texts = [text for entry in model.metadata_props for text in (entry.key, entry.value)]
        texts += [model.producer_name, model.producer_version, *(tensor.name for tensor in model.graph.initializer)]
        wrong = next((text for text in (*names, *texts) if not isinstance(text, str)), None)
    except UnicodeDecodeError as error:
        wrong = error.object
    if wrong is not None:
        raise fail("A0916", f"a name in the model is no text: {wrong!r}")
    seen: set[str] = set()
    for node in model.graph.node:
        if not node.name or node.name in seen:
            node.name = node.output[0]
        seen.add(node.name)


_HALVES = (onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16)


def layers(model: onnx.ModelProto) -> list[Layer]:
    """A model's layers, in its order. Raises ArchError (A2802) if it has none, or is quantised already."""
    if found := sorted({node.op_type for node in model.graph.node} & QUANTISED):
        raise fail("A2802", f"the model is quantised already: it has {found[0]}", None, "begin with the float32 one")
    weights = {one.name: one for one in model.graph.initializer if one.data_type == onnx.TensorProto.FLOAT}
    made = []
    for node in model.graph.node:
        if node.op_type in CONVOLUTIONS + PRODUCTS:
            first = node.op_type == "MatMul" and node.input[0] in weights
            name = node.input[0 if first else 1]
            if name in weights:
                dims = weights[name].dims
                plain = node.op_type != "MatMul" or (len(dims) == 2 and not first)
                made.append(Layer(node.name, node.op_type, prod(dims), name, plain, first, node.output[0]))
    if not made:
        half = any(one.data_type in _HALVES for one in model.graph.initializer)
        hint = "export it without --fp16 and --bf16" if half else None
        raise fail("A2802", "the model has no convolution and no linear map with float32 weights", None, hint)
    return made


def suited(all_layers: Sequence[Layer]) -> Arithmetic:
    """`dynamic` for transformers, `static` where more than a few weights are those of convolutions, which dynamic
    leaves in float."""
    spatial = sum(one.weights for one in all_layers if one.operator in CONVOLUTIONS)
    return "static" if spatial > FEW * sum(one.weights for one in all_layers) else "dynamic"


def kept(all_layers: Sequence[Layer], arithmetic: Arithmetic, patterns: Sequence[str]) -> dict[str, str]:
    """Layers that stay in float whatever it costs, and why. Raises ArchError (A2804) if a pattern names none."""
    for pattern in patterns:
        if not any(matches(pattern, one.name) for one in all_layers):
            names = [one.name for one in all_layers]
            hint = suggest(pattern, names) or f"layers are called {listed(names, 4)}"
            raise fail("A2804", f"no layer is called `{pattern}`", None, hint)
    found = {}
    for one in all_layers:
        if any(matches(pattern, one.name) for pattern in patterns):
            found[one.name] = "--keep"
        elif arithmetic == "dynamic" and one.operator in CONVOLUTIONS:
            found[one.name] = "a convolution, in dynamic mode"
        elif arithmetic == "dynamic" and not one.plain:
            found[one.name] = "a table, in dynamic mode"
    return found

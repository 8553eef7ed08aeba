"""Models without what only people read: most of a small int8 model would be the names of its values.

Nothing that is computed changes, and onnxruntime fuses as many int8 layers as before; which forms it knows is why zero
points stay where they could be left out.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
from onnx import defs, helper, numpy_helper

from archir_onnx.quantization.outline import numbered, outline

SMALL = 256 << 10
"""Bytes below which expressions that recur are functions of the model."""

_CONVOLUTIONS = ("Conv", "ConvTranspose")
_WINDOWED = (*_CONVOLUTIONS, "MaxPool", "AveragePool", "LpPool")


def compact(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same model in fewer bytes; inputs, outputs and metadata keep their names. `model` is no longer of use."""
    graph = model.graph
    opset = next(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))
    if any(attribute.g.node or attribute.graphs for node in graph.node for attribute in node.attribute):
        return model  # graphs inside of nodes read names of the graph around them
    del graph.value_info[:]
    _bias_scales(graph)
    _zero_points(graph)
    _constants(graph)
    for node in graph.node:
        node.name = node.doc_string = ""
        node.domain = "" if node.domain == "ai.onnx" else node.domain
        _defaults(node, opset)
    used = {node.domain for node in graph.node}
    for entry in [entry for entry in model.opset_import if entry.domain not in used]:
        model.opset_import.remove(entry)
    _short_names(graph)
    if model.ByteSize() < SMALL and model.ir_version >= 8 and not model.functions:
        outline(model)
    return model


def _bias_scales(graph: onnx.GraphProto) -> None:
    """A bias is in units of its layer's input times those of its weights: compute that instead of storing it."""
    makers = {node.output[0]: node for node in graph.node if node.op_type == "DequantizeLinear"}
    known = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    products: list[onnx.NodeProto] = []
    for node in graph.node:
        made = [makers[name] for name in node.input if name in makers]
        if node.op_type not in ("Conv", "Gemm") or len(made) != 3:
            continue
        x, weight, bias = (known.get(one.input[1]) for one in made)
        if x is None or weight is None or bias is None:
            continue
        with np.errstate(over="ignore"):
            same = np.array_equal(x * weight, bias)
        if same:
            scale = f"{node.output[0]}/scale"
            products.append(helper.make_node("Mul", [one.input[1] for one in made[:2]], [scale]))
            made[2].input[1] = scale
    nodes = [*products, *graph.node]
    del graph.node[:]
    graph.node.extend(nodes)


def _zero_points(graph: onnx.GraphProto) -> None:
    """Leave out zero points that are 0, of biases and of the weights of convolutions."""
    kinds = {tensor.name: tensor.data_type for tensor in graph.initializer}
    weights = {node.input[1] for node in graph.node if node.op_type in _CONVOLUTIONS}
    zero = {tensor.name for tensor in graph.initializer if not numpy_helper.to_array(tensor).any()}
    for node in graph.node:
        if node.op_type != "DequantizeLinear" or len(node.input) < 3 or node.input[2] not in zero:
            continue
        if node.output[0] in weights or kinds[node.input[2]] == onnx.TensorProto.INT32:
            del node.input[2:]


def _constants(graph: onnx.GraphProto) -> None:
    """Keep one of several equal constants, and none that nothing reads."""
    fixed = {one.name for one in (*graph.input, *graph.output)}
    same: dict[str, str] = {}
    first: dict[tuple[str, int, tuple[int, ...], bytes], onnx.TensorProto] = {}
    for tensor in graph.initializer:
        array = numpy_helper.to_array(tensor)
        made = numpy_helper.from_array(array, tensor.name)
        key = (tensor.name if tensor.name in fixed else "", made.data_type, tuple(made.dims), made.raw_data)
        same[tensor.name] = first.setdefault(key, made).name
    for node in graph.node:
        node.input[:] = [same.get(name, name) for name in node.input]
    read = {name for node in graph.node for name in node.input} | {one.name for one in graph.output}
    del graph.initializer[:]
    graph.initializer.extend(tensor for tensor in first.values() if tensor.name in read)


def _defaults(node: onnx.NodeProto, opset: int) -> None:
    """Leave out attributes that say what holds without them."""
    standard = not node.domain and defs.has(node.op_type)
    known = defs.get_schema(node.op_type, opset).attributes if standard else {}
    for attribute in [*node.attribute]:
        value = helper.get_attribute_value(attribute)
        plain = attribute.name in ("dilations", "strides") and set(value) == {1}
        unpadded = attribute.name == "pads" and set(value) == {0}
        kernel = attribute.name == "kernel_shape" and node.op_type in _CONVOLUTIONS
        standing = known[attribute.name].default_value if attribute.name in known else onnx.AttributeProto()
        same = bool(standing.type) and helper.get_attribute_value(standing) == value
        if same or (node.op_type in _WINDOWED and not node.domain and (plain or unpadded or kernel)):
            node.attribute.remove(attribute)


def _short_names(graph: onnx.GraphProto) -> None:
    """Number the values, those that are read most often first."""
    fixed = {one.name for one in (*graph.input, *graph.output)}
    often = Counter(name for node in graph.node for name in (*node.input, *node.output) if name and name not in fixed)
    fresh = (name for name in numbered() if name not in fixed)
    names = {name: next(fresh) for name, _ in often.most_common()}
    for tensor in graph.initializer:
        tensor.name = names.get(tensor.name, tensor.name)
    for node in graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]

"""Size reduction of int8 models; in a small model, names of values would take most of the bytes.

The reduced model computes the same results, and onnxruntime fuses as many int8 layers as before. onnxruntime
recognises only certain node patterns, so some zero points are kept although they could be omitted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import count
from string import ascii_letters, digits

import numpy as np
import onnx
from onnx import defs, helper, numpy_helper

_CHARACTERS = ascii_letters + digits
_CONVOLUTIONS = ("Conv", "ConvTranspose")
_WINDOWED = (*_CONVOLUTIONS, "MaxPool", "AveragePool", "LpPool")


def compact(model: onnx.ModelProto) -> onnx.ModelProto:
    """Reduce the size of a model, in place, and return it; inputs, outputs and metadata keep their names."""
    graph = model.graph
    opset = next(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))
    if any(attribute.g.node or attribute.graphs for node in graph.node for attribute in node.attribute):
        return model  # graphs inside of nodes read names of the graph around them
    if graph.sparse_initializer or any(tensor.data_type == onnx.TensorProto.STRING for tensor in graph.initializer):
        return model  # only dense numbers are compared and renamed
    del graph.value_info[:]
    _share_bias_scales(graph)
    _drop_zero_points(graph)
    _merge_constants(graph)
    for node in graph.node:
        node.name = node.doc_string = ""
        node.domain = "" if node.domain == "ai.onnx" else node.domain
        _drop_defaults(node, opset)
    used = {node.domain for node in graph.node}
    for entry in [entry for entry in model.opset_import if entry.domain not in used]:
        model.opset_import.remove(entry)
    _shorten_names(graph)
    return model


def _share_bias_scales(graph: onnx.GraphProto) -> None:
    """Replace a layer's stored bias scale by the product of its input scale and weight scale, if the two are equal."""
    producers = {node.output[0]: node for node in graph.node if node.op_type == "DequantizeLinear"}
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    products: list[onnx.NodeProto] = []
    for node in graph.node:
        dequantizers = [producers[name] for name in node.input if name in producers]
        if node.op_type not in ("Conv", "Gemm") or len(dequantizers) != 3:
            continue
        x, weight, bias = (constants.get(dequantizer.input[1]) for dequantizer in dequantizers)
        if x is None or weight is None or bias is None:
            continue
        with np.errstate(over="ignore"):
            is_product = np.array_equal(x * weight, bias)
        if is_product:
            scale = f"{node.output[0]}/scale"
            products.append(
                helper.make_node("Mul", [dequantizer.input[1] for dequantizer in dequantizers[:2]], [scale])
            )
            dequantizers[2].input[1] = scale
    nodes = [*products, *graph.node]
    del graph.node[:]
    graph.node.extend(nodes)


def _drop_zero_points(graph: onnx.GraphProto) -> None:
    """Remove the zero points of biases and convolution weights where the zero point is 0."""
    element_types = {tensor.name: tensor.data_type for tensor in graph.initializer}
    weights = {node.input[1] for node in graph.node if node.op_type in _CONVOLUTIONS}
    zero_tensors = {tensor.name for tensor in graph.initializer if not numpy_helper.to_array(tensor).any()}
    for node in graph.node:
        if node.op_type != "DequantizeLinear" or len(node.input) < 3 or node.input[2] not in zero_tensors:
            continue
        if node.output[0] in weights or element_types[node.input[2]] == onnx.TensorProto.INT32:
            del node.input[2:]


def _merge_constants(graph: onnx.GraphProto) -> None:
    """Merge equal initializers and remove unused ones."""
    fixed = {value_info.name for value_info in (*graph.input, *graph.output)}
    replacement: dict[str, str] = {}
    first: dict[tuple[str, int, tuple[int, ...], bytes], onnx.TensorProto] = {}
    for tensor in graph.initializer:
        array = numpy_helper.to_array(tensor)
        stored = numpy_helper.from_array(array, tensor.name)
        key = (tensor.name if tensor.name in fixed else "", stored.data_type, tuple(stored.dims), stored.raw_data)
        replacement[tensor.name] = first.setdefault(key, stored).name
    for node in graph.node:
        node.input[:] = [replacement.get(name, name) for name in node.input]
    read = {name for node in graph.node for name in node.input} | {value_info.name for value_info in graph.output}
    del graph.initializer[:]
    graph.initializer.extend(tensor for tensor in first.values() if tensor.name in read)


def _drop_defaults(node: onnx.NodeProto, opset: int) -> None:
    """Remove attributes that have their default value from a node."""
    standard = not node.domain and defs.has(node.op_type)
    schema_attributes = defs.get_schema(node.op_type, opset).attributes if standard else {}
    for attribute in [*node.attribute]:
        value = helper.get_attribute_value(attribute)
        is_unit = attribute.name in ("dilations", "strides") and set(value) == {1}
        is_unpadded = attribute.name == "pads" and set(value) == {0}
        is_kernel_shape = attribute.name == "kernel_shape" and node.op_type in _CONVOLUTIONS
        default = (
            schema_attributes[attribute.name].default_value
            if attribute.name in schema_attributes
            else onnx.AttributeProto()
        )
        is_default = bool(default.type) and helper.get_attribute_value(default) == value
        if is_default or (
            node.op_type in _WINDOWED and not node.domain and (is_unit or is_unpadded or is_kernel_shape)
        ):
            node.attribute.remove(attribute)


def _shorten_names(graph: onnx.GraphProto) -> None:
    """Rename values to short names; the shortest names go to the values that are used most often."""
    fixed = {value_info.name for value_info in (*graph.input, *graph.output)}
    uses = Counter(name for node in graph.node for name in (*node.input, *node.output) if name and name not in fixed)
    new_names = (name for name in _short_names() if name not in fixed)
    names = {name: next(new_names) for name, _ in uses.most_common()}
    for tensor in graph.initializer:
        tensor.name = names.get(tensor.name, tensor.name)
    for node in graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]


def _short_names() -> Iterator[str]:
    """Yield short names: a, b, ..., 9, aa, ab, ..."""
    for number in count():
        text = ""
        while number >= 0:
            text = _CHARACTERS[number % len(_CHARACTERS)] + text
            number = number // len(_CHARACTERS) - 1
        yield text

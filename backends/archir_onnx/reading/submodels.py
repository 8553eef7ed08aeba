"""Submodels of an ONNX model: inferred types of intermediate values, and extraction of parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import onnx
from onnx import helper, shape_inference

from archir.ir.types import TensorType

ONNX_TYPES = {"f32": 1, "i32": 6, "i64": 7}
"""ONNX element type by dtype."""
MAX_SHAPE_ELEMENTS = 4096
"""Maximum number of elements of a stored tensor that is kept for shape inference."""


def infer_types(model: onnx.ModelProto, inputs: Mapping[str, TensorType]) -> dict[str, TensorType]:
    """Infer the types of all intermediate values for a batch size of 1; the returned types omit the batch axis."""
    weightless = without_weights(model)
    del weightless.graph.input[:]
    weightless.graph.input.extend(_input_info(name, type_) for name, type_ in inputs.items())
    try:
        annotated = shape_inference.infer_shapes(weightless, data_prop=True).graph
    except Exception:  # onnx raises many classes; only the types stated in the file are known then
        annotated = model.graph
    names = {number: name for name, number in ONNX_TYPES.items()}
    types = {}
    for value_info in (*annotated.value_info, *annotated.output):
        kind = value_info.type.tensor_type
        sizes = [dim.dim_value for dim in kind.shape.dim]
        if kind.elem_type in names and sizes[:1] == [1] and all(size > 0 for size in sizes):
            types[value_info.name] = TensorType(tuple(sizes[1:]), names[kind.elem_type])
    return types


def without_weights(model: onnx.ModelProto, max_elements: int = MAX_SHAPE_ELEMENTS) -> onnx.ModelProto:
    """Return a model in which large weights are replaced by inputs, and outputs have no declared types.

    Weights count as large if they have more than `max_elements` elements or external data.
    """
    graph = onnx.GraphProto(name=model.graph.name, node=model.graph.node)
    graph.output.extend(helper.make_empty_tensor_value_info(value_info.name) for value_info in model.graph.output)
    stored = {tensor.name for tensor in model.graph.initializer}
    graph.input.extend(value_info for value_info in model.graph.input if value_info.name not in stored)
    for tensor in model.graph.initializer:
        if prod(tensor.dims) <= max_elements and tensor.data_location != onnx.TensorProto.EXTERNAL:
            graph.initializer.append(tensor)
        else:
            graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, [*tensor.dims]))
    return onnx.ModelProto(
        ir_version=model.ir_version, opset_import=model.opset_import, functions=model.functions, graph=graph
    )


def _input_info(name: str, type_: TensorType) -> onnx.ValueInfoProto:
    """Return the declaration of an input with a batch size of 1."""
    dtype = ONNX_TYPES.get(type_.dtype, 1)
    return helper.make_tensor_value_info(name, dtype, [1, *type_.shape])


def extract_submodel(
    model: onnx.ModelProto, inputs: Mapping[str, TensorType] | None = None, outputs: Sequence[str] | None = None
) -> onnx.ModelProto:
    """Extract the submodel that computes `outputs` from `inputs`, by default those of the model.

    Inputs and outputs may be any values of the model. Nodes that no output needs are left out.
    """
    graph = onnx.GraphProto(name=model.graph.name, input=model.graph.input, output=model.graph.output)
    if inputs is not None:
        del graph.input[:]
        graph.input.extend(_input_info(name, type_) for name, type_ in inputs.items())
    if outputs is not None:
        del graph.output[:]
        graph.output.extend(helper.make_empty_tensor_value_info(name) for name in outputs)
    needed, kept = {value_info.name for value_info in graph.output}, []
    input_names = {value_info.name for value_info in graph.input}
    for node in reversed(model.graph.node):
        if needed & {*node.output} - input_names:
            kept.append(node)
            needed |= {*node.input}
    graph.node.extend(kept[::-1])
    graph.initializer.extend(tensor for tensor in model.graph.initializer if tensor.name in needed | input_names)
    graph.sparse_initializer.extend(model.graph.sparse_initializer)
    return onnx.ModelProto(
        ir_version=model.ir_version, opset_import=model.opset_import, functions=model.functions, graph=graph
    )

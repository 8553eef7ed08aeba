"""Submodels of an ONNX model: inferred types of intermediate values, and extraction of parts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod
from pathlib import Path

import onnx
from onnx import helper, shape_inference

from archir.diagnostics.errors import fail
from archir.ir.types import TensorType
from archir_onnx.files import external

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


def extract_submodel(path: Path, inputs: Mapping[str, TensorType], outputs: Iterable[str]) -> bytes:
    """Extract the submodel that computes `outputs` from `inputs`, and return it serialized.

    Inputs and outputs may be any values of the model. Raises ArchError (A0916) if the submodel's weights are too large
    for one protobuf message.
    """
    model = external.load_model(path)
    needed, kept = {*outputs}, []
    for node in reversed(model.graph.node):
        if needed & {*node.output} - inputs.keys():
            kept.append(node)
            needed |= {*node.input}
    submodel = onnx.ModelProto()
    submodel.CopyFrom(model)
    graph = submodel.graph
    stored = [tensor for tensor in model.graph.initializer if tensor.name in needed]
    del graph.node[:], graph.input[:], graph.output[:], graph.initializer[:], graph.value_info[:]
    graph.node.extend(kept[::-1])
    graph.initializer.extend(stored)
    graph.input.extend(_input_info(name, type_) for name, type_ in inputs.items() if name in needed)
    graph.output.extend(helper.make_empty_tensor_value_info(name) for name in outputs)
    onnx.load_external_data_for_model(submodel, str(path.parent))
    try:
        return bytes(submodel.SerializeToString())
    except Exception as error:  # protobuf's errors have no public class
        raise fail("A0916", f"a part of {path} is too large to be compared: {error}") from None

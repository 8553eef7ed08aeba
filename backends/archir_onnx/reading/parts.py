"""Parts of a model: what is known of the values between its nodes, and the model of the nodes between some of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod
from pathlib import Path

import onnx
from onnx import helper, shape_inference

from archir.diagnostics.errors import fail
from archir.ir.types import TensorType
from archir_onnx.files import external

ELEMENTS = {"f32": 1, "i32": 6, "i64": 7}
SMALL = 4096
"""Numbers of a stored tensor that shapes may be computed of."""


def inferred(model: onnx.ModelProto, inputs: Mapping[str, TensorType]) -> dict[str, TensorType]:
    """The types of values for one sample, without the axis of samples, where the first axis is that of one."""
    bare = without_weights(model)
    del bare.graph.input[:]
    bare.graph.input.extend(_info(name, type_) for name, type_ in inputs.items())
    try:
        known = shape_inference.infer_shapes(bare, data_prop=True).graph
    except Exception:  # whatever onnx finds wrong: then no more is known than what the file says
        known = model.graph
    names = {number: name for name, number in ELEMENTS.items()}
    found = {}
    for one in (*known.value_info, *known.output):
        kind = one.type.tensor_type
        sizes = [dim.dim_value for dim in kind.shape.dim]
        if kind.elem_type in names and sizes[:1] == [1] and all(size > 0 for size in sizes):
            found[one.name] = TensorType(tuple(sizes[1:]), names[kind.elem_type])
    return found


def without_weights(model: onnx.ModelProto, most: int = SMALL) -> onnx.ModelProto:
    """A model whose weights of more than `most` numbers are inputs, without the types that it states of its outputs."""
    graph = onnx.GraphProto(name=model.graph.name, node=model.graph.node)
    graph.output.extend(helper.make_empty_tensor_value_info(one.name) for one in model.graph.output)
    stored = {tensor.name for tensor in model.graph.initializer}
    graph.input.extend(one for one in model.graph.input if one.name not in stored)
    for tensor in model.graph.initializer:
        if prod(tensor.dims) <= most and tensor.data_location != onnx.TensorProto.EXTERNAL:
            graph.initializer.append(tensor)
        else:
            graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, [*tensor.dims]))
    return onnx.ModelProto(
        ir_version=model.ir_version, opset_import=model.opset_import, functions=model.functions, graph=graph
    )


def _info(name: str, type_: TensorType) -> onnx.ValueInfoProto:
    dtype = ELEMENTS.get(type_.dtype, 1)
    return helper.make_tensor_value_info(name, dtype, [1, *type_.shape])


def part(path: Path, inputs: Mapping[str, TensorType], outputs: Iterable[str]) -> bytes:
    """The model of the nodes of a file that make `outputs` of `inputs`, which may be any of its values.

    Raises ArchError (A0916) if its weights are more than a model in memory can have.
    """
    model = external.read(path)
    wanted, kept = {*outputs}, []
    for node in reversed(model.graph.node):
        if wanted & {*node.output} - inputs.keys():
            kept.append(node)
            wanted |= {*node.input}
    made = onnx.ModelProto()
    made.CopyFrom(model)
    graph = made.graph
    stored = [tensor for tensor in model.graph.initializer if tensor.name in wanted]
    del graph.node[:], graph.input[:], graph.output[:], graph.initializer[:], graph.value_info[:]
    graph.node.extend(kept[::-1])
    graph.initializer.extend(stored)
    graph.input.extend(_info(name, type_) for name, type_ in inputs.items() if name in wanted)
    graph.output.extend(helper.make_empty_tensor_value_info(name) for name in outputs)
    onnx.load_external_data_for_model(made, str(path.parent))
    try:
        return bytes(made.SerializeToString())
    except Exception as error:  # protobuf's, which has no types to name it by
        raise fail("A0916", f"a part of {path} is too large to be compared: {error}") from None

"""Read an ONNX model as a list of operator calls, validating it against the operators' schemas."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import checker, defs, external_data_helper, helper, numpy_helper, shape_inference

from archir.backends.calls import Call, Calls
from archir.diagnostics.errors import ArchError, Diagnostic, describe_error, fail, join_names
from archir.diagnostics.hints import suggest
from archir.ir.types import TensorType
from archir_onnx.files import external
from archir_onnx.reading.submodels import infer_types, without_weights

OPSETS = range(7, 27)
"""Opsets of models that can be imported."""
MAX_NODES = 20_000
"""Maximum number of nodes of an imported model."""
MAX_RANK = 8
"""Maximum rank of a stored tensor."""
MAX_ELEMENTS = 2**28
"""Maximum number of elements of a stored tensor."""
MAX_INPUT_ELEMENTS = 2**23
"""Maximum number of elements per sample of an input."""
QUANTISED_OPERATORS = (
    "QuantizeLinear",
    "DequantizeLinear",
    "QLinearConv",
    "QLinearMatMul",
    "ConvInteger",
    "MatMulInteger",
    "DynamicQuantizeLinear",
)
"""Operators of quantised models, which cannot be imported."""
DOMAINS = ("", "ai.onnx")
"""Names under which the standard ONNX operator domain occurs."""
DTYPES = {1: "f32", 6: "i32", 7: "i64"}
"""Supported dtype by ONNX element type."""


def read_calls(
    path: Path, shapes: Mapping[str, tuple[int, ...]] | None = None, partial: bool = False
) -> tuple[Calls, bool]:
    """Return the operator calls of a model, and whether the model is fixed to a batch size of 1.

    `shapes` gives the shapes, without the batch axis, of inputs that have axes of dynamic size in the file.
    Unsupported operators are recorded with a diagnostic; they are rejected later, together with operators that the
    importer does not know. With `partial`, the types of all values are inferred.

    The operands, results and attributes of every node are checked against the operator's schema.

    Raises ArchError: A0916 (not a valid model), A3202 (unsupported versions or inputs).
    """
    model = external.load_model(path)
    version = _version(model, path)
    graph = model.graph
    if len(graph.node) > MAX_NODES:
        raise fail("A0916", f"{path} has {len(graph.node)} nodes; the maximum is {MAX_NODES}")
    tensors = {tensor.name: _array(tensor, path) for tensor in graph.initializer}
    inputs, problems = _inputs(graph, tensors, shapes or {})
    if problems and not inputs:
        raise ArchError(*problems)
    _require_schemas(model, version, path)
    calls = [*_calls(graph, path)]
    defined = {*tensors, *(value_info.name for value_info in graph.input)}
    for call in calls:
        for name in call.reads:
            if name and name not in defined:
                raise fail("A0916", f"{path}: {call.display_name} reads `{name}`, which no earlier node computes")
        for name in call.writes:
            if name in defined:
                raise fail("A0916", f"{path}: {call.display_name} computes `{name}`, which is already defined")
        defined |= {*call.writes} - {""}
    outputs = _labels([value_info.name for value_info in graph.output])
    for label, name in outputs.items():
        if name not in defined:
            raise fail("A0916", f"{path} has an output `{label}`, which no node computes")
    batch_dims = [value_info.type.tensor_type.shape.dim[0] for value_info in graph.input if value_info.name in inputs]
    needed_calls = _needed_calls(calls, set(outputs.values()))
    types = infer_types(model, inputs) if partial else {}
    result = Calls(
        to_name(path.stem),
        inputs,
        outputs,
        needed_calls,
        tensors,
        version,
        _unsupported_operators(model),
        types,
        tuple(problems),
    )
    return result, all(dim.dim_value == 1 for dim in batch_dims)


def to_name(text: str) -> str:
    """Convert a text to a valid name of a program."""
    name = re.sub(r"[^A-Za-z0-9_]+", "_", text).strip("_")[:60] or "network"
    return name if name[0].isalpha() else f"net_{name}"


def _version(model: onnx.ModelProto, path: Path) -> int:
    """Return the opset of a model. Raises ArchError: A0916 (invalid IR version), A3202 (unsupported opset)."""
    if not 0 < model.ir_version < 2**31:
        raise fail("A0916", f"{path}: {model.ir_version} is not a version of the ONNX format")
    versions = [entry.version for entry in model.opset_import if entry.domain in DOMAINS]
    if len(versions) != 1 or versions[0] not in OPSETS:
        versions_text = ", ".join(map(str, versions)) or "none"
        hint = "onnx.version_converter converts old models to newer opsets"
        raise fail("A3202", f"{path} has opset {versions_text}; supported are {OPSETS[0]} to {OPSETS[-1]}", None, hint)
    return int(versions[0])


def _require_schemas(model: onnx.ModelProto, version: int, path: Path) -> None:
    """Check every node against its operator's schema. Raises ArchError (A0916) if nodes violate it.

    Operators without a schema are skipped. The numbers of operands and results and the attributes of all nodes are
    checked first, then the types of tensors.
    """
    context = checker.C.CheckerContext()
    context.ir_version = model.ir_version
    context.opset_imports = dict.fromkeys(DOMAINS, version)
    problems = []
    for index, node in enumerate(model.graph.node):
        if node.domain in DOMAINS and defs.has(node.op_type, version) and not _has_graph(node):
            try:
                checker.check_node(node, context)
            except checker.ValidationError as error:
                message = str(error).partition("\n")[0].rstrip(".")
                problems.append(Diagnostic("A0916", f"{path}: {_describe_node(node, index)}: {message}"))
    if problems:
        raise ArchError(*problems)
    weightless = without_weights(model, 0)
    for index, node in enumerate(weightless.graph.node):
        node.name = _describe_node(node, index)
    try:
        shape_inference.infer_shapes(weightless, check_type=True)
    except (shape_inference.InferenceError, ValueError) as error:
        raise fail("A0916", f"{path}: {error}") from None


def _unsupported_operators(model: onnx.ModelProto) -> dict[str, Diagnostic]:
    """Return a diagnostic for each operator that cannot be imported: quantised, non-standard, or with control flow."""
    diagnostics: dict[str, Diagnostic] = {}
    nodes_of: dict[str, list[onnx.NodeProto]] = {}
    for node in model.graph.node:
        nodes_of.setdefault(_operator(node), []).append(node)
    for operator, nodes in nodes_of.items():
        location = f" ({_list_nodes(nodes)})"
        if operator in QUANTISED_OPERATORS:
            hint = "import the model from before quantisation; `archir quantize` converts it to int8 again"
            diagnostics[operator] = Diagnostic("A3202", f"{operator}{location}: the model is quantised", None, hint)
        elif nodes[0].domain not in DOMAINS:
            diagnostics[operator] = Diagnostic("A3202", f"{operator}{location}: not a standard ONNX operator")
        elif any(_has_graph(node) for node in nodes):
            text = f"{operator}{location}: control flow that depends on computed values is not supported"
            diagnostics[operator] = Diagnostic("A3202", text)
    if model.graph.sparse_initializer:
        raise fail("A3202", "sparse tensors are not supported")
    return diagnostics


def _operator(node: onnx.NodeProto) -> str:
    return node.op_type if node.domain in DOMAINS else f"{node.domain}.{node.op_type}"


def _list_nodes(nodes: list[onnx.NodeProto]) -> str:
    """Return the name of a single node, or the number of nodes and the first few names, for a message."""
    names = join_names([(node.name or next(iter(node.output), ""))[:100] for node in nodes], 3)
    return f"{len(nodes)} times: {names}" if len(nodes) > 1 else names


def _has_graph(node: onnx.NodeProto) -> bool:
    return any(_subgraphs(attribute) for attribute in node.attribute)


def _subgraphs(attribute: onnx.AttributeProto) -> list[onnx.GraphProto]:
    return [*([attribute.g] if attribute.HasField("g") else ()), *attribute.graphs]


def _operands(node: onnx.NodeProto) -> tuple[str, ...]:
    """Return the names of the values that a node reads, including those that its subgraphs capture from outside."""
    return (*node.input, *dict.fromkeys(name for attribute in node.attribute for name in _captured(attribute)))


def _captured(attribute: onnx.AttributeProto) -> Iterator[str]:
    """Yield the names of values that subgraphs in an attribute capture from the surrounding graph."""
    for graph in _subgraphs(attribute):
        own_names = {value_info.name for value_info in (*graph.input, *graph.initializer)}
        own_names |= {name for node in graph.node for name in node.output}
        yield from (name for node in graph.node for name in _operands(node) if name and name not in own_names)
        yield from (value_info.name for value_info in graph.output if value_info.name not in own_names)


def _array(tensor: onnx.TensorProto, path: Path) -> NDArray[Any]:
    """Return a stored tensor as an array; external data is memory-mapped."""
    dims = tuple(tensor.dims)
    try:
        dtype = helper.tensor_dtype_to_np_dtype(tensor.data_type)
    except KeyError:
        raise fail("A0916", f"`{tensor.name}` in {path} has elements of an unknown type") from None
    if len(dims) > MAX_RANK or not all(0 <= dim <= MAX_ELEMENTS for dim in dims) or prod(dims) > MAX_ELEMENTS:
        raise fail("A0916", f"`{tensor.name}` in {path} has an unsupported shape {list(dims)[:MAX_RANK]}")
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        if not prod(dims):  # empty files cannot be mapped
            return np.empty(dims, dtype)
        info = external_data_helper.ExternalDataInfo(tensor)
        array: NDArray[Any] = np.memmap(path.parent / info.location, dtype, "r", info.offset or 0, dims or (1,))
        return array.reshape(dims)
    if tensor.raw_data and len(tensor.raw_data) != prod(dims) * dtype.itemsize and dtype.itemsize:
        raise fail(
            "A0916", f"`{tensor.name}` in {path} has shape {list(dims)}, but {len(tensor.raw_data)} bytes of data"
        )
    try:
        return numpy_helper.to_array(tensor)
    except Exception as error:  # onnx raises many classes
        raise fail("A0916", f"`{tensor.name}` in {path} cannot be read: {describe_error(error)}") from None


def _inputs(
    graph: onnx.GraphProto, tensors: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]]
) -> tuple[dict[str, TensorType], list[Diagnostic]]:
    """Return the type of each supported input by name, and diagnostics for inputs that are left out."""
    types: dict[str, TensorType] = {}
    problems: list[Diagnostic] = []
    _require_used_shapes(graph, tensors, shapes)
    for value_info in graph.input:
        if value_info.name in tensors:
            continue
        kind = value_info.type.tensor_type
        dims = [dim.dim_value or None for dim in kind.shape.dim]
        if kind.elem_type not in DTYPES:
            problems.append(Diagnostic("A3202", f"input `{value_info.name}` has an unsupported element type"))
            continue
        if not dims:
            problems.append(Diagnostic("A3202", f"input `{value_info.name}` has no batch axis"))
            continue
        stated_shape = shapes.get(value_info.name, shapes.get("", ()))
        sizes = [stated_shape[i] if i < len(stated_shape) and dim is None else dim for i, dim in enumerate(dims[1:])]
        unknown = [i + 1 for i, size in enumerate(sizes) if size is None]
        if unknown:
            text = f"input `{value_info.name}` has {len(unknown)} axes of open size, of {len(dims)}"
            hint = f"give them without batch: `--input {value_info.name}={'x'.join(['3', '224', '224'][: len(sizes)])}`"
            problems.append(Diagnostic("A3202", text, None, hint))
            continue
        if any(size < 1 for size in sizes if size) or prod(size or 1 for size in sizes) > MAX_INPUT_ELEMENTS:
            raise fail("A0916", f"input `{value_info.name}` has an unsupported shape {sizes[:MAX_RANK]}")
        types[value_info.name] = TensorType(tuple(size or 1 for size in sizes), DTYPES[kind.elem_type])
    if not types and not problems:
        raise fail("A0916", "the model has no inputs")
    return types, problems


def _require_used_shapes(
    graph: onnx.GraphProto, tensors: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]]
) -> None:
    """Raise ArchError (A3202) if a given shape is for no input, or contradicts the sizes of an input in the file."""
    dims = {
        value_info.name: [dim.dim_value or None for dim in value_info.type.tensor_type.shape.dim][1:]
        for value_info in graph.input
        if value_info.name not in tensors
    }
    for name, shape in shapes.items():
        if name and name not in dims:
            text = f"the model has no input `{name}`, but {join_names([*dims])}"
            raise fail("A3202", text, None, suggest(name, dims))
        # a shape without a name is for all inputs with open sizes
        for other in [name] if name else [other for other in dims if None in dims[other]] or [*dims]:
            sizes = dims[other]
            fits = len(sizes) == len(shape) and all(size in (None, n) for size, n in zip(sizes, shape, strict=True))
            if not fits:
                file_sizes, shape_text = ("x".join(str(size or "?") for size in part) for part in (sizes, shape))
                text = f"the input `{other}` has the sizes {file_sizes} in the file, not {shape_text}"
                raise fail("A3202", text, None, "only axes of open size (?) can be set")


def _labels(names: list[str]) -> dict[str, str]:
    """Return the outputs by label; labels are unique and valid names of a program."""
    labels: dict[str, str] = {}
    for name in names:
        label, number = to_name(name), 1
        while label in labels:
            number += 1
            label = f"{to_name(name)}_{number}"
        labels[label] = name
    return labels


def _calls(graph: onnx.GraphProto, path: Path) -> Iterator[Call]:
    """Yield an operator call for each node of a graph."""
    for index, node in enumerate(graph.node):
        attributes = {
            attribute.name: _attribute(attribute, path) for attribute in node.attribute if not _subgraphs(attribute)
        }
        yield Call(
            _operator(node),
            _operands(node),
            tuple(node.output),
            attributes,
            _scope_of(node, index),
            _describe_node(node, index),
        )


def _describe_node(node: onnx.NodeProto, index: int) -> str:
    """Return how messages refer to a node: its operator and name."""
    label = node.name or next((name for name in node.output if name), f"{node.op_type}_{index}")
    return f"{node.op_type} `{label[:100]}`"


def _attribute(attribute: onnx.AttributeProto, path: Path) -> Any:
    """Return the value of an attribute as a Python value or an array."""
    if attribute.type == onnx.AttributeProto.TENSOR:
        return _array(attribute.t, path)
    value = helper.get_attribute_value(attribute)
    if attribute.type == onnx.AttributeProto.STRINGS:
        return [text.decode("utf-8", "replace") for text in value]
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, float):
        return float(str(np.float32(value)))  # the shortest decimal, as it was written
    return list(value) if not isinstance(value, int | str | None) else value


def _scope_of(node: onnx.NodeProto, index: int) -> str:
    """Return the scope encoded in a node's name: `/layer1/layer1.0/conv1/Conv` becomes `layer1.0.conv1`."""
    name = node.name or next((output for output in node.output if output), "")
    parts: list[str] = []
    parent = ""
    for part in name.strip("/").split("/"):
        short = part.removeprefix(f"{parent}.") if parent else part
        parent = part
        parts += [re.sub(r"\W", "_", piece) for piece in short.split(".") if piece]
    kind = re.sub(r"_\d+$", "", parts[-1]) if parts else ""
    parts = parts[:-1] if len(parts) > 1 and kind == node.op_type and "/" in name else parts
    parts = [part if not part[:1].isdigit() or part.isdigit() else f"_{part}" for part in parts if part][:16]
    return ".".join(parts) if parts and not parts[0].isdigit() else f"{node.op_type.lower()}_{index}"


def _needed_calls(calls: list[Call], needed: set[str]) -> list[Call]:
    """Return the calls on which the values in `needed` depend, in order."""
    needed_calls = []
    for call in reversed(calls):
        if needed & {*call.writes}:
            needed_calls.append(call)
            needed |= {*call.reads}
    return needed_calls[::-1]

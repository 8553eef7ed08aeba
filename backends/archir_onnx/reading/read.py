"""A model file as a list of calls: checked, with everything that is no network of tensors refused at once."""

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
from archir.diagnostics.errors import ArchError, Diagnostic, fail, listed
from archir.ir.types import TensorType
from archir_onnx.files import external
from archir_onnx.reading.parts import inferred, without_weights

OPSETS = range(7, 27)
MOST_NODES = 20_000
MOST_RANK = 8
MOST_ELEMENTS = 2**28
"""Numbers of one tensor."""
LARGEST_INPUT = 2**23
QUANTISED = (
    "QuantizeLinear",
    "DequantizeLinear",
    "QLinearConv",
    "QLinearMatMul",
    "ConvInteger",
    "MatMulInteger",
    "DynamicQuantizeLinear",
)
DOMAINS = ("", "ai.onnx")
ELEMENTS = {1: "f32", 6: "i32", 7: "i64"}


def read(path: Path, shapes: Mapping[str, tuple[int, ...]] | None = None, partial: bool = False) -> tuple[Calls, bool]:
    """The calls of a model, and whether it is made for one sample.

    `shapes` are those of inputs that the file leaves open, without samples. Operators that are no functions of tensors
    are refused by what follows the calls, with all others that it does not know. If a part is enough, the types of all
    values are inferred.

    Every node has the operands, results and attributes that its operator's schema asks for.

    Raises ArchError: A0916 for what is no model, A3202 for versions and inputs that cannot be.
    """
    model = external.read(path)
    version = _version(model, path)
    graph = model.graph
    if len(graph.node) > MOST_NODES:
        raise fail("A0916", f"{path} has {len(graph.node)} nodes, and {MOST_NODES} are the most that are read")
    tensors = {tensor.name: _array(tensor, path) for tensor in graph.initializer}
    inputs, problems = _inputs(graph, tensors, shapes or {})
    if problems and not inputs:
        raise ArchError(*problems)
    _require_schemas(model, version, path)
    calls = [*_calls(graph, path)]
    known = {*tensors, *(one.name for one in graph.input)}
    for call in calls:
        for name in call.reads:
            if name and name not in known:
                raise fail("A0916", f"{path}: {call.named} reads `{name}`, which nothing before it gives")
        for name in call.writes:
            if name in known:
                raise fail("A0916", f"{path}: {call.named} gives `{name}`, which is there already")
        known |= {*call.writes} - {""}
    outputs = _labels([one.name for one in graph.output])
    for label, name in outputs.items():
        if name not in known:
            raise fail("A0916", f"{path} gives `{label}`, which nothing makes")
    first = [one.type.tensor_type.shape.dim[0] for one in graph.input if one.name in inputs]
    kept = _needed(calls, set(outputs.values()))
    types = inferred(model, inputs) if partial else {}
    made = Calls(named(path.stem), inputs, outputs, kept, tensors, version, _refused(model), types, tuple(problems))
    return made, all(dim.dim_value == 1 for dim in first)


def named(text: str) -> str:
    """A text as a name."""
    name = re.sub(r"[^A-Za-z0-9_]+", "_", text).strip("_")[:60] or "network"
    return name if name[0].isalpha() else f"net_{name}"


def _version(model: onnx.ModelProto, path: Path) -> int:
    """The opset of a model. Raises ArchError: A0916 (no version of the format), A3202 (an opset that is not read)."""
    if not 0 < model.ir_version < 2**31:
        raise fail("A0916", f"{path}: there is no version {model.ir_version} of the ONNX format")
    versions = [one.version for one in model.opset_import if one.domain in DOMAINS]
    if len(versions) != 1 or versions[0] not in OPSETS:
        found = ", ".join(map(str, versions)) or "none"
        hint = "onnx.version_converter makes newer ones of old ones"
        raise fail("A3202", f"{path} has opset {found}; {OPSETS[0]} to {OPSETS[-1]} are read", None, hint)
    return int(versions[0])


def _require_schemas(model: onnx.ModelProto, version: int, path: Path) -> None:
    """Raise ArchError (A0916) for nodes that break their operator's schema; operators without a schema are skipped.

    The numbers of operands and results and all attributes are checked first, of all nodes; then the types of tensors.
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
                said = str(error).partition("\n")[0].rstrip(".")
                problems.append(Diagnostic("A0916", f"{path}: {_named(node, index)}: {said}"))
    if problems:
        raise ArchError(*problems)
    bare = without_weights(model, 0)
    for index, node in enumerate(bare.graph.node):
        node.name = _named(node, index)
    try:
        shape_inference.infer_shapes(bare, check_type=True)
    except (shape_inference.InferenceError, ValueError) as error:
        raise fail("A0916", f"{path}: {error}") from None


def _refused(model: onnx.ModelProto) -> dict[str, Diagnostic]:
    """Operators that are no functions of tensors, and what is said of each."""
    found: dict[str, Diagnostic] = {}
    every: dict[str, list[onnx.NodeProto]] = {}
    for node in model.graph.node:
        every.setdefault(_operator(node), []).append(node)
    for operator, nodes in every.items():
        where = f" ({_often(nodes)})"
        if operator in QUANTISED:
            hint = "import the model as it was before it was quantised; `archir quantize` makes int8 of it again"
            found[operator] = Diagnostic("A3202", f"{operator}{where}: the model is quantised", None, hint)
        elif nodes[0].domain not in DOMAINS:
            found[operator] = Diagnostic("A3202", f"{operator}{where}: an operator of no opset of ONNX")
        elif any(_has_graph(node) for node in nodes):
            text = f"{operator}{where}: control flow, which depends on numbers that the network computes"
            found[operator] = Diagnostic("A3202", text)
    if model.graph.sparse_initializer:
        raise fail("A3202", "sparse tensors")
    return found


def _operator(node: onnx.NodeProto) -> str:
    return node.op_type if node.domain in DOMAINS else f"{node.domain}.{node.op_type}"


def _often(nodes: list[onnx.NodeProto]) -> str:
    """Which nodes they are, or how many."""
    names = listed([(node.name or next(iter(node.output), ""))[:100] for node in nodes], 3)
    return f"{len(nodes)} times: {names}" if len(nodes) > 1 else names


def _has_graph(node: onnx.NodeProto) -> bool:
    return any(_graphs(one) for one in node.attribute)


def _graphs(attribute: onnx.AttributeProto) -> list[onnx.GraphProto]:
    return [*([attribute.g] if attribute.HasField("g") else ()), *attribute.graphs]


def _read_by(node: onnx.NodeProto) -> tuple[str, ...]:
    """What a node reads, and what the graphs inside it read of the values around them."""
    return (*node.input, *dict.fromkeys(name for one in node.attribute for name in _captured(one)))


def _captured(attribute: onnx.AttributeProto) -> Iterator[str]:
    for graph in _graphs(attribute):
        own = {one.name for one in (*graph.input, *graph.initializer)}
        own |= {name for node in graph.node for name in node.output}
        yield from (name for node in graph.node for name in _read_by(node) if name and name not in own)
        yield from (one.name for one in graph.output if one.name not in own)


def _array(tensor: onnx.TensorProto, path: Path) -> NDArray[Any]:
    """A stored tensor; of data beside the model, a view of the file."""
    dims = tuple(tensor.dims)
    try:
        dtype = helper.tensor_dtype_to_np_dtype(tensor.data_type)
    except KeyError:
        raise fail("A0916", f"`{tensor.name}` in {path} has elements of an unknown type") from None
    if len(dims) > MOST_RANK or any(dim < 0 for dim in dims) or prod(dims) > MOST_ELEMENTS:
        raise fail("A0916", f"`{tensor.name}` in {path} has a size of {list(dims)[:MOST_RANK]}")
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        info = external_data_helper.ExternalDataInfo(tensor)
        array: NDArray[Any] = np.memmap(path.parent / info.location, dtype, "r", info.offset or 0, dims or (1,))
        return array.reshape(dims)
    if tensor.raw_data and len(tensor.raw_data) != prod(dims) * dtype.itemsize and dtype.itemsize:
        raise fail(
            "A0916", f"`{tensor.name}` in {path} is said to be {list(dims)}, and has {len(tensor.raw_data)} bytes"
        )
    try:
        return numpy_helper.to_array(tensor)
    except Exception as error:  # whatever onnx finds wrong
        raise fail("A0916", f"`{tensor.name}` in {path} cannot be read: {error}") from None


def _inputs(
    graph: onnx.GraphProto, tensors: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]]
) -> tuple[dict[str, TensorType], list[Diagnostic]]:
    """The inputs, and what is wrong with those that are left out."""
    found: dict[str, TensorType] = {}
    problems: list[Diagnostic] = []
    for one in graph.input:
        if one.name in tensors:
            continue
        kind = one.type.tensor_type
        dims = [dim.dim_value or None for dim in kind.shape.dim]
        if kind.elem_type not in ELEMENTS:
            problems.append(Diagnostic("A3202", f"input `{one.name}` has numbers of a type that networks do not take"))
            continue
        if not dims:
            problems.append(Diagnostic("A3202", f"input `{one.name}` has no axis of samples first"))
            continue
        given = shapes.get(one.name, shapes.get("", ()))
        sizes = [given[i] if i < len(given) and dim is None else dim for i, dim in enumerate(dims[1:])]
        unknown = [i + 1 for i, size in enumerate(sizes) if size is None]
        if unknown:
            text = f"input `{one.name}` has {len(unknown)} axes of open size, of {len(dims)}"
            hint = f"say it without samples, such as `--input {one.name}={'x'.join(['3', '224', '224'][: len(sizes)])}`"
            problems.append(Diagnostic("A3202", text, None, hint))
            continue
        if any(size < 1 for size in sizes if size) or prod(size or 1 for size in sizes) > LARGEST_INPUT:
            raise fail("A0916", f"input `{one.name}` has a size of {sizes[:MOST_RANK]}")
        found[one.name] = TensorType(tuple(size or 1 for size in sizes), ELEMENTS[kind.elem_type])
    if not found and not problems:
        raise fail("A0916", "the model has no inputs")
    return found, problems


def _labels(names: list[str]) -> dict[str, str]:
    """Outputs by labels that are names."""
    found: dict[str, str] = {}
    for name in names:
        label, number = named(name), 1
        while label in found:
            number += 1
            label = f"{named(name)}_{number}"
        found[label] = name
    return found


def _calls(graph: onnx.GraphProto, path: Path) -> Iterator[Call]:
    for index, node in enumerate(graph.node):
        attributes = {one.name: _attribute(one, path) for one in node.attribute if not _graphs(one)}
        yield Call(
            _operator(node), _read_by(node), tuple(node.output), attributes, _place(node, index), _named(node, index)
        )


def _named(node: onnx.NodeProto, index: int) -> str:
    """What messages call a node."""
    where = node.name or next((name for name in node.output if name), f"{node.op_type}_{index}")
    return f"{node.op_type} `{where[:100]}`"


def _attribute(one: onnx.AttributeProto, path: Path) -> Any:
    if one.type == onnx.AttributeProto.TENSOR:
        return _array(one.t, path)
    value = helper.get_attribute_value(one)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, float):
        return float(str(np.float32(value)))  # as it was written
    return list(value) if not isinstance(value, int | str | None) else value


def _place(node: onnx.NodeProto, index: int) -> str:
    """The path of a node in its source, as exporters write it: `/layer1/layer1.0/conv1/Conv` is `layer1.0.conv1`."""
    name = node.name or next((one for one in node.output if one), "")
    parts: list[str] = []
    above = ""
    for part in name.strip("/").split("/"):
        short = part.removeprefix(f"{above}.") if above else part
        above = part
        parts += [re.sub(r"\W", "_", piece) for piece in short.split(".") if piece]
    kind = re.sub(r"_\d+$", "", parts[-1]) if parts else ""
    parts = parts[:-1] if len(parts) > 1 and kind == node.op_type and "/" in name else parts
    parts = [part if not part[:1].isdigit() or part.isdigit() else f"_{part}" for part in parts if part][:16]
    return ".".join(parts) if parts and not parts[0].isdigit() else f"{node.op_type.lower()}_{index}"


def _needed(calls: list[Call], wanted: set[str]) -> list[Call]:
    """The calls that outputs need."""
    kept = []
    for call in reversed(calls):
        if wanted & {*call.writes}:
            kept.append(call)
            wanted |= {*call.reads}
    return kept[::-1]

"""Conversion of a graph to an ONNX model, node by node, without tracing.

`ir_version` is set to the version that belongs to the opset, since onnx's default is newer than onnxruntime accepts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

from archir import __version__
from archir.backends import unlowered
from archir.backends.certificates import MAX_ELEMENTS
from archir.backends.input_ranges import ranged_inputs
from archir.diagnostics.errors import ArchError, Diagnostic, fail, join_names
from archir.ir.graph import Graph, NodeId, state_name
from archir.ir.op import Op
from archir.ir.typing import Types, infer
from archir.passes.expand import expand
from archir.passes.resize import token_count
from archir_onnx.files.models import Model
from archir_onnx.lowering.builder import CONTRIB, Builder, set_metadata
from archir_onnx.lowering.export_options import DEFAULT_OPTIONS, OPSETS, ExportOptions
from archir_onnx.lowering.interface import (
    input_info,
    limit_metadata,
    lower_input,
    lower_output,
    output_info,
    raw_metadata,
)
from archir_onnx.lowering.opset import with_opset
from archir_onnx.lowering.rules import RULES, lower_node

Arrays = Mapping[str, NDArray[Any]]


def supports(graph: Graph, options: ExportOptions = DEFAULT_OPTIONS) -> list[Diagnostic]:
    """Return diagnostics for remaining choices, operations without a lowering rule, and invalid export options."""
    return options.problems() + unlowered(graph, RULES, "onnx") or _too_large(graph, options)


def _too_large(graph: Graph, options: ExportOptions) -> list[Diagnostic]:
    """Return a diagnostic if a batch of fixed size has more elements than certificates allow."""
    sample = sum(infer(graph)[number].elements for number in graph.inputs.values())
    if "batch" in options.dynamic or options.batch * sample <= MAX_ELEMENTS:
        return []
    text = (
        f"a batch of {options.batch:,} samples is too large to be verified; the maximum is {MAX_ELEMENTS // sample:,}"
    )
    return [Diagnostic("A0911", text)]


def build(
    graph: Graph,
    weights: Arrays,
    options: ExportOptions = DEFAULT_OPTIONS,
    *,
    metadata: Mapping[str, str] | None = None,
) -> Model:
    """Build the ONNX model of a graph without choices. `weights` are arrays by state-dict name.

    ONNX names are unique: an output that has the same name as an input is called `NAME_output`, with `_output`
    repeated as often as needed.

    Raises ArchError: A0901, A0904, A0911 (the graph cannot be lowered), A0912 (weights are missing or have other
    shapes), A0931 (weights overflow float16), A0933 (an input cannot be normalised).
    """
    graph = expand(graph)
    problems = supports(graph, options)
    if problems:
        raise ArchError(*problems)
    options = with_opset(graph, options)
    types = infer(graph)
    inputs = graph.inputs
    builder = Builder(options, list(inputs))
    builder.shared_weights = _shared_weights(graph, types)
    values = {number: lower_input(builder, name, types[number]) for name, number in inputs.items()}
    missing: list[str] = []
    for number in graph:
        if number in values:
            continue
        node = graph[number]
        builder.scope = state_name(node.scope, "")[:-1]
        builder.type, builder.types = types[number], [types[operand] for operand in graph.operands(number)]
        node_weights = {}
        for name, weight in node.op.weights(*builder.types).items():
            state = state_name(node.scope, name)
            array = weights.get(state)
            if array is None or array.shape != weight.shape:
                missing.append(state)
                array = np.zeros(weight.shape, np.float32)
            node_weights[name] = builder.weight(state, array)
        values[number] = lower_node(
            builder, node.op, [values[operand] for operand in graph.operands(number)], node_weights
        )
    if missing:
        raise fail("A0912", f"{len(missing)} weights are missing or have other shapes: {join_names(missing, 4)}")
    results = _output_names(graph)
    for name, number in results.items():
        builder.scope = name
        lower_output(builder, name, values[number], types[number])
    _drop_copies(builder, [*results])
    _drop_unused(builder, [*results])
    used = {input_name for node in builder.nodes for input_name in node.input}
    model = onnx.ModelProto(ir_version=OPSETS[builder.opset], producer_name="archir", producer_version=__version__)
    model.opset_import.append(helper.make_opsetid("", builder.opset))
    if any(node.domain == CONTRIB for node in builder.nodes):
        model.opset_import.append(helper.make_opsetid(CONTRIB, 1))
    model.graph.name = graph.name
    model.graph.node.extend(builder.nodes)
    tokens = token_count(graph) if "tokens" in options.dynamic else None
    model.graph.input.extend(input_info(name, types[number], options, tokens) for name, number in inputs.items())
    model.graph.output.extend(output_info(name, types[number], options) for name, number in results.items())
    ranged = ranged_inputs(graph)
    set_metadata(
        model, {"net": graph.name, **limit_metadata(ranged), **raw_metadata(ranged, options), **(metadata or {})}
    )
    return Model(model, {name: array for name, array in builder.arrays.items() if name in used})


def _shared_weights(graph: Graph, types: Types) -> frozenset[str]:
    """Return the names of weights used by operations of different kinds."""
    kinds: dict[str, set[type[Op]]] = {}
    for number in graph:
        node = graph[number]
        for name in node.op.weights(*(types[operand] for operand in graph.operands(number))):
            kinds.setdefault(state_name(node.scope, name), set()).add(type(node.op))
    return frozenset(name for name, users in kinds.items() if len(users) > 1)


def _output_names(graph: Graph) -> dict[str, NodeId]:
    """Return the output nodes in order, by their names in the model."""
    used_names = {*graph.inputs, *graph.outputs}
    results: dict[str, NodeId] = {}
    for name, number in graph.outputs.items():
        if name in graph.inputs:
            while name in used_names:
                name = f"{name}_output"
        used_names.add(name)
        results[name] = number
    return results


def _drop_unused(builder: Builder, outputs: list[str]) -> None:
    """Remove nodes that no output depends on."""
    needed, kept_nodes = set(outputs), []
    for node in reversed(builder.nodes):
        if not needed.isdisjoint(node.output):
            needed.update(node.input)
            kept_nodes.append(node)
    builder.nodes = kept_nodes[::-1]


def _drop_copies(builder: Builder, outputs: list[str]) -> None:
    """Remove an `Identity` node before an output if the node that computes its operand has no other consumer.

    The node that computes the operand then writes the output itself.
    """
    producers = {node.output[0]: node for node in builder.nodes if len(node.output) == 1}
    copies = {
        node.output[0]: node for node in builder.nodes if node.output[0] in outputs and node.op_type == "Identity"
    }
    for name, copy in copies.items():
        source = copy.input[0]
        readers = [node for node in builder.nodes if source in node.input]
        if source in producers and source not in outputs and len(readers) == 1:
            producers[source].output[0] = name
            builder.nodes.remove(copy)

"""A graph as an ONNX model, built node by node without tracing.

`ir_version` is set to what the opset needs: onnx's own default is newer than
what onnxruntime reads.
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
from archir.backends.certificates import MOST_ELEMENTS
from archir.backends.ranges import ranged_inputs
from archir.diagnostics.errors import ArchError, Diagnostic, fail, listed
from archir.ir.graph import Graph, NodeId, state_name
from archir.ir.op import Op
from archir.ir.typing import Types, infer
from archir.passes.expand import expand
from archir.passes.resize import length
from archir_onnx.files.models import Model
from archir_onnx.lowering import operations as lowerings  # noqa: F401  (registers the rules)
from archir_onnx.lowering.builder import CONTRIB, Builder, properties
from archir_onnx.lowering.form import OPSETS, PLAIN, Form
from archir_onnx.lowering.interface import comes, given, input_info, limits, output_info, taken
from archir_onnx.lowering.rules import RULES, lower_node

Arrays = Mapping[str, NDArray[Any]]


def supports(graph: Graph, form: Form = PLAIN) -> list[Diagnostic]:
    """What of a graph cannot be lowered: choices that are not made, operations without a rule, an unknown form."""
    return form.problems() + unlowered(graph, RULES, "onnx") or _too_large(graph, form)


def _too_large(graph: Graph, form: Form) -> list[Diagnostic]:
    """A fixed batch that is more than what models are compared on, here and from their certificates."""
    sample = sum(infer(graph)[number].elements for number in graph.inputs.values())
    if "batch" in form.dynamic or form.batch * sample <= MOST_ELEMENTS:
        return []
    text = f"a batch of {form.batch:,} samples is too large to be checked: {MOST_ELEMENTS // sample:,} are the most"
    return [Diagnostic("A0911", text)]


def build(graph: Graph, weights: Arrays, form: Form = PLAIN, *, metadata: Mapping[str, str] | None = None) -> Model:
    """The model of a graph without choices. Weights go by state-dict names; an output that is called like an input is
    called `NAME_output`, or as many times `_output` as it takes, since names are unique in ONNX.

    Raises ArchError (A0901, A0904, A0911: it cannot be lowered; A0912: weights are missing or have other shapes; A0931:
    float16 does not hold them; A0933: it takes no image).
    """
    graph = expand(graph)
    problems = supports(graph, form)
    if problems:
        raise ArchError(*problems)
    types = infer(graph)
    inputs = graph.inputs
    builder = Builder(form, list(inputs))
    builder.lent = _lent(graph, types)
    values = {number: taken(builder, name, types[number]) for name, number in inputs.items()}
    missing: list[str] = []
    for number in graph:
        if number in values:
            continue
        node = graph[number]
        builder.scope = state_name(node.scope, "")[:-1]
        builder.type, builder.types = types[number], [types[operand] for operand in graph.operands(number)]
        named = {}
        for name, weight in node.op.weights(*builder.types).items():
            state = state_name(node.scope, name)
            array = weights.get(state)
            if array is None or array.shape != weight.shape:
                missing.append(state)
                array = np.zeros(weight.shape, np.float32)
            named[name] = builder.weight(state, array)
        values[number] = lower_node(builder, node.op, [values[operand] for operand in graph.operands(number)], named)
    if missing:
        raise fail("A0912", f"{len(missing)} weights are missing or have other shapes: {listed(missing, 4)}")
    results = _results(graph)
    for name, number in results.items():
        builder.scope = name
        given(builder, name, values[number], types[number])
    _drop_copies(builder, [*results])
    _drop_unused(builder, [*results])
    used = {one for node in builder.nodes for one in node.input}
    model = onnx.ModelProto(ir_version=OPSETS[form.opset], producer_name="archir", producer_version=__version__)
    model.opset_import.append(helper.make_opsetid("", form.opset))
    if any(node.domain == CONTRIB for node in builder.nodes):
        model.opset_import.append(helper.make_opsetid(CONTRIB, 1))
    model.graph.name = graph.name
    model.graph.node.extend(builder.nodes)
    tokens = length(graph) if "tokens" in form.dynamic else None
    model.graph.input.extend(input_info(name, types[number], form, tokens) for name, number in inputs.items())
    model.graph.output.extend(output_info(name, types[number], form) for name, number in results.items())
    ranged = ranged_inputs(graph)
    properties(model, {"net": graph.name, **limits(ranged), **comes(ranged, form), **(metadata or {})})
    return Model(model, {name: array for name, array in builder.arrays.items() if name in used})


def _lent(graph: Graph, types: Types) -> frozenset[str]:
    """The names of weights that operations of several kinds share."""
    kinds: dict[str, set[type[Op]]] = {}
    for number in graph:
        node = graph[number]
        for name in node.op.weights(*(types[operand] for operand in graph.operands(number))):
            kinds.setdefault(state_name(node.scope, name), set()).add(type(node.op))
    return frozenset(name for name, users in kinds.items() if len(users) > 1)


def _results(graph: Graph) -> dict[str, NodeId]:
    """The outputs by the names that they have in the model, in their order."""
    taken = {*graph.inputs, *graph.outputs}
    results: dict[str, NodeId] = {}
    for name, number in graph.outputs.items():
        if name in graph.inputs:
            while name in taken:
                name = f"{name}_output"
        taken.add(name)
        results[name] = number
    return results


def _drop_unused(builder: Builder, outputs: list[str]) -> None:
    """Keep what outputs depend on."""
    needed, kept = set(outputs), []
    for node in reversed(builder.nodes):
        if not needed.isdisjoint(node.output):
            needed.update(node.input)
            kept.append(node)
    builder.nodes = kept[::-1]


def _drop_copies(builder: Builder, outputs: list[str]) -> None:
    """Let the node that computes an output write it, rather than a copy, where it writes that output alone."""
    makers = {node.output[0]: node for node in builder.nodes if len(node.output) == 1}
    copies = {
        node.output[0]: node for node in builder.nodes if node.output[0] in outputs and node.op_type == "Identity"
    }
    for name, copy in copies.items():
        source = copy.input[0]
        readers = [node for node in builder.nodes if source in node.input]
        if source in makers and source not in outputs and len(readers) == 1:
            makers[source].output[0] = name
            builder.nodes.remove(copy)

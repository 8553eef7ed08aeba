"""Partial imports: the largest part of a module that archir supports.

Unsupported operators are cut out: their results become inputs of the part, and their operands become outputs. Of the
connected components that remain, the one with the most multiply-accumulates is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import networkx as nx
import torch
from torch import Tensor, fx
from torch.export import ExportedProgram

from archir.backends.comparison import Difference
from archir.diagnostics.errors import fail
from archir.ir.graph import Graph, NodeId
from archir.ir.types import TensorType
from archir_torch.importing.layout import Atom, Value
from archir_torch.lowering.module import Network

NodeResult = tuple[fx.Node, int | None]
"""Node of torch's graph, and the index of one of its results; the index is None if the node has a single result."""


def largest_component(graph: Graph, types: Mapping[NodeId, TensorType]) -> Graph:
    """Return the connected component with the most multiply-accumulates; ties are broken by the number of nodes.

    Raises ArchError (A3202) if no component has an output.
    """
    links: nx.Graph[NodeId] = nx.Graph()
    for number in graph:
        links.add_node(number)
        links.add_edges_from((operand, number) for operand in graph.operands(number))

    def size(component: set[NodeId]) -> tuple[int, int]:
        macs = (graph[n].op.macs(*(types[operand] for operand in graph.operands(n))) for n in component)
        return sum(macs), len(component)

    outputs = set(graph.outputs.values())
    components = [
        component for component in nx.connected_components(links) if component & outputs and len(component) > 1
    ]
    if not components:
        raise fail("A3202", f"{graph.name} has no part that can be imported")
    best = max(components, key=size)
    pending, needed = [*(best & outputs)], set[NodeId]()
    while pending:
        number = pending.pop()
        if number not in needed:
            needed.add(number)
            pending += graph.operands(number)
    copy = Graph(graph.name)
    copies: dict[NodeId, NodeId] = {}
    for number in graph:
        if number in needed:
            copies[number] = copy.add(graph[number], *(copies[operand] for operand in graph.operands(number)))
    copy.outputs = {label: copies[number] for label, number in graph.outputs.items() if number in copies}
    return copy


@dataclass(frozen=True)
class Cuts:
    """Values at which a part was cut out of a module.

    These are results in torch's graph, by label of the part's inputs and outputs.
    """

    inputs: Mapping[str, NodeResult]
    outputs: Mapping[str, tuple[NodeResult, Value]]


class _RecordingInterpreter(fx.Interpreter):
    """Interpreter of a torch graph that records the results of selected nodes."""

    def __init__(self, module: fx.GraphModule, nodes: set[fx.Node]) -> None:
        super().__init__(module)
        self.nodes = nodes
        self.results: dict[fx.Node, Any] = {}

    def run_node(self, n: fx.Node) -> Any:
        result = super().run_node(n)
        if n in self.nodes:
            self.results[n] = [item.clone() for item in result] if isinstance(result, tuple | list) else result.clone()
        return result


def part_difference(
    program: ExportedProgram, cuts: Cuts, batch: Atom, network: Network, part_inputs: Iterable[str],
    inputs: Mapping[str, Tensor],
) -> float:  # fmt: skip
    """Run a part and the full traced module, and return the largest difference between their values.

    The part's outputs are compared with the same values in torch's graph, relative to the largest magnitude of each
    output. `part_inputs` are the labels of the part's inputs; `inputs` are inputs of the full module, with the batch
    size with which it was traced.
    """
    places = [*cuts.inputs.values(), *(place for place, _ in cuts.outputs.values())]
    runner = _RecordingInterpreter(program.graph_module, {node for node, _ in places})
    stored = {**program.constants, **program.state_dict}
    specs = program.graph_signature.input_specs
    tensors = iter(inputs.values())
    arguments = [next(tensors) if spec.kind.name == "USER_INPUT" else stored[str(spec.target)] for spec in specs]
    with torch.no_grad():
        runner.run(*arguments, enable_io_processing=False)
        computed = network(*(_recorded(runner.results, cuts.inputs[label]) for label in part_inputs))
    results = computed if isinstance(computed, dict) else {network.output_names[0]: computed}
    worst = 0.0
    for label, tensor in results.items():
        place, value = cuts.outputs[label]
        expected = _batch_first(_recorded(runner.results, place), value, batch).reshape(tensor.shape)
        worst = max(worst, Difference.of(tensor.double().numpy(), expected.double().numpy()).relative)
    return worst


def _recorded(results: Mapping[fx.Node, Any], place: NodeResult) -> Tensor:
    """Return the recorded tensor for a node's result."""
    node, index = place
    tensor: Tensor = results[node] if index is None else results[node][index]
    return tensor


def _batch_first(tensor: Tensor, value: Value, batch: Atom) -> Tensor:
    """Move the batch axis of a tensor to the front; a tensor without a batch axis gets one."""
    positions: Sequence[int] = [i for i, axis in enumerate(value.axes) if axis == (batch,)]
    return tensor.movedim(positions[0], 0) if positions else tensor.expand(batch.size, *tensor.shape)

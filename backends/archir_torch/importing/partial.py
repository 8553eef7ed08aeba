"""The largest part of a module that can be imported, where not all of it can.

What an operator without words in archir would give is an input of the part, and what it reads is an output. Parts that
nothing connects are told apart, and the one with the most multiply-accumulates stays.
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

Place = tuple[fx.Node, int | None]
"""A node of torch's graph, and which of its results, if it has several."""


def largest(graph: Graph, types: Mapping[NodeId, TensorType]) -> Graph:
    """The part with the most multiply-accumulates, of those with equally many the one of the most nodes."""
    links: nx.Graph[NodeId] = nx.Graph()
    for number in graph:
        links.add_node(number)
        links.add_edges_from((operand, number) for operand in graph.operands(number))

    def size(part: set[NodeId]) -> tuple[int, int]:
        macs = (graph[n].op.macs(*(types[operand] for operand in graph.operands(n))) for n in part)
        return sum(macs), len(part)

    ends = set(graph.outputs.values())
    parts = [part for part in nx.connected_components(links) if part & ends and len(part) > 1]
    if not parts:
        raise fail("A3202", f"{graph.name} has no part that can be imported")
    best = max(parts, key=size)
    pending, needed = [*(best & ends)], set[NodeId]()
    while pending:
        number = pending.pop()
        if number not in needed:
            needed.add(number)
            pending += graph.operands(number)
    copy = Graph(graph.name)
    moved: dict[NodeId, NodeId] = {}
    for number in graph:
        if number in needed:
            moved[number] = copy.add(graph[number], *(moved[operand] for operand in graph.operands(number)))
    copy.outputs = {label: moved[number] for label, number in graph.outputs.items() if number in moved}
    return copy


@dataclass(frozen=True)
class Cuts:
    """Where a part was cut out: inputs and outputs by label, as places of torch's graph."""

    inputs: Mapping[str, Place]
    outputs: Mapping[str, tuple[Place, Value]]


class _Kept(fx.Interpreter):
    """Runs a graph, and keeps what some nodes give."""

    def __init__(self, module: fx.GraphModule, wanted: set[fx.Node]) -> None:
        super().__init__(module)
        self.wanted = wanted
        self.found: dict[fx.Node, Any] = {}

    def run_node(self, n: fx.Node) -> Any:
        made = super().run_node(n)
        if n in self.wanted:
            self.found[n] = [one.clone() for one in made] if isinstance(made, tuple | list) else made.clone()
        return made


def differs(
    program: ExportedProgram, cuts: Cuts, batch: Atom, network: Network, given_to: Iterable[str],
    inputs: Mapping[str, Tensor],
) -> float:  # fmt: skip
    """The largest difference of a part from what torch's own graph gives there, relative to the largest number.

    `given_to` are the part's inputs, `inputs` those of the whole module, of as many samples as it was traced with.
    """
    places = [*cuts.inputs.values(), *(place for place, _ in cuts.outputs.values())]
    runner = _Kept(program.graph_module, {node for node, _ in places})
    kept = {**program.constants, **program.state_dict}
    specs = program.graph_signature.input_specs
    given = iter(inputs.values())
    arguments = [next(given) if spec.kind.name == "USER_INPUT" else kept[str(spec.target)] for spec in specs]
    with torch.no_grad():
        runner.run(*arguments, enable_io_processing=False)
        made = network(*(_at(runner.found, cuts.inputs[label]) for label in given_to))
    results = made if isinstance(made, dict) else {network.output_names[0]: made}
    worst = 0.0
    for label, one in results.items():
        place, value = cuts.outputs[label]
        wanted = _samples_first(_at(runner.found, place), value, batch).reshape(one.shape)
        worst = max(worst, Difference.of(one.double().numpy(), wanted.double().numpy()).relative)
    return worst


def _at(found: Mapping[fx.Node, Any], place: Place) -> Tensor:
    node, index = place
    tensor: Tensor = found[node] if index is None else found[node][index]
    return tensor


def _samples_first(tensor: Tensor, value: Value, batch: Atom) -> Tensor:
    at: Sequence[int] = [i for i, axis in enumerate(value.axes) if axis == (batch,)]
    return tensor.movedim(at[0], 0) if at else tensor.expand(batch.size, *tensor.shape)

"""Whether an import computes what its source does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from archir.backends.comparison import Difference
from archir.backends.ranges import ranged_inputs
from archir.diagnostics.errors import fail
from archir.ir.graph import Graph
from archir.ir.types import TensorType
from archir.language.decompiler.imported import Array
from archir.ops.constant import Positions
from archir.ops.lookup import Equal
from archir_torch.importing.outputs import labelled, named
from archir_torch.importing.partial import differs
from archir_torch.lowering.module import Network

if TYPE_CHECKING:
    from archir_torch.importing.capture import Part

SAMPLES = 2
SHARE = 0.2
"""Of integers that are those that a network asks for."""
TOLERANCE = 1e-5
"""The largest difference, of the largest number."""


def network(graph: Graph, weights: Mapping[str, Array]) -> Network:
    """A graph's module on these weights, which are not copied."""
    with torch.device("meta"):
        module = Network(graph)
    state = {name: torch.from_numpy(np.asarray(array)) for name, array in weights.items()}
    module.load_state_dict(state, assign=True)
    return module.eval()


def compared(module: nn.Module, network: Network, graph: Graph, example: Any, generator: torch.Generator) -> float:
    """The largest difference of all outputs on random inputs, relative to the output's largest number."""
    inputs = _random(graph, generator)
    by_name = isinstance(example, Mapping)
    training = {one: one.training for one in module.modules()}
    module.eval()
    try:
        with torch.no_grad():
            copies = {name: one.clone() for name, one in inputs.items()}  # it may write into what it is given
            values = copies.values()
            wanted = module(**dict(zip(example, values, strict=True))) if by_name else module(*values)
            found = network(*inputs.values())
    finally:
        for one, mode in training.items():
            one.training = mode
    given = found if isinstance(found, dict) else {network.output_names[0]: found}
    known = labelled(wanted)
    pairs = [(one, known[label]) for label, one in given.items()]
    differences = [Difference.of(one.double().numpy(), other.double().numpy()) for one, other in pairs]
    return reduce(or_, differences, Difference()).relative


def prove(module: nn.Module, network: Network, graph: Graph, example: Any, generator: torch.Generator) -> float:
    """The difference. Raises ArchError (A3203) if it is beyond the tolerance."""
    worst = compared(module, network, graph, example, generator)
    if not worst <= TOLERANCE:
        raise fail("A3203", f"{graph.name} differs from {type(module).__name__} by {worst:.1e}, relative to its output")
    return worst


def prove_part(part: Part, generator: torch.Generator) -> None:
    """Raise ArchError (A3203) unless a part gives what the module's own graph gives where it was cut out."""
    graph = part.imported.graph
    module = network(graph, part.imported.weights)
    specs = [spec for spec in part.program.graph_signature.input_specs if spec.kind.name == "USER_INPUT"]
    nodes = {node.name: node for node in part.program.graph.nodes if node.op == "placeholder"}
    limits = {name: type_.below for name, type_ in ranged_inputs(graph).items()}
    inputs = {}
    for spec in specs:
        value = nodes[spec.arg.name].meta.get("val")
        if isinstance(value, Tensor) and not value.is_floating_point():
            below = limits.get(named(spec.arg.name)) or 2
            inputs[spec.arg.name] = torch.randint(below, value.shape, generator=generator, dtype=value.dtype)
        elif isinstance(value, Tensor):
            inputs[spec.arg.name] = torch.randn(value.shape, generator=generator)
        else:
            inputs[spec.arg.name] = value
    worst = differs(part.program, part.cuts, part.batch, module, graph.inputs, inputs)
    if not worst <= TOLERANCE:
        raise fail("A3203", f"the part of {graph.name} differs from it by {worst:.1e}, relative to its output")


def asked(graph: Graph) -> list[int]:
    """The integers that a network treats in their own way: padding, the end of a text."""
    ops = [graph[number].op for number in graph]
    known = [one.to if isinstance(one, Equal) else one.padding if isinstance(one, Positions) else None for one in ops]
    return sorted({one for one in known if one is not None})


def integers(type_: TensorType, also: Sequence[int], generator: torch.Generator) -> Tensor:
    """Random integers for a network that asks for some; what nothing limits is a mask, whose first number is 1."""
    shape = (SAMPLES, *type_.shape)
    dtype = torch.int64 if type_.dtype == "i64" else torch.int32
    made = torch.randint(type_.below or 2, shape, generator=generator, dtype=dtype)
    if type_.below is None:
        made[..., :1] = 1
        return made
    for one in also:
        if 0 <= one < type_.below:
            made[torch.rand(shape, generator=generator) < SHARE] = one
    return made


def _random(graph: Graph, generator: torch.Generator) -> dict[str, Tensor]:
    also = asked(graph)
    return {
        name: torch.randn((SAMPLES, *type_.shape), generator=generator)
        if type_.numeric
        else integers(type_, also, generator)
        for name, type_ in ranged_inputs(graph).items()
    }

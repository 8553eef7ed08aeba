"""Comparison of an import with its source on random inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from archir.backends.comparison import Difference
from archir.backends.input_ranges import ranged_inputs
from archir.diagnostics.errors import fail
from archir.ir.graph import Graph
from archir.ir.types import TensorType
from archir.language.decompiler.imported import Array
from archir.ops.constant import Positions
from archir.ops.lookup import Equal
from archir_torch.importing.labels import output_labels, valid_name
from archir_torch.importing.partial import part_difference
from archir_torch.lowering.module import Network

if TYPE_CHECKING:
    from archir_torch.importing.capture import Part

SAMPLES = 2
"""Number of random samples on which outputs are compared."""
SHARE = 0.2
"""Probability with which a random integer is replaced by one with a special meaning, such as padding."""
TOLERANCE = 1e-5
"""Maximum difference, relative to the largest magnitude of an output."""


def network(graph: Graph, weights: Mapping[str, Array]) -> Network:
    """Return the torch module of a graph with the given weights, which are not copied."""
    with torch.device("meta"):
        module = Network(graph)
    state = {name: torch.from_numpy(np.asarray(array)) for name, array in weights.items()}
    module.load_state_dict(state, assign=True)
    return module.eval()


def max_difference(
    module: nn.Module, network: Network, graph: Graph, example: Any, generator: torch.Generator
) -> float:
    """Return the largest difference over all outputs for random inputs, relative to an output's largest magnitude."""
    inputs = _random_inputs(graph, generator)
    by_name = isinstance(example, Mapping)
    training = {value: value.training for value in module.modules()}
    module.eval()
    try:
        with torch.no_grad():
            copies = {name: value.clone() for name, value in inputs.items()}  # the module may write into its inputs
            values = copies.values()
            expected = module(**dict(zip(example, values, strict=True))) if by_name else module(*values)
            actual = network(*inputs.values())
    finally:
        for value, mode in training.items():
            value.training = mode
    actual_by_label = actual if isinstance(actual, dict) else {network.output_names[0]: actual}
    expected_by_label = output_labels(expected)
    pairs = [(value, expected_by_label[label]) for label, value in actual_by_label.items()]
    differences = [Difference.of(value.double().numpy(), reference.double().numpy()) for value, reference in pairs]
    return reduce(or_, differences, Difference()).relative


def require_equal(module: nn.Module, network: Network, graph: Graph, example: Any, generator: torch.Generator) -> float:
    """Return the largest difference between a module and its import.

    Raises ArchError (A3203) if the difference exceeds TOLERANCE.
    """
    worst = max_difference(module, network, graph, example, generator)
    if not worst <= TOLERANCE:
        raise fail("A3203", f"{graph.name} differs from {type(module).__name__} by {worst:.1e}, relative to its output")
    return worst


def require_part_equal(part: Part, generator: torch.Generator) -> None:
    """Raise ArchError (A3203) unless an imported part computes the same as the module's own graph between the cuts."""
    graph = part.imported.graph
    module = network(graph, part.imported.weights)
    specs = [spec for spec in part.program.graph_signature.input_specs if spec.kind.name == "USER_INPUT"]
    nodes = {node.name: node for node in part.program.graph.nodes if node.op == "placeholder"}
    limits = {name: type_.integer_limit for name, type_ in ranged_inputs(graph).items()}
    inputs = {}
    for spec in specs:
        value = nodes[spec.arg.name].meta.get("val")
        if isinstance(value, Tensor) and not value.is_floating_point():
            below = limits.get(valid_name(spec.arg.name)) or 2
            inputs[spec.arg.name] = torch.randint(below, value.shape, generator=generator, dtype=value.dtype)
        elif isinstance(value, Tensor):
            inputs[spec.arg.name] = torch.randn(value.shape, generator=generator)
        else:
            inputs[spec.arg.name] = value
    worst = part_difference(part.program, part.cuts, part.batch, module, graph.inputs, inputs)
    if not worst <= TOLERANCE:
        raise fail("A3203", f"the part of {graph.name} differs from it by {worst:.1e}, relative to its output")


def special_integers(graph: Graph) -> list[int]:
    """Return the integers with a special meaning to a network, such as those for padding or the end of a text."""
    ops = [graph[number].op for number in graph]
    values = [
        item.to if isinstance(item, Equal) else item.padding if isinstance(item, Positions) else None for item in ops
    ]
    return sorted({item for item in values if item is not None})


def random_integers(type_: TensorType, special: Sequence[int], generator: torch.Generator) -> Tensor:
    """Return random integers below the type's limit; some of them are replaced by integers from `special`.

    If the type has no limit, returns a mask of 0 and 1 that begins with 1.
    """
    shape = (SAMPLES, *type_.shape)
    dtype = torch.int64 if type_.dtype == "i64" else torch.int32
    result = torch.randint(type_.integer_limit or 2, shape, generator=generator, dtype=dtype)
    if type_.integer_limit is None:
        result[..., :1] = 1
        return result
    for integer in special:
        if 0 <= integer < type_.integer_limit:
            result[torch.rand(shape, generator=generator) < SHARE] = integer
    return result


def _random_inputs(graph: Graph, generator: torch.Generator) -> dict[str, Tensor]:
    """Return random inputs for a graph, by name."""
    special = special_integers(graph)
    return {
        name: torch.randn((SAMPLES, *type_.shape), generator=generator)
        if type_.is_floating
        else random_integers(type_, special, generator)
        for name, type_ in ranged_inputs(graph).items()
    }

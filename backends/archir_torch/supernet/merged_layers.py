"""Steps for nodes into which several nodes were merged. Each original node keeps its own layer and weights.

`archir.passes.cse` and `archir.passes.batch` merge nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from archir.ir.graph import Graph, NodeId
from archir.ops.shape import Slice
from archir_torch.lowering.kernels.kernel_lowerings import kernel_lowering
from archir_torch.lowering.kernels.lazy import materialize
from archir_torch.lowering.module import ChildRef, Layer, call_layer


class MergedLayers:
    """Base class of functions that run the layers of all scopes that were merged into one node."""

    accepts_lazy = True
    """Marks that operands may be lazy: each layer chooses between its function and the compiled kernel."""

    def __init__(self, refs: Sequence[ChildRef]) -> None:
        self.refs = refs

    def layers(self) -> list[Layer]:
        """Return the current layers, without modules that replaced a layer."""
        modules = [parent._modules[name] for parent, name in self.refs]
        return [layer for layer in modules if isinstance(layer, Layer)]


class IdenticalLayers(MergedLayers):
    """Layers that compute the same result, so that only the first layer runs.

    The buffers of the first layer are copied to the other layers.
    """

    def __call__(self, x: Any) -> Any:
        """Return the common result of the layers."""
        first = self.layers()[0]
        y: Any = call_layer(first, [x])
        if first.training:
            self.copy_buffers()
        return y

    def copy_buffers(self) -> None:
        """Copy the buffers of the first layer to the others."""
        first, *others = self.layers()
        with torch.no_grad():
            for name in first._buffers:
                torch._foreach_copy_([getattr(layer, name) for layer in others], [getattr(first, name)] * len(others))


class StackedLayers(MergedLayers):
    """Layers that run as one operation with concatenated weights.

    Buffers that the operation updates are split and copied back to the layers.
    """

    def __call__(self, x: Tensor) -> Tensor:
        """Return the results of all layers, concatenated along the channel axis."""
        layers = self.layers()
        first = layers[0]
        weights = {name: torch.cat([getattr(layer, name) for layer in layers]) for name in first.names}
        mode = {"training": first.training} if first.takes_training else {}
        function = kernel_lowering(first.function) if first.uses_kernels else first.function
        y: Tensor = function(x, **weights, **first.attributes, **mode)
        if first.training:
            with torch.no_grad():
                for name in first._buffers:
                    parts = weights[name].chunk(len(layers))
                    torch._foreach_copy_([getattr(layer, name) for layer in layers], list(parts))
        return y


class ChunkedFunction:
    """Function whose result a single operation splits into equal chunks along the channel axis.

    With one slice operation per chunk, the gradient of each slice would have the size of the whole result.
    """

    accepts_lazy = True
    """Marks that operands may be lazy: the wrapped function handles them."""

    def __init__(self, function: Callable[..., Tensor], count: int) -> None:
        self.function, self.count = function, count

    def __call__(self, *operands: Tensor) -> tuple[Tensor, ...]:
        """Return the chunks of the result."""
        result: Tensor = materialize(self.function(*operands))
        return result.chunk(self.count, 1)


def chunk_if_sliced(graph: Graph, number: NodeId, function: Callable[..., Tensor]) -> Any:
    """Return the function of a node, wrapped to return chunks if all consumers of the node are equal slices."""
    count = _chunk_count(graph, number)
    return ChunkedFunction(function, count) if count else function


def chunk_index(graph: Graph, number: NodeId) -> int | None:
    """Return the index of the chunk of its operand that a slice node reads; None if the operand is not chunked."""
    (operand,) = graph.operands(number)
    op = graph[number].op
    if not isinstance(op, Slice) or op.stop is None or not _chunk_count(graph, operand):
        return None
    return op.start // (op.stop - op.start)


def _chunk_count(graph: Graph, number: NodeId) -> int:
    """Return the number of equal slices in which consumers read the result of merged nodes; 0 if any reads
    something else."""
    merged = graph.merged_scopes.get(graph[number].scope)
    consumers = graph.consumers(number)
    if merged is None or merged.is_shared or number in graph.outputs.values():
        return 0
    return len(merged.scopes) if all(isinstance(graph[consumer].op, Slice) for consumer in consumers) else 0

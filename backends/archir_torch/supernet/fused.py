"""Nodes that stand for several: the layers of all keep their weights.

`archir.passes.shared_norms` and `archir.passes.batch` make such nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from archir.ir.graph import Graph, NodeId
from archir.ops.shape import Slice
from archir_torch.lowering.kernels.compiled import compiled
from archir_torch.lowering.kernels.lazy import whole
from archir_torch.lowering.module import Home, Layer, called


class Merged:
    """What one of several layers does for all of them."""

    takes_unwritten = True

    def __init__(self, homes: Sequence[Home]) -> None:
        self.homes = homes

    def layers(self) -> list[Layer]:
        """The layers that are there now."""
        found = [home._modules[name] for home, name in self.homes]
        return [layer for layer in found if isinstance(layer, Layer)]


class Shared(Merged):
    """Layers that compute the same: the first one does, and the others have what it has then."""

    def __call__(self, x: Any) -> Any:
        """The result they have in common."""
        first = self.layers()[0]
        y: Any = called(first, [x])
        if first.training:
            self.copy()
        return y

    def copy(self) -> None:
        """Let the others have what the first has."""
        first, *others = self.layers()
        with torch.no_grad():
            for name in first._buffers:
                torch._foreach_copy_([getattr(o, name) for o in others], [getattr(first, name)] * len(others))


class Stacked(Merged):
    """Layers one beside the other: weights are joined, and what running them changes is taken apart again."""

    def __call__(self, x: Tensor) -> Tensor:
        """All results, one beside the other."""
        layers = self.layers()
        first = layers[0]
        weights = {name: torch.cat([getattr(layer, name) for layer in layers]) for name in first.names}
        mode = {"training": first.training} if first.wants_mode else {}
        function = compiled(first.function) if first.compiled else first.function
        y: Tensor = function(x, **weights, **first.attributes, **mode)
        if first.training:
            with torch.no_grad():
                for name in first._buffers:
                    parts = weights[name].chunk(len(layers))
                    torch._foreach_copy_([getattr(layer, name) for layer in layers], list(parts))
        return y


class Parts:
    """A function whose result is handed out in equal parts, all at once: slices have a gradient of full size each."""

    takes_unwritten = True

    def __init__(self, function: Callable[..., Tensor], count: int) -> None:
        self.function, self.count = function, count

    def __call__(self, *operands: Tensor) -> tuple[Tensor, ...]:
        """The parts along the channels."""
        found: Tensor = whole(self.function(*operands))
        return found.chunk(self.count, 1)


def in_parts(graph: Graph, number: NodeId, function: Callable[..., Tensor]) -> Any:
    """The function of a node; its parts, if they are all that is read of it."""
    count = _count(graph, number)
    return Parts(function, count) if count else function


def part_of(graph: Graph, number: NodeId) -> int | None:
    """Which part of its operand a slice is, if the operand comes in parts."""
    (operand,) = graph.operands(number)
    op = graph[number].op
    if not isinstance(op, Slice) or op.stop is None or not _count(graph, operand):
        return None
    return op.start // (op.stop - op.start)


def _count(graph: Graph, number: NodeId) -> int:
    """In how many parts the result of several nodes is read, if it is in equal ones."""
    together = graph.together.get(graph[number].scope)
    readers = graph.consumers(number)
    if together is None or together.same or number in graph.outputs.values():
        return 0
    return len(together.scopes) if all(isinstance(graph[reader].op, Slice) for reader in readers) else 0

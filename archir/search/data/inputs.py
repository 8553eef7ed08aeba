"""What networks that are trained on images take."""

from __future__ import annotations

from archir.base.errors import fail
from archir.ir.graph import Graph
from archir.ir.typing import infer


def image_size(graph: Graph) -> tuple[int, ...]:
    """[C, H, W] of the one image that a network takes. Raises ArchError (A1103) if it takes anything else."""
    types = infer(graph)
    kinds = [types[number] for number in graph.inputs.values()]
    if len(kinds) != 1 or kinds[0].rank != 3:
        raise fail("A1103", f"`{graph.name}` must take one image [C, H, W], it takes {', '.join(map(str, kinds))}")
    return kinds[0].shape

"""Type inference as a pass."""

from __future__ import annotations

from archir.ir.graph import Graph
from archir.ir.verify import checked_types


def infer(graph: Graph) -> Graph:
    """Check the types of all nodes for all outcomes of the choices, and return the graph unchanged. Raises
    ArchError."""
    checked_types(graph)
    return graph

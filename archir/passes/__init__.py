"""Passes: functions that take a graph and return a graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from archir.diagnostics.errors import ArchError, Diagnostic
from archir.diagnostics.hints import suggest
from archir.ir.graph import Graph
from archir.ir.verify import BrokenGraph
from archir.ir.verify import verify as check
from archir.passes.cse import cse
from archir.passes.expand import expand
from archir.passes.fold import fold
from archir.passes.infer import infer
from archir.passes.prune import prune

Pass = Callable[[Graph], Graph]
"""A function from graph to graph."""

PASSES: dict[str, Pass] = {"infer": infer, "prune": prune, "fold": fold, "cse": cse, "expand": expand}
"""Passes that need no argument but the graph, by name."""


def run(graph: Graph, names: Iterable[str], verify: bool = False) -> Graph:
    """Apply passes to a graph in this order. With `verify`, check the graph before the first pass and after each pass.

    Raises ArchError (A0707) if there is no pass of a name, and BrokenGraph (A0706), naming the pass that broke the
    graph.
    """
    names = list(names)
    unknown = [name for name in names if name not in PASSES]
    if unknown:
        hint = f"passes are {', '.join(PASSES)}"
        raise ArchError(*(Diagnostic("A0707", f"no pass `{n}`", hint=suggest(n, PASSES) or hint) for n in unknown))
    if verify:
        _verify(graph, "before any pass")
    for name in names:
        graph = PASSES[name](graph)
        if verify:
            _verify(graph, f"after pass `{name}`")
    return graph


def _verify(graph: Graph, when: str) -> None:
    """Check a graph. Raises BrokenGraph (A0706) with `when` in front of each message."""
    try:
        check(graph)
    except BrokenGraph as broken:
        raise BrokenGraph(*(replace(d, message=f"{when}: {d.message}") for d in broken.diagnostics)) from None

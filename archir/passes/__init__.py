"""Passes: functions that transform a graph and return the result as a graph."""

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
"""Passes that need no argument except the graph, by name."""


def run(graph: Graph, names: Iterable[str], verify: bool = False) -> Graph:
    """Apply the named passes to a graph, in this order.

    With `verify`, the graph is checked at first and after each pass. Raises ArchError (A0707) if there is no pass of
    some name, and BrokenGraph (A0706), which names the pass, if a pass breaks an invariant of the graph.
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
    """Verify a graph.

    Raises BrokenGraph (A0706) whose messages begin with `when`, a text that says after which pass the check failed.
    """
    try:
        check(graph)
    except BrokenGraph as broken:
        raise BrokenGraph(*(replace(d, message=f"{when}: {d.message}") for d in broken.diagnostics)) from None

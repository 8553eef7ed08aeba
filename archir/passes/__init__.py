"""Passes: functions from graph to graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from archir.diagnostics.errors import ArchError, Diagnostic, suggest
from archir.ir.graph import Graph
from archir.ir.verify import BrokenGraph
from archir.ir.verify import verify as check
from archir.passes.cse import cse
from archir.passes.expand import expand
from archir.passes.fold import fold
from archir.passes.infer import infer
from archir.passes.prune import prune

Pass = Callable[[Graph], Graph]

PASSES: dict[str, Pass] = {"infer": infer, "prune": prune, "fold": fold, "cse": cse, "expand": expand}
"""The passes that need nothing but the graph, by name."""


def run(graph: Graph, names: Iterable[str], verify: bool = False) -> Graph:
    """The graph after passes, in this order. With `verify`, the graph is checked before, and after each of them.

    Raises ArchError (A0707) if there is no such pass, and BrokenGraph (A0706) that names the pass that broke the graph.
    """
    names = list(names)
    unknown = [name for name in names if name not in PASSES]
    if unknown:
        known = f"passes are {', '.join(PASSES)}"
        raise ArchError(*(Diagnostic("A0707", f"no pass `{n}`", hint=suggest(n, PASSES) or known) for n in unknown))
    if verify:
        _verify(graph, "before any pass")
    for name in names:
        graph = PASSES[name](graph)
        if verify:
            _verify(graph, f"after pass `{name}`")
    return graph


def _verify(graph: Graph, when: str) -> None:
    try:
        check(graph)
    except BrokenGraph as broken:
        raise BrokenGraph(*(replace(d, message=f"{when}: {d.message}") for d in broken.diagnostics)) from None

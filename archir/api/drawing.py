"""Pictures of spaces, networks and architectures, where they are asked for."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archir.diagnostics.errors import fail
from archir.ir.printer import print_graph
from archir.pictures import FORMATS, markup, picture
from archir.utils.files import write_atomic

if TYPE_CHECKING:
    from archir.ir.graph import Graph
    from archir.spaces.architecture import Architecture
    from archir.spaces.space import Space

__all__ = ["show"]

MOST_LINES = 40
MOST_NODES = 2_500
"""Of a graph whose picture is made without being asked for: that takes half a second."""


@dataclass(frozen=True)
class Picture:
    """A picture as SVG, and the same as text."""

    svg: str
    text: str

    def __repr__(self) -> str:
        return self.text


def show(
    value: Graph | Space | Architecture,
    path: str | Path | None = None,
    *,
    depth: int = 1,
    block: str | None = None,
    heat: str | None = None,
) -> None:
    """Draw a graph, a space or the network of an architecture.

    The picture appears in a notebook's cell or is written to the file `path`; elsewhere the first lines of the graph's
    text are printed. It shows `depth` levels of blocks, or one `block` alone, by scope or name. `heat` is a cost like
    `"macs"`: boxes are coloured by their share of it, of a space by their mean share. A path ends in `.svg`, `.html` (a
    page whose blocks open and close), `.mermaid` or `.dot`. Raises ArchError: A1301 (no such block), A1302 (no such
    format), A1604 (no such cost).
    """
    graph = graph_of(value)
    if path is not None:
        form = Path(path).suffix[1:]
        if form not in FORMATS:
            endings = ", ".join(f".{name}" for name in FORMATS)
            raise fail("A1302", f"no pictures are written to `{path}`", None, f"its name may end in {endings}")
        write_atomic(Path(path), drawn(graph, form, depth, block, heat).encode())
    elif in_notebook():
        from IPython.display import display

        display(Picture(drawn(graph, "svg", depth, block, heat), repr(graph)))
    else:
        print(brief(graph))


def graph_of(value: Graph | Space | Architecture) -> Graph:
    """The graph to draw."""
    from archir.ir.graph import Graph
    from archir.spaces.space import Space

    if isinstance(value, Graph):
        return value
    return value.graph if isinstance(value, Space) else network(value)


def network(architecture: Architecture) -> Graph:
    """The graph of an architecture. Raises ArchError (A1302) for one that came from another process."""
    from archir.passes.specialize import specialize

    if architecture.graph is None:
        hint = "archir.show(space.specialize(architecture))"
        raise fail("A1302", "this architecture does not know its space", None, hint)
    return specialize(architecture.graph, architecture.outcomes)


def drawn(graph: Graph, form: str, depth: int = 1, block: str | None = None, heat: str | None = None) -> str:
    """A picture in one of the formats. Raises ArchError (A1301, A1302, A1604)."""
    if heat is None:
        return picture(graph, form, depth, block)
    from archir.costs.means import means
    from archir.pictures.shading import Heat
    from archir.spaces.space import Space

    share = Heat(heat, means(Space(graph).account, heat), bool(graph.decisions))
    return picture(graph, form, depth, block, share)


def brief(graph: Graph) -> str:
    """The first lines of a graph's text."""
    lines = print_graph(graph).splitlines()
    shown = [repr(graph), *lines[:MOST_LINES]]
    if len(lines) > MOST_LINES:
        hint = 'archir.print_graph(graph), or archir.show(graph, "graph.html")'
        shown.append(f"... {len(lines) - MOST_LINES:,} more lines: {hint}")
    return "\n".join(shown)


def beside(graph: Graph) -> str:
    """The picture of a graph as HTML, if it is made quickly and is not too large."""
    if len(graph) > MOST_NODES:
        return markup.heading("Picture", "", "of many nodes: archir.show(graph) draws it")
    svg = drawn(graph, "svg")
    if len(svg) > markup.MOST_PICTURE:
        return markup.heading("Picture", "", 'a large one: archir.show(graph, "graph.html") draws it')
    return markup.image(svg, repr(graph))


def in_notebook() -> bool:
    """Whether what is displayed is seen in a notebook, or whatever else has a kernel."""
    return shell() is not None and hasattr(shell(), "kernel")


def shell() -> Any:
    """IPython's shell, if this runs in one."""
    ipython = sys.modules.get("IPython")
    return None if ipython is None else ipython.get_ipython()

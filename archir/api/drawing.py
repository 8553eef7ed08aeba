"""Pictures of spaces, networks and architectures."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archir.diagnostics.errors import fail
from archir.ir.printer import print_graph
from archir.pictures import FORMATS, picture_file
from archir.utils.files import write_atomic

if TYPE_CHECKING:
    from archir.ir.graph import Graph
    from archir.spaces.architecture import Architecture
    from archir.spaces.space import Space

__all__ = ["show"]

MAX_LINES = 40
"""Maximum number of lines of a graph's textual form that `show` prints."""
MAX_NODES = 2_500
"""Maximum number of nodes of a graph that a notebook draws automatically; drawing that many takes half a second."""


@dataclass(frozen=True)
class Picture:
    """A picture as SVG, with alternative text for displays without graphics."""

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
    """Draw a graph, a space, or the network of an architecture.

    With a path, the picture is written to a file. Otherwise, it is displayed in a notebook; outside of a notebook, the
    first lines of the graph's text are printed.

    Args:
        value: What to draw.
        path: The file to write: `.svg`, `.png`, `.html` (a page on which blocks can be expanded and collapsed),
            `.mermaid` or `.dot`.
        depth: Number of nested levels of blocks that are drawn.
        block: Scope or name of the only block to draw.
        heat: A cost such as `"macs"`, by which boxes are coloured: by their share of the cost or, in a space, by the
            mean share over all architectures.

    Raises:
        ArchError: A1301 (no such block), A1302 (no such format, too large for PNG, or the architecture has no reference
            to its space), A1604 (no such cost).

    Examples:
        >>> archir.show(space, "space.svg", heat="macs")
    """
    graph = drawable_graph(value)
    if path is not None:
        file_format = Path(path).suffix[1:]
        if file_format not in FORMATS:
            endings = ", ".join(f".{name}" for name in FORMATS)
            raise fail("A1302", f"`{path}` has no suffix of a picture format", None, f"use one of {endings}")
        write_atomic(Path(path), render(graph, file_format, depth, block, heat))
    elif in_notebook():
        from IPython.display import display

        display(Picture(render(graph, "svg", depth, block, heat).decode(), repr(graph)))
    else:
        print(preview(graph))


def drawable_graph(value: Graph | Space | Architecture) -> Graph:
    """Return the graph to draw: a graph itself, the graph of a space, or the network of an architecture."""
    from archir.ir.graph import Graph
    from archir.spaces.space import Space

    if isinstance(value, Graph):
        return value
    return value.graph if isinstance(value, Space) else architecture_graph(value)


def architecture_graph(architecture: Architecture) -> Graph:
    """Return the network of an architecture as a graph.

    Raises ArchError (A1302) if the architecture has no reference to its space, because it came from another process.
    """
    from archir.passes.specialize import specialize

    if architecture.graph is None:
        hint = "archir.show(space.specialize(architecture))"
        raise fail("A1302", "this architecture does not know its space", None, hint)
    return specialize(architecture.graph, architecture.outcomes)


def render(graph: Graph, file_format: str, depth: int = 1, block: str | None = None, heat: str | None = None) -> bytes:
    """Return the content of a picture's file in the format `file_format`; the other arguments are those of `show`.

    Raises ArchError (A1301, A1302, A1604).
    """
    if heat is None:
        return picture_file(graph, file_format, depth, block)
    from archir.pictures.style import Heat
    from archir.spaces.space import Space

    return picture_file(graph, file_format, depth, block, Heat.of(Space(graph), heat))


def preview(graph: Graph) -> str:
    """Return the first MAX_LINES lines of a graph's textual form."""
    lines = print_graph(graph).splitlines()
    shown = [repr(graph), *lines[:MAX_LINES]]
    if len(lines) > MAX_LINES:
        hint = 'archir.print_graph(graph), or archir.show(graph, "graph.html")'
        shown.append(f"... {len(lines) - MAX_LINES:,} more lines: {hint}")
    return "\n".join(shown)


def html_picture(graph: Graph) -> str:
    """Return a picture of a graph as HTML, or a hint instead if the graph or the picture is too large."""
    from archir.pages import fragments

    if len(graph) > MAX_NODES:
        return fragments.heading("Picture", "", "of many nodes: archir.show(graph) draws it")
    svg = render(graph, "svg").decode()
    if len(svg) > fragments.MAX_PICTURE_BYTES:
        return fragments.heading("Picture", "", 'a large one: archir.show(graph, "graph.html") draws it')
    return fragments.image(svg, repr(graph))


def in_notebook() -> bool:
    """True if output is displayed by a notebook or another Jupyter front end."""
    return ipython_shell() is not None and hasattr(ipython_shell(), "kernel")


def ipython_shell() -> Any:
    """Return the current IPython shell, or None outside of IPython."""
    ipython = sys.modules.get("IPython")
    return None if ipython is None else ipython.get_ipython()

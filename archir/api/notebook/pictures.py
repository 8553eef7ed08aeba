"""Pictures of spaces, networks and architectures, where they are asked for."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archir.api.notebook import markup
from archir.base.errors import fail
from archir.base.files import write_atomic
from archir.base.names.above import Shown
from archir.ir.text.printer import print_graph
from archir.pictures import FORMATS, picture

if TYPE_CHECKING:
    from archir.ir.graph import Graph
    from archir.search.spaces.architecture import Architecture
    from archir.search.spaces.space import Space

MOST_LINES = 40
MOST_NODES = 2_500
"""Of a graph whose picture is made without being asked for: that takes half a second."""


@dataclass(frozen=True)
class Picture(Shown):
    """A picture as SVG, and the same as text."""

    svg: str
    text: str

    def __repr__(self) -> str:
        return self.text


def show_graph(
    self: Graph, path: str | Path | None = None, *, depth: int = 1, block: str | None = None, heat: str | None = None
) -> None:
    """The picture of a graph, in a notebook's cell; as text at other prompts; or in a file, `path`.

    The picture shows `depth` levels of blocks, or one `block` alone, by scope or name; boxes are coloured by their
    share of a cost, `heat`, such as `"macs"`. A path ends in `.svg`, `.html` (a page whose blocks open and close),
    `.mermaid` or `.dot`. Raises ArchError: A1301 (no such block), A1302 (no such format), A1604 (no such cost).
    """
    if path is not None:
        form = Path(path).suffix[1:]
        if form not in FORMATS:
            endings = ", ".join(f".{name}" for name in FORMATS)
            raise fail("A1302", f"no pictures are written to `{path}`", None, f"its name may end in {endings}")
        write_atomic(Path(path), drawn(self, form, depth, block, heat).encode())
    elif in_notebook():
        from IPython.display import display

        display(Picture(drawn(self, "svg", depth, block, heat), repr(self)))
    else:
        print(brief(self))


def show_space(
    self: Space, path: str | Path | None = None, *, depth: int = 1, block: str | None = None, heat: str | None = None
) -> None:
    """The picture of a space, its choices as boxes: in a notebook's cell; as text at other prompts; or in a file.

    The options are those of `Graph.show`; the `heat` of a space is its mean. Raises ArchError (A1301, A1302, A1604).
    """
    show_graph(self.graph, path, depth=depth, block=block, heat=heat)


def show_architecture(
    self: Architecture, path: str | Path | None = None, *, depth: int = 1, block: str | None = None,
    heat: str | None = None,
) -> None:  # fmt: skip
    """The picture of an architecture's network: in a notebook's cell; as text at other prompts; or in a file.

    The options are those of `Graph.show`. Raises ArchError (A1301, A1302, A1604).
    """
    show_graph(network(self), path, depth=depth, block=block, heat=heat)


def network(architecture: Architecture) -> Graph:
    """The graph of an architecture. Raises ArchError (A1302) for one that came from another process."""
    from archir.passes.spaces.specialize import specialize

    if architecture.graph is None:
        raise fail("A1302", "this architecture does not know its space", None, "space.specialize(architecture).show()")
    return specialize(architecture.graph, architecture.outcomes)


def drawn(graph: Graph, form: str, depth: int = 1, block: str | None = None, heat: str | None = None) -> str:
    """A picture in one of the formats. Raises ArchError (A1301, A1302, A1604)."""
    if heat is None:
        return picture(graph, form, depth, block)
    from archir.costs.means import means
    from archir.pictures.shading import Heat
    from archir.search.spaces.space import Space

    share = Heat(heat, means(Space(graph).account, heat), bool(graph.decisions))
    return picture(graph, form, depth, block, share)


def brief(graph: Graph) -> str:
    """The first lines of a graph's text."""
    lines = print_graph(graph).splitlines()
    more = [f'... {len(lines) - MOST_LINES:,} more lines: archir.print_graph(graph), or show("graph.html")']
    return "\n".join([repr(graph), *lines[:MOST_LINES], *(more if len(lines) > MOST_LINES else [])])


def beside(graph: Graph) -> str:
    """The picture of a graph as HTML, if it is made quickly and is not too large."""
    if len(graph) > MOST_NODES:
        return markup.heading("Picture", "", "of many nodes: show() makes it")
    svg = drawn(graph, "svg")
    if len(svg) > markup.MOST_PICTURE:
        return markup.heading("Picture", "", 'a large one: show("graph.html") makes it')
    return markup.image(svg, repr(graph))


def in_notebook() -> bool:
    """Whether what is displayed is seen in a notebook, or whatever else has a kernel."""
    return shell() is not None and hasattr(shell(), "kernel")


def shell() -> Any:
    """IPython's shell, if this runs in one."""
    ipython = sys.modules.get("IPython")
    return None if ipython is None else ipython.get_ipython()

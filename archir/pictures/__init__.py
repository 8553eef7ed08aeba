"""Pictures of graphs: what is drawn, where it stands, and the formats it is written in."""

from __future__ import annotations

from archir.ir.graph import Graph
from archir.pictures.dot import to_dot
from archir.pictures.html import to_html
from archir.pictures.mermaid import to_mermaid
from archir.pictures.outline import outline
from archir.pictures.shading import Heat
from archir.pictures.svg import to_svg

FORMATS = {"svg": to_svg, "html": to_html, "mermaid": to_mermaid, "dot": to_dot}
"""What pictures are written as."""


def picture(graph: Graph, format: str, depth: int = 1, block: str | None = None, heat: Heat | None = None) -> str:
    """The picture of a graph, or of a block of it by scope or name, its outermost `depth` levels shown.

    `svg` and `html` colour the boxes by their share of a cost, `heat`.

    Raises ArchError (A1301) if there is no such block.
    """
    return FORMATS[format](outline(graph, block, heat), depth)

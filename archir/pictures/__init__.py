"""Pictures of graphs: nested boxes, their layout, and output as SVG, HTML, Mermaid and DOT."""

from __future__ import annotations

from archir.ir.graph import Graph
from archir.pictures.dot import to_dot
from archir.pictures.html import to_html
from archir.pictures.mermaid import to_mermaid
from archir.pictures.outline import outline
from archir.pictures.shading import Heat
from archir.pictures.svg import to_svg

FORMATS = {"svg": to_svg, "html": to_html, "mermaid": to_mermaid, "dot": to_dot}
"""Maps each output format to its writer."""


def picture(graph: Graph, format: str, depth: int = 1, block: str | None = None, heat: Heat | None = None) -> str:
    """Draw a graph, or the block in it that `block` gives by scope or name, with the outermost `depth` levels
    expanded.

    With `heat`, the formats `svg` and `html` colour boxes by their share of a cost. Raises ArchError (A1301) if
    there is no such block.
    """
    return FORMATS[format](outline(graph, block, heat), depth)

"""Pictures of graphs: nested boxes, their layout, and output as SVG, PNG, HTML, Mermaid and DOT."""

from __future__ import annotations

from archir.ir.graph import Graph
from archir.pictures.outline import outline
from archir.pictures.style import Heat

TEXT_FORMATS = ("svg", "html", "mermaid", "dot")
"""Output formats that are text."""
FORMATS = (*TEXT_FORMATS, "png")
"""Output formats."""


def picture_file(
    graph: Graph, format: str, depth: int = 1, block: str | None = None, heat: Heat | None = None
) -> bytes:
    """Return the content of a picture's file; the arguments are those of `picture`, and `format` may be `png`.

    Raises ArchError: A1301 (no such block), A1302 (too large for a PNG file).
    """
    if format != "png":
        return picture(graph, format, depth, block, heat).encode()
    from archir.pictures.png import to_png

    return to_png(picture(graph, "svg", depth, block, heat))


def picture(graph: Graph, format: str, depth: int = 1, block: str | None = None, heat: Heat | None = None) -> str:
    """Draw a graph, or the block in it that `block` gives by scope or name, with the outermost `depth` levels
    expanded.

    With `heat`, the formats `svg` and `html` colour boxes by their share of a cost. Raises ArchError (A1301) if
    there is no such block.
    """
    boxes = outline(graph, block, heat)
    match format:
        case "svg":
            from archir.pictures.svg import to_svg

            return to_svg(boxes, depth)
        case "html":
            from archir.pictures.html import to_html

            return to_html(boxes, depth)
    from archir.pictures.flowcharts import to_dot, to_mermaid

    return (to_mermaid if format == "mermaid" else to_dot)(boxes, depth)

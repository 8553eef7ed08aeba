"""Pictures as a single SVG file, with system fonts and a light and a dark colour scheme."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from archir.pages.charts import pixel
from archir.pictures.labels import KINDS, printable, width
from archir.pictures.layout import HEADER, LINE, SMALL, TITLE, Edge, Sheet, place
from archir.pictures.outline import Box, Outline
from archir.pictures.style import HEAT_STYLE, STYLE

_MARGIN, _HEAD = 24.0, 62.0
"""Page margin and header height in pixels."""


def text(raw: str) -> str:
    """Escape a text for XML and replace unprintable characters."""
    return escape(printable(raw))


def to_svg(outline: Outline, depth: int = 1) -> str:
    """Write an outline, with its outermost `depth` levels expanded, as an SVG file."""
    opened = outline.opened(depth)
    sheets = place(outline.root, opened)
    sheet = sheets[outline.root.number]
    visible = list(outline.root.visible(opened))
    used = {box.kind for box in visible if box is not outline.root}
    legend = outline.scale or [(kind, name) for kind, name in KINDS.items() if kind in used]
    keys = sum(width(name, SMALL) + 36 for _, name in legend)
    head = max(width(outline.title, 20, bold=True), width(outline.subtitle, 12))
    page_width = round(max(sheet.width, keys, head) + 2 * _MARGIN)
    height = round(_HEAD - HEADER + sheet.height + 44)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{page_width}" height="{height}" '
        f'viewBox="0 0 {page_width} {height}" role="img" aria-labelledby="title">',
        f'<title id="title">{text(outline.title)}: {text(outline.subtitle)}</title>',
        f"<style>{STYLE}{HEAT_STYLE if outline.scale else ''}</style>",
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="9" markerHeight="9" '
        'markerUnits="userSpaceOnUse" orient="auto"><path class="head" d="M0,0.5L8,4L0,7.5Z"/></marker></defs>',
        f'<rect class="paper" width="{page_width}" height="{height}"/>',
        f'<text class="name" x="{pixel(_MARGIN)}" y="34">{text(outline.title)}</text>',
        f'<text class="facts" x="{pixel(_MARGIN)}" y="54">{text(outline.subtitle)}</text>',
        *_parts(outline.root, sheets, (page_width - sheet.width) / 2, _HEAD - HEADER),
        *_legend(legend, (page_width - keys) / 2, height - 22),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _parts(box: Box, sheets: dict[int, Sheet], x: float, y: float) -> Iterator[str]:
    """Yield the SVG of the edges and parts inside an expanded box with top left corner (x, y)."""
    sheet = sheets[box.number]
    for edge in sheet.edges:
        yield _edge(edge, x, y)
    for part, (left, top) in zip(box.parts, sheet.corners, strict=True):
        yield from _box(part, sheets, x + left, y + top)


def _edge(edge: Edge, x: float, y: float) -> str:
    arrow = ' marker-end="url(#arrow)"' if edge.target >= 0 else ""
    middle = (edge.leave + edge.arrive) / 2
    curve = (
        f"M{pixel(x + edge.x0)},{pixel(y + edge.y0)}V{pixel(y + edge.leave)}"
        f"C{pixel(x + edge.x0)},{pixel(y + middle)} {pixel(x + edge.x1)},{pixel(y + middle)} "
        f"{pixel(x + edge.x1)},{pixel(y + edge.y1)}"
    )
    return f'<path class="edge" d="{curve}"{arrow}/>'


def _box(box: Box, sheets: dict[int, Sheet], x: float, y: float) -> Iterator[str]:
    """Yield the SVG of a box at (x, y); if it is expanded, including its parts."""
    sheet = sheets[box.number]
    wide, high = sheet.width, sheet.height
    tip = "\n".join(map(text, [box.title, *box.lines, *filter(None, [box.scope, box.share])]))
    yield f'<g class="{box.style}"><title>{tip}</title>'
    if sheet.entries is not None:
        yield (
            f'<rect class="open" x="{pixel(x)}" y="{pixel(y)}" width="{pixel(wide)}" height="{pixel(high)}" rx="8"/>'
        )
        low = pixel(y + HEADER)
        band = f"M{pixel(x)},{low}V{pixel(y + 8)}q0,-8 8,-8H{pixel(x + wide - 8)}q8,0 8,8V{low}Z"
        yield f'<path class="band" d="{band}"/>'
        yield f'<text class="title" x="{pixel(x + 12)}" y="{pixel(y + 18)}">{text(box.title)}'
        yield f'<tspan class="line" dx="8">{text(box.header)}</tspan></text>'
        yield from _parts(box, sheets, x, y)
    else:
        if box.parts:
            yield (
                f'<rect class="under" x="{pixel(x + 4)}" y="{pixel(y + 4)}" width="{pixel(wide)}" '
                f'height="{pixel(high)}" rx="6"/>'
            )
        round_ = high / 2 if box.kind == "io" else 6
        yield (
            f'<rect class="face" x="{pixel(x)}" y="{pixel(y)}" width="{pixel(wide)}" height="{pixel(high)}" '
            f'rx="{pixel(round_)}"/>'
        )
        middle, first = pixel(x + wide / 2), y + 10 + TITLE * 0.85
        yield f'<text class="title" text-anchor="middle" x="{middle}" y="{pixel(first)}">{text(box.title)}</text>'
        for i, line in enumerate(box.lines, 1):
            below = pixel(first + i * LINE + 1)
            yield f'<text class="line" text-anchor="middle" x="{middle}" y="{below}">{text(line)}</text>'
    yield "</g>"


def _legend(entries: Sequence[tuple[str, str]], x: float, y: float) -> Iterator[str]:
    for kind, name in entries:
        varied = " varied" if kind == "choice" else ""
        yield f'<g class="box {kind}{varied}">'
        yield f'<rect class="face" x="{pixel(x)}" y="{pixel(y - 10)}" width="16" height="12" rx="3"/>'
        yield f'<text class="line" x="{pixel(x + 22)}" y="{pixel(y)}">{text(name)}</text></g>'
        x += width(name, SMALL) + 36

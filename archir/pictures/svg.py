"""Pictures as SVG: one file, system fonts, light and dark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from archir.pictures import shading
from archir.pictures.labels import KINDS, printable, width
from archir.pictures.outline import Box, Outline
from archir.pictures.place import HEADER, LINE, SMALL, TITLE, Edge, Sheet, place
from archir.pictures.style import STYLE

_MARGIN, _HEAD = 24.0, 62.0


def text(raw: str) -> str:
    """A text as XML."""
    return escape(printable(raw))


def to_svg(outline: Outline, depth: int = 1) -> str:
    """The picture of an outline with its outermost `depth` levels shown, as an SVG file."""
    opened = outline.opened(depth)
    sheets = place(outline.root, opened, {})
    sheet = sheets[outline.root.number]
    seen = list(_seen(outline.root, opened))
    used = {box.kind for box in seen if box is not outline.root}
    legend = outline.scale or [(kind, name) for kind, name in KINDS.items() if kind in used]
    keys = sum(width(name, SMALL) + 36 for _, name in legend)
    head = max(width(outline.title, 20, bold=True), width(outline.subtitle, 12))
    whole = round(max(sheet.width, keys, head) + 2 * _MARGIN)
    height = round(_HEAD - HEADER + sheet.height + 44)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{whole}" height="{height}" '
        f'viewBox="0 0 {whole} {height}" role="img" aria-labelledby="title">',
        f'<title id="title">{text(outline.title)}: {text(outline.subtitle)}</title>',
        f"<style>{STYLE}{shading.STYLE if outline.scale else ''}</style>",
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="9" markerHeight="9" '
        'markerUnits="userSpaceOnUse" orient="auto"><path class="head" d="M0,0.5L8,4L0,7.5Z"/></marker></defs>',
        f'<rect class="paper" width="{whole}" height="{height}"/>',
        f'<text class="name" x="{_n(_MARGIN)}" y="34">{text(outline.title)}</text>',
        f'<text class="facts" x="{_n(_MARGIN)}" y="54">{text(outline.subtitle)}</text>',
        *_parts(outline.root, sheets, (whole - sheet.width) / 2, _HEAD - HEADER),
        *_legend(legend, (whole - keys) / 2, height - 22),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _seen(box: Box, opened: frozenset[int]) -> Iterator[Box]:
    yield box
    if box.number in opened:
        for part in box.parts:
            yield from _seen(part, opened)


def _parts(box: Box, sheets: dict[int, Sheet], x: float, y: float) -> Iterator[str]:
    """What stands inside an open box whose corner is at (x, y)."""
    sheet = sheets[box.number]
    for edge in sheet.edges:
        yield _edge(edge, x, y)
    for part, (left, top) in zip(box.parts, sheet.corners, strict=True):
        yield from _box(part, sheets, x + left, y + top)


def _edge(edge: Edge, x: float, y: float) -> str:
    arrow = ' marker-end="url(#arrow)"' if edge.target >= 0 else ""
    middle = (edge.leave + edge.arrive) / 2
    way = (
        f"M{_n(x + edge.x0)},{_n(y + edge.y0)}V{_n(y + edge.leave)}"
        f"C{_n(x + edge.x0)},{_n(y + middle)} {_n(x + edge.x1)},{_n(y + middle)} "
        f"{_n(x + edge.x1)},{_n(y + edge.y1)}"
    )
    return f'<path class="edge" d="{way}"{arrow}/>'


def _box(box: Box, sheets: dict[int, Sheet], x: float, y: float) -> Iterator[str]:
    sheet = sheets[box.number]
    wide, high = sheet.width, sheet.height
    yield f'<g class="{box.style}"><title>{_tip(box)}</title>'
    if sheet.entries is not None:
        yield f'<rect class="open" x="{_n(x)}" y="{_n(y)}" width="{_n(wide)}" height="{_n(high)}" rx="8"/>'
        yield f'<path class="band" d="{_band(x, y, wide)}"/>'
        yield f'<text class="title" x="{_n(x + 12)}" y="{_n(y + 18)}">{text(box.title)}'
        yield f'<tspan class="line" dx="8">{text(box.header)}</tspan></text>'
        yield from _parts(box, sheets, x, y)
    else:
        if box.parts:
            yield f'<rect class="under" x="{_n(x + 4)}" y="{_n(y + 4)}" width="{_n(wide)}" height="{_n(high)}" rx="6"/>'
        round_ = high / 2 if box.kind == "io" else 6
        yield f'<rect class="face" x="{_n(x)}" y="{_n(y)}" width="{_n(wide)}" height="{_n(high)}" rx="{_n(round_)}"/>'
        middle, first = _n(x + wide / 2), y + 10 + TITLE * 0.85
        yield f'<text class="title" text-anchor="middle" x="{middle}" y="{_n(first)}">{text(box.title)}</text>'
        for i, line in enumerate(box.lines, 1):
            below = _n(first + i * LINE + 1)
            yield f'<text class="line" text-anchor="middle" x="{middle}" y="{below}">{text(line)}</text>'
    yield "</g>"


def _band(x: float, y: float, wide: float) -> str:
    low = _n(y + HEADER)
    return f"M{_n(x)},{low}V{_n(y + 8)}q0,-8 8,-8H{_n(x + wide - 8)}q8,0 8,8V{low}Z"


def _tip(box: Box) -> str:
    return "\n".join(map(text, [box.title, *box.lines, *filter(None, [box.scope, box.warmth])]))


def _legend(entries: Sequence[tuple[str, str]], x: float, y: float) -> Iterator[str]:
    for kind, name in entries:
        varied = " varied" if kind == "choice" else ""
        yield f'<g class="box {kind}{varied}">'
        yield f'<rect class="face" x="{_n(x)}" y="{_n(y - 10)}" width="16" height="12" rx="3"/>'
        yield f'<text class="line" x="{_n(x + 22)}" y="{_n(y)}">{text(name)}</text></g>'
        x += width(name, SMALL) + 36


def _n(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")

"""SVG pictures as PNG files, drawn with Pillow."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from io import BytesIO
from itertools import pairwise
from math import atan2, cos, dist, pi, sin, sqrt
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from archir.diagnostics.errors import fail
from archir.pictures.style import EDGE, INK, PAPER, SOFT, hues

if TYPE_CHECKING:
    from PIL.ImageDraw import ImageDraw
    from PIL.ImageFont import FreeTypeFont, ImageFont

_SCALE, _OVERSAMPLING = 2, 2
"""Pixels of the PNG per pixel of the SVG, and factor by which the PNG is drawn larger at first, for smooth edges."""
_MAX_PIXELS = 80_000_000
"""Maximum number of pixels drawn; larger pictures get fewer pixels."""
_FONTS = (
    ("DejaVuSans.ttf", "DejaVuSans-Bold.ttf"),
    ("Arial.ttf", "Arial Bold.ttf"),
    ("arial.ttf", "arialbd.ttf"),
    ("LiberationSans-Regular.ttf", "LiberationSans-Bold.ttf"),
    ("NotoSans-Regular.ttf", "NotoSans-Bold.ttf"),
)
"""Regular and bold fonts of common operating systems, of which the first installed one is used."""
_PLAIN = str.maketrans({"×": "x", "≥": ">", "…": "...", "·": "-"})
"""Replacements for characters that Pillow's own font lacks."""
_FONT_SIZES = {"name": 20, "facts": 12, "title": 13, "line": 11}
_STROKES = {"varied": ((6.0, 4.0), 1.8), "through": ((2.0, 3.0), 1.3)}
"""Dashes and width of the border of a box, by CSS class of the box."""

Point = tuple[float, float]


def to_png(svg: str) -> bytes:
    """Draw a picture that `to_svg` wrote, in the colours of the light scheme, at twice its size.

    Raises ArchError (A1302) if the picture is too large for a PNG file.
    """
    from PIL import Image, ImageDraw

    root = ElementTree.fromstring(svg)
    width, height = float(root.get("width", 0)), float(root.get("height", 0))
    factor = min(_SCALE * _OVERSAMPLING, sqrt(_MAX_PIXELS / (width * height)))
    if factor < _OVERSAMPLING / 2:
        hint = "write SVG, draw one block with --block, or fewer levels with --depth"
        raise fail("A1302", f"a picture of {width:.0f} x {height:.0f} pixels is too large for PNG", None, hint)
    image = Image.new("RGB", (round(width * factor), round(height * factor)), PAPER)
    _Canvas(ImageDraw.Draw(image), factor).draw(root, ())
    size = (round(width * factor / _OVERSAMPLING), round(height * factor / _OVERSAMPLING))
    output = BytesIO()
    image.resize(size, Image.Resampling.LANCZOS).save(output, "PNG", optimize=True)
    return output.getvalue()


class _Canvas:
    """Draws the elements of a picture, enlarged by a factor."""

    def __init__(self, draw: ImageDraw, factor: float) -> None:
        self.image, self.factor = draw, factor
        self.open_outline: Sequence[Point] = ()
        """Outline of the last expanded box."""

    def draw(self, element: ElementTree.Element, classes: Sequence[str]) -> None:
        """Draw an element and those inside it; `classes` are the CSS classes of the box that contains it."""
        own = element.get("class", "")
        match element.tag.rpartition("}")[2]:
            case "svg" | "g":
                for child in element:
                    self.draw(child, own.split() or classes)
            case "rect" if own != "paper":
                self._rectangle(element, own, classes)
            case "path" if own == "band":
                x, low, y, right = (float(re.findall(r"-?[\d.]+", element.get("d", ""))[i]) for i in (0, 1, 2, 7))
                box = self._scaled((x, y - 8, right + 8, low))
                self.image.rounded_rectangle(
                    box, 8 * self.factor, _colours(classes)[0], corners=(True, True, False, False)
                )
                self._border(self.open_outline, classes, _colours(classes)[1])
            case "path":
                self._edge(element)
            case "text":
                self._text(element, own, INK if classes and classes[-1].startswith("heat") else SOFT)

    def _rectangle(self, element: ElementTree.Element, own: str, classes: Sequence[str]) -> None:
        x, y, width, height, radius = (float(element.get(name, 0)) for name in ("x", "y", "width", "height", "rx"))
        face = PAPER if own == "open" else _colours(classes)[0]
        box = self._scaled((x, y, x + width, y + height))
        self.image.rounded_rectangle(box, min(radius, height / 2) * self.factor, face)
        outline = _rounded(x, y, width, height, radius)
        self._border(outline, () if own == "under" else classes, _colours(classes)[1])
        if own == "open":
            self.open_outline = outline

    def _border(self, outline: Sequence[Point], classes: Sequence[str], colour: str) -> None:
        dashes, width = next((_STROKES[name] for name in classes if name in _STROKES), ((1.0, 0.0), 1.3))
        lines = [outline] if not dashes[1] else _dashed(outline, *dashes)
        for line in lines:
            self._line(line, colour, width)

    def _edge(self, element: ElementTree.Element) -> None:
        x0, y0, leave, _, middle, _, _, x1, y1 = map(float, re.findall(r"-?[\d.]+", element.get("d", "")))
        curve = [
            (
                x0 * (1 - t) ** 2 * (1 + 2 * t) + x1 * t**2 * (3 - 2 * t),
                leave * (1 - t) ** 3 + 3 * middle * t * (1 - t) + y1 * t**3,
            )
            for t in (i / 24 for i in range(25))
        ]
        self._line([(x0, y0), *curve], EDGE, 1.3)
        if element.get("marker-end"):
            self.image.polygon([self._point(x1 + dx, y1 + 1 + dy) for dx, dy in ((0, 0), (-4, -9), (4, -9))], EDGE)

    def _text(self, element: ElementTree.Element, own: str, soft: str) -> None:
        x, y = float(element.get("x", 0)), float(element.get("y", 0))
        anchor = "ms" if element.get("text-anchor") else "ls"
        for part, name in ((element, own), *((part, part.get("class", "")) for part in element)):
            font, is_own = _font(round(_FONT_SIZES[name] * self.factor), name in ("title", "name"))
            x += float(part.get("dx", 0))
            text = (part.text or "").translate(_PLAIN) if is_own else part.text or ""
            self.image.text(self._point(x, y), text, soft if name in ("line", "facts") else INK, font, anchor)
            x += font.getlength(text) / self.factor

    def _line(self, points: Sequence[Point], colour: str, width: float) -> None:
        self.image.line([self._point(*point) for point in points], colour, round(width * self.factor), "curve")

    def _point(self, x: float, y: float) -> Point:
        return x * self.factor, y * self.factor

    def _scaled(self, box: tuple[float, float, float, float]) -> list[float]:
        return [value * self.factor for value in box]


_ARC = 7
"""Number of points of a rounded corner."""


def _rounded(x: float, y: float, width: float, height: float, radius: float) -> list[Point]:
    """Return the outline of a rectangle with rounded corners, clockwise from the bottom left corner, closed."""
    radius = min(radius, width / 2, height / 2)
    centres = (
        (x + radius, y + height - radius),
        (x + radius, y + radius),
        (x + width - radius, y + radius),
        (x + width - radius, y + height - radius),
    )
    points = [
        (cx + radius * cos(angle), cy + radius * sin(angle))
        for quarter, (cx, cy) in enumerate(centres)
        for angle in (pi / 2 * (1 + quarter + i / (_ARC - 1)) for i in range(_ARC))
    ]
    return [*points, points[0]]


def _dashed(outline: Sequence[Point], on: float, off: float) -> Iterator[list[Point]]:
    """Yield the dashes of a line: `on` and `off` are the lengths of dashes and gaps in pixels."""
    dash: list[Point] = []
    is_on, left = True, on
    for (x0, y0), (x1, y1) in pairwise(outline):
        length, done, angle = dist((x0, y0), (x1, y1)), 0.0, atan2(y1 - y0, x1 - x0)
        if is_on and not dash:
            dash = [(x0, y0)]
        while length - done > left:
            done += left
            point = (x0 + done * cos(angle), y0 + done * sin(angle))
            if is_on:
                yield [*dash, point]
            is_on, dash, left = not is_on, [] if is_on else [point], off if is_on else on
        left -= length - done
        if is_on:
            dash.append((x1, y1))
    if len(dash) > 1:
        yield dash


def _colours(classes: Sequence[str]) -> tuple[str, str]:
    """Return the fill and line colour of a box with CSS classes."""
    return hues(next(name for name in reversed(classes) if name not in ("box", "varied")))


@lru_cache(16)
def _font(size: int, is_bold: bool) -> tuple[FreeTypeFont | ImageFont, bool]:
    """Return a font of a size in pixels, and whether it is Pillow's own because none of the fonts is installed."""
    from PIL import ImageFont

    for names in _FONTS:
        try:
            return ImageFont.truetype(names[is_bold], size, layout_engine=ImageFont.Layout.BASIC), False
        except OSError:
            continue
    return ImageFont.load_default(size), True

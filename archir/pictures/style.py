"""Colours and fonts of SVG and HTML pictures: of kinds of boxes, and of shares of a cost.

Kinds have the Okabe-Ito palette, which is safe for colour-blind readers. Shares have one hue from pale to strong, so
that lightness alone conveys the order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

from archir.ir.graph import NodeId
from archir.pictures.labels import SANS, amount
from archir.spaces.space import Space

_HUES = {
    "io": ("#eef0f2", "#5b6570", "#2b3138", "#98a2ad"),
    "convolution": ("#dcedf8", "#0072b2", "#11324a", "#56a9dd"),
    "attention": ("#f7e3ee", "#b5568b", "#43223a", "#dd8fba"),
    "norm": ("#d9f1ea", "#00805f", "#0f382d", "#3cb897"),
    "pooling": ("#fbf6cf", "#948a00", "#3a370f", "#d9cd3c"),
    "data": ("#eeebe6", "#7d7263", "#35312b", "#b0a491"),
    "choice": ("#fdecd2", "#c26a00", "#442c0c", "#eba13a"),
    "through": ("#ffffff", "#8b939c", "#1d2126", "#8b949e"),
    "block": ("#f4f6fb", "#47557a", "#262c3a", "#94a3c9"),
}
"""Fill and line colour of each kind of box: first for light mode, then for dark mode."""


def hues(name: str) -> tuple[str, str]:
    """Return the fill and line colour of a kind of box, or of a share of a cost such as `heat3`, in light mode."""
    if name.startswith("heat"):
        return _FACES[int(name[4:])][0], _RIM[0]
    return _HUES[name][:2]


def _faces(face: int, line: int) -> str:
    return "".join(f".{kind}{{--face:{hues[face]};--rim:{hues[line]}}}" for kind, hues in _HUES.items())


PAPER, INK, SOFT, EDGE = "#ffffff", "#1b1f24", "#57606a", "#6e7781"
"""Colours in light mode: of the background, of titles, of other texts, of edges."""

STYLE = (
    f":root{{color-scheme:light dark;--paper:{PAPER};--ink:{INK};--soft:{SOFT};--edge:{EDGE};--room:{PAPER}}}"
    + _faces(0, 1)
    + "@media(prefers-color-scheme:dark){"
    ":root{--paper:#0f1216;--ink:#e8ebef;--soft:#a4adb8;--edge:#87919c;--room:#15191f}" + _faces(2, 3) + "}"
    f"text{{font-family:{SANS};fill:var(--ink)}}"
    ".paper{fill:var(--paper)}.name{font-size:20px;font-weight:650}.facts{font-size:12px;fill:var(--soft)}"
    ".title{font-size:13px;font-weight:600}.line{font-size:11px;font-weight:400;fill:var(--soft)}"
    ".face,.under{fill:var(--face);stroke:var(--rim);stroke-width:1.3}"
    ".under{opacity:.55}"
    ".open{fill:var(--room);stroke:var(--rim);stroke-width:1.3}.band{fill:var(--face);opacity:.9}"
    ".varied>.face,.varied>.open,.varied>.handle>.face{stroke-dasharray:6 4;stroke-width:1.8}"
    ".through>.face{stroke-dasharray:2 3}"
    ".edge{fill:none;stroke:var(--edge);stroke-width:1.3}.head{fill:var(--edge)}"
)
"""CSS style sheet for pictures."""

STEPS = (Fraction(0), Fraction(1, 100), Fraction(3, 100), Fraction(10, 100), Fraction(30, 100))
"""Cost shares from which each stronger colour applies; the first coloured step applies to any cost above 0."""

_FACES = (
    ("#ffffff", "#15191f"),
    ("#fff3e0", "#2a211c"),
    ("#fee0bb", "#44291b"),
    ("#fdc38a", "#65341a"),
    ("#f99b55", "#8a3d14"),
    ("#ec6f35", "#b0450a"),
)
"""Fill colours for light and dark mode; text on each has a contrast ratio of at least 4.5."""
_RIM = ("#8b6a52", "#c79a7b")
"""Border colour for light and dark mode."""

HEAT_STYLE = (
    "".join(f".heat{i}{{--face:{day};--rim:{_RIM[0]}}}" for i, (day, _) in enumerate(_FACES))
    + "@media(prefers-color-scheme:dark){"
    + "".join(f".heat{i}{{--face:{night};--rim:{_RIM[1]}}}" for i, (_, night) in enumerate(_FACES))
    + "}[class*=heat] .line{fill:var(--ink)}[class*=heat]>.band,[class*=heat]>.handle>.band{opacity:1}"
)
"""CSS style sheet for the cost colours."""


@dataclass(frozen=True)
class Heat:
    """Cost of each node, for colouring boxes; if the graph has choices, the mean over all architectures."""

    name: str
    contributions: Mapping[NodeId, Fraction]
    is_mean: bool

    @staticmethod
    def of(space: Space, name: str) -> Heat:
        """Return the cost of each node of a space. Raises ArchError (A1604) if there is no such cost."""
        from archir.costs.means import means

        return Heat(name, means(space.account, name), bool(space.graph.decisions))

    @property
    def title(self) -> str:
        """Name of the cost in pictures, such as `macs` or `mean macs`."""
        return f"mean {self.name}" if self.is_mean else self.name


def colour_index(own: Fraction, total: Fraction) -> int:
    """Return the colour index of a box that contributes `own` to the total cost."""
    return sum(own > share * total if share == 0 else own >= share * total for share in STEPS) if total else 0


def share_text(own: Fraction, total: Fraction) -> str:
    """Format a box's contribution and its share of the total: `3,968,712.5 (12.4%)`."""
    number = f"{int(own):,}" if own.denominator == 1 else f"{float(own):,.1f}"
    share = f" ({float(own / total):.1%})" if total else ""
    return f"{number}{share}"


def legend(total: Fraction) -> Iterator[tuple[str, str]]:
    """Yield (CSS class, meaning) for each colour."""
    yield "heat0", "none"
    yield "heat1", f"under {_percent(STEPS[1])}"
    for i, share in enumerate(STEPS[1:], 2):
        yield f"heat{i}", f"≥ {_percent(share)} · {amount(round(share * total))}"


def _percent(share: Fraction) -> str:
    return f"{float(share):.0%}"

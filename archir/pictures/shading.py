"""Colours of boxes by their share of a cost: one hue from pale to strong, so that lightness alone conveys the
order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

from archir.ir.graph import NodeId
from archir.pictures.labels import amount

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

STYLE = (
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
    """Format a share as a percentage."""
    return f"{float(share):.0%}"

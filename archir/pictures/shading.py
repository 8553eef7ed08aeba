"""Boxes coloured by their share of a cost: one hue from pale to strong, so that lightness alone tells the order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

from archir.ir.graph import NodeId
from archir.pictures.labels import amount

STEPS = (Fraction(0), Fraction(1, 100), Fraction(3, 100), Fraction(10, 100), Fraction(30, 100))
"""The shares at which a stronger colour begins; the first is for whatever is more than nothing."""

_FACES = (
    ("#ffffff", "#15191f"),
    ("#fff3e0", "#2a211c"),
    ("#fee0bb", "#44291b"),
    ("#fdc38a", "#65341a"),
    ("#f99b55", "#8a3d14"),
    ("#ec6f35", "#b0450a"),
)
"""The colours by day and by night; what is written on them stands out from each (contrast of at least 4.5)."""
_RIM = ("#8b6a52", "#c79a7b")

STYLE = (
    "".join(f".heat{i}{{--face:{day};--rim:{_RIM[0]}}}" for i, (day, _) in enumerate(_FACES))
    + "@media(prefers-color-scheme:dark){"
    + "".join(f".heat{i}{{--face:{night};--rim:{_RIM[1]}}}" for i, (_, night) in enumerate(_FACES))
    + "}[class*=heat] .line{fill:var(--ink)}[class*=heat]>.band,[class*=heat]>.handle>.band{opacity:1}"
)
"""The style sheet of the colours."""


@dataclass(frozen=True)
class Heat:
    """A cost, and what each node contributes to it: on average, if the graph has choices."""

    name: str
    of: Mapping[NodeId, Fraction]
    averaged: bool

    @property
    def title(self) -> str:
        """The cost, as it is written on pictures: `macs`, `mean macs`."""
        return f"mean {self.name}" if self.averaged else self.name


def step(own: Fraction, total: Fraction) -> int:
    """The colour of a box that has `own` of a total."""
    return sum(own > share * total if share == 0 else own >= share * total for share in STEPS) if total else 0


def figure(own: Fraction, total: Fraction) -> str:
    """What a box has of a total: `3,968,712.5 (12.4%)`."""
    number = f"{int(own):,}" if own.denominator == 1 else f"{float(own):,.1f}"
    share = f" ({float(own / total):.1%})" if total else ""
    return f"{number}{share}"


def legend(total: Fraction) -> Iterator[tuple[str, str]]:
    """Classes of colours and what they mean."""
    yield "heat0", "none"
    yield "heat1", f"under {_percent(STEPS[1])}"
    for i, share in enumerate(STEPS[1:], 2):
        yield f"heat{i}", f"≥ {_percent(share)} · {amount(round(share * total))}"


def _percent(share: Fraction) -> str:
    return f"{float(share):.0%}"

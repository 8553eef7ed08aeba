"""Colours and fonts of SVG and HTML pictures; the Okabe-Ito palette, which is safe for colour-blind readers."""

from __future__ import annotations

from archir.pictures.labels import SANS

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


def hues(kind: str) -> tuple[str, str]:
    """Return the fill and line colour of a kind of box in light mode."""
    return _HUES[kind][:2]


def _faces(face: int, line: int) -> str:
    """Return the CSS rules with the colours of all kinds of boxes; `face` and `line` are indices into the tuples of
    `_HUES`."""
    return "".join(f".{kind}{{--face:{hues[face]};--rim:{hues[line]}}}" for kind, hues in _HUES.items())


STYLE = (
    ":root{color-scheme:light dark;--paper:#fff;--ink:#1b1f24;--soft:#57606a;--edge:#6e7781;--room:#fff}"
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

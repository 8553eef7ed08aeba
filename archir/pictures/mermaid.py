"""Pictures as Mermaid flowcharts, which many wikis and code hosts render."""

from __future__ import annotations

from collections.abc import Iterator

from archir.pictures.flat import FlatPicture, flatten
from archir.pictures.labels import KINDS, printable
from archir.pictures.outline import Box, Outline
from archir.pictures.style import hues

_PLAIN = set(" ,.=@_-+()[]·×|…/%")
"""Characters, besides letters and digits, that need no escaping in a quoted Mermaid label."""


def to_mermaid(outline: Outline, depth: int = 1) -> str:
    """Write an outline, with its outermost `depth` levels expanded, as a Mermaid flowchart."""
    picture = flatten(outline, depth)
    shown = list(_boxes(picture.root, picture))
    used = {box.kind for box in shown}
    return "\n".join(
        [
            "flowchart TD",
            f"  %% {_escaped(outline.title)}: {_escaped(outline.subtitle)}",
            *_parts(picture.root, picture, "  "),
            *(f"  n{source} --> n{target}" for source, target in picture.edges),
            *(_class(kind) for kind in KINDS if kind in used),
            *(f"  class {','.join(f'n{box.number}' for box in shown if box.kind == kind)} {kind}"
              for kind in KINDS if kind in used),
            "",
        ]
    )  # fmt: skip


def _class(kind: str) -> str:
    """Return the Mermaid class definition for a kind of box."""
    face, line = hues(kind)
    dashed = ",stroke-dasharray:6 4" if kind == "choice" else ""
    return f"  classDef {kind} fill:{face},stroke:{line},color:#1b1f24{dashed}"


def _boxes(box: Box, picture: FlatPicture) -> Iterator[Box]:
    """Yield all visible boxes inside a box."""
    for part in box.parts:
        yield part
        if part.number in picture.opened:
            yield from _boxes(part, picture)


def _parts(box: Box, picture: FlatPicture, indent: str) -> Iterator[str]:
    """Yield Mermaid statements for the visible boxes inside a box."""
    for part in box.parts:
        if part.number in picture.opened:
            label = f"{_escaped(part.title)} {_escaped(part.header)}".strip()
            yield f'{indent}subgraph n{part.number}["{label}"]'
            yield from _parts(part, picture, indent + "  ")
            yield f"{indent}end"
        else:
            label = "<br/>".join(map(_escaped, (part.title, *part.lines)))
            left, right = ("([", "])") if part.kind == "io" else ("[[", "]]") if part.parts else ("[", "]")
            yield f'{indent}n{part.number}{left}"{label}"{right}'


def _escaped(text: str) -> str:
    """Escape a text for Mermaid: characters that may have a meaning in Mermaid or HTML become numeric entities."""
    return "".join(c if c.isalnum() or c in _PLAIN else f"#{ord(c)};" for c in printable(text))

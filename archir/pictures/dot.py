"""Pictures as Graphviz DOT source."""

from __future__ import annotations

from collections.abc import Iterator

from archir.pictures.flat import FlatPicture, flatten
from archir.pictures.labels import printable
from archir.pictures.outline import Box, Outline
from archir.pictures.style import hues


def to_dot(outline: Outline, depth: int = 1) -> str:
    """Write an outline, with its outermost `depth` levels expanded, as DOT source."""
    picture = flatten(outline, depth)
    return "\n".join(
        [
            f"digraph {_quoted(outline.title)} {{",
            f"  label={_quoted(outline.title, outline.subtitle)} labelloc=t fontname=Helvetica",
            '  node [shape=box style="rounded,filled" fontname=Helvetica fontsize=11]',
            "  edge [color=gray40 arrowsize=0.7]",
            *_parts(picture.root, picture, "  "),
            *(f"  n{source} -> n{target}" for source, target in picture.edges),
            "}\n",
        ]
    )


def _parts(box: Box, picture: FlatPicture, indent: str) -> Iterator[str]:
    """Yield DOT statements for the visible boxes inside a box."""
    for part in box.parts:
        face, line = hues(part.kind)
        dashed = ",dashed" if part.is_varying else ""
        if part.number in picture.opened:
            yield f"{indent}subgraph cluster_{part.number} {{"
            yield f'{indent}  label={_quoted(part.title, part.header)} style="rounded{dashed}" color="{line}"'
            yield from _parts(part, picture, indent + "  ")
            yield f"{indent}}}"
        else:
            label = _quoted(part.title, *part.lines)
            yield f'{indent}n{part.number} [label={label} fillcolor="{face}" color="{line}"{_shape(part)}]'


def _shape(box: Box) -> str:
    """Return the DOT attributes that mark a box that depends on choices (dashed), or a collapsed box (double
    border)."""
    if box.is_varying:
        return ' style="rounded,filled,dashed"'
    return " peripheries=2" if box.parts else ""


def _quoted(*lines: str) -> str:
    """Join lines to one quoted DOT string; quotes and backslashes are escaped, so that text cannot be parsed as DOT."""
    escaped = (printable(line).replace("\\", "\\\\").replace('"', '\\"') for line in lines if line)
    return '"' + "\\n".join(escaped) + '"'

"""Pictures as text for programs with a layout of their own: Graphviz DOT, and Mermaid flowcharts."""

from __future__ import annotations

from collections.abc import Iterator

from archir.pictures.labels import KINDS, printable
from archir.pictures.outline import Box, Outline
from archir.pictures.style import hues

_PLAIN = set(" ,.=@_-+()[]·×|…/%")
"""Characters, besides letters and digits, that need no escaping in a quoted Mermaid label."""


def to_dot(outline: Outline, depth: int = 1) -> str:
    """Write an outline, with its outermost `depth` levels expanded, as DOT source."""
    opened = outline.opened(depth)
    return "\n".join(
        [
            f"digraph {_quoted(outline.title)} {{",
            f"  label={_quoted(outline.title, outline.subtitle)} labelloc=t fontname=Helvetica",
            '  node [shape=box style="rounded,filled" fontname=Helvetica fontsize=11]',
            "  edge [color=gray40 arrowsize=0.7]",
            *_dot_boxes(outline.root, opened, "  "),
            *(f"  n{source} -> n{target}" for source, target in _edges(outline, opened)),
            "}\n",
        ]
    )


def to_mermaid(outline: Outline, depth: int = 1) -> str:
    """Write an outline, with its outermost `depth` levels expanded, as a Mermaid flowchart."""
    opened = outline.opened(depth)
    shown: dict[str, list[str]] = {kind: [] for kind in KINDS}
    for box in outline.root.visible(opened):
        if box is not outline.root:
            shown[box.kind].append(f"n{box.number}")
    return "\n".join(
        [
            "flowchart TD",
            f"  %% {_escaped(outline.title)}: {_escaped(outline.subtitle)}",
            *_mermaid_boxes(outline.root, opened, "  "),
            *(f"  n{source} --> n{target}" for source, target in _edges(outline, opened)),
            *(_class(kind) for kind, names in shown.items() if names),
            *(f"  class {','.join(names)} {kind}" for kind, names in shown.items() if names),
            "",
        ]
    )


def _edges(outline: Outline, opened: frozenset[int]) -> list[tuple[int, int]]:
    """Return the edges between collapsed visible boxes, at most one per pair and direction."""
    visible = {
        inner.number: box.number
        for box in outline.root.visible(opened)
        if box.number not in opened
        for inner in box.walk()
    }
    pairs = ((visible[source], visible[target]) for source, target in outline.leaf_edges)
    return list(dict.fromkeys((a, b) for a, b in pairs if a != b))


def _dot_boxes(box: Box, opened: frozenset[int], indent: str) -> Iterator[str]:
    """Yield DOT statements for the visible boxes inside a box.

    Boxes that depend on choices are dashed; collapsed boxes have a double border.
    """
    for part in box.parts:
        face, line = hues(part.kind)
        if part.number in opened:
            dashed = ",dashed" if part.is_varying else ""
            yield f"{indent}subgraph cluster_{part.number} {{"
            yield f'{indent}  label={_quoted(part.title, part.header)} style="rounded{dashed}" color="{line}"'
            yield from _dot_boxes(part, opened, indent + "  ")
            yield f"{indent}}}"
        else:
            label = _quoted(part.title, *part.lines)
            border = ' style="rounded,filled,dashed"' if part.is_varying else " peripheries=2" if part.parts else ""
            yield f'{indent}n{part.number} [label={label} fillcolor="{face}" color="{line}"{border}]'


def _quoted(*lines: str) -> str:
    """Join lines to one quoted DOT string; quotes and backslashes are escaped, so that text cannot be parsed as DOT."""
    escaped = (printable(line).replace("\\", "\\\\").replace('"', '\\"') for line in lines if line)
    return '"' + "\\n".join(escaped) + '"'


def _mermaid_boxes(box: Box, opened: frozenset[int], indent: str) -> Iterator[str]:
    for part in box.parts:
        if part.number in opened:
            label = f"{_escaped(part.title)} {_escaped(part.header)}".strip()
            yield f'{indent}subgraph n{part.number}["{label}"]'
            yield from _mermaid_boxes(part, opened, indent + "  ")
            yield f"{indent}end"
        else:
            label = "<br/>".join(map(_escaped, (part.title, *part.lines)))
            left, right = ("([", "])") if part.kind == "io" else ("[[", "]]") if part.parts else ("[", "]")
            yield f'{indent}n{part.number}{left}"{label}"{right}'


def _class(kind: str) -> str:
    face, line = hues(kind)
    dashed = ",stroke-dasharray:6 4" if kind == "choice" else ""
    return f"  classDef {kind} fill:{face},stroke:{line},color:#1b1f24{dashed}"


def _escaped(text: str) -> str:
    """Escape a text for Mermaid: characters that may have a meaning in Mermaid or HTML become numeric entities."""
    return "".join(c if c.isalnum() or c in _PLAIN else f"#{ord(c)};" for c in printable(text))

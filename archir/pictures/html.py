"""Pictures as one self-contained HTML page, on which blocks can be expanded and collapsed."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from typing import Any

from archir.pages.page import document, policy_hash
from archir.pictures import layout
from archir.pictures.labels import KINDS, printable
from archir.pictures.outline import Box, Outline
from archir.pictures.style import HEAT_STYLE, STYLE
from archir.pictures.svg import text


def to_html(outline: Outline, depth: int = 1) -> str:
    """Write an outline as an HTML page; initially, its outermost `depth` levels are expanded."""
    boxes = list(outline.root.walk())
    used = {box.kind for box in boxes[1:]}
    data = {
        "legend": outline.scale or [(kind, name) for kind, name in KINDS.items() if kind in used],
        "opened": sorted(outline.opened(depth)),
        "sizes": {
            "sweeps": layout.SWEEPS, "work": layout.WORK, "header": layout.HEADER, "pad": layout.PAD,
            "gap": layout.GAP, "lane": layout.LANE, "pull": layout.PULL, "column": layout.MIN_COLUMN,
            "squared": layout.SQUARED_SWEEPS, "near": layout.NEAR, "snap": layout.SNAP,
        },
        "boxes": [_data(box) for box in boxes],
    }  # fmt: skip
    parts = {"title": text(outline.title), "subtitle": text(outline.subtitle), "data": _json(data)}
    body = re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], _read("page.html"))
    return document(printable(outline.title), _style(bool(outline.scale)), _read("page.js"), body)


def _style(coloured: bool) -> str:
    """Return the style sheet of the page; `coloured` adds the colours of cost shares."""
    return STYLE + (HEAT_STYLE if coloured else "") + _read("page.css")


def policy_hashes() -> tuple[list[str], list[str]]:
    """Return the content security policy hashes of the scripts and of the styles of picture pages.

    A page that embeds a picture page needs them for its own policy.
    """
    return [policy_hash(_read("page.js"))], [policy_hash(_style(coloured)) for coloured in (False, True)]


def _data(box: Box) -> dict[str, Any]:
    wide, high = layout.closed_size(box)
    data: dict[str, Any] = {
        "kind": box.kind, "title": printable(box.title), "lines": list(map(printable, box.lines)),
        "scope": printable(box.scope), "details": [[name, printable(value)] for name, value in box.details],
        "style": box.style, "width": wide, "height": high,
    }  # fmt: skip
    if box.share:
        data["warmth"] = box.share
    if box.parts:
        order = layout.plan(box)
        data |= {
            "header": printable(box.header), "along": box.is_choice,
            "least": layout.header_width(box),
            "parts": [part.number for part in box.parts],
            "plan": {
                "parts": order.parts, "tensors": order.tensors, "rows": order.rows, "segments": order.segments,
                "beside": order.beside,
            },
        }  # fmt: skip
    return data


def _json(data: Any) -> str:
    """Serialise to JSON in which no character can end the enclosing script element."""
    dense = json.dumps(data, separators=(",", ":"))
    return dense.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _read(name: str) -> str:
    return (files("archir.pictures") / "page" / name).read_text("utf-8")

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
    used = {box.kind for part in outline.root.parts for box in part.walk()}
    templates = _Templates()
    root = templates.add(outline.root, "")[0]
    data = {
        "legend": outline.scale or [(kind, name) for kind, name in KINDS.items() if kind in used],
        "opened": sorted(outline.opened(depth)),
        "sizes": {
            "sweeps": layout.SWEEPS, "work": layout.WORK, "header": layout.HEADER, "pad": layout.PAD,
            "gap": layout.GAP, "lane": layout.LANE, "pull": layout.PULL, "column": layout.MIN_COLUMN,
            "squared": layout.SQUARED_SWEEPS, "near": layout.NEAR, "snap": layout.SNAP,
        },
        "root": root,
    }  # fmt: skip
    parts = {
        "title": text(outline.title),
        "subtitle": text(outline.subtitle),
        "data": _safe(templates.json() + _json(data)[1:]),
    }
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


class _Templates:
    """Templates of boxes, so that blocks that are called repeatedly are written once."""

    def __init__(self) -> None:
        self.boxes: dict[str, int] = {}
        self.plans: dict[str, int] = {}

    def json(self) -> str:
        """Return the beginning of a JSON object, with the templates."""
        return f'{{"templates":[{",".join(self.boxes)}],"plans":[{",".join(self.plans)}],'

    def add(self, box: Box, base: str) -> tuple[int, bool, str, list[int]]:
        """Add the template of a box; return what is particular to the box.

        That is the number of the template, whether the scope is relative to the scope `base`, the scope, and the
        tensors that enter or leave the box.
        """
        is_relative = bool(box.scope) and (not base or box.scope.startswith(f"{base}."))
        wide, high = layout.closed_size(box)
        data: dict[str, Any] = {
            "kind": box.kind, "title": printable(box.title), "lines": list(map(printable, box.lines)),
            "details": [["scope"] if name == "scope" else [name, printable(value)] for name, value in box.details],
            "style": box.style, "width": wide, "height": high,
        }  # fmt: skip
        if box.share:
            data["warmth"] = box.share
        passing: list[int] = []
        if box.parts:
            order, names = layout.numbered_plan(box)
            number = {tensor: i for i, tensor in enumerate(names)}
            ends = {tensor for source, target, tensor in box.links if source is None or target is None}
            passing = [tensor for tensor in names if tensor in ends]
            is_base = any(part.scope.startswith(f"{box.scope}.") for part in box.parts)
            parts = [self.add(part, box.scope if is_base else base) for part in box.parts]
            plan = {
                "parts": order.parts, "tensors": order.tensors, "rows": order.rows, "segments": order.segments,
                "beside": order.margin,
            }  # fmt: skip
            data |= {
                "along": box.is_choice, "isBase": is_base, "least": layout.header_width(box),
                "plan": self.plans.setdefault(_json(plan), len(self.plans)),
                "parts": [(*part, [number[tensor] for tensor in tensors]) for *part, tensors in parts],
            }  # fmt: skip
        scope = box.scope.removeprefix(f"{base}.") if is_relative else box.scope
        return self.boxes.setdefault(_json(data), len(self.boxes)), is_relative, printable(scope), passing


def _json(data: Any) -> str:
    return json.dumps(data, separators=(",", ":"))


def _safe(dense: str) -> str:
    """Escape JSON so that no character can end the enclosing script element."""
    return dense.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _read(name: str) -> str:
    return (files("archir.pictures") / "page" / name).read_text("utf-8")

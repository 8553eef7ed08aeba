"""Edits of a text."""

from __future__ import annotations

from collections.abc import Iterable

Edit = tuple[int, int, str]
"""Replacement of one range of a text: start offset, end offset, new text."""


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """Return a text with edits of disjoint ranges applied; insertions at one offset keep their order."""
    parts, position = [], 0
    for start, end, new in sorted(edits, key=lambda edit: edit[:2]):
        parts += [text[position:start], new]
        position = end
    return "".join([*parts, text[position:]])

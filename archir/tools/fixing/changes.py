"""Changes of a text: stretches that become something else."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

Edit = tuple[int, int, str]
"""Offsets of a stretch, and what stands there instead."""


@dataclass(frozen=True)
class Change:
    """Edits that belong together, and what they do, in a few words."""

    title: str
    edits: tuple[Edit, ...]

    def of(self, text: str) -> str:
        """The text with the edits made."""
        for start, end, new in sorted(self.edits, reverse=True):
            text = text[:start] + new + text[end:]
        return text


def replace(start: int, end: int, old: str, new: str) -> Change:
    """Another word at a place."""
    return Change(f"write `{new}` instead of `{old}`", ((start, end, new),))


def drop(start: int, end: int, old: str) -> Change:
    """A word left out."""
    return Change(f"drop `{old}`", ((start, end, ""),))


def insert(at: int, new: str) -> Change:
    """A word more."""
    return Change(f"insert `{new.strip() or 'a new line'}`", ((at, at, new),))


def unlike(changes: Iterable[Change], text: str) -> list[Change]:
    """Changes that make different texts, none of them the one at hand."""
    seen = {text}
    kept = []
    for change in changes:
        made = change.of(text)
        if made not in seen:
            seen.add(made)
            kept.append(change)
    return kept

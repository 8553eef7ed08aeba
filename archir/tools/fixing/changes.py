"""Text edits that fix an error, with a title for each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from archir.utils.edits import Edit, apply_edits


@dataclass(frozen=True)
class Change:
    """A candidate fix: edits that are applied together, and a short title such as "insert `,`"."""

    title: str
    edits: tuple[Edit, ...]

    def apply(self, text: str) -> str:
        """Return the text with the edits applied."""
        return apply_edits(text, self.edits)


def replace(start: int, end: int, old: str, new: str) -> Change:
    """Return a change that replaces `old`, at offsets `start:end`, with `new`."""
    return Change(f"write `{new}` instead of `{old}`", ((start, end, new),))


def drop(start: int, end: int, old: str) -> Change:
    """Return a change that deletes `old`, at offsets `start:end`."""
    return Change(f"drop `{old}`", ((start, end, ""),))


def insert(offset: int, new: str) -> Change:
    """Return a change that inserts `new` at the offset `at`."""
    return Change(f"insert `{new.strip() or 'a new line'}`", ((offset, offset, new),))


def distinct_changes(changes: Iterable[Change], text: str) -> list[Change]:
    """Return the changes that alter the text, without those that have the same result as an earlier one."""
    seen = {text}
    distinct = []
    for change in changes:
        changed = change.apply(text)
        if changed not in seen:
            seen.add(changed)
            distinct.append(change)
    return distinct

"""Formatting as edits of lines."""

from __future__ import annotations

from difflib import SequenceMatcher

from archir.language.formatter import canonical
from archir.utils.edits import Edit


def formatting_edits(text: str, name: str, first: int, last: int) -> list[Edit]:
    """Return the replacements (start, end, new text) that format the lines `first` to `last`, counted from 0.

    A replacement consists of whole lines, and may extend beyond the last line. Raises ArchError (A01xx) if the text has
    syntax errors.
    """
    old, new = text.splitlines(keepends=True), canonical(text, name).splitlines(keepends=True)
    starts = [0]
    for line in old:
        starts.append(starts[-1] + len(line))
    return [
        (starts[begin], starts[end], "".join(new[new_begin:new_end]))
        for tag, begin, end, new_begin, new_end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
        if tag != "equal" and begin <= last and max(begin + 1, end) > first
    ]

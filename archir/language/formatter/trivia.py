"""What stands between two words of a file: comments and blank lines."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Gap:
    """The comment after a word, then lines of comments, blank ones as empty strings, up to the next word."""

    comment: str = ""
    lines: tuple[str, ...] = ()
    breaks: bool = False
    """Whether the words stand on different lines."""

    @property
    def has_comments(self) -> bool:
        """Whether there is a comment at all."""
        return bool(self.comment) or any(self.lines)

    @property
    def comments(self) -> tuple[str, ...]:
        """The comments that stand on lines of their own."""
        return tuple(line for line in self.lines if line)


def gap(text: str) -> Gap:
    """The gap of a text of blanks, newlines and comments; several blank lines in a row become one."""
    if not text.strip(" "):
        return Gap()
    comment, *lines = (line.strip() for line in text.split("\n"))
    lines = lines[:-1]  # the last one is the start of the next word's
    return Gap(comment, tuple(line for i, line in enumerate(lines) if line or i == 0 or lines[i - 1]), "\n" in text)

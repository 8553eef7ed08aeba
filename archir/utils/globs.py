"""Patterns of names in which `*` stands for anything. Everything else stands for itself: scopes have brackets."""

from __future__ import annotations


def matches(pattern: str, text: str) -> bool:
    """Whether a text has the form of a pattern. It takes time as `text` is long, however many stars there are."""
    first, *rest = pattern.split("*")
    if not rest:
        return text == pattern
    if not text.startswith(first):
        return False
    *middle, last = rest
    at = len(first)
    for piece in middle:  # the earliest place for each leaves the most room for those behind it
        at = text.find(piece, at)
        if at < 0:
            return False
        at += len(piece)
    return len(text) - at >= len(last) and text.endswith(last)


def captured(pattern: str, text: str) -> tuple[str, ...] | None:
    """What the stars of a pattern stand for, the first ones as little as possible; None if it has another form."""
    first, *rest = pattern.split("*")
    if not matches(pattern, text):
        return None
    found, at = [], len(first)
    for piece in rest[:-1]:
        place = text.index(piece, at)
        found.append(text[at:place])
        at = place + len(piece)
    return (*found, text[at : len(text) - len(rest[-1])]) if rest else ()


def filled(pattern: str, pieces: tuple[str, ...]) -> str:
    """A pattern with these pieces in the places of its stars."""
    first, *rest = pattern.split("*")
    return first + "".join(piece + after for piece, after in zip(pieces, rest, strict=True))

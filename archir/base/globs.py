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

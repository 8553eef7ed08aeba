"""Glob patterns with the single wildcard `*`, which matches any text.

Every other character matches itself. In particular, brackets are literal, because scopes contain them.
"""

from __future__ import annotations


def matches(pattern: str, text: str) -> bool:
    """Return whether a text matches a pattern.

    The time is linear in the length of the text, whatever the number of stars.
    """
    prefix, *parts = pattern.split("*")
    if not parts:
        return text == pattern
    if not text.startswith(prefix):
        return False
    *middle, suffix = parts
    start = len(prefix)
    for part in middle:  # the earliest match of each part leaves the most text for the parts after it
        start = text.find(part, start)
        if start < 0:
            return False
        start += len(part)
    return len(text) - start >= len(suffix) and text.endswith(suffix)


def capture_stars(pattern: str, text: str) -> tuple[str, ...] | None:
    """Return the texts that the stars of a pattern match; None if the text does not match the pattern.

    If there are several ways to match, earlier stars match as little as possible.
    """
    prefix, *parts = pattern.split("*")
    if not matches(pattern, text):
        return None
    captures, start = [], len(prefix)
    for part in parts[:-1]:
        end = text.index(part, start)
        captures.append(text[start:end])
        start = end + len(part)
    return (*captures, text[start : len(text) - len(parts[-1])]) if parts else ()


def fill_stars(pattern: str, captures: tuple[str, ...]) -> str:
    """Return a pattern with its stars replaced by these texts, from left to right."""
    prefix, *parts = pattern.split("*")
    return prefix + "".join(capture + part for capture, part in zip(captures, parts, strict=True))

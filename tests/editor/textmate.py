"""A TextMate engine for grammars of single patterns, which applies them as editors do."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.editor.mutations import ROOT

EXTENSION = ROOT / "editors" / "vscode"
Scoped = tuple[int, int, str]
"""Where something begins and ends in a text, and its scope."""


class TextMate:
    """A grammar whose patterns are single matches: at each position the leftmost match wins, among these the first
    pattern."""

    def __init__(self, file: Path) -> None:
        expressions, groups = [], 0
        self.captures: dict[int, list[tuple[int, str]]] = {}
        """By the group of each pattern, the groups in it that have scopes."""
        for pattern in json.loads(file.read_text("utf-8"))["patterns"]:
            groups += 1
            inside = [(groups, pattern["name"])] if "name" in pattern else []
            inside += [
                (groups + int(number), capture["name"]) for number, capture in pattern.get("captures", {}).items()
            ]
            self.captures[groups] = inside
            groups += re.compile(pattern["match"]).groups
            expressions.append(f"({pattern['match']})")
        text = "|".join(expressions)
        self.first, self.later = re.compile(text), re.compile(text.replace(r"\A", "(?!)"))

    def scopes(self, text: str) -> Iterator[Scoped]:
        """Yield spans of text and their scopes, in the order of the text. Newlines belong to the line before."""
        begin, pattern = 0, self.first
        for line in text.split("\n"):
            for match in pattern.finditer(line):
                number = next(number for number in self.captures if match[number] is not None)
                for group, scope in self.captures[number]:
                    if match[group] is not None:
                        yield begin + match.start(group), begin + match.end(group), scope
            begin += len(line) + 1
            pattern = self.later


@cache
def arch() -> TextMate:
    """Return the grammar of the extension for VS Code."""
    return TextMate(EXTENSION / "syntaxes" / "arch.tmLanguage.json")

"""What a TextMate grammar of single patterns makes of a text: as editors apply it, without an editor."""

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
    """A grammar whose patterns are single matches: at each place the leftmost one, and the first of these, is taken.

    That is what an alternative of all of them takes.
    """

    def __init__(self, file: Path) -> None:
        whole, groups = [], 0
        self.captures: dict[int, list[tuple[int, str]]] = {}
        """By the group of each pattern, the groups in it that have scopes."""
        for pattern in json.loads(file.read_text("utf-8"))["patterns"]:
            groups += 1
            inside = [(groups, pattern["name"])] if "name" in pattern else []
            inside += [(groups + int(number), one["name"]) for number, one in pattern.get("captures", {}).items()]
            self.captures[groups] = inside
            groups += re.compile(pattern["match"]).groups
            whole.append(f"({pattern['match']})")
        text = "|".join(whole)
        self.first, self.later = re.compile(text), re.compile(text.replace(r"\A", "(?!)"))

    def scopes(self, text: str) -> Iterator[Scoped]:
        """What has a scope, in the order of the text. Lines end with newlines, which belong to them."""
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
    """The grammar of the extension for VS Code."""
    return TextMate(EXTENSION / "syntaxes" / "arch.tmLanguage.json")

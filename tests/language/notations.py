"""A reader of grammars in EBNF or GBNF, independent of archir, and random texts of them."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field
from typing import Any

TOKENS = re.compile(
    r'\s+|(?P<rule>[a-z][a-z0-9_-]*)\s*::=|(?P<ref>[a-z][a-z0-9_-]*)|"(?P<double>(?:\\.|[^"\\])*)"'
    r"|'(?P<single>[^']*)'|\[(?P<set>(?:\\.|[^\]\\])*)\]|#x(?P<code>[0-9A-F]+)|(?P<sign>[()|?*+])"
)
ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}


def tokens(text: str) -> list[tuple[str, str]]:
    token_list, at = [], 0
    while at < len(text):
        match = TOKENS.match(text, at)
        assert match is not None, text[at : at + 40]
        at = match.end()
        if match.lastgroup is not None:
            token_list.append((match.lastgroup, match[match.lastgroup]))
    return token_list


def plain(text: str, escapes: bool) -> str:
    return re.sub(r"\\(.)", lambda m: ESCAPES.get(m[1], m[1]), text) if escapes else text


def ranges(text: str, escapes: bool) -> list[tuple[int, int]]:
    """Return the ranges of a bracketed class: characters, escapes, and numbers in each notation."""
    pattern = r"\\U([0-9A-F]{8})|\\(.)|(.)" if escapes else r"#x([0-9A-F]+)|(\0)|(.)"
    parts: list[Any] = []
    for number, escape, char in re.findall(pattern, text, re.DOTALL):
        if not escape and not number and char == "-" and parts:
            parts.append(None)
        else:
            parts.append(int(number, 16) if number else ord(ESCAPES.get(escape, escape) if escape else char))
    bounds, i = [], 0
    while i < len(parts):
        is_range = i + 2 < len(parts) and parts[i + 1] is None
        bounds.append((parts[i], parts[i + 2] if is_range else parts[i]))
        i += 3 if is_range else 1
    return bounds


@dataclass
class Grammar:
    """Rules as trees: ("text", s), ("set", ranges), ("ref", name), ("all", parts), ("any", parts), (sign, part)."""

    text: str
    escapes: bool
    """True if quotes and brackets contain escapes, as in GBNF."""
    rules: dict[str, Any] = field(default_factory=dict)
    costs: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        words = tokens(self.text)
        starts = [i for i, (kind, _) in enumerate(words) if kind == "rule"]
        for start, end in zip(starts, [*starts[1:], len(words)], strict=True):
            self._words, self._at = words[start + 1 : end], 0
            assert words[start][1] not in self.rules
            self.rules[words[start][1]] = self._any()
            assert self._at == len(self._words)
        self.first = words[starts[0]][1]
        self.costs = dict.fromkeys(self.rules, float("inf"))
        while True:
            updated = {name: 1 + self._cost(rule) for name, rule in self.rules.items()}
            if updated == self.costs:
                break
            self.costs = updated
        assert max(self.costs.values()) < float("inf")

    def _any(self) -> Any:
        parts = [self._all()]
        while self._next() == ("sign", "|"):
            self._at += 1
            parts.append(self._all())
        return parts[0] if len(parts) == 1 else ("any", parts)

    def _all(self) -> Any:
        parts = []
        while (word := self._next()) not in (None, ("sign", "|"), ("sign", ")")):
            assert word is not None
            self._at += 1
            kind, text = word
            if kind == "ref":
                assert self._next() is None or True
                part: Any = ("ref", text)
            elif kind in ("double", "single"):
                part = ("text", plain(text, self.escapes and kind == "double"))
            elif kind == "code":
                part = ("text", chr(int(text, 16)))
            elif kind == "set":
                part = ("set", ranges(text, self.escapes))
            else:
                assert text == "(", text
                part = self._any()
                assert self._next() == ("sign", ")")
                self._at += 1
            while self._next() in (("sign", "?"), ("sign", "*"), ("sign", "+")):
                part = (self._words[self._at][1], part)
                self._at += 1
            parts.append(part)
        return parts[0] if len(parts) == 1 else ("all", parts)

    def _next(self) -> tuple[str, str] | None:
        return self._words[self._at] if self._at < len(self._words) else None

    def _cost(self, part: Any) -> float:
        """Return the depth of the shortest text of a part."""
        kind, content = part
        if kind == "ref":
            return self.costs[content]
        if kind == "all":
            return max((self._cost(child) for child in content), default=0)
        if kind == "any":
            return min(self._cost(child) for child in content)
        return self._cost(content) if kind == "+" else 0

    def drawn(self, rng: random.Random, depth: int) -> str:
        """Return a random text of about a maximum depth."""
        return self._drawn(("ref", self.first), rng, depth)

    def _drawn(self, part: Any, rng: random.Random, depth: int) -> str:
        kind, content = part
        if kind == "text":
            return str(content)
        if kind == "set":
            low, high = rng.choice(content)
            code = rng.randint(low, min(high, low + 40))
            return chr(code)
        if kind == "ref":
            return self._drawn(self.rules[content], rng, depth - 1)
        if kind == "all":
            return "".join(self._drawn(child, rng, depth) for child in content)
        if kind == "any":
            fitting = [child for child in content if self._cost(child) < depth]
            return self._drawn(rng.choice(fitting or [min(content, key=self._cost)]), rng, depth)
        least = int(kind == "+")
        if self._cost(content) >= depth:
            times = least
        else:
            times = rng.randint(0, 1) if kind == "?" else least + min(3, int(rng.expovariate(1.2)))
        return "".join(self._drawn(content, rng, depth) for _ in range(times))

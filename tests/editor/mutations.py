"""The programs of the repository, right and wrong ones, and random mutations of them: what grammars are compared on."""

from __future__ import annotations

import random
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
_WORD = re.compile(r"\w+|\|>|=>|\*\*|//|==|\.\.|\r?\n|[ \t]+|#[^\n]*|.", re.DOTALL)
_WORDS = """
if else for in of choose where match own not none true as a block cell const import input net output repeat
require return ( ) [ ] { } , . : = == => | |> .. ** + - * / // < >= 1 2.5 1e5 1K 1ms " "a" # @ @t é $ \\ \ufeff
"""
_PIECES = [*_WORDS.split(), "\r", "\r\n", "\n\n", " ", "\t", "\n", "\n# c\n", "\n|> "]


@cache
def programs() -> tuple[tuple[Path, str], ...]:
    """All `.arch` files of the repository that are text, tests' wrong ones included."""
    found = []
    for room in ("archir", "examples", "tests"):
        for path in sorted((ROOT / room).rglob("*.arch")):
            try:
                found.append((path, path.read_bytes().decode("utf-8")))
            except UnicodeDecodeError:
                continue
    return tuple(found)


def mutations(seed: int, many: int, longest: int) -> list[str]:
    """Programs of at most so many characters with one to three words less, more, doubled, swapped or replaced."""
    chance = random.Random(f"mutations {seed}")
    texts = [text for _, text in programs() if len(text) <= longest]
    found = []
    for _ in range(many):
        text = chance.choice(texts)
        for _ in range(chance.choice([1, 1, 1, 2, 3])):
            text = _mutated(text, chance)
        found.append(text)
    return found


def _mutated(text: str, chance: random.Random) -> str:
    words = _WORD.findall(text)
    if not words:
        return text
    at, other = chance.randrange(len(words)), chance.randrange(len(words))
    match chance.randrange(7):
        case 0:
            del words[at]
        case 1:
            words.insert(at, words[at] + " ")
        case 2:
            words[at] = words[other]
        case 3:
            words[at - 1], words[at] = words[at], words[at - 1]
        case 4:
            words.insert(at, chance.choice(_PIECES))
        case 5:
            words[at] = f" {chance.choice(_PIECES)} "
        case _:
            inside = chance.randrange(len(text) + 1)
            return text[:inside] + chance.choice(_PIECES) + text[inside:]
    return "".join(words)

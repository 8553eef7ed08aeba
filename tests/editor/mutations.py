"""The valid and invalid programs of the repository, and random mutations of them, on which grammars are compared."""

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
    """Return all `.arch` files of the repository that are UTF-8 text, including invalid programs of tests."""
    texts = []
    for folder in ("archir", "examples", "tests"):
        for path in sorted((ROOT / folder).rglob("*.arch")):
            try:
                texts.append((path, path.read_bytes().decode("utf-8")))
            except UnicodeDecodeError:
                continue
    return tuple(texts)


def mutations(seed: int, count: int, max_length: int) -> list[str]:
    """Return `many` mutated programs of at most `longest` characters.

    A mutation deletes, inserts, doubles, swaps or replaces one to three words.
    """
    rng = random.Random(f"mutations {seed}")
    texts = [text for _, text in programs() if len(text) <= max_length]
    mutated = []
    for _ in range(count):
        text = rng.choice(texts)
        for _ in range(rng.choice([1, 1, 1, 2, 3])):
            text = _mutate(text, rng)
        mutated.append(text)
    return mutated


def _mutate(text: str, rng: random.Random) -> str:
    words = _WORD.findall(text)
    if not words:
        return text
    at, other = rng.randrange(len(words)), rng.randrange(len(words))
    match rng.randrange(7):
        case 0:
            del words[at]
        case 1:
            words.insert(at, words[at] + " ")
        case 2:
            words[at] = words[other]
        case 3:
            words[at - 1], words[at] = words[at], words[at - 1]
        case 4:
            words.insert(at, rng.choice(_PIECES))
        case 5:
            words[at] = f" {rng.choice(_PIECES)} "
        case _:
            offset = rng.randrange(len(text) + 1)
            return text[:offset] + rng.choice(_PIECES) + text[offset:]
    return "".join(words)

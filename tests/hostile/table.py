"""The table of hostile artefacts: what it is, the command that meets it, and the code of what is said."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.hostile.making import COMMAND, Place

CODE = "__import__('os').mkdir('it-ran')"


@dataclass(frozen=True)
class Artefact:
    """What is wrong, how it is made, and the codes one of which is said."""

    name: str
    codes: str
    make: Callable[[Place], COMMAND]


TABLE: list[Artefact] = []


def artefact(codes: str) -> Callable[[Callable[[Place], COMMAND]], None]:
    """Put one into the table, under its function's name."""

    def put(make: Callable[[Place], COMMAND]) -> None:
        TABLE.append(Artefact(make.__name__, codes, make))

    return put


def each(name: str, codes: str, entries: dict[str, Callable[[Place], COMMAND]]) -> None:
    """Put several of a kind into the table."""
    TABLE.extend(Artefact(f"{name}_{key}", codes, make) for key, make in entries.items())

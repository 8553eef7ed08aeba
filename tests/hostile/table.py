"""The table of hostile artefacts: their name, the command that reads them, and the expected diagnostic codes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.hostile.making import COMMAND, Place

CODE = "__import__('os').mkdir('it-ran')"


@dataclass(frozen=True)
class Artefact:
    """The name of an artefact, its maker, and the codes of which one must be reported."""

    name: str
    codes: str
    make: Callable[[Place], COMMAND]


TABLE: list[Artefact] = []


def artefact(codes: str) -> Callable[[Callable[[Place], COMMAND]], None]:
    """Add an artefact to the table, under its function's name."""

    def put(make: Callable[[Place], COMMAND]) -> None:
        TABLE.append(Artefact(make.__name__, codes, make))

    return put


def each(name: str, codes: str, entries: dict[str, Callable[[Place], COMMAND]]) -> None:
    """Add several artefacts of a kind to the table."""
    TABLE.extend(Artefact(f"{name}_{key}", codes, make) for key, make in entries.items())

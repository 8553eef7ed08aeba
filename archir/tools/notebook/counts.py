"""How many architectures a space has, as a cell shows it."""

from __future__ import annotations

from dataclasses import dataclass

from archir.diagnostics.work import bounded
from archir.spaces.counting import many
from archir.spaces.space import Space


@dataclass(frozen=True)
class Counts:
    """The architectures of a space: all, those that satisfy what choices require, and those within bounds on costs; of
    the last, at least and at most."""

    name: str
    size: int
    satisfying: int
    within: tuple[int, int]

    @staticmethod
    def of(space: Space) -> Counts:
        """Counted within the usual budget. Raises ArchError (A0510, A0602, A1601, A1602)."""
        with bounded():
            return Counts(space.name, space.size, space.satisfying, space.count())

    @property
    def texts(self) -> tuple[str, str, str]:
        """The three numbers."""
        least, most = self.within
        return exact(self.size), exact(self.satisfying), exact(most) if least == most else f"{least:,} to {exact(most)}"

    def __repr__(self) -> str:
        every, satisfying, within = self.texts
        found = [f"{self.name}: {many(self.size, 'architecture')}"]
        if satisfying != every:
            found.append(f"{satisfying} with what choices require")
        if within != satisfying:
            found.append(f"{within} within the bounds on costs")
        return f"<{', '.join(found)}>"


def exact(number: int) -> str:
    """All digits of a number, where there are not hundreds."""
    return f"{number:,}" if number < 10**100 else many(number, "").strip()

"""Numbers of architectures of a space, as displayed in notebook cells."""

from __future__ import annotations

from dataclasses import dataclass

from archir.diagnostics.work import work_budget
from archir.spaces.counting import format_count
from archir.spaces.space import Space


@dataclass(frozen=True)
class Counts:
    """Numbers of architectures of the space `name`.

    `size` counts all architectures, `satisfying` those that satisfy every `require` on choices. `within` counts those
    that also satisfy the bounds on costs, as a lower and an upper bound; the two are equal if the number is exact.
    """

    name: str
    size: int
    satisfying: int
    within: tuple[int, int]

    @staticmethod
    def of(space: Space) -> Counts:
        """Count the architectures of a space within the default work budget.

        Raises ArchError (A0510, A0602, A1601, A1602).
        """
        with work_budget():
            return Counts(space.name, space.size, space.satisfying, space.count())

    @property
    def texts(self) -> tuple[str, str, str]:
        """The numbers `size`, `satisfying` and `within` as text."""
        least, most = self.within
        return (
            format_exactly(self.size),
            format_exactly(self.satisfying),
            format_exactly(most) if least == most else f"{least:,} to {format_exactly(most)}",
        )

    def __repr__(self) -> str:
        size, satisfying, within = self.texts
        parts = [f"{self.name}: {format_count(self.size, 'architecture')}"]
        if satisfying != size:
            parts.append(f"{satisfying} satisfy the requirements on choices")
        if within != satisfying:
            parts.append(f"{within} within the bounds on costs")
        return f"<{', '.join(parts)}>"


def format_exactly(number: int) -> str:
    """Format a number with all its digits, or approximately if it has more than 100."""
    return f"{number:,}" if number < 10**100 else format_count(number, "").strip()

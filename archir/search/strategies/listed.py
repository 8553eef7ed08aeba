"""Trying architectures that somebody has chosen."""

from __future__ import annotations

from collections.abc import Sequence

from archir.search.ask_tell import Search
from archir.search.candidate import Candidate
from archir.spaces.architecture import Architecture
from archir.spaces.space import Space


class Listed(Search):
    """Asks all of a list, at once; of those that compute the same, the first."""

    def __init__(self, space: Space, objective: str, architectures: Sequence[Architecture], seed: int = 0) -> None:
        super().__init__(space, [objective], seed)
        self._left = list(architectures)

    def propose(self) -> list[Candidate]:
        """All, and then none."""
        left, self._left = self._left, []
        return self.proposals.first(iter(left), len(left)) if left else []

    @property
    def batches(self) -> int:
        """One."""
        return 1

"""Strategy that scores a given list of architectures."""

from __future__ import annotations

from collections.abc import Sequence

from archir.search.ask_tell import Search
from archir.search.candidate import Candidate
from archir.spaces.architecture import Architecture
from archir.spaces.space import Space


class Listed(Search):
    """Scores a given list of architectures in one batch; of equivalent architectures, only the first."""

    def __init__(self, space: Space, objective: str, architectures: Sequence[Architecture], seed: int = 0) -> None:
        super().__init__(space, [objective], seed)
        self._remaining = list(architectures)

    def propose(self) -> list[Candidate]:
        """Return all architectures on the first call, [] afterwards."""
        architectures, self._remaining = self._remaining, []
        return self.proposals.take(iter(architectures), len(architectures)) if architectures else []

    @property
    def batches(self) -> int:
        """Number of batches, always 1."""
        return 1

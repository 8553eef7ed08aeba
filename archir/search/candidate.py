"""What a strategy asks scores of, and what a strategy is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

from archir.spaces.architecture import Architecture

Scores = Mapping[str, float]
"""By name."""


@dataclass(frozen=True)
class Candidate:
    """An architecture to be scored. `id` counts from 0 in the order asked; `budget` is the part of the full budget that
    it is to be scored with."""

    id: int
    architecture: Architecture
    canonical: Callable[[Architecture], str] = field(repr=False, compare=False)
    """Works out canonical hashes of the space."""
    budget: float = 1.0

    @cached_property
    def hash(self) -> str:
        """The canonical hash, which takes milliseconds where nobody asked for it before."""
        return self.canonical(self.architecture)


class MultiTrial(Protocol):
    """What is asked depends on the seed and on what was told, in the order of ids, and on nothing else.

    A search goes on where another one stopped when it is asked and told the same again: no state is stored.
    """

    def ask(self) -> list[Candidate]:
        """The next batch, the same one until it is told; empty when the search is over."""
        ...

    def tell(self, scored: Sequence[tuple[Candidate, Scores | None]]) -> None:
        """The scores of all of a batch, in any order; None for a candidate that failed."""
        ...

    def best(self) -> Candidate | None:
        """The best until now; None if there is none yet."""
        ...

    def front(self) -> list[tuple[Candidate, Scores]]:
        """Those that no other is better than in all objectives: of one objective, the best."""
        ...

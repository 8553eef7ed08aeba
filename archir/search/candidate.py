"""Candidates, and the interface of the strategies that propose them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

from archir.spaces.architecture import Architecture

Scores = Mapping[str, float]
"""Scores by name, such as `accuracy` or `macs`."""


@dataclass(frozen=True)
class Candidate:
    """Architecture to be scored.

    `id` counts from 0 in the order of proposal. `budget` is the fraction of the full training budget to score it with.
    """

    id: int
    architecture: Architecture
    canonical: Callable[[Architecture], str] = field(repr=False, compare=False)
    """Function that computes the canonical hash of an architecture of the space."""
    budget: float = 1.0

    @cached_property
    def hash(self) -> str:
        """The canonical hash. Computing it takes milliseconds, unless it is cached."""
        return self.canonical(self.architecture)


class MultiTrial(Protocol):
    """Strategy with an ask-tell interface, which scores many candidates.

    The proposals are a deterministic function of the seed and of the scores, taken in the order of ids. So no state is
    stored: to resume a search, create the strategy with the same seed and replay the scores of the finished batches.
    """

    def ask(self) -> list[Candidate]:
        """Return the next batch; empty when the search is over. Returns the same batch until `tell` is called."""
        ...

    def tell(self, scored: Sequence[tuple[Candidate, Scores | None]]) -> None:
        """Take the scores of all candidates of the current batch, in any order; None for a candidate that failed."""
        ...

    def best(self) -> Candidate | None:
        """Return the best candidate so far; None if no candidate has scores yet."""
        ...

    def front(self) -> list[tuple[Candidate, Scores]]:
        """Return the Pareto front: candidates that no other candidate dominates. With one objective, the best
        candidate."""
        ...

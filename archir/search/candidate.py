"""Candidates, and the interface of strategies that propose them."""

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

    `id` counts proposals from 0. `budget` is the fraction of the full training budget with which to score it.
    """

    id: int
    architecture: Architecture
    canonical: Callable[[Architecture], str] = field(repr=False, compare=False)
    """Computes the canonical hash of an architecture in the space."""
    budget: float = 1.0

    @cached_property
    def hash(self) -> str:
        """Canonical hash of the architecture; computing it takes milliseconds unless cached."""
        return self.canonical(self.architecture)


class MultiTrial(Protocol):
    """Ask-tell interface of strategies that score many candidates.

    Proposals are a deterministic function of the seed and of the scores, taken in id order. No state is therefore
    stored: to resume a search, create the strategy with the same seed and replay the scores of the finished
    batches.
    """

    def ask(self) -> list[Candidate]:
        """Return the next batch, and the same one again until `tell` is called; [] once the search is over."""
        ...

    def tell(self, scored: Sequence[tuple[Candidate, Scores | None]]) -> None:
        """Record the scores of all candidates of the current batch, in any order; None marks a failed candidate."""
        ...

    def best(self) -> Candidate | None:
        """Return the best candidate so far; None if none has been scored."""
        ...

    def front(self) -> list[tuple[Candidate, Scores]]:
        """Return the Pareto front, the candidates that no other dominates; with one objective, the best candidate."""
        ...

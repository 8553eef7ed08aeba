"""Local search: to a better neighbour as long as there is one, and then from somewhere else.

White et al. 2021, Local Search is State of the Art for Neural Architecture Search Benchmarks, algorithm 1. They try all
neighbours and go to the best one; here a search goes on as soon as a batch of neighbours has a better one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from archir.search.ask_tell import Scored, Search
from archir.search.candidate import Candidate
from archir.search.registry import strategy
from archir.search.variation import neighbours
from archir.spaces.architecture import Architecture
from archir.spaces.space import Space
from archir.utils.settings import Count, Settings


class LocalSearchOptions(Settings):
    """How many are tried, and how many neighbours at a time."""

    objective: str = "accuracy:max"
    trials: Count = 100
    batch: Count = 1
    """Neighbours that are scored before the search goes to the best of them, if it is better."""


@strategy("local_search", LocalSearchOptions)
class LocalSearch(Search):
    """One objective. Neighbours differ in one choice; one that computes what was scored before is not scored again, but
    gone to if it is better."""

    def __init__(self, space: Space, options: LocalSearchOptions, seed: int = 0) -> None:
        super().__init__(space, [options.objective], seed, options.trials)
        self.batch = options.batch
        self._at: Scored | None = None
        self._around: Iterator[Architecture] = iter(())
        self._known: dict[int, Scored] = {}

    def propose(self) -> list[Candidate]:
        """Neighbours that are new; of a place that is better than all of its neighbours, a place elsewhere."""
        found: list[Candidate] = []
        while self._at is not None and len(found) < self.left(self.batch):
            architecture = next(self._around, None)
            if architecture is None:
                break
            if not self.space.within(architecture):
                continue
            new = self.proposals.new(architecture)
            if new is not None:
                found.append(new)
            elif (before := self.proposals.earlier(architecture)) is not None:
                self._go(self._known.get(before.id))
        if not found:
            self._at = None
            found = self.proposals.drawn(self.left(1))
        return found

    def learn(self, scored: Sequence[Scored]) -> None:
        """Go to the best, if it is better."""
        super().learn(scored)
        self._known |= {one.candidate.id: one for one in scored}
        self._go(min(scored, key=lambda one: one.values, default=None))

    def _go(self, to: Scored | None) -> None:
        if to is not None and (self._at is None or to.values < self._at.values):
            self._at = to
            self._around = neighbours(self.space, to.candidate.architecture, self.rng)

    @property
    def batches(self) -> int:
        """As many as trials, where each is alone."""
        return self.most or 0

"""Local search: moves to better neighbours as long as there are any, then restarts at random.

White et al. 2021, Local Search is State of the Art for Neural Architecture Search Benchmarks, algorithm 1. The paper
scores all neighbours before moving to the best one; this implementation moves as soon as a batch of neighbours
contains a better one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from archir.search.ask_tell import ScoredCandidate, Search
from archir.search.candidate import Candidate
from archir.search.registry import strategy
from archir.search.variation import neighbours
from archir.spaces.architecture import Architecture
from archir.spaces.space import Space
from archir.utils.settings import Count, Settings


class LocalSearchOptions(Settings):
    """Options of `local_search`."""

    objective: str = "accuracy:max"
    trials: Count = 100
    """Maximum number of candidates."""
    batch: Count = 1
    """Number of neighbours scored at once; the search then moves to the best of them if it is better than the
    current one."""


@strategy("local_search", LocalSearchOptions)
class LocalSearch(Search):
    """Local search with one objective.

    Neighbours differ in one choice. A neighbour equivalent to an earlier candidate is not scored again, but the
    search moves to that candidate if it is better.
    """

    def __init__(self, space: Space, options: LocalSearchOptions, seed: int = 0) -> None:
        super().__init__(space, [options.objective], seed, options.trials)
        self.batch = options.batch
        self._current: ScoredCandidate | None = None
        self._neighbours: Iterator[Architecture] = iter(())
        self._scored_by_id: dict[int, ScoredCandidate] = {}

    def propose(self) -> list[Candidate]:
        """Return the next new neighbours; once all neighbours are worse than the current architecture, a random one."""
        candidates: list[Candidate] = []
        while self._current is not None and len(candidates) < self.left(self.batch):
            architecture = next(self._neighbours, None)
            if architecture is None:
                break
            if not self.space.within(architecture):
                continue
            new = self.proposals.new(architecture)
            if new is not None:
                candidates.append(new)
            elif (earlier := self.proposals.seen.get(architecture.codes)) is not None:
                self._move(self._scored_by_id.get(earlier.id))
        if not candidates:
            self._current = None
            candidates = self.proposals.sample(self.left(1))
        return candidates

    def learn(self, scored: Sequence[ScoredCandidate]) -> None:
        """Move to the best of the scored neighbours if it is better than the current architecture."""
        super().learn(scored)
        self._scored_by_id |= {entry.candidate.id: entry for entry in scored}
        self._move(min(scored, key=lambda entry: entry.values, default=None))

    def _move(self, target: ScoredCandidate | None) -> None:
        if target is not None and (self._current is None or target.values < self._current.values):
            self._current = target
            self._neighbours = neighbours(self.space, target.candidate.architecture, self.rng)

    @property
    def batches(self) -> int:
        """Maximum number of batches: one per trial."""
        return self.max_trials or 0

"""Base class of ask-tell strategies: batches of candidates, their scores, the best candidate, and the Pareto
front."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from archir.diagnostics.errors import fail
from archir.search.candidate import Candidate, Scores
from archir.search.objectives import Objectives
from archir.search.proposals import Proposals
from archir.spaces.architecture import Architecture
from archir.spaces.space import Space


@dataclass(frozen=True)
class ScoredCandidate:
    """Candidate with finite scores. `values` are its objectives in order, negated where maximised, so that smaller
    is better."""

    candidate: Candidate
    scores: Scores
    values: tuple[float, ...]


class Search(ABC):
    """Base class of ask-tell strategies: `ask` hands out the batches that `propose` returns, `tell` collects their
    scores.

    Proposals must be a deterministic function of the seed and of the scores, taken in id order. No state is therefore
    stored: to resume a search, create the strategy with the same seed and replay the scores of the finished batches.
    """

    batch_name: ClassVar[str] = "batch"
    """Word for a batch in messages and reports, such as "generation" or "rung"."""
    learns: ClassVar[bool] = True
    """Whether batches after the first depend on scores."""

    def __init__(self, space: Space, objectives: Sequence[str], seed: int, max_trials: int | None = None) -> None:
        self.space, self.max_trials = space, max_trials
        self.objectives = Objectives(space, objectives)
        self.proposals = Proposals(space, seed)
        self.rng = self.proposals.rng
        self.scored: list[ScoredCandidate] = []
        """All candidates that did not fail, ordered by batch, and by id within a batch."""
        self._asked_count = 0
        self._pending: list[Candidate] = []

    @abstractmethod
    def propose(self) -> list[Candidate]:
        """Return the next batch, which may depend on all scores so far; [] ends the search."""

    @property
    @abstractmethod
    def batches(self) -> int:
        """Maximum number of batches of the search."""

    @property
    def plan(self) -> list[tuple[int, float]]:
        """Maximum numbers of trials of the whole search, each with its training budget; [] if unknown."""
        return [] if self.max_trials is None else [(self.max_trials, 1.0)]

    def learn(self, scored: Sequence[ScoredCandidate]) -> None:
        """Record the successfully scored candidates of a batch, in id order.

        Strategies override this method to update their state.
        """
        self.scored += scored

    def left(self, count: int) -> int:
        """Return `count`, capped at the number of trials left before `max_trials`."""
        return count if self.max_trials is None else min(count, self.max_trials - self._asked_count)

    def ask(self) -> list[Candidate]:
        """Return the next batch, and the same one again until `tell` is called; [] once the search is over."""
        if not self._pending and self.left(1):
            self._pending = self.propose()
            self._asked_count += len(self._pending)
        return list(self._pending)

    def tell(self, scored: Sequence[tuple[Candidate, Scores | None]]) -> None:
        """Record the scores of all candidates of the current batch, in any order.

        A candidate counts as failed if its scores are None, or if an objective is infinite or NaN. Raises ArchError:
        A2502 (an objective is missing), A2503 (the candidates are not those of the batch).
        """
        scores_by_id = {candidate.id: scores for candidate, scores in scored}
        if len(scored) != len(scores_by_id) or scores_by_id.keys() != {candidate.id for candidate in self._pending}:
            ids = ", ".join(str(candidate.id) for candidate in self._pending) or "none"
            scored_ids = ", ".join(map(str, scores_by_id)) or "nothing"
            raise fail("A2503", f"scores were given for {scored_ids}, but asked was {ids}")
        entries = []
        for candidate in self._pending:
            if (scores := scores_by_id[candidate.id]) is not None:
                completed = self.objectives.complete(candidate.architecture, scores)
                if (values := self.objectives.values(completed)) is not None:
                    entries.append(ScoredCandidate(candidate, completed, values))
        self._pending = []
        self.learn(entries)

    def scored_at_max_budget(self) -> list[ScoredCandidate]:
        """Return the scored candidates that have the largest training budget among them."""
        largest = max((entry.candidate.budget for entry in self.scored), default=0.0)
        return [entry for entry in self.scored if entry.candidate.budget == largest]

    def best(self) -> Candidate | None:
        """Return the best candidate by the first objective; ties are broken by later objectives, then by order. None if
        none is scored."""
        return min(self.scored_at_max_budget(), key=lambda entry: entry.values).candidate if self.scored else None

    def front(self) -> list[tuple[Candidate, Scores]]:
        """Return the Pareto front, best first by the first objective; of candidates with equal values, only the
        first."""
        from archir.search.pareto import front_indices

        entries = self.scored_at_max_budget()
        return [(entries[i].candidate, entries[i].scores) for i in front_indices([entry.values for entry in entries])]


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

"""What all strategies have in common: batches, what was told, the best and the front."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from archir.diagnostics.errors import fail
from archir.search.candidate import Candidate, Scores
from archir.search.objectives import Objectives
from archir.search.proposals import Proposals
from archir.spaces.space import Space


@dataclass(frozen=True)
class Scored:
    """A candidate that did not fail; the less its values, the better."""

    candidate: Candidate
    scores: Scores
    values: tuple[float, ...]


class Search(ABC):
    """Asks what `propose` proposes, and keeps what was told."""

    batch_name: ClassVar[str] = "batch"
    """What a batch is called."""

    def __init__(self, space: Space, objectives: Sequence[str], seed: int, most: int | None = None) -> None:
        self.space, self.most = space, most
        self.objectives = Objectives(space, objectives)
        self.proposals = Proposals(space, seed)
        self.rng = self.proposals.rng
        self.scored: list[Scored] = []
        """By id."""
        self._asked = 0
        self._pending: list[Candidate] = []

    @abstractmethod
    def propose(self) -> list[Candidate]:
        """The next batch, given all that was told; empty when the search is over."""

    @property
    @abstractmethod
    def batches(self) -> int:
        """How many batches there are at most."""

    def learn(self, scored: Sequence[Scored]) -> None:
        """Keep those of a batch that did not fail, by id."""
        self.scored += scored

    def left(self, count: int) -> int:
        """So many, or as many as may still be asked."""
        return count if self.most is None else min(count, self.most - self._asked)

    def ask(self) -> list[Candidate]:
        """The next batch, the same one until it is told; empty when the search is over."""
        if not self._pending and self.left(1):
            self._pending = self.propose()
            self._asked += len(self._pending)
        return list(self._pending)

    def tell(self, scored: Sequence[tuple[Candidate, Scores | None]]) -> None:
        """The scores of all of a batch, in any order. A candidate failed if it has none, or an objective that is
        infinite or no number. Raises ArchError (A2502, A2503)."""
        told = {candidate.id: scores for candidate, scores in scored}
        if len(scored) != len(told) or told.keys() != {candidate.id for candidate in self._pending}:
            ids = ", ".join(str(candidate.id) for candidate in self._pending) or "none"
            raise fail("A2503", f"told was {', '.join(map(str, told)) or 'nothing'}, but asked was {ids}")
        new = [one for candidate in self._pending if (one := self._scored(candidate, told[candidate.id]))]
        self._pending = []
        self.learn(new)

    def _scored(self, candidate: Candidate, told: Mapping[str, float] | None) -> Scored | None:
        if told is None:
            return None
        scores = self.objectives.complete(candidate.architecture, told)
        values = self.objectives.values(scores)
        return None if values is None else Scored(candidate, scores, values)

    def finished(self) -> list[Scored]:
        """Those that were scored with the largest budget there was."""
        largest = max((one.candidate.budget for one in self.scored), default=0.0)
        return [one for one in self.scored if one.candidate.budget == largest]

    def best(self) -> Candidate | None:
        """The best by the first objective, then by the next ones; the first of equal ones."""
        return min(self.finished(), key=lambda one: one.values).candidate if self.scored else None

    def front(self) -> list[tuple[Candidate, Scores]]:
        """Those that no other is better than in all objectives, the best by the first objective first; one of those
        that are equal in all."""
        from archir.search.pareto import front

        found = self.finished()
        return [(found[i].candidate, found[i].scores) for i in front([one.values for one in found])]

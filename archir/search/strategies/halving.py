"""Successive halving: many candidates with a small training budget, then the best of them with a larger one, and
so on.

Jamieson and Talwalkar 2016; with brackets as in Li et al. 2018, Hyperband, algorithm 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil

from pydantic import Field, model_validator

from archir.diagnostics.work import MAX_COUNT
from archir.search.ask_tell import ScoredCandidate, Search
from archir.search.candidate import Candidate
from archir.search.registry import strategy
from archir.spaces.space import Space
from archir.utils.settings import Count, Settings


class HalvingOptions(Settings):
    """Options of `successive_halving`."""

    objective: str = "accuracy:max"
    population: Count = 27
    """Number of random candidates in the first rung."""
    eta: int = Field(default=3, ge=2, le=MAX_COUNT)
    """Reduction factor: 1 in `eta` candidates of a rung is promoted to the next, which has `eta` times the training
    budget."""
    rungs: int = Field(default=4, ge=1, le=64)
    """Number of rungs; candidates of the last one get the full training budget."""
    brackets: bool = False
    """Whether to run further brackets after the first (Hyperband). Each starts with fewer candidates, has one rung
    less, and needs about the same total budget."""

    @model_validator(mode="after")
    def _reaches_full_budget(self) -> HalvingOptions:
        """Reject a population so small that no candidate would reach the last rung."""
        minimum = self.eta ** (self.rungs - 1)
        if self.population < minimum:
            raise ValueError(f"`population` must be {minimum:,} or more, so that a candidate gets the full budget")
        return self


@strategy("successive_halving", HalvingOptions)
class Halving(Search):
    """Successive halving with one objective.

    Failed candidates are not promoted. `best` considers only the candidates with the largest budget.
    """

    batch_name = "rung"

    def __init__(self, space: Space, options: HalvingOptions, seed: int = 0) -> None:
        super().__init__(space, [options.objective], seed)
        self.options = options
        self._batches = self._brackets()
        self._rung: list[ScoredCandidate] = []

    def propose(self) -> list[Candidate]:
        """Return the next non-empty rung."""
        return next((batch for batch in self._batches if batch), [])

    def learn(self, scored: Sequence[ScoredCandidate]) -> None:
        """Sort the scored candidates of the rung, best first; the next rung promotes the first of them."""
        super().learn(scored)
        self._rung = sorted(scored, key=lambda entry: entry.values)

    @property
    def batches(self) -> int:
        """Total number of rungs in all brackets."""
        rungs = self.options.rungs
        return rungs * (rungs + 1) // 2 if self.options.brackets else rungs

    def initial_candidates(self, count: int, fraction: float) -> list[Candidate]:
        """Return `count` new candidates for the first rung of a bracket; `fraction` is their budget as a fraction of
        the full one."""
        return self.proposals.sample(count, fraction)

    def _brackets(self) -> Iterator[list[Candidate]]:
        """Yield the rungs of all brackets; each later rung is computed from the scores of the rung before it."""
        options = self.options
        for rungs in range(options.rungs, 0, -1) if options.brackets else [options.rungs]:
            factor = options.rungs / (rungs * options.eta ** (options.rungs - rungs))
            count = ceil(options.population * factor)
            yield self.initial_candidates(count, budget(options.eta, rungs, 0))
            for rung in range(1, rungs):
                kept = self._rung[: count // options.eta**rung]
                self._rung = []
                yield [self.proposals.with_budget(entry.candidate, budget(options.eta, rungs, rung)) for entry in kept]
            self._rung = []


def budget(eta: int, rungs: int, rung: int) -> float:
    """Return the training budget of a rung, as a fraction of the full budget of the last rung."""
    return float(eta) ** (rung + 1 - rungs)

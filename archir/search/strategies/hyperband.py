"""Hyperband: repeated brackets of successive halving; and BOHB, where a model proposes the first rungs.

Li et al. 2018, algorithm 1; Falkner et al. 2018. BOHB's model is the Gaussian process of `bayesian`, not a kernel
density estimate.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from pydantic import Field, model_validator

from archir.diagnostics.work import MAX_COUNT
from archir.search.ask_tell import ScoredCandidate
from archir.search.candidate import Candidate
from archir.search.registry import strategy
from archir.search.strategies.halving import Halving, HalvingOptions
from archir.search.surrogates import acquisition
from archir.search.surrogates.pool import CandidatePool
from archir.spaces.space import Space
from archir.utils.settings import Count, Settings

MAX_INITIAL = 1_000_000
"""Maximum number of candidates in the first rung of a bracket."""


class HyperbandOptions(Settings):
    """Options of `hyperband`."""

    objective: str = "accuracy:max"
    eta: int = Field(default=3, ge=2, le=MAX_COUNT)
    """Reduction factor: one in `eta` candidates is promoted to the next rung, with `eta` times the budget."""
    rungs: int = Field(default=4, ge=1, le=64)
    """Number of rungs of the first bracket; each further bracket has one less."""
    rounds: Count = 1
    """Number of times that all brackets are run."""

    @model_validator(mode="after")
    def _has_few_initial(self) -> HyperbandOptions:
        """Reject options for which the first rung would have too many candidates."""
        begin = self.eta ** (self.rungs - 1)
        if begin > MAX_INITIAL:
            raise ValueError(f"a bracket would begin with {begin:.0e} candidates; the maximum is {MAX_INITIAL:,}")
        return self


@strategy("hyperband", HyperbandOptions)
class Hyperband(Halving):
    """Hyperband with one objective. The first bracket begins with `eta` ** (`rungs` - 1) candidates."""

    def __init__(self, space: Space, options: HyperbandOptions, seed: int = 0) -> None:
        self.rounds = options.rounds
        eta, rungs = options.eta, options.rungs
        halving_options = HalvingOptions(
            objective=options.objective, population=eta ** (rungs - 1), eta=eta, rungs=rungs, brackets=True
        )
        super().__init__(space, halving_options, seed)

    def _brackets(self) -> Iterator[list[Candidate]]:
        """Yield the rungs of all brackets, `rounds` times."""
        for _ in range(self.rounds):
            yield from super()._brackets()

    @property
    def batches(self) -> int:
        """Total number of rungs of all brackets of all rounds."""
        return self.rounds * super().batches


class BohbOptions(HyperbandOptions):
    """Options of `bohb`: those of Hyperband, and those of the model."""

    random: float = Field(default=1 / 3, ge=0, le=1)
    """Fraction of the initial candidates of a bracket that are random."""
    least: Count = 8
    """Minimum number of scores with the same budget; the model is fitted to the largest budget that has as many."""
    parents: Count = 10
    """Number of best candidates so far whose children are in the pool."""
    children: Count = 200
    """Number of architectures in the pool that are children of the best."""
    drawn: Count = 100
    """Number of architectures in the pool that are random."""


@strategy("bohb", BohbOptions)
class Bohb(Hyperband):
    """Hyperband in which most initial candidates of a bracket are those with the largest expected improvement."""

    def __init__(self, space: Space, options: BohbOptions, seed: int = 0) -> None:
        super().__init__(space, options, seed)
        self.model_options = options
        self.pool = CandidatePool(self.proposals, options.parents, options.children, options.drawn)

    def initial_candidates(self, count: int, fraction: float) -> list[Candidate]:
        """Return the initial candidates of a bracket: random ones, and the most promising ones of the pool."""
        observed = self._observed()
        wanted = count - ceil(self.model_options.random * count) if observed else 0
        promising = self.pool.select(observed, acquisition.expected_improvement, wanted, fraction) if wanted else []
        return promising + self.proposals.sample(count - len(promising), fraction)

    def _observed(self) -> list[ScoredCandidate]:
        """Return the scored candidates of the largest budget that has enough of them; an empty list if none has."""
        by_budget: dict[float, list[ScoredCandidate]] = {}
        for entry in self.scored:
            by_budget.setdefault(entry.candidate.budget, []).append(entry)
        budgets = [budget for budget, entries in by_budget.items() if len(entries) >= self.model_options.least]
        return by_budget[max(budgets)] if budgets else []

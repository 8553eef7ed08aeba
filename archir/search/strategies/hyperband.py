"""Hyperband: repeated brackets of successive halving. BOHB: Hyperband in which a model proposes the first rungs.

Li et al. 2018, algorithm 1; Falkner et al. 2018. The model of BOHB is the Gaussian process of `bayesian`,
instead of a kernel density estimate.
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
    """Reduction factor: 1 in `eta` candidates of a rung is promoted to the next, which has `eta` times the training
    budget."""
    rungs: int = Field(default=4, ge=1, le=64)
    """Number of rungs in the first bracket; each further bracket has one less."""
    rounds: Count = 1
    """Number of times to run all brackets."""

    @model_validator(mode="after")
    def _has_few_initial(self) -> HyperbandOptions:
        """Reject options for which the first rung would exceed MAX_INITIAL candidates."""
        begin = self.eta ** (self.rungs - 1)
        if begin > MAX_INITIAL:
            raise ValueError(f"a bracket would begin with {begin:.0e} candidates; the maximum is {MAX_INITIAL:,}")
        return self


@strategy("hyperband", HyperbandOptions)
class Hyperband(Halving):
    """Hyperband with one objective. The first bracket starts with `eta` ** (`rungs` - 1) candidates."""

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
        """Total number of rungs in all brackets and rounds."""
        return self.rounds * super().batches


class BohbOptions(HyperbandOptions):
    """Options of `bohb`: those of `hyperband`, and options of the model."""

    random: float = Field(default=1 / 3, ge=0, le=1)
    """Fraction of the candidates in the first rung of a bracket that are random."""
    least: Count = 8
    """Minimum number of scores with the same training budget to fit a model; the largest budget with enough scores
    is used."""
    parents: Count = 10
    """Number of best candidates so far whose mutants go into the candidate pool."""
    children: Count = 200
    """Number of architectures in the candidate pool that are mutants of the best candidates."""
    drawn: Count = 100
    """Number of random architectures in the candidate pool."""


@strategy("bohb", BohbOptions)
class Bohb(Hyperband):
    """BOHB: Hyperband in which most candidates of a bracket's first rung are chosen by expected improvement."""

    def __init__(self, space: Space, options: BohbOptions, seed: int = 0) -> None:
        super().__init__(space, options, seed)
        self.model_options = options
        self.pool = CandidatePool(self.proposals, options.parents, options.children, options.drawn)

    def initial_candidates(self, count: int, fraction: float) -> list[Candidate]:
        """Return the first rung of a bracket: the best of the candidate pool by expected improvement, and random
        candidates."""
        observed = self._observed()
        wanted = count - ceil(self.model_options.random * count) if observed else 0
        promising = self.pool.select(observed, acquisition.expected_improvement, wanted, fraction) if wanted else []
        return promising + self.proposals.sample(count - len(promising), fraction)

    def _observed(self) -> list[ScoredCandidate]:
        """Return the scored candidates with the largest training budget for which there are enough scores; [] if there
        is none."""
        by_budget: dict[float, list[ScoredCandidate]] = {}
        for entry in self.scored:
            by_budget.setdefault(entry.candidate.budget, []).append(entry)
        budgets = [budget for budget, entries in by_budget.items() if len(entries) >= self.model_options.least]
        return by_budget[max(budgets)] if budgets else []

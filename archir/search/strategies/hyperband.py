"""Hyperband: brackets of successive halving, again and again; and BOHB, where a model proposes what begins.

Li et al. 2018, algorithm 1; Falkner et al. 2018. BOHB's model is that of `bayesian`, not kernel densities.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from pydantic import Field, model_validator

from archir.diagnostics.work import MOST
from archir.search.ask_tell import Scored
from archir.search.candidate import Candidate
from archir.search.registry import strategy
from archir.search.strategies.halving import Halving, HalvingOptions
from archir.search.surrogates import judges
from archir.search.surrogates.pool import Pool
from archir.spaces.space import Space
from archir.utils.settings import Count, Settings

MOST_BEGUN = 1_000_000
"""Candidates of a bracket."""


class HyperbandOptions(Settings):
    """How many rungs there are, and how often all brackets are gone through."""

    objective: str = "accuracy:max"
    eta: int = Field(default=3, ge=2, le=MOST)
    """One in so many goes on to the next rung, with so many times the budget."""
    rungs: int = Field(default=4, ge=1, le=64)
    """Of the first bracket; the others have one less each."""
    rounds: Count = 1
    """How often all brackets are gone through."""

    @model_validator(mode="after")
    def _begins_with_few(self) -> HyperbandOptions:
        begin = self.eta ** (self.rungs - 1)
        if begin > MOST_BEGUN:
            raise ValueError(f"a bracket would begin with {begin:.0e} candidates; {MOST_BEGUN:,} is the most")
        return self


@strategy("hyperband", HyperbandOptions)
class Hyperband(Halving):
    """One objective. The first bracket begins with `eta` ** (`rungs` - 1) candidates."""

    def __init__(self, space: Space, options: HyperbandOptions, seed: int = 0) -> None:
        self.rounds = options.rounds
        eta, rungs = options.eta, options.rungs
        plain = HalvingOptions(
            objective=options.objective, population=eta ** (rungs - 1), eta=eta, rungs=rungs, brackets=True
        )
        super().__init__(space, plain, seed)

    def _brackets(self) -> Iterator[list[Candidate]]:
        for _ in range(self.rounds):
            yield from super()._brackets()

    @property
    def batches(self) -> int:
        """The rungs of all brackets of all rounds."""
        return self.rounds * super().batches


class BohbOptions(HyperbandOptions):
    """Those of Hyperband, and when the model is asked."""

    random: float = Field(default=1 / 3, ge=0, le=1)
    """The part of what begins that is drawn all the same."""
    least: Count = 8
    """The model is fitted to scores of the largest budget that so many have."""
    parents: Count = 10
    children: Count = 200
    drawn: Count = 100


@strategy("bohb", BohbOptions)
class Bohb(Hyperband):
    """Hyperband, where most of what begins a bracket is what a Gaussian process expects to improve most."""

    def __init__(self, space: Space, options: BohbOptions, seed: int = 0) -> None:
        super().__init__(space, options, seed)
        self.model = options
        self.pool = Pool(self.proposals, options.parents, options.children, options.drawn)

    def begun(self, count: int, part: float) -> list[Candidate]:
        """Some that are drawn, and those that are promising."""
        observed = self._observed()
        wanted = count - ceil(self.model.random * count) if observed else 0
        found = self.pool.promising(observed, judges.improvement, wanted, part) if wanted else []
        return found + self.proposals.drawn(count - len(found), part)

    def _observed(self) -> list[Scored]:
        """Scores of the largest budget that enough have; none if no budget has."""
        by_budget: dict[float, list[Scored]] = {}
        for one in self.scored:
            by_budget.setdefault(one.candidate.budget, []).append(one)
        enough = [budget for budget, those in by_budget.items() if len(those) >= self.model.least]
        return by_budget[max(enough)] if enough else []

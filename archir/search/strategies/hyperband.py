"""Successive halving: many candidates with a small training budget, then the best of them with a larger one, and
so on. Hyperband: repeated brackets of successive halving. BOHB: Hyperband in which a model proposes the first rungs.

Jamieson and Talwalkar 2016; Li et al. 2018, algorithm 1; Falkner et al. 2018. The model of BOHB is the Gaussian
process of `bayesian`, instead of a kernel density estimate.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil

from pydantic import Field, model_validator

from archir.diagnostics.work import MAX_COUNT
from archir.search.ask_tell import ScoredCandidate, Search
from archir.search.candidate import Candidate
from archir.search.registry import strategy
from archir.search.surrogates.models import expected_improvement
from archir.search.surrogates.pool import CandidatePool, PoolOptions
from archir.spaces.space import Space
from archir.utils.settings import Count, Settings

MAX_INITIAL = 1_000_000
"""Maximum number of candidates in the first rung of a bracket."""


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
        if self.population < self.eta ** (self.rungs - 1):
            raise ValueError(
                "`population` must be `eta` ** (`rungs` - 1) or more, so that a candidate gets the full budget"
            )
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
    def plan(self) -> list[tuple[int, float]]:
        """Numbers of trials of all rungs, each with its budget."""
        eta = self.options.eta
        return [
            (count // eta**rung, budget(eta, rungs, rung))
            for rungs, count in self._bracket_sizes()
            for rung in range(rungs)
        ]

    @property
    def batches(self) -> int:
        """Total number of rungs in all brackets."""
        rungs = self.options.rungs
        return rungs * (rungs + 1) // 2 if self.options.brackets else rungs

    def initial_candidates(self, count: int, fraction: float) -> list[Candidate]:
        """Return `count` new candidates for the first rung of a bracket; `fraction` is their budget as a fraction of
        the full one."""
        return self.proposals.sample(count, fraction)

    def _bracket_sizes(self) -> Iterator[tuple[int, int]]:
        """Yield for each bracket its number of rungs and of candidates in the first of them."""
        options = self.options
        for rungs in range(options.rungs, 0, -1) if options.brackets else [options.rungs]:
            factor = options.rungs / (rungs * options.eta ** (options.rungs - rungs))
            yield rungs, ceil(options.population * factor)

    def _brackets(self) -> Iterator[list[Candidate]]:
        """Yield the rungs of all brackets; each later rung is computed from the scores of the rung before it."""
        options = self.options
        for rungs, count in self._bracket_sizes():
            yield self.initial_candidates(count, budget(options.eta, rungs, 0))
            for rung in range(1, rungs):
                kept = self._rung[: count // options.eta**rung]
                self._rung = []
                yield [self.proposals.with_budget(entry.candidate, budget(options.eta, rungs, rung)) for entry in kept]
            self._rung = []


def budget(eta: int, rungs: int, rung: int) -> float:
    """Return the training budget of a rung, as a fraction of the full budget of the last rung."""
    return float(eta) ** (rung + 1 - rungs)


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
        if self.eta ** (self.rungs - 1) > MAX_INITIAL:
            raise ValueError(f"`eta` ** (`rungs` - 1), the size of the first rung, must be {MAX_INITIAL:,} or less")
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
    def plan(self) -> list[tuple[int, float]]:
        """Numbers of trials of all rungs, each with its budget."""
        return super().plan * self.rounds

    @property
    def batches(self) -> int:
        """Total number of rungs in all brackets and rounds."""
        return self.rounds * super().batches


class BohbOptions(HyperbandOptions, PoolOptions):
    """Options of `bohb`: those of `hyperband`, and options of the model."""

    random: float = Field(default=1 / 3, ge=0, le=1)
    """Fraction of the candidates in the first rung of a bracket that are random."""
    least: Count = 8
    """Minimum number of scores with the same training budget to fit a model; the largest budget with enough scores
    is used."""


@strategy("bohb", BohbOptions)
class Bohb(Hyperband):
    """BOHB: Hyperband in which most candidates of a bracket's first rung are chosen by expected improvement."""

    def __init__(self, space: Space, options: BohbOptions, seed: int = 0) -> None:
        super().__init__(space, options, seed)
        self.model_options = options
        self.pool = CandidatePool(self.proposals, options)

    def initial_candidates(self, count: int, fraction: float) -> list[Candidate]:
        """Return the first rung of a bracket: the best of the candidate pool by expected improvement, and random
        candidates."""
        observed = self._observed()
        wanted = count - ceil(self.model_options.random * count) if observed else 0
        promising = self.pool.select(observed, expected_improvement, wanted, fraction) if wanted else []
        return promising + self.proposals.sample(count - len(promising), fraction)

    def _observed(self) -> list[ScoredCandidate]:
        """Return the scored candidates with the largest training budget for which there are enough scores; [] if there
        is none."""
        by_budget: dict[float, list[ScoredCandidate]] = {}
        for entry in self.scored:
            by_budget.setdefault(entry.candidate.budget, []).append(entry)
        budgets = [budget for budget, entries in by_budget.items() if len(entries) >= self.model_options.least]
        return by_budget[max(budgets)] if budgets else []

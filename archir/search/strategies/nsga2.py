"""NSGA-II: evolves a population towards the Pareto front (Deb et al. 2002)."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, inf
from typing import Annotated

from pydantic import Field, model_validator

from archir.diagnostics.work import MAX_COUNT
from archir.search.ask_tell import ScoredCandidate, Search
from archir.search.candidate import Candidate
from archir.search.pareto import crowding_distances, front_ranks
from archir.search.registry import strategy
from archir.search.variation import OutcomeCodes, crossover_codes, resample_codes, sample_winner
from archir.spaces.space import Space
from archir.utils.settings import Count, ListAsTuple, Settings


class Nsga2Options(Settings):
    """Options of `nsga2`. Defaults follow the paper (section IV) where it states them."""

    objectives: Annotated[tuple[str, ...], ListAsTuple] = ("accuracy:max", "macs:min")
    population: int = Field(default=100, ge=2, le=MAX_COUNT)
    """Number of survivors, and of children per generation."""
    crossover: float = Field(default=0.9, ge=0, le=1)
    """Expected fraction of the children that are crossovers of two parents."""
    probability: Annotated[float, Field(gt=0, le=1)] | None = None
    """Probability that each choice of a child is resampled. By default, one choice is resampled on average."""
    generations: Count | None = 250
    """Maximum number of generations, including the first. The search ends when this or `trials` is reached."""
    trials: Count | None = None
    """Maximum number of candidates. The search ends when this or `generations` is reached."""
    tries: Count = 10
    """Maximum number of attempts at a new child, per child needed, before random architectures fill up the
    generation."""

    @model_validator(mode="after")
    def _has_end(self) -> Nsga2Options:
        if self.generations is None and self.trials is None:
            raise ValueError("`generations` or `trials` must be set: the search has no end")
        return self


@strategy("nsga2", Nsga2Options)
class Nsga2(Search):
    """NSGA-II for several objectives.

    The first generation is random; later ones are children of the survivors. All candidates of the first fronts
    survive, as long as a whole front fits; from the next front, those with the largest crowding distances survive.
    """

    batch_name = "generation"

    def __init__(self, space: Space, options: Nsga2Options, seed: int = 0) -> None:
        super().__init__(space, options.objectives, seed, options.trials)
        self.options = options
        self.generation = 0
        self._fixed = [i for i, choice in enumerate(space.choices) if choice.outcome_count == 1]
        """Indices of choices with a single outcome, which mutation cannot change."""
        self.population: list[ScoredCandidate] = []
        """The survivors, fittest first."""

    def propose(self) -> list[Candidate]:
        """Return the next generation."""
        options = self.options
        if self.generation == options.generations:
            return []
        self.generation += 1
        wanted = self.left(options.population)
        children = self.proposals.varied_codes(self._child, wanted, options.tries) if self.population else []
        return children + self.proposals.sample(wanted - len(children))

    def learn(self, scored: Sequence[ScoredCandidate]) -> None:
        """Select the fittest of the survivors and the new candidates."""
        super().learn(scored)
        self.population = fittest([*self.population, *scored], self.options.population)

    @property
    def plan(self) -> list[tuple[int, float]]:
        """Maximum number of trials of all generations."""
        generations = self.batches * self.options.population
        return [(generations if self.max_trials is None else min(generations, self.max_trials), 1.0)]

    @property
    def batches(self) -> int:
        """Maximum number of generations."""
        trials = inf if self.max_trials is None else ceil(self.max_trials / self.options.population)
        return int(min(self.options.generations or inf, trials))

    def _parent(self) -> OutcomeCodes:
        return self.population[sample_winner(len(self.population), 2, self.rng)].candidate.architecture.codes

    def _child(self) -> OutcomeCodes:
        """Return the codes of a child: a mutant of one parent, or a mutated crossover of two."""
        parent, rng = self._parent(), self.rng
        free = len(parent) - parent.count(-1) - sum([parent[i] >= 0 for i in self._fixed])
        probability = self.options.probability or 1 / max(1, free)
        if rng.random() >= self.options.crossover:
            return resample_codes(self.space, parent, rng, probability)
        return crossover_codes(self.space, parent, self._parent(), rng, probability)


def fittest(scored: Sequence[ScoredCandidate], count: int) -> list[ScoredCandidate]:
    """Return the `count` fittest candidates: by front rank, then by descending crowding distance."""
    ranks_by_index = front_ranks([entry.values for entry in scored])
    fronts: list[list[ScoredCandidate]] = [[] for _ in range(max(ranks_by_index, default=-1) + 1)]
    for entry, rank in zip(scored, ranks_by_index, strict=True):
        fronts[rank].append(entry)
    survivors: list[ScoredCandidate] = []
    for front in fronts:
        if len(survivors) >= count:
            break
        distances = crowding_distances([entry.values for entry in front])
        order = sorted(range(len(front)), key=lambda i: -distances[i])
        survivors += [front[i] for i in order]
    return survivors[:count]

"""NSGA-II: a population that approaches a Pareto front (Deb et al. 2002)."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, inf
from typing import Annotated

from pydantic import Field

from archir.diagnostics.work import MOST
from archir.search.ask_tell import Scored, Search
from archir.search.candidate import Candidate
from archir.search.pareto import crowding, ranks
from archir.search.registry import strategy
from archir.search.tournaments import first
from archir.search.variation import Codes, crossed_codes, redrawn_codes
from archir.spaces.space import Space
from archir.utils.settings import Count, Many, Settings


class Nsga2Options(Settings):
    """Sizes and probabilities; those of the paper where it has some (section IV)."""

    objectives: Annotated[tuple[str, ...], Many] = ("accuracy:max", "macs:min")
    population: int = Field(default=100, ge=2, le=MOST)
    """How many survive, and how many children they have in a generation."""
    crossover: float = Field(default=0.9, ge=0, le=1)
    """The part of the children that have two parents."""
    probability: Annotated[float, Field(gt=0, le=1)] | None = None
    """With which each choice of a child is drawn anew; by default, one of its choices is on average."""
    generations: Count | None = 250
    """With the first one. The search ends after so many, or so many `trials`."""
    trials: Count | None = None
    tries: Count = 10
    """How often a child is tried, before one is drawn instead."""


@strategy("nsga2", Nsga2Options)
class Nsga2(Search):
    """Several objectives. The first generation is drawn; the others are children of those that survive: the first
    fronts, and of the one that does not fit in whole, those that lie apart."""

    batch_name = "generation"

    def __init__(self, space: Space, options: Nsga2Options, seed: int = 0) -> None:
        super().__init__(space, options.objectives, seed, options.trials)
        self.options = options
        self.generation = 0
        self._settled = [i for i, choice in enumerate(space.choices) if choice.outcomes == 1]
        self.population: list[Scored] = []
        """The fittest first."""

    def propose(self) -> list[Candidate]:
        """The next generation."""
        options = self.options
        if self.generation == options.generations:
            return []
        self.generation += 1
        wanted = self.left(options.population)
        children = self.proposals.made(self._child, wanted, options.tries) if self.population else []
        return children + self.proposals.drawn(wanted - len(children))

    def learn(self, scored: Sequence[Scored]) -> None:
        """The fittest of the population and its children survive."""
        super().learn(scored)
        self.population = fittest([*self.population, *scored], self.options.population)

    @property
    def batches(self) -> int:
        """Generations, or as many as trials allow."""
        trials = inf if self.most is None else ceil(self.most / self.options.population)
        return int(min(self.options.generations or inf, trials))

    def _parent(self) -> Codes:
        """The fitter of two: as the population is ordered, the one that comes first."""
        return self.population[first(len(self.population), 2, self.rng)].candidate.architecture.codes

    def _child(self) -> Codes:
        parent, rng = self._parent(), self.rng
        free = len(parent) - parent.count(-1) - sum([parent[i] >= 0 for i in self._settled])
        probability = self.options.probability or 1 / max(1, free)
        if not self._two():
            return redrawn_codes(self.space, parent, rng, probability)
        return crossed_codes(self.space, parent, self._parent(), rng, probability)

    def _two(self) -> bool:
        return self.rng.random() < self.options.crossover


def fittest(scored: Sequence[Scored], count: int) -> list[Scored]:
    """So many, front after front; within one, those that lie apart from others first."""
    of = ranks([one.values for one in scored])
    fronts: list[list[Scored]] = [[] for _ in range(max(of, default=-1) + 1)]
    for one, rank in zip(scored, of, strict=True):
        fronts[rank].append(one)
    found: list[Scored] = []
    for front in fronts:
        if len(found) >= count:
            break
        distances = crowding([one.values for one in front])
        order = sorted(range(len(front)), key=lambda i: -distances[i])
        found += [front[i] for i in order]
    return found[:count]

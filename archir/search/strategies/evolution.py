"""Evolutionary search: mutants and crossovers of the best, or of the most recent, architectures."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from math import ceil, inf
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from archir.search.ask_tell import ScoredCandidate, Search
from archir.search.candidate import Candidate
from archir.search.registry import strategy
from archir.search.variation import OutcomeCodes, Ranking, SortKey, crossover_codes, moved_codes, resample_codes
from archir.spaces.space import Space
from archir.utils.settings import Amount, Count, Settings

PRESETS: Mapping[str, Mapping[str, Any]] = {
    "regularised": {
        "survival": "young", "parents": 100, "population": 100, "tournament": 25,
        "mutations": 1, "crossovers": 0, "probability": None, "trials": 20_000, "repetition": True,
    },
    "tabulated": {
        "survival": "young", "parents": 20, "population": 20, "tournament": 5,
        "mutations": 1, "crossovers": 0, "probability": None, "trials": 300, "repetition": False,
    },
    "spos": {
        "survival": "best", "parents": 10, "population": 50, "tournament": 1,
        "mutations": 25, "crossovers": 25, "probability": 0.1, "generations": 20,
    },
    "ofa": {
        "survival": "best", "parents": 25, "population": 100, "tournament": 1,
        "mutations": 50, "crossovers": 50, "probability": 0.1, "generations": 501,
    },
}  # fmt: skip
"""Presets with published settings.

- `regularised`: Real et al. 2019, Regularized Evolution, algorithm 1 and section 3.
- `spos`: Guo et al. 2020, Single Path One-Shot, section 3.4 and published code.
- `ofa`: Cai et al. 2020, Once-for-All, appendix and published code (500 generations after the first).
- `tabulated`: sizes common for tabular benchmarks, where a search has a few hundred evaluations.
"""


class EvolutionOptions(Settings):
    """Options of `evolution`: a preset, and options that override it."""

    objective: str = "accuracy:max"
    preset: Literal["regularised", "tabulated", "spos", "ofa"] = "regularised"
    population: Count
    """Number of random architectures in the first generation."""
    survival: Literal["young", "best"]
    """Which architectures can become parents: the most recent (`young`) or the best (`best`)."""
    parents: Count
    """Maximum number of architectures that can become parents."""
    tournament: Count
    """Tournament size: a parent is the best of this many sampled architectures."""
    repetition: bool = True
    """Whether tournaments sample with replacement."""
    mutations: Amount
    """Number of children per generation that are mutants of one parent."""
    crossovers: Amount
    """Number of children per generation that are crossovers of two parents. If mutation and crossover yield too few
    new architectures, random ones are added."""
    probability: Annotated[float, Field(gt=0, le=1)] | None
    """Probability that a mutation resamples each choice. If unset, a mutation changes exactly one choice."""
    generations: Count | None = None
    """Maximum number of generations, including the first. The search ends when this or `trials` is reached."""
    trials: Count | None = None
    """Maximum number of candidates. The search ends when this or `generations` is reached."""
    tries: Count = 10
    """Maximum number of attempts at a new child by mutation or crossover, per child needed."""

    @model_validator(mode="before")
    @classmethod
    def _of_preset(cls, options: dict[str, Any]) -> dict[str, Any]:
        """Fill in the preset's options; its `generations` and `trials` are dropped if either is set explicitly."""
        preset = PRESETS.get(str(options.get("preset", "regularised")), {})
        unset = {name for name in _LIMITS if options.get(name) is None}
        if len(unset) < len(_LIMITS):
            preset = {name: value for name, value in preset.items() if name not in _LIMITS}
        return {**preset, **{name: value for name, value in options.items() if name not in unset}}

    @model_validator(mode="after")
    def _has_children(self) -> EvolutionOptions:
        if not self.mutations + self.crossovers:
            raise ValueError("`mutations` or `crossovers` must be 1 or more: a generation has no children")
        return self


_LIMITS = ("generations", "trials")
"""Options that limit the length of a search."""


@strategy("evolution", EvolutionOptions)
class Evolution(Search):
    """Evolutionary search with one objective.

    The first generation is random; later ones are mutants and crossovers of parents, which are selected by
    tournaments.
    """

    batch_name = "generation"

    def __init__(self, space: Space, options: EvolutionOptions, seed: int = 0) -> None:
        super().__init__(space, [options.objective], seed, options.trials)
        self.options = options
        self.generation = 0
        self.parents: deque[ScoredCandidate] = deque()
        self._keys: deque[SortKey] = deque()
        self._ranking = Ranking(options.tournament, options.repetition)
        self._scored_by_id: dict[int, ScoredCandidate] = {}
        self._young, self._max_parents = options.survival == "young", options.parents

    def propose(self) -> list[Candidate]:
        """Return the next generation."""
        options = self.options
        if self.generation == options.generations:
            return []
        self.generation += 1
        if not self.parents:
            return self.proposals.sample(self.left(options.population))
        wanted = self.left(options.mutations + options.crossovers)
        mutations = min(options.mutations, wanted)
        children = self.proposals.varied_codes(self._mutation, mutations, options.tries, self._readd_parent)
        children += self.proposals.varied_codes(self._crossover, wanted - mutations, options.tries, self._readd_parent)
        return children + self.proposals.sample(wanted - len(children))

    def learn(self, scored: Sequence[ScoredCandidate]) -> None:
        """Add the scored candidates as parents, and drop the parents that do not survive."""
        super().learn(scored)
        self._scored_by_id |= {entry.candidate.id: entry for entry in scored}
        for entry in scored:
            self._add_parent(entry)
        if not self._young:
            survivors = sorted(self.parents, key=lambda entry: entry.values)[: self.options.parents]
            while self.parents:
                self._drop_oldest()
            for entry in survivors:
                self._add_parent(entry)

    def _readd_parent(self, child: Candidate) -> None:
        """Handle a child that is equivalent to an earlier candidate and is therefore not scored again.

        With survival `young`, that candidate becomes the most recent parent again; otherwise, good architectures
        would die out merely because they were found early.
        """
        if self._young and (entry := self._scored_by_id.get(child.id)) is not None:
            self._add_parent(entry)

    def _add_parent(self, entry: ScoredCandidate) -> None:
        """Add a parent; with survival `young`, drop the oldest parent if there are too many."""
        self.parents.append(entry)
        self._keys.append(self._ranking.add(entry, self.rng))
        if self._young and len(self.parents) > self._max_parents:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        self.parents.popleft()
        self._ranking.remove(self._keys.popleft())

    def _parent(self) -> OutcomeCodes:
        return self._ranking.winner(self.rng).candidate.architecture.codes

    def _mutation(self) -> OutcomeCodes:
        parent, probability = self._parent(), self.options.probability
        if probability is None:
            return moved_codes(self.space, parent, self.rng)
        return resample_codes(self.space, parent, self.rng, probability)

    def _crossover(self) -> OutcomeCodes:
        return crossover_codes(self.space, self._parent(), self._parent(), self.rng)

    @property
    def plan(self) -> list[tuple[int, float]]:
        """Maximum number of trials of all generations."""
        options = self.options
        generations = options.population + (self.batches - 1) * (options.mutations + options.crossovers)
        return [(generations if self.max_trials is None else min(generations, self.max_trials), 1.0)]

    @property
    def batches(self) -> int:
        """Maximum number of generations."""
        options = self.options
        children = options.mutations + options.crossovers
        trials = inf if self.max_trials is None else 1 + ceil(max(0, self.max_trials - options.population) / children)
        return int(min(options.generations or inf, trials))

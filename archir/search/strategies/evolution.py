"""Evolution: children of the best, or of the young, architectures until now."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from math import ceil, inf
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from archir.search.ask_tell import Scored, Search
from archir.search.candidate import Candidate
from archir.search.registry import strategy
from archir.search.tournaments import Place, Ranking
from archir.search.variation import Codes, crossed_codes, moved_codes, redrawn_codes
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
"""Options as they were published: Real et al. 2019, Regularized Evolution, algorithm 1 and section 3; Guo et al. 2020,
Single Path One-Shot, section 3.4 and its programs; Cai et al. 2020, Once-for-All, appendix and its programs (500
generations after the first). `tabulated` has the sizes that are usual on tables of results, where a search has a few
hundred evaluations."""


class EvolutionOptions(Settings):
    """A preset, and what differs from it."""

    objective: str = "accuracy:max"
    preset: Literal["regularised", "tabulated", "spos", "ofa"] = "regularised"
    population: Count
    """Drawn at first."""
    survival: Literal["young", "best"]
    """Who may have children: the last that were tried, or the best."""
    parents: Count
    """How many of them."""
    tournament: Count
    """A parent is the best of so many that are drawn."""
    repetition: bool = True
    """Whether one may be drawn twice for a tournament."""
    mutations: Amount
    """Children of one parent in a generation."""
    crossovers: Amount
    """Children of two. What of both cannot be found is drawn."""
    probability: Annotated[float, Field(gt=0, le=1)] | None
    """With which each choice is drawn anew in a mutation; without one, a single choice is changed."""
    generations: Count | None = None
    """With the first one. The search ends after so many, or so many `trials`."""
    trials: Count | None = None
    tries: Count = 10
    """How often mutation and crossover are tried per child wanted, before they give up."""

    @model_validator(mode="before")
    @classmethod
    def _of_preset(cls, given: Any) -> Any:
        preset = PRESETS.get(str(given.get("preset", "regularised")), {}) if isinstance(given, dict) else {}
        ends = {"generations", "trials"} & given.keys() if isinstance(given, dict) else ()
        return {**{name: value for name, value in preset.items() if not ends or name not in _ENDS}, **given}

    @model_validator(mode="after")
    def _has_children(self) -> EvolutionOptions:
        if not self.mutations + self.crossovers:
            raise ValueError("`mutations` or `crossovers` must be 1 or more: a generation has no children")
        return self


_ENDS = ("generations", "trials")


@strategy("evolution", EvolutionOptions)
class Evolution(Search):
    """One objective. The first generation is drawn; of the others, so many are mutations and crossovers of parents."""

    batch_name = "generation"

    def __init__(self, space: Space, options: EvolutionOptions, seed: int = 0) -> None:
        super().__init__(space, [options.objective], seed, options.trials)
        self.options = options
        self.generation = 0
        self.parents: deque[Scored] = deque()
        self._places: deque[Place] = deque()
        self._ranking = Ranking(options.tournament, options.repetition)
        self._known: dict[int, Scored] = {}
        self._young, self._most = options.survival == "young", options.parents

    def propose(self) -> list[Candidate]:
        """The next generation."""
        options = self.options
        if self.generation == options.generations:
            return []
        self.generation += 1
        if not self.parents:
            return self.proposals.drawn(self.left(options.population))
        wanted = self.left(options.mutations + options.crossovers)
        mutations = min(options.mutations, wanted)
        children = self.proposals.made(self._mutation, mutations, options.tries, self._born_again)
        children += self.proposals.made(self._crossover, wanted - mutations, options.tries, self._born_again)
        return children + self.proposals.drawn(wanted - len(children))

    def learn(self, scored: Sequence[Scored]) -> None:
        """Those that survive become parents."""
        super().learn(scored)
        self._known |= {one.candidate.id: one for one in scored}
        for one in scored:
            self._born(one)
        if not self._young:
            survive = sorted(self.parents, key=lambda one: one.values)[: self.options.parents]
            while self.parents:
                self._dies()
            for one in survive:
                self._born(one)

    def _born_again(self, child: Candidate) -> None:
        """A child that computes what was scored before is not scored again; among the young it is born all the same, or
        what is good would die out for having been found early."""
        if self._young and (one := self._known.get(child.id)) is not None:
            self._born(one)

    def _born(self, one: Scored) -> None:
        self.parents.append(one)
        self._places.append(self._ranking.add(one, self.rng))
        if self._young and len(self.parents) > self._most:
            self._dies()

    def _dies(self) -> None:
        self.parents.popleft()
        self._ranking.remove(self._places.popleft())

    def _parent(self) -> Codes:
        return self._ranking.winner(self.rng).candidate.architecture.codes

    def _mutation(self) -> Codes:
        parent, probability = self._parent(), self.options.probability
        if probability is None:
            return moved_codes(self.space, parent, self.rng)
        return redrawn_codes(self.space, parent, self.rng, probability)

    def _crossover(self) -> Codes:
        return crossed_codes(self.space, self._parent(), self._parent(), self.rng)

    @property
    def batches(self) -> int:
        """The first generation, and what comes of it."""
        options = self.options
        children = options.mutations + options.crossovers
        trials = inf if self.most is None else 1 + ceil(max(0, self.most - options.population) / children)
        return int(min(options.generations or inf, trials))

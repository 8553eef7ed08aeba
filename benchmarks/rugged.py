"""A synthetic search problem: a space small enough to list, with conditional choices, and scores with a known optimum
and front.

A score is a sum of an effect of each active outcome and of some pairs of outcomes, sampled from normal distributions:
the effect of a choice depends on some other choices, as it does in networks.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations
from math import exp

import archir
from archir.diagrams.diagram import value_at
from archir.search.ask_tell import Search
from archir.search.pareto import hypervolume
from archir.spaces.architecture import Architecture
from archir.spaces.space import Space

TEXT = """
net rugged(classes = 4) {
    input image: f32[3, 16, 16]
    width = choose width(8, 16)
    x = image |> conv(width) |> relu
    depth = choose depth(2, 3, 4)
    repeat depth {
        x = x |> choose op {
            conv: conv(width, kernel=choose kernel(3, 5)) |> choose act { relu: relu, gelu: gelu }
            separable: conv(width, kernel=choose size(3, 5, 7), groups=width) |> conv(width, kernel=1)
        }
    }
    output logits = x |> global_avg_pool |> linear(classes)
}
"""
"""The program of the space."""
PAIRS = 0.3
"""Fraction of the pairs of outcomes that interact."""
STRENGTH = 0.5
"""Standard deviation of the effects of interacting pairs; that of single outcomes is 1."""


@lru_cache(1)
def space() -> Space:
    """Return the space of 2 * (7^2 + 7^3 + 7^4) architectures."""
    return archir.loads(TEXT)


class Rugged:
    """Accuracies of the space's architectures, a function of a seed."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        outcomes = [(choice.path, outcome) for choice in space().choices for outcome in range(choice.outcome_count)]
        self.single = {outcome: rng.gauss(0, 1) for outcome in outcomes}
        self.pairs = {pair: rng.gauss(0, STRENGTH) for pair in combinations(outcomes, 2) if rng.random() < PAIRS}

    def accuracy(self, architecture: Architecture) -> float:
        """Return the accuracy of an architecture, between 0 and 1."""
        active = list(architecture.outcomes.items())
        total = sum(self.single[outcome] for outcome in active)
        total += sum(self.pairs.get(pair, 0.0) for pair in combinations(active, 2))
        return 1 / (1 + exp(-total / 4))

    @cached_property
    def all_values(self) -> dict[Architecture, tuple[float, float]]:
        """1 - accuracy and MACs of every architecture."""
        architectures_of_space = list(space().enumerate())
        macs = space().cost(architectures_of_space, ["macs"])["macs"].tolist()
        return {
            each: (1 - self.accuracy(each), float(cost))
            for each, cost in zip(architectures_of_space, macs, strict=True)
        }

    @cached_property
    def min_error(self) -> float:
        """1 - accuracy of the best architecture."""
        return min(error for error, _ in self.all_values.values())

    def volume(self, architectures: Mapping[Architecture, object]) -> float:
        """Return the hypervolume of architectures, as a share of the hypervolume of all."""
        worst = [max(values) for values in zip(*self.all_values.values(), strict=True)]
        architectures_of_space = self.all_values
        return hypervolume([architectures_of_space[each] for each in architectures], worst) / hypervolume(
            list(architectures_of_space.values()), worst
        )


@dataclass(frozen=True)
class Evaluated:
    """The distinct architectures of a search, in the order in which they were scored."""

    rugged: Rugged
    architectures: Mapping[Architecture, None]

    def count_until_best(self) -> int | None:
        """Return the number of scored architectures up to the best of all; None if that was never scored."""
        errors = [self.rugged.all_values[each][0] for each in self.architectures]
        return errors.index(self.rugged.min_error) + 1 if self.rugged.min_error in errors else None

    def volume(self) -> float:
        """Return their share of the hypervolume of all architectures."""
        return self.rugged.volume(self.architectures)


def search(strategy: Search, rugged: Rugged) -> Evaluated:
    """Run a strategy until it ends, and return its architectures."""
    evaluated: dict[Architecture, None] = {}
    while batch := strategy.ask():
        evaluated |= {candidate.architecture: None for candidate in batch}
        strategy.tell([(candidate, {"accuracy": rugged.accuracy(candidate.architecture)}) for candidate in batch])
    return Evaluated(rugged, evaluated)


def search_by_optuna(
    rugged: Rugged, objectives: int, budget: int, population: int, seed: int, repeats: int = 3
) -> Evaluated:
    """Run Optuna's NSGA-II on the same choices, and return its architectures.

    All choices are suggested, also inactive ones: Optuna crosses and mutates only parameters that every trial has, and
    samples others at random. Repeated architectures do not count: the search ends at `budget` distinct ones, or after
    `1 + repeats` times as many trials.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sampler = optuna.samplers.NSGAIISampler(population_size=population, seed=seed)
    study = optuna.create_study(directions=["minimize"] * objectives, sampler=sampler)
    evaluated: dict[Architecture, None] = {}
    for _ in range((1 + repeats) * budget):
        if len(evaluated) == budget:
            break
        trial = study.ask()
        architecture = architecture_of(trial.suggest_categorical)
        evaluated[architecture] = None
        values = rugged.all_values[architecture]
        study.tell(trial, values[:objectives])
    return Evaluated(rugged, evaluated)


def architecture_of(suggest: Callable[[str, list[int]], int]) -> Architecture:
    """Return the architecture of suggestions for each choice; those of inactive choices are ignored."""
    suggestions = {choice.path: suggest(choice.path, list(range(choice.outcome_count))) for choice in space().choices}
    outcomes: dict[str, int] = {}
    for decision in space().order:
        if value_at(decision.active, outcomes) is True:
            outcomes[decision.choice.path] = suggestions[decision.choice.path]
    return space().decode([outcomes.get(choice.path, -1) for choice in space().choices])

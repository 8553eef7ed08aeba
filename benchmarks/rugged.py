"""A space small enough to list, with conditional choices, and scores of which the best and the front are known.

A score is a sum of an effect of each active outcome and of some pairs of them, drawn from normal distributions: what is
good in one place depends on other places, as it does of networks, but not on all of them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations
from math import exp

import archir
from archir.diagrams.mdd import value_at
from archir.search.candidate import MultiTrial
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
PAIRS = 0.3
"""The part of all pairs of outcomes that interact."""
STRENGTH = 0.5
"""The standard deviation of what interacting pairs add; that of single outcomes is 1."""


@lru_cache(1)
def space() -> Space:
    """The space: 2 * (7^2 + 7^3 + 7^4) architectures."""
    return archir.loads(TEXT)


class Rugged:
    """Accuracies of the space's architectures: functions of a seed."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        outcomes = [(choice.path, outcome) for choice in space().choices for outcome in range(choice.outcome_count)]
        self.single = {one: rng.gauss(0, 1) for one in outcomes}
        self.pairs = {pair: rng.gauss(0, STRENGTH) for pair in combinations(outcomes, 2) if rng.random() < PAIRS}

    def accuracy(self, architecture: Architecture) -> float:
        """Between 0 and 1."""
        active = list(architecture.outcomes.items())
        total = sum(self.single[one] for one in active)
        total += sum(self.pairs.get(pair, 0.0) for pair in combinations(active, 2))
        return 1 / (1 + exp(-total / 4))

    @cached_property
    def everything(self) -> dict[Architecture, tuple[float, float]]:
        """Of every architecture, 1 - accuracy and MACs."""
        every = list(space().enumerate())
        macs = space().cost(every, ["macs"])["macs"].tolist()
        return {one: (1 - self.accuracy(one), float(cost)) for one, cost in zip(every, macs, strict=True)}

    @cached_property
    def least(self) -> float:
        """What is lacking to accuracy 1 in the best architecture."""
        return min(lack for lack, _ in self.everything.values())

    def volume(self, architectures: Mapping[Architecture, object]) -> float:
        """The hypervolume of architectures, as a part of what all of them have."""
        worst = [max(values) for values in zip(*self.everything.values(), strict=True)]
        every = self.everything
        return hypervolume([every[one] for one in architectures], worst) / hypervolume(list(every.values()), worst)


@dataclass(frozen=True)
class Tried:
    """Distinct architectures, in the order in which they were scored."""

    rugged: Rugged
    architectures: Mapping[Architecture, None]

    def at_best(self) -> int | None:
        """How many were scored until the best of all was; None if it never was."""
        lacks = [self.rugged.everything[one][0] for one in self.architectures]
        return lacks.index(self.rugged.least) + 1 if self.rugged.least in lacks else None

    def volume(self) -> float:
        """The part of the hypervolume that they have."""
        return self.rugged.volume(self.architectures)


def search(strategy: MultiTrial, rugged: Rugged) -> Tried:
    """What a strategy tries until it ends."""
    tried: dict[Architecture, None] = {}
    while batch := strategy.ask():
        tried |= {candidate.architecture: None for candidate in batch}
        strategy.tell([(one, {"accuracy": rugged.accuracy(one.architecture)}) for one in batch])
    return Tried(rugged, tried)


def reference(rugged: Rugged, objectives: int, budget: int, population: int, seed: int, repeats: int = 3) -> Tried:
    """What the NSGA-II of Optuna tries, on the same choices.

    All of them are suggested, also where they are inactive: Optuna crosses and mutates only what every trial has, and
    leaves the rest to chance. What it repeats is not counted: it goes on until so many different ones were scored, or
    `1 + repeats` times as many in all.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sampler = optuna.samplers.NSGAIISampler(population_size=population, seed=seed)
    study = optuna.create_study(directions=["minimize"] * objectives, sampler=sampler)
    tried: dict[Architecture, None] = {}
    for _ in range((1 + repeats) * budget):
        if len(tried) == budget:
            break
        trial = study.ask()
        architecture = suggested(trial.suggest_categorical)
        tried[architecture] = None
        values = rugged.everything[architecture]
        study.tell(trial, values[:objectives])
    return Tried(rugged, tried)


def suggested(suggest: Callable[[str, list[int]], int]) -> Architecture:
    """The architecture of what is suggested for each choice, of which those that are inactive do not matter."""
    wished = {choice.path: suggest(choice.path, list(range(choice.outcome_count))) for choice in space().choices}
    outcomes: dict[str, int] = {}
    for decision in space().order:
        if value_at(decision.active, outcomes) is True:
            outcomes[decision.choice.path] = wished[decision.choice.path]
    return space().decode([outcomes.get(choice.path, -1) for choice in space().choices])

"""Searches of a space whose best architecture and front are known, a tenth of it being scored; Optuna's NSGA-II beside.

Each seed has scores of its own (`benchmarks/rugged.py`), so that no strategy is fitted to one of them.
"""

from __future__ import annotations

from statistics import mean
from typing import Any

import pytest

from archir.search.registry import create
from benchmarks.rugged import Rugged, search, search_by_optuna, space

SEEDS, FEW = range(10), range(3)
TENTH = 558
EVOLUTION = {"population": 50, "parents": 50, "tournament": 10, "mutations": 10, "trials": TENTH}
NSGA2 = {"population": 40, "trials": TENTH}


def test_space_has_5586_distinct_architectures() -> None:
    assert space().size == 2 * (7**2 + 7**3 + 7**4) == 5_586
    assert len({space().canonical(one) for one in space().enumerate()}) == 5_586
    assert TENTH <= 5_586 / 10


def found(strategy: str, options: dict[str, Any], seed: int) -> bool:
    """Whether a tenth of the space is enough to find the best."""
    tried = search(create(strategy, space(), options, seed), Rugged(seed))
    assert len(tried.architectures) == TENTH
    return tried.count_until_best() is not None


@pytest.mark.parametrize("seed", FEW)
def test_evolution_finds_optimum(seed: int) -> None:
    assert found("evolution", EVOLUTION, seed)


@pytest.mark.soak
def test_evolution_finds_optimum_nine_times_in_ten() -> None:
    seeds = range(60)
    assert sum(found("evolution", EVOLUTION, seed) for seed in seeds) >= 0.9 * len(seeds)
    assert sum(found("random", {"trials": TENTH}, seed) for seed in seeds) < 0.25 * len(seeds)


@pytest.mark.parametrize("seed", FEW)
def test_nsga2_finds_the_front(seed: int) -> None:
    assert search(create("nsga2", space(), NSGA2, seed), Rugged(seed)).volume() >= 0.99


@pytest.mark.soak
def test_nsga2_is_no_worse_than_optuna() -> None:
    ours, theirs = [], []
    for seed in SEEDS:
        rugged = Rugged(seed)
        tried = search(create("nsga2", space(), NSGA2, seed), rugged)
        known = search_by_optuna(rugged, 2, TENTH, NSGA2["population"], seed, repeats=1)
        assert len(tried.architectures) == TENTH >= len(known.architectures)
        ours.append(tried.volume())
        theirs.append(known.volume())
    assert min(ours) >= 0.99
    assert mean(ours) >= mean(theirs) - 0.001


@pytest.mark.parametrize(("seeds", "most"), [(FEW, 1), pytest.param(SEEDS, 3, marks=pytest.mark.soak)])
def test_random_search_misses_optimum_and_front(seeds: range, most: int) -> None:
    """The problem is one: what the strategies find, draws do not."""
    found = []
    for seed in seeds:
        rugged = Rugged(seed)
        tried = search(create("random", space(), {"trials": TENTH}, seed), rugged)
        found.append((tried.count_until_best() is not None, tried.volume()))
    assert sum(best for best, _ in found) <= most
    assert mean(volume for _, volume in found) < 0.98

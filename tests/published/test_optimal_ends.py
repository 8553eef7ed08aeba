"""Exact optimisation of the published spaces: its ends are those of `archir cost`; no draw beats it within bounds."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import archir
from archir.spaces.scores import AdditiveScores, Term
from tests.published.test_spaces import SPACES, space_of
from tests.soak import with_soak

COSTS = ("params", "macs", "activation_bytes", "kernels")


@pytest.mark.parametrize("name", with_soak(SPACES, ["nas_bench_201"]))
def test_optimize_extremes_equal_cost_account_extremes(name: str) -> None:
    space = space_of(name)
    for cost in COSTS:
        least, greatest = space.account.extremes(cost)
        assert archir.optimize(space, minimize=cost).values == (least.value,)
        assert archir.optimize(space, maximize=cost).values == (greatest.value,)


@pytest.mark.parametrize("name", with_soak(SPACES, ["autoformer"]))
def test_no_draw_within_bounds_is_better(name: str) -> None:
    space = space_of(name)
    costs = space.cost(space.sample_codes(2_000, np.random.default_rng(0)), COSTS)
    for cost, other in (("macs", "params"), ("activation_bytes", "kernels")):
        for part in (0.1, 0.5):
            limit = int(np.quantile(costs[other], part))
            answer = archir.optimize(space, minimize=cost, where=f"{other} >= {limit}", seconds=60)
            assert answer.proved
            assert answer.values[0] <= costs[cost][costs[other] >= limit].min()
            assert int(space.cost([answer.best], [cost])[cost][0]) == answer.values[0]
            assert int(space.cost([answer.best], [other])[other][0]) >= limit


@pytest.mark.parametrize("name", with_soak(SPACES, []))
def test_no_draw_within_two_bounds_has_better_scores(name: str) -> None:
    space, rng = space_of(name, **SPACES[name].small), np.random.default_rng(1)
    codes = space.sample_codes(300, np.random.default_rng(0))
    costs = space.cost(codes, ["macs", "params"])
    limits = [f"{cost} <= {int(np.quantile(costs[cost], part))}" for cost, part in (("macs", 0.2), ("params", 0.3))]
    each = {
        one.path: [Fraction(int(n), 10**6) for n in rng.integers(0, 10**6, one.outcome_count)] for one in space.choices
    }
    terms = [Term((path,), {(i,): score for i, score in enumerate(row)}) for path, row in each.items()]
    scores, bounded = AdditiveScores(space.name, tuple(terms)), space.where(" and ".join(limits))
    answer = archir.optimize(bounded, maximize=scores)
    drawn = [scores(space.decode(row)) for row in codes[bounded.bounds_mask(codes)]]
    assert answer.proved
    assert answer.values[0] == scores(answer.best) >= max(drawn, default=0)
    assert bounded.within(answer.best)

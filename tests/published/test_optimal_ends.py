"""Exact optimisation of the published spaces: its ends are those of `archir cost`; no draw beats it within bounds."""

from __future__ import annotations

import numpy as np
import pytest

import archir
from tests.portions import portion
from tests.published.test_spaces import SPACES, space_of

COSTS = ("params", "macs", "activation_bytes", "kernels")


@pytest.mark.parametrize("name", portion(SPACES, ["nas_bench_201"]))
def test_ends(name: str) -> None:
    space = space_of(name)
    for cost in COSTS:
        least, greatest = space.account.extremes(cost)
        assert archir.optimize(space, minimize=cost).values == (least.value,)
        assert archir.optimize(space, maximize=cost).values == (greatest.value,)


@pytest.mark.parametrize("name", portion(SPACES, ["autoformer"]))
def test_no_draw_within_bounds_is_better(name: str) -> None:
    space = space_of(name)
    costs = space.cost(space.sample_codes(2_000, np.random.default_rng(0)), COSTS)
    for cost, other in (("macs", "params"), ("activation_bytes", "kernels")):
        for part in (0.1, 0.5):
            limit = int(np.quantile(costs[other], part))
            answer = archir.optimize(space, minimize=cost, where=f"{other} >= {limit}", seconds=60)
            assert answer.settled
            assert answer.values[0] <= costs[cost][costs[other] >= limit].min()
            assert int(space.cost([answer.best], [cost])[cost][0]) == answer.values[0]
            assert int(space.cost([answer.best], [other])[other][0]) >= limit

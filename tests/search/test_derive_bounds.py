"""Derivation under bounds on costs: these are kept, and no architecture within them is stronger."""

from __future__ import annotations

from math import log

import numpy as np
import pytest

import archir
from archir.diagnostics.errors import ArchError
from archir.recipes.derivation import check_nonempty, derive_limited
from archir.recipes.recipe import Derive, SkipLimit
from archir.spaces.space import Space
from tests.published.test_spaces import SPACES, space_of
from tests.soak import with_soak

NAMES = ("full_attention", "autola", "nas_bench_201", "mobilenet_v3_ofa", "autoformer")
COSTS = ("macs", "params", "activation_bytes", "kernels")
SMALL = """
    net small() {
        input image: f32[3, 8, 8]
        x = image |> conv(8)
        repeat choose depth(1, 2, 3) {
            x = x |> choose op {
                wide:   conv(8, kernel=5) |> relu
                narrow: conv(8, kernel=1) |> relu
                skip:   identity
            }
        }
        output logits = x |> global_avg_pool |> linear(10)
    }
"""


def given_up(space: Space, strengths: dict[str, list[float]], codes: np.ndarray) -> np.ndarray:
    """By architecture, the logarithm of what is taken beside the strongest of each choice; written again."""
    found = np.zeros(len(codes))
    for column, choice in enumerate(space.choices):
        row = strengths[choice.path]
        found += np.array([*(log(one / max(row)) for one in row), 0.0])[codes[:, column]]
    return found


def drawn(space: Space, rng: np.random.Generator) -> dict[str, list[float]]:
    """What a softmax makes of random logits."""
    logits = {choice.path: rng.normal(0, 2, choice.outcome_count) for choice in space.choices}
    return {path: (np.exp(row) / np.exp(row).sum()).tolist() for path, row in logits.items()}


def searches(name: str, seeds: int, draws: int) -> None:
    small = {} if name == "nas_bench_201" else SPACES[name].small
    space = space_of(name, **small)
    for seed in range(seeds):
        rng = np.random.default_rng([seed, NAMES.index(name)])
        strengths = drawn(space, rng)
        free = dict(derive_limited(space, strengths, Derive()))
        texts = []
        for cost in rng.choice(COSTS, int(rng.integers(1, 3)), replace=False):
            low, high = (int(end.value) for end in space.account.extremes(cost))
            texts.append(f"{cost} <= {int(low + rng.uniform(0.05, 0.6) * (high - low))}")
        within = space.where(" and ".join(texts))
        codes = within.sample_codes(draws, rng)
        one = derive_limited(within, strengths, Derive())
        assert within.within(one)
        own = given_up(space, strengths, np.array([one.codes]))[0]
        assert own >= given_up(space, strengths, codes).max() - 1e-6, (seed, texts)
        everything = " and ".join(f"{cost} <= {space.account.extremes(cost)[1].value}" for cost in COSTS)
        assert dict(derive_limited(space.where(everything), strengths, Derive())) == free


@pytest.mark.parametrize("name", with_soak(NAMES, []))
def test_derivation_is_no_weaker_than_ten_thousand_samples(name: str) -> None:
    searches(name, 20, 10_000)


@pytest.mark.parametrize("name", ["nas_bench_201"])
def test_derivation_is_no_weaker_than_sampled_architectures(name: str) -> None:
    searches(name, 1, 200)


def test_derivation_equals_brute_force_optimum_within_bounds() -> None:
    space = archir.loads(SMALL)
    codes = np.array([one.codes for one in space.enumerate()], np.int16)
    macs = space.cost(codes, ["macs"])["macs"]
    for seed in range(5):
        rng = np.random.default_rng(seed)
        strengths, limit = drawn(space, rng), int(rng.choice(macs))
        within = space.where(f"macs <= {limit}")
        best = given_up(space, strengths, codes[macs <= limit]).max()
        found = derive_limited(within, strengths, Derive())
        assert within.within(found)
        assert given_up(space, strengths, np.array([found.codes]))[0] == pytest.approx(best, abs=1e-6)


def test_exclusions_and_skip_limit_hold_with_cost_bounds() -> None:
    space = archir.loads(SMALL)
    strengths = {choice.path: [1 / choice.outcome_count] * choice.outcome_count for choice in space.choices}
    limit = SkipLimit(labels=("narrow",), most=0)
    within = space.where("macs <= 0.5x")
    found = derive_limited(within, strengths, Derive(exclude=("skip",), limit=limit))
    assert within.within(found)
    assert "skip" not in found.values()
    assert "narrow" not in found.values()
    nothing = space.where("macs <= 0.1x")
    check_nonempty(nothing, Derive(exclude=("wide",)))
    with pytest.raises(ArchError, match=r"A2101.*without the excluded alternatives: no architecture has macs"):
        check_nonempty(nothing, Derive(exclude=("skip",), limit=limit))


def test_unsatisfiable_bounds_suggest_feasible_ones() -> None:
    space = archir.loads(SMALL).where("params <= 2000 and macs >= 0.5x")
    with pytest.raises(ArchError, match=r"A1603.*no architecture has params <= 2000 and macs >= "):
        check_nonempty(space, Derive())
    with pytest.raises(ArchError, match=r"(?s)A3301.*no architecture has .*would do, if the others stay"):
        derive_limited(space, {}, Derive())

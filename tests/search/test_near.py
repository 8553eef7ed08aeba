"""Restricting a space to architectures whose cost comes close to a bound."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import archir
from archir.diagnostics.errors import ArchError
from archir.search import near_bounds as module
from archir.search.near_bounds import CostBounds, restrict
from archir.spaces.space import Space
from archir.utils.settings import parse_settings

SPACE = archir.loads("""net n {
    input image: f32[3, 8, 8]
    x = image
    for i in 0..4 { x = x |> conv(choose width([4 * k for k in 1..9]), kernel=3) |> relu }
    output y = x |> global_avg_pool |> linear(10)
}""")
EACH = SPACE.cost(list(SPACE.enumerate()))
MOST = {name: int(max(EACH[name])) for name in ("macs", "params")}


def used(space: Space, cost: str = "macs") -> float:
    """The least part of the whole that architectures of a space cost, of two hundred that are drawn."""
    return float(min(space.cost(space.sample_codes(200, np.random.default_rng(0)))[cost]) / MOST[cost])


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is enough for a space of 4,096."""
    monkeypatch.setattr(module, "MIN_ARCHITECTURES", 100)


@pytest.mark.parametrize(("bound", "part", "least"), [(0.5, 0.9, 0.9), (0.8, 0.5, 0.5), (0.1, 0.9, 0.8)])
def test_restricted_space_equals_architectures_near_bound(bound: float, part: float, least: float) -> None:
    """Where a hundred do not, those of a tenth less."""
    limit = int(MOST["macs"] * bound)
    wanted = np.sum((EACH["macs"] <= limit) & (EACH["macs"] >= least * limit))
    assert restrict(SPACE, f"macs <= {bound}x", part).count() == (wanted, wanted)
    assert wanted >= module.MIN_ARCHITECTURES


def test_documented_share_near_bound_is_correct() -> None:
    whole = archir.load(f"{Path(__file__).parents[2]}/examples/shrink/cifar.arch:space")
    near_half, half = (whole.where(f"macs <= 0.5x{more}").count()[0] for more in (" and macs >= 0.45x", ""))
    assert round(100 * near_half / half) == 7


def test_slack_bound_is_ignored() -> None:
    assert used(restrict(SPACE, "macs <= 0.5x and params < 1M", 0.9)) >= 0.45
    assert used(restrict(SPACE, "params < 0.5x and macs <= 1x", 0.9), "params") >= 0.449


def test_bounds_without_fraction_or_additivity_stay_unchanged() -> None:
    everything = SPACE.where("macs <= 0.5x").count()
    assert restrict(SPACE, "macs <= 0.5x", 0).count() == everything
    assert restrict(SPACE, "macs >= 0.5x", 0.9).count() == SPACE.where("macs >= 0.5x").count()
    assert used(restrict(SPACE, "macs <= 0.5x and peak_bytes <= 0.9x", 0.9)) < 0.3


def test_uncountable_space_is_restricted_by_sampling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("archir.costs.account.Account.is_countable", lambda account, ranges: False)
    assert used(restrict(SPACE, "macs <= 0.5x", 0.9)) >= 0.45
    assert used(restrict(SPACE, "macs <= 0.5x and macs >= 0.1x", 1.0)) >= 0.4


def test_rejects_bound_that_hardly_any_sample_satisfies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("archir.costs.account.Account.is_countable", lambda account, ranges: False)
    monkeypatch.setattr("archir.spaces.rows.MAX_REJECTIONS", 100)
    with pytest.raises(ArchError, match="A1005"):
        restrict(SPACE, f"macs <= {min(EACH['macs'])}", 0.9)


def test_rejects_budget_fraction_without_bound() -> None:
    with pytest.raises(
        ArchError, match=r"A1109.*`min_budget_fraction` is a fraction of a bound in `where`, which is missing"
    ):
        parse_settings(CostBounds, {"min_budget_fraction": 0.9})


def test_rejects_unsatisfiable_bound() -> None:
    with pytest.raises(ArchError, match=r"A1603.*no architecture has macs <= 10"):
        restrict(SPACE, "macs <= 10", 0.9)

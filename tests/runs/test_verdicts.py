"""What a report says about whether a search worked."""

from __future__ import annotations

import pytest

from archir.runs.verdicts import (
    BoundUse,
    accuracy_interval,
    bound_verdict,
    chance_verdict,
    overall,
    probability_verdict,
    sampling_error,
    trials_verdict,
)


@pytest.mark.parametrize(
    ("strongest", "state", "claim"),
    [(0.26, "undecided", "undecided"), (0.5, "undecided", "partly decided"), (0.9, "worked", "decided")],
)
def test_architecture_parameters(strongest: float, state: str, claim: str) -> None:
    rest = (1 - strongest) / 3
    verdict = probability_verdict("search", {"op": [rest, strongest, rest, rest]}, 10)
    assert verdict is not None
    assert (verdict.state, verdict.claim) == (state, claim)
    assert f"the strongest alternative has {4 * strongest:.2f} times an equal share" in verdict.evidence
    assert verdict.change == ({} if state == "worked" else {"training.epochs": 20})
    assert probability_verdict("search", {}, 10) is None


def test_supernet_at_chance() -> None:
    verdict = chance_verdict("search", "the supernet", 0.112, 700, 10, 5)
    assert verdict is not None
    assert verdict.claim == "the supernet is at chance"
    assert verdict.evidence == "accuracy 11.20%, where guessing one of 10 classes gives 10.0%"
    assert verdict.change == {"training.epochs": 10}
    assert chance_verdict("search", "the supernet", 0.112, 70_000, 10) is None
    assert chance_verdict("search", "the supernet", 0.5, 700, 10) is None


def test_bound_not_reached_and_not_kept() -> None:
    verdict = bound_verdict("search", [BoundUse("macs <= 300K", 300_000, 132_000), BoundUse("params < 1M", 1e6, 10)])
    assert verdict is not None
    assert verdict.claim == "the bound was kept, with room left"
    assert verdict.evidence == "the best architecture uses 44% of `macs <= 300K`"
    assert verdict.change == {"options.min_budget_fraction": 0.9}
    near = bound_verdict("search", [BoundUse("macs <= 300K", 300_000, 132_000)], searches_near=True)
    assert near is not None
    assert near.change == {}
    failed = bound_verdict("search", [BoundUse("macs <= 300K", 300_000, 330_000)])
    assert failed is not None
    assert failed.claim == "the bound was not kept"
    assert failed.evidence == "the architecture costs 110% of `macs <= 300K`"
    assert bound_verdict("search", [BoundUse("macs <= 300K", 300_000, 290_000)]) is None
    assert bound_verdict("search", []) is None
    assert overall([verdict, failed]) is failed
    assert overall([]) is None


def test_trials_are_compared_with_the_first_ones() -> None:
    def claim(scores: list[float], larger: bool = True, **options: bool | int) -> str:
        verdict = trials_verdict(
            "search", "accuracy" if larger else "loss", larger, scores, 2, **{"learns": True} | options
        )
        assert verdict is not None
        return f"{verdict.state}: {verdict.claim}"

    assert claim([0.5, 0.6, 0.7]) == "worked: better than random architectures"
    assert claim([0.5, 0.6, 0.4]) == "undecided: no gain over random architectures"
    assert claim([2.0, 1.0, 0.5], larger=False) == "worked: better than random architectures"
    assert claim([0.5, 0.6, 0.61], samples=100) == "undecided: undecided"
    assert claim([0.5, 0.6, 0.61], samples=100_000) == "worked: better than random architectures"
    assert claim([0.5, 0.6, 1.04], samples=100) == "worked: better than random architectures"  # 1.04 was predicted
    assert claim([0.5, 0.6, 0.4], exhausted=True) == "worked: all architectures were tried"
    assert claim([0.5, 0.6, 0.7], learns=False) == "not judged: best of 3"
    assert trials_verdict("search", "accuracy", True, [], 2, True) is None
    none_at_full_budget = trials_verdict("search", "accuracy", True, [0.5, 0.6], 0, True)
    assert none_at_full_budget is not None
    assert "no random architecture was tried with the full training budget" in none_at_full_budget.evidence


def test_interval_of_accuracy_is_wilsons() -> None:
    low, high = accuracy_interval(0.9, 100)
    assert (round(low, 4), round(high, 4)) == (0.8256, 0.9448)
    assert accuracy_interval(1.0, 10)[1] == 1.0
    assert accuracy_interval(0.0, 10)[0] == 0.0


def test_only_measured_accuracies_have_a_sampling_error() -> None:
    assert sampling_error(0.5, 100) == 0.05
    assert sampling_error(1.0, 100) == 0
    assert sampling_error(0.5, 0) is None
    assert sampling_error(1.04, 100) is None
    assert sampling_error(-0.01, 100) is None

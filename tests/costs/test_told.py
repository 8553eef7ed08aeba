"""How extreme costs are printed, and the cost nearest to a range."""

from __future__ import annotations

import pytest

import archir
from archir.cli.space_cost import _count_within_budget, _format_extreme
from archir.costs.extremes.witnesses import Extreme
from archir.diagnostics.errors import ArchError, fail
from archir.diagnostics.work import spend, work_budget


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (Extreme(1_000, (0, 1)), "1,000"),
        (Extreme(1_000, (0, 1), 1_000), "1,000"),
        (Extreme(1_000, None), "at least 1,000"),
        (Extreme(1_000, None, 900), "at least 900"),
        (Extreme(1_000, (0, 1), 900), "between 900 and 1,000"),
        (Extreme(900, (0, 1), 1_000), "between 900 and 1,000"),
    ],
)
def test_inexact_extremes_are_printed_as_bounds(found: Extreme, told: str) -> None:
    assert _format_extreme(found, "at most" if (found.bound or 0) > found.value else "at least") == told


def test_counts_that_exceed_the_work_limit_are_left_out() -> None:
    def exceed() -> int:
        spend(1e30)
        return 1

    def contradict() -> int:
        raise fail("A0510", "there is no architecture")

    with work_budget():
        assert _count_within_budget(exceed) is None
        with pytest.raises(ArchError, match="A0510"):
            _count_within_budget(contradict)


SPACE = archir.loads("""
net widths() {
    input x: f32[3]
    output y = x |> linear(choose a(1, 2, 5, 9)) |> linear(choose b(2, 3, 7)) |> linear(4)
}
""")
COSTS = sorted({archir.cost(SPACE.specialize(one)).params for one in SPACE.enumerate()})


GAPS = [
    (low, low + width)
    for low in range(COSTS[0] - 9, COSTS[-1] + 4, 5)
    for width in (0, 1, 6)
    if not any(low <= cost <= low + width for cost in COSTS)
]


@pytest.mark.parametrize(("low", "high"), GAPS)
def test_nearest_cost_equals_brute_force(low: int, high: int) -> None:
    distances = {cost: max(low - cost, cost - high) for cost in COSTS}
    found = SPACE.account.nearest_cost("params", low, high)
    assert distances[found] == min(distances.values())

"""Extremes, marginals, means and counts of random choice chains equal those of all listed architectures."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import comb

import numpy as np
import pytest

from archir.costs.chain import Chain
from archir.costs.counting import stages
from archir.costs.counting.joint_bounds import Limit, ResidualBudgets
from archir.costs.counting.stages import Stages
from archir.costs.extremes import arrays, witnesses
from archir.costs.means import mean_totals
from archir.costs.optimal.network import build_network
from archir.costs.optimal.optimum import optimum
from archir.diagnostics.errors import ArchError
from archir.diagrams.diagram import Choice, Value, make_diagram, outcome_in, support, value_at, varies
from archir.ir.graph import Decision
from tests.soak import with_soak

CONSTANT = (5, -2)
ENTRIES = 10**6
Listed = dict[tuple[int, ...], tuple[int, ...]]


def condition(rng: np.random.Generator, choices: list[Choice]) -> Value:
    """A random condition on one choice or two."""
    first, *others = sorted(rng.choice(len(choices), min(len(choices), int(rng.integers(1, 3))), replace=False))
    below: list[Value] = [bool(holds) for holds in rng.random(choices[first].outcome_count) < 0.7]
    for other in others:
        held = [
            outcome_in(choices[other], np.flatnonzero(rng.random(choices[other].outcome_count) < 0.7).tolist())
            for _ in below
        ]
        below = [holds or one for holds, one in zip(below, held, strict=True)]
    return make_diagram(choices[first], below)


def settled(order: list[Decision], outcomes: dict[str, int]) -> dict[str, int]:
    """Outcomes with the first one for each inactive choice."""
    found = dict(outcomes)
    for decision in order:
        if decision.choice.path in found and value_at(decision.active, found) is not True:
            found[decision.choice.path] = 0
    return found


def table(rng: np.random.Generator, order: list[Decision]) -> tuple[tuple[Choice, ...], np.ndarray]:
    """A random table of two costs, in which the outcomes of inactive choices do not matter."""
    about = {order[i].choice for i in rng.integers(0, len(order), 2)}
    for decision in reversed(order):
        about |= set(support(decision.active)) if decision.choice in about else set()
    choices = tuple(decision.choice for decision in order if decision.choice in about)
    numbers = rng.integers(-4, 9, (*(choice.outcome_count for choice in choices), 2)).astype(np.int64)
    for cell in np.ndindex(numbers.shape[:-1]):
        numbers[cell] = numbers[tuple(settled(order, {c.path: i for c, i in zip(choices, cell, strict=True)}).values())]
    return choices, numbers


def drawn(seed: int) -> tuple[Chain, Listed]:
    """A chain of two costs, and those of all its architectures."""
    rng = np.random.default_rng(seed)
    choices = [Choice(f"c{i}", tuple(range(rng.integers(2, 4))), i) for i in range(rng.integers(2, 6))]
    order = [
        Decision(choice, condition(rng, choices[:i]) if i and rng.random() < 0.4 else True)
        for i, choice in enumerate(choices)
    ]
    conditions = [one for _ in range(rng.integers(0, 6)) if varies(one := condition(rng, choices))]
    if seed % 8 == 7:  # nothing keeps these
        conditions += [outcome_in(choices[0], [0]), outcome_in(choices[0], [1])]
    groups = dict(table(rng, order) for _ in range(rng.integers(1, 5)))
    listed: Listed = {}
    for row in product(*(range(choice.outcome_count) for choice in choices)):
        outcomes = {choice.path: outcome for choice, outcome in zip(choices, row, strict=True)}
        if outcomes == settled(order, outcomes) and all(value_at(one, outcomes) is True for one in conditions):
            cells = [numbers[tuple(outcomes[choice.path] for choice in about)] for about, numbers in groups.items()]
            there = [value_at(decision.active, outcomes) is True for decision in order]
            codes = tuple(outcome if active else -1 for outcome, active in zip(row, there, strict=True))
            listed[codes] = tuple((sum(cells) + np.array(CONSTANT)).tolist())
    return Chain(order, conditions, groups, CONSTANT), listed


@pytest.mark.parametrize("seed", with_soak(range(600), range(24)))
def test_chain_statistics_equal_listed_architectures(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "MAX_PATHS", 1)  # stages of one choice
    chain, listed = drawn(seed)
    if not listed:
        assert build_network(chain) is None
        assert witnesses.extreme(chain, 0, 1) is arrays.extreme(chain, 0, -1) is None
        with pytest.raises(ArchError, match="A0510"):
            mean_totals(chain)
        return
    rows, costs = np.array([*listed]), np.array([*listed.values()])
    assert mean_totals(chain) == [Fraction(int(total), len(costs)) for total in costs.sum(axis=0)]
    for cost in (0, 1):
        for sign, best in ((1, costs[:, cost].min()), (-1, costs[:, cost].max())):
            found = witnesses.extreme(chain, cost, sign)
            assert found == arrays.extreme(chain, cost, sign)
            assert found is not None
            assert (found.value, listed[found.codes or ()][cost]) == (best, best)
        for column, level in zip(rows.T, witnesses.marginals(chain, cost), strict=True):
            each = {outcome: costs[column == outcome, cost] for outcome in set(column.tolist())}
            assert level == {outcome: (own.min(), own.max()) for outcome, own in each.items()}
    least, most = costs.min(axis=0).tolist(), costs.max(axis=0).tolist()
    middle = np.sort(costs, axis=0)[len(costs) // 2].tolist()
    limits = [Limit(0, 1, middle[0]), Limit(1, -1, -middle[1])]
    within = (costs[:, 0] <= middle[0]) & (costs[:, 1] >= middle[1])
    rooms = ResidualBudgets(Stages(chain), limits, ENTRIES, up=True)
    assert rooms.count == within.sum()
    for entries in (1, 2, 4):
        few = [ResidualBudgets(Stages(chain), limits, entries, up).count for up in (False, True)]
        assert few[0] <= rooms.count <= few[1]
    if within.any():
        assert {*map(tuple, rooms.sample(5, np.random.default_rng(seed)).tolist())} <= {*map(tuple, rows[within])}
    wide = ResidualBudgets(Stages(chain), [Limit(0, 1, most[0]), Limit(1, -1, -least[1])], ENTRIES, up=True)
    assert all(len(place.cells) == 1 for places in wide.residuals for place in places.values()), "all allow every way"
    steps = build_network(chain)
    assert steps is not None
    assert steps.column_ranges == list(zip(least, most, strict=True))
    for limit in (middle[1], least[1] - 1):
        kept = np.sort(costs[costs[:, 1] <= limit, 0]).tolist()
        answer = optimum(steps, [limit], 3)
        assert answer.is_proved
        assert answer.totals[:, 0].tolist() == kept[:3]
        assert [listed[tuple(codes)] for codes in answer.codes.tolist()] == [*map(tuple, answer.totals.tolist())]
        assert answer.bound == (kept[0] if kept else most[0] + 1)


def free(count: int, outcomes: int = 2, active: Value = True, start: int = 0) -> list[Decision]:
    """Choices that nothing but `active` ties."""
    return [Decision(Choice(f"c{i}", tuple(range(outcomes)), i), active) for i in range(start, start + count)]


def test_chain_work_is_limited_to_number_of_steps() -> None:
    order = free(4, 3)
    groups = {(order[0].choice, order[3].choice): np.arange(9).reshape(3, 3, 1)}
    steps = 3 + 3 * 3 * 3
    Chain(order, [], groups, (0,)).levels_within(steps)
    with pytest.raises(ArchError, match=rf"A1602.* {steps - 1} steps"):
        Chain(order, [], groups, (0,)).levels_within(steps - 1)


def test_counts_beyond_64_bits_are_exact() -> None:
    """The first choice decides whether there are 140 others."""
    first = Decision(Choice("c0", (0, 1), 0))
    order = [first, *free(140, active=outcome_in(first.choice, [1]), start=1)]
    groups = {(one.choice,): np.array([[0], [1]]) for one in order[1:]}
    found = ResidualBudgets(Stages(Chain(order, [], groups, (0,))), [Limit(0, 1, 100)], ENTRIES, up=True).count
    assert found == 1 + sum(comb(140, ones) for ones in range(101))


def test_choice_of_thousands_of_outcomes_is_counted_exactly() -> None:
    (wide,), (narrow,) = free(1, 2_500), free(1, 2, start=1)
    groups = {(wide.choice,): np.array([[i, 2_500 - i] for i in range(2_500)]), (narrow.choice,): np.eye(2, dtype=int)}
    chain = Chain([wide, narrow], [], groups, (0, 0))
    found = ResidualBudgets(Stages(chain), [Limit(0, 1, 2_000), Limit(1, 1, 1_000)], ENTRIES, up=True).count
    sums = [(i + one, 2_500 - i + other) for i in range(2_500) for one, other in ((1, 0), (0, 1))]
    assert found == sum(one <= 2_000 and other <= 1_000 for one, other in sums)


@pytest.mark.parametrize("seed", range(3))
def test_counts_under_bounds_on_three_large_costs_bracket_what_is_listed(seed: int) -> None:
    """The cells of the grid of residual budgets do not fit in 64 bits."""
    rng = np.random.default_rng(seed)
    order = free(5, 4)
    groups = {(one.choice,): rng.integers(0, 10**8, (4, 3)) for one in order}
    listed = np.array([sum(map(np.array, rows)) for rows in product(*groups.values())])
    middle = np.quantile(listed, 0.7, axis=0).astype(int).tolist()
    chain = Chain(order, [], groups, (0, 0, 0))
    limits = [Limit(i, 1, limit) for i, limit in enumerate(middle)]
    below, above = (ResidualBudgets(Stages(chain), limits, ENTRIES, up).count for up in (False, True))
    within = int((listed <= middle).all(axis=1).sum())
    assert 0 < below <= within <= above < len(listed)
    assert above - below < within / 10

"""Costs without arrays: they are what arrays say."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from fractions import Fraction

import pytest
from scipy.stats import chisquare

import archir
from archir.costs.account import Account
from archir.costs.counting.plain import Histogram, PlainAccount
from archir.costs.means import means
from archir.diagnostics.errors import ArchError
from archir.diagrams.mdd import outcome_in
from archir.spaces.space import Space
from archir.utils import arrays
from tests.conftest import EXAMPLES

CONDITIONAL = """
net conditional() {
    input x: f32[4, 8, 8]
    width = choose width(4, 6, 8)
    depth = choose depth(0, 1, 3)
    x = x |> conv(width)
    repeat depth as i { x = x |> conv(width, kernel=choose kernel(1, 3, 5)) |> relu }
    y = x |> choose op { none: tanh, wide: conv(2 * width) |> conv(width) }
    require depth != 3 or width < 8
    BOUNDS
    output z = x + y
}
"""
SPACES = {
    "nas_bench_201": lambda: archir.load(EXAMPLES / "nas_bench_201" / "nas_bench_201.arch"),
    "conditional": lambda: archir.loads(CONDITIONAL.replace("BOUNDS", "")),
    "bounded": lambda: archir.loads(CONDITIONAL.replace("BOUNDS", "require macs <= 40K and params >= 100")),
}


@pytest.fixture(params=SPACES)
def space(request: pytest.FixtureRequest) -> Space:
    return SPACES[request.param]()


def plain(space: Space) -> PlainAccount:
    return PlainAccount(space.graph, space.order, space.account.conditions)


def test_totals_are_those_of_all_architectures(space: Space) -> None:
    names = ("params", "macs", "kernels")
    everything = list(space.unbounded.enumerate())
    costs = space.cost(everything, names)
    wanted = Counter(zip(*(costs[name].tolist() for name in names), strict=True))
    assert plain(space).totals(names).ways == wanted


def test_everything_is_as_arrays_have_it(space: Space) -> None:
    are_alike(plain(space), space.bounds.account)
    if space.has_cost_bounds:
        are_alike(plain(space).within_ranges(space.bounds.ranges), space.account)


def are_alike(ours: PlainAccount, theirs: Account) -> None:
    for name in ("params", "macs"):
        assert [one.bound for one in ours.extremes(name)] == [one.bound for one in theirs.extremes(name)]
        least, greatest = theirs.limits(name)
        shares = [0.0, 0.25, 0.5, 0.75, 1.0]
        assert ours.quantiles(name, shares) == theirs.quantiles(name, shares)
        assert means(ours, name) == means(theirs, name)
        for low, high in ((least, greatest), (least + 1, (least + greatest) // 2), (greatest + 1, greatest), (0, 0)):
            assert ours.count(name, low, high) == theirs.count(name, low, high)
            assert ours.may_contain(name, low, high) == theirs.may_contain(name, low, high)
        assert ours.nearest_cost(name, greatest + 5, greatest + 9) == greatest
        middle = (least + greatest) // 2
        assert ours.nearest_cost(name, middle, middle) == theirs.nearest_cost(name, middle, middle)
    ranges = {name: (theirs.limits(name)[0], sum(theirs.limits(name)) // 2) for name in ("params", "macs")}
    assert ours.count_within(ranges) == theirs.count_within(ranges)


def test_fractions_are_decimal_numbers() -> None:
    assert Histogram(dict.fromkeys(range(10), 1)).quantiles([0.1, 0.2, 0.3]) == [0, 1, 2]


def test_counts_quantiles_and_neighbours_are_those_of_a_list(space: Space) -> None:
    ours, everything = plain(space), list(space.unbounded.enumerate())
    for name in ("params", "macs"):
        totals = sorted(space.cost(everything, [name])[name].tolist())
        spread, keys = ours.distribution(name, totals[0], totals[-1]), sorted(set(totals))
        for i in (0, 1, len(keys) // 2, -1):
            key = keys[i]
            below, above = [one for one in keys if one < key], [one for one in keys if one > key]
            assert (spread.last_total(key), spread.first_total(key)) == (key, key)
            assert spread.last_total(key - 1) == max(below, default=None)
            assert spread.first_total(key + 1) == min(above, default=None)
            assert spread.count(key, key) == (totals.count(key),) * 2
            assert spread.count(key + 1, key - 1) == (0, 0)
            rank = totals.index(key)
            for wanted in (Fraction(rank + 1, len(totals)), Fraction(rank + totals.count(key), len(totals))):
                assert spread.quantiles([wanted]) == [key]
    for architecture in everything[:: len(everything) // 8 + 1]:
        cost = archir.cost(space.specialize(architecture))
        pairs = {"params": (cost.params, cost.params), "macs": (cost.macs, cost.macs)}
        assert ours.satisfies(architecture.outcomes, pairs)
        for less, more in ((1, 1), (-1, -1)):
            shifted = {**pairs, "macs": (cost.macs + less, cost.macs + more)}
            assert not ours.satisfies(architecture.outcomes, shifted)


def test_costs_that_do_not_add_up_are_refused_without_arrays(space: Space) -> None:
    with pytest.raises(ArchError, match="peak_bytes"):
        plain(space).quantiles("peak_bytes", [0.5])


def test_a_space_draws_within_bounds_without_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    everything = {tuple(one.codes) for one in SPACES["bounded"]().enumerate()}
    monkeypatch.setattr(arrays, "has_numpy", lambda: False)
    space, rng = SPACES["bounded"](), random.Random(0)
    assert isinstance(space.account, PlainAccount)
    assert space.count() == (len(everything), len(everything))
    drawn = Counter(space.sample(rng).codes for _ in range(40 * len(everything)))
    assert drawn.keys() == everything
    assert chisquare([*drawn.values()]).pvalue > 1e-4, "uniform: about 40 of each"


def test_a_bound_that_nothing_keeps_is_refused_without_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    text = CONDITIONAL.replace("BOUNDS", "require macs <= 7")
    told: Mapping[str, str] = {}
    for there in (True, False):
        monkeypatch.setattr(arrays, "has_numpy", lambda there=there: there)
        with pytest.raises(ArchError, match="A1603") as refused:
            archir.loads(text).check_bounds()
        told = {**told, str(there): str(refused.value)}
    assert told["True"] == told["False"]


def test_too_many_totals_are_said_to_be() -> None:
    space = archir.load(EXAMPLES / "trionet" / "trionet.arch")
    with pytest.raises(ArchError, match=r"A1602.*50,000 different"):
        plain(space).totals(("params", "macs"))


def test_of_an_inactive_choice_the_first_outcome_counts() -> None:
    space = SPACES["conditional"]()
    kernel = next(decision for decision in space.order if decision.active is not True)
    position = space.order.index(kernel)
    few = PlainAccount(space.graph, space.order, [*space.account.conditions, outcome_in(kernel.choice, [0])])
    kept = [one for one in space.enumerate() if one.codes[position] <= 0]
    assert -1 in {one.codes[position] for one in kept}
    assert few.totals(("params",)).ways == Counter(
        (total,) for total in space.cost(kept, ["params"])["params"].tolist()
    )

"""Costs of entangled spaces: sound bounds within a limited work budget."""

from __future__ import annotations

import numpy as np
import pytest
from click.testing import CliRunner

import archir
from archir.cli.main import main
from archir.costs.evaluators import TermSums
from archir.costs.extremes.heuristic_search import ExtremeSearch
from archir.costs.symbolic import SymbolicCosts
from archir.diagnostics.errors import ArchError
from archir.diagnostics.work import WorkError, budget_share, current_budget, fresh_budget, spend, work_budget
from archir.passes.cost import ADDITIVE_COSTS
from archir.spaces.space import Space
from tests.conftest import EXAMPLES
from tests.language.reference.grow import program

MOST = 60


def spaces(seeds: range) -> list[Space]:
    found = []
    for seed in seeds:
        try:
            space = archir.loads(program(seed))
            if space.choices and space.size <= MOST and space.satisfying:
                found.append(space)
        except ArchError:
            continue
    return found


def test_rough_bounds_hold_for_all_architectures() -> None:
    found = spaces(range(100))
    assert len(found) > 20
    for space in found:
        codes = np.array([one.codes for one in space.enumerate()], np.int16)
        costs = space.cost(codes)
        rough = Space(space.graph).account
        symbolic = SymbolicCosts(space.graph, approximate=True)
        rough.__dict__["_symbolic"] = symbolic
        index = {decision.choice.path: i for i, decision in enumerate(space.order)}
        most, sure = (TermSums(symbolic.total_terms(sure), index).at(codes) for sure in (False, True))
        every = np.stack([costs[name] for name in ADDITIVE_COSTS], axis=1)
        assert (sure <= every).all(), space.name
        assert (every <= most).all(), space.name
        needed = set(symbolic.needed) - symbolic.overapproximated
        owns = symbolic.own_terms()
        for column, name in enumerate(ADDITIVE_COSTS):
            assert name == "params" or sure[0, column] == sum(
                sum(TermSums({name: owns[name][number]}, index).at(codes[:1])[0]) for number in needed & set(owns[name])
            )
        for name in rough.summed:
            least, greatest = rough.extremes(name)
            assert least.bound <= min(costs[name]), (space.name, name)
            assert max(costs[name]) <= greatest.bound, (space.name, name)
            assert {least.value, greatest.value} <= set(costs[name].tolist())
            for end in (least, greatest):
                assert end.value in costs[name][(codes == end.codes).all(axis=1)], space.name


def test_extremes_are_exact_without_samples() -> None:
    space = archir.loads("""
        net n() {
            input x: f32[4]
            a = choose a(1..4)
            b = choose b(1..4)
            require a + b == 5
            output y = x |> linear(a) |> linear(b)
        }
    """)
    costs = space.cost([*space.enumerate()], ["macs"])["macs"]
    ends = ExtremeSearch(
        space.order, space.account.conditions, lambda _, rng: np.zeros((0, len(space.order)), np.int16)
    )
    for sign, wanted in ((1, costs.min()), (-1, costs.max())):
        terms = space.account.terms("macs")
        found = ends.extreme(terms, sign, True, lambda codes: space.account.at(codes, ["macs"])["macs"])
        assert found is not None
        assert found.exact
        assert found.value == wanted


@pytest.mark.soak
@pytest.mark.parametrize("name", ["nas_bench_101", "nas_fpn"])
def test_published_wiring_spaces_are_bounded_within_default_budget(name: str) -> None:
    with work_budget():
        space = archir.load(f"examples/{name}/{name}.arch")
        for cost in space.account.summed:
            with fresh_budget(2):
                least, greatest = space.account.extremes(cost)
            assert 0 < least.bound <= least.value <= greatest.value <= greatest.bound
            assert name == "nas_fpn" or (least.exact and greatest.exact)


def test_budget_share_leaves_the_rest_unspent() -> None:
    with work_budget(100):
        with pytest.raises(WorkError), budget_share(1 / 4):
            spend(30)
        assert 65 <= current_budget().left <= 75
        spend(60)


def test_fresh_budget_does_not_spend_outer_budget() -> None:
    with work_budget(100):
        spend(90)
        with fresh_budget(2):
            spend(150)
        assert current_budget().left == 10


def test_local_search_keeps_best_when_budget_ends() -> None:
    """The best so far stays if costing its neighbours is too much; without any cost, the first one that there is."""
    space = archir.loads("""
        net n() {
            input x: f32[4, 6, 6]
            for i in 0..3 { x = x |> choose op { wide: conv(8, kernel=1) |> conv(4, kernel=1), same: relu } }
            output y = x |> conv(4)
        }
    """)
    codes = space.sample_codes(8, np.random.default_rng(0))
    ends = space.account._extreme_search
    costs = space.cost(codes, ["params"])["params"]
    calls = []

    def dear(rows: np.ndarray) -> np.ndarray:
        calls.append(len(rows))
        spend(0 if len(calls) == 1 else 10**6)
        return space.cost(rows, ["params"])["params"]

    with work_budget(1_000):
        best, _ = ends._local_search(codes, dear)
        assert space.cost(best, ["params"])["params"] == costs.min()
        assert len(ends._local_search(codes, dear)[0]) == 1
    assert len(calls) == 3


@pytest.mark.soak
@pytest.mark.parametrize("name", ["amoebanet", "auto_deeplab", "hnas", "nasnet"])
def test_cost_command_succeeds_on_large_spaces(name: str) -> None:
    """Each cost has a budget of its own, which these take most of."""
    done = CliRunner().invoke(main, ["cost", f"{EXAMPLES}/zoo/{name}.arch"])
    assert done.exit_code == 0, done.output

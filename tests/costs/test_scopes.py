"""Costs of the parts of a space (least, mean, greatest) against brute force."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest
from click.testing import CliRunner

from archir.cli.cost import costs_by_scope as of_network
from archir.cli.main import main
from archir.costs import scopes
from archir.costs.means import means
from archir.diagnostics.errors import ArchError
from archir.passes.cost import ADDITIVE_COSTS, Cost, cost
from tests.conftest import EXAMPLES
from tests.costs.test_costs import CUT, cut
from tests.published.test_spaces import space_of
from tests.soak import with_soak


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("name", CUT)
def test_scope_costs_equal_brute_force(name: str, depth: int) -> None:
    space = cut(name)
    found = scopes.costs_by_scope(space.account, depth)
    networks = [of_network(space.specialize(architecture), depth) for architecture in space.enumerate()]
    assert {scope for network in networks for scope in network} == set(found)
    for scope, part in found.items():
        for one in ADDITIVE_COSTS:
            values = [getattr(network.get(scope, Cost(0, 0, 0)), one) for network in networks]
            wanted = scopes.CostRange(min(values), Fraction(sum(values), len(values)), max(values))
            assert part[one] == wanted


@pytest.mark.parametrize("name", CUT)
def test_means_of_nodes_add_up(name: str) -> None:
    space = cut(name)
    totals = [cost(space.specialize(architecture)) for architecture in space.enumerate()]
    for one, range_ in scopes.total_costs(space.account).items():
        mean = Fraction(sum(getattr(total, one) for total in totals), len(totals))
        assert mean == range_.mean == sum(means(space.account, one).values())


@pytest.mark.parametrize("name", with_soak(["trionet", "darts", "mobilenet_v3_ofa"], ["darts"]))
def test_means_of_published_spaces_add_up(name: str) -> None:
    account = space_of(name).account
    parts, total = scopes.costs_by_scope(account, 1), scopes.total_costs(account)
    for one in ADDITIVE_COSTS:
        assert sum(part[one].mean for part in parts.values()) == total[one].mean
        assert sum(part[one].least for part in parts.values()) <= total[one].least


def test_rejects_mean_of_peak_bytes() -> None:
    with pytest.raises(ArchError, match="A1604"):
        means(cut("depth").account, "peak_bytes")


def test_cost_by_scope_prints_totals_and_parts() -> None:
    path = str(EXAMPLES / "mobilenet_v3_ofa" / "mobilenet_v3_ofa.arch")
    shown = CliRunner().invoke(main, ["cost", path, "--by", "scope"]).output
    assert "total               121,278,672   352,292,283.6   566,170,656        100.0%" in shown
    found = json.loads(CliRunner().invoke(main, ["cost", path, "--by", "scope", "--depth", "2", "--json"]).output)
    assert found["total"]["macs"]["least"] == 121_278_672
    assert sum(part["mean"] for part in found["scopes"]["macs"].values()) == pytest.approx(
        found["total"]["macs"]["mean"]
    )
    network = str(EXAMPLES / "resnet50.arch")
    parts = json.loads(CliRunner().invoke(main, ["cost", network, "--by", "scope", "--json"]).output)["scopes"]
    assert parts["linear"] == {"params": 2_049_000, "macs": 2_048_000, "activation_bytes": 4000, "kernels": 1}

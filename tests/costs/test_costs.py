"""Costs of all architectures of a space (tables, extremes, counts, samples) against brute force."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

import archir
from archir.cli.main import main
from archir.costs import account
from archir.costs.counting import distribution
from archir.costs.counting.joint_bounds import Limit, ResidualBudgets
from archir.costs.latencies.model import LatencyModel
from archir.costs.latencies.workloads import space_workloads
from archir.costs.symbolic import SymbolicCosts
from archir.diagnostics.errors import ArchError
from archir.ir.graph import Node
from archir.ir.serial import from_json, to_json
from archir.ir.structure import Select
from archir.ops.activation import Sigmoid
from archir.spaces.space import Space
from tests.conftest import EXAMPLES
from tests.published.test_spaces import SPACES, space_of
from tests.soak import with_soak

NINE = [name for name in SPACES if "level" not in name]
FEW = {"full_attention", "autoformer", "nas_bench_201"}
"""Spaces of the suite: of layers, of tokens whose number depends on choices, of a cell."""
CUT = {
    "kernels and widths": """
        w = choose w(4, 8, 12)
        x = image |> conv(w, kernel=choose a(1, 3, 5))
        x = x |> choose op { plain: relu, more: conv(8) |> relu, skip: identity }
        output y = x |> conv(choose b(2, 4, 6), kernel=choose c(1, 3))
    """,
    "depth": """
        x = image
        repeat choose depth(1, 2, 3, 4) { x = x |> conv(4, kernel=choose kernel(1, 3, 5)) |> relu }
        output y = x
    """,
    "subsets": """
        paths = choose paths 2 of [image |> conv(4, kernel=choose k(1, 3)) for i in 0..4] where true
        output y = sum(paths)
    """,
    "shared weights": """
        x = image |> pick |> pick |> pick
        require depth <= 3
        depth = choose depth(2, 3, 4)
        output y = x
    """,
}
BEFORE = "cell pick(x) { return x |> choose p { a: conv(4), b: conv(4, kernel=1), c: identity } }\n"


def cut(name: str) -> Space:
    body = CUT[name].replace("        require depth <= 3\n", "") if name == "shared weights" else CUT[name]
    return archir.loads(f"{BEFORE}net small {{\ninput image: f32[4, 6, 6]\n{body}\n}}")


def built(space: Space, codes: np.ndarray[Any, Any], names: tuple[str, ...]) -> list[tuple[int, ...]]:
    """Costs of architectures, one specialised graph at a time."""
    found = []
    for row in codes:
        cost = archir.cost(space.specialize(space.decode(row)))
        found.append(tuple(getattr(cost, name) for name in names))
    return found


@pytest.mark.parametrize("name", with_soak(NINE, FEW))
def test_cost_tables_equal_specialized_graphs(name: str) -> None:
    """Thousands are compared by `make soak`; here twenty of each space, the full-size one."""
    compare(name, 20)


@pytest.mark.soak
@pytest.mark.parametrize("name", NINE)
def test_cost_tables_equal_thousand_specialized_graphs(name: str) -> None:
    compare(name, 1000)


def compare(name: str, count: int) -> None:
    space = space_of(name)
    codes = space.sample_codes(count, np.random.default_rng(0))
    names = ("params", "macs", "activation_bytes", "kernels")
    found = space.cost(codes, names)
    assert list(zip(*(found[one].tolist() for one in names), strict=True)) == built(space, codes, names)


@pytest.mark.parametrize("name", CUT)
def test_peak_bytes_equal_specialized_graphs(name: str) -> None:
    space = cut(name)
    codes = np.array([architecture.codes for architecture in space.enumerate()], np.int16)
    names = ("params", "macs", "activation_bytes", "kernels", "peak_bytes")
    found = space.cost(codes, names)
    assert list(zip(*(found[one].tolist() for one in names), strict=True)) == built(space, codes, names)


@pytest.mark.parametrize(
    "name", with_soak(["full_attention", "trionet", "glit", "mobilenet_v3_ofa", "autoformer", "nas_bench_201"], FEW)
)
def test_peak_bytes_of_published_spaces_equal_specialized_graphs(name: str) -> None:
    space = space_of(name)
    codes = space.sample_codes(10, np.random.default_rng(1))
    assert [(peak,) for peak in space.cost(codes, ["peak_bytes"])["peak_bytes"].tolist()] == built(
        space, codes, ("peak_bytes",)
    )


def test_unused_alternative_does_not_raise_peak_bytes() -> None:
    space = archir.loads("""
        net n {
            input image: f32[3, 8, 8]
            x = image |> choose op { wide: conv(8, kernel=5), narrow: conv(8, kernel=1), skip: conv(8) }
            output y = x
        }
    """)
    data = to_json(space.graph)
    select = next(node for node in data["nodes"] if node["op"] == "select")
    select["attributes"]["cases"] = [0, 0, 2]
    pruned = Space(from_json(data))
    codes = np.array([architecture.codes for architecture in pruned.enumerate()], np.int16)
    peaks = pruned.cost(codes, ["peak_bytes"])["peak_bytes"]
    assert pruned.account.limits("peak_bytes") == (peaks.min(), peaks.max())
    assert built(pruned, codes, ("peak_bytes",)) == [(peak,) for peak in peaks.tolist()]


def everything(space: Space, name: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    codes = np.array([architecture.codes for architecture in space.enumerate()], np.int16)
    return codes, space.cost(codes, [name])[name]


@pytest.mark.parametrize("cost", ["params", "macs", "activation_bytes", "kernels"])
@pytest.mark.parametrize("name", CUT)
def test_extremes_counts_and_quantiles_equal_brute_force(name: str, cost: str) -> None:
    space = cut(name)
    codes, totals = everything(space, cost)
    least, greatest = space.account.extremes(cost)
    assert (least.value, greatest.value) == (totals.min(), totals.max())
    for low in (least.value - 1, least.value, least.value + 1):
        for high in (greatest.value - 1, greatest.value, greatest.value + 1):
            assert space.account.is_always_within(cost, low, high) == bool(((totals >= low) & (totals <= high)).all())
    for value in sorted(set(totals.tolist()))[:4]:
        for low, high in [(value, value), (value + 1, value), (value - 1, value - 1), (value + 1, value + 1)]:
            assert space.account.may_contain(cost, low, high) == bool(((totals >= low) & (totals <= high)).any())
    for witness in (least, greatest):
        assert built(space, np.array([witness.codes]), (cost,)) == [(witness.value,)]
    for position, level in enumerate(space.account.marginals(cost)):
        for outcome, pair in level.items():
            some = totals[codes[:, position] == outcome]
            assert pair == (some.min(), some.max())
    for low, high in [(0, int(np.median(totals))), (int(np.median(totals)), int(totals.max())), (0, int(totals.max()))]:
        exact = int(((totals >= low) & (totals <= high)).sum())
        assert space.account.count(cost, low, high) == (exact, exact)
    fractions = [0.1, 0.5, 0.9, 1.0]
    assert space.account.quantiles(cost, fractions) == np.quantile(totals, fractions, method="inverted_cdf").tolist()


@pytest.mark.parametrize("name", ["kernels and widths", "depth", "subsets"])
def test_draws_within_a_bound_are_uniform(name: str) -> None:
    space = cut(name)
    codes, totals = everything(space, "macs")
    limit = int(np.quantile(totals, 0.4))
    narrowed = space.where(f"macs <= {limit}")
    wanted = {tuple(row) for row in codes[totals <= limit].tolist()}
    assert narrowed.count() == (len(wanted), len(wanted))
    drawn = Counter(tuple(row) for row in narrowed.sample_codes(200 * len(wanted), np.random.default_rng(0)).tolist())
    assert set(drawn) == wanted
    assert chisquare(list(drawn.values())).pvalue > 0.001


def test_rounded_totals_bracket_count_and_samples_keep_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    space = cut("kernels and widths")
    codes, totals = everything(space, "macs")
    limit = int(np.quantile(totals, 0.5))
    monkeypatch.setattr(distribution, "MAX_SIDE_TOTALS", 2)
    monkeypatch.setattr(account, "MAX_SAMPLING_RESIDUALS", 2)
    narrowed = space.where(f"macs <= {limit}")
    least, most = narrowed.count()
    exact = int((totals <= limit).sum())
    assert least < exact <= most
    drawn = Counter(tuple(row) for row in narrowed.sample_codes(200 * exact, np.random.default_rng(0)).tolist())
    assert set(drawn) == {tuple(row) for row in codes[totals <= limit].tolist()}
    assert chisquare(list(drawn.values())).pvalue > 0.001


def both(space: Space, quantiles: tuple[float, float], signs: str = "<=") -> tuple[Space, set[tuple[int, ...]]]:
    """A space under bounds on two costs, and the architectures that keep them."""
    codes, macs = everything(space, "macs")
    params = space.cost(codes, ["params"])["params"]
    limits = [int(np.quantile(one, q)) for one, q in zip((macs, params), quantiles, strict=True)]
    fine = (macs <= limits[0]) & ((params <= limits[1]) if signs == "<=" else (params >= limits[1]))
    narrowed = space.where(f"macs <= {limits[0]} and params {signs} {limits[1]}")
    return narrowed, {tuple(row) for row in codes[fine].tolist()}


@pytest.mark.parametrize(
    ("name", "signs", "quantiles"),
    [
        ("kernels and widths", "<=", (0.5, 0.5)),
        ("kernels and widths", ">=", (0.6, 0.3)),
        ("depth", "<=", (0.7, 0.5)),
        ("subsets", ">=", (0.9, 0.3)),
        ("shared weights", "<=", (0.6, 0.6)),
    ],
)
def test_count_and_samples_under_several_bounds_equal_brute_force(
    name: str, signs: str, quantiles: tuple[float, float]
) -> None:
    narrowed, wanted = both(cut(name), quantiles, signs)
    assert narrowed.count() == (len(wanted), len(wanted))
    drawn = Counter(tuple(row) for row in narrowed.sample_codes(200 * len(wanted), np.random.default_rng(0)).tolist())
    assert set(drawn) == wanted
    assert chisquare(list(drawn.values())).pvalue > 0.001


def test_rounded_counts_under_several_bounds_bracket_exact_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts bracket the exact one; draws are uniform among the architectures that keep the bounds, and only those."""
    monkeypatch.setattr(account, "MAX_SAMPLING_RESIDUALS", 4)
    monkeypatch.setattr(account, "MAX_COUNTING_RESIDUALS", 4)
    narrowed, wanted = both(cut("kernels and widths"), (0.6, 0.6))
    least, most = narrowed.count()
    assert 0 < least <= len(wanted) <= most < narrowed.satisfying
    assert least < most
    drawn = Counter(tuple(row) for row in narrowed.sample_codes(200 * len(wanted), np.random.default_rng(0)).tolist())
    assert set(drawn) == wanted
    assert chisquare(list(drawn.values())).pvalue > 0.001


@given(
    first=st.integers(0, 20_000), second=st.integers(0, 700), third=st.integers(0, 20_000),
    entries=st.sampled_from([3, 30, 3000]),
)  # fmt: skip
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
def test_counts_under_several_bounds_are_consistent(first: int, second: int, third: int, entries: int) -> None:
    """Rounded or not: counts bracket what is listed, and what a cost is split into adds up."""
    space, costs = listed()
    macs, params = costs["macs"], costs["params"]

    def counted(low: int, high: int, most: int) -> tuple[int, int]:
        limits = [Limit(0, 1, high), Limit(0, -1, -low), Limit(1, 1, most)]
        fine = int(((macs >= low) & (macs <= high) & (params <= most)).sum())
        least, greatest = (
            ResidualBudgets(space.account.stages("macs", "params"), limits, entries, up).count for up in (False, True)
        )
        assert least <= fine <= greatest
        if entries == 3000:
            assert least == greatest
        return least, greatest

    low, high = min(first, third), max(first, third)
    whole, below, above = counted(0, high, second), counted(0, low, second), counted(low + 1, high, second)
    assert below[0] + above[0] <= whole[1]
    assert whole[0] <= below[1] + above[1]


@cache
def listed() -> tuple[Space, dict[str, np.ndarray[Any, Any]]]:
    space = cut("kernels and widths")
    codes = np.array([architecture.codes for architecture in space.enumerate()], np.int16)
    return space, space.cost(codes, ["macs", "params"])


def test_lower_bound_of_one_cost_and_upper_bound_of_another_are_counted_exactly(tmp_path: Path) -> None:
    """The cells of a grid for both costs and the unlimited upper bound do not fit in 64 bits."""
    space = cut("kernels and widths")
    rng = np.random.default_rng(0)
    entries = {key: int(rng.integers(10**9)) for key in space_workloads(space.graph)}
    file = tmp_path / "model.json"
    LatencyModel(
        schema_version=1, model="operations", device="", networks=5, error=0.0, rank_correlation=None, tried={},
        offset=0, entries=entries,
    ).write(file)  # fmt: skip
    latency = f'latency("{file}")'
    costs = space.cost(np.array([one.codes for one in space.enumerate()], np.int16), [latency, "macs"])
    least, most = int(np.quantile(costs[latency], 0.3)), int(np.quantile(costs["macs"], 0.6))
    wanted = int(((costs[latency] >= least) & (costs["macs"] <= most)).sum())
    assert space.where(f"{latency} >= {least}ns and macs <= {most}").count() == (wanted, wanted)


def test_jointly_unsatisfiable_bounds_are_reported() -> None:
    space = space_of("nas_bench_201")
    with pytest.raises(ArchError, match=r"A1603.*macs <= 10M and params >= 1M(.|\n)*each of these bounds alone can be"):
        space.where("macs <= 10M and params >= 1M").sample(0)


DRAWS = [100_000, pytest.param(1_000_000, marks=pytest.mark.soak)]


@pytest.mark.parametrize("draws", DRAWS)
@pytest.mark.parametrize("name", with_soak(NINE, FEW))
def test_fractions_agree_with_a_monte_carlo_estimate(name: str, draws: int) -> None:
    """Below a budget, and above it: together all; within four standard errors of many draws."""
    space = space_of(name)
    codes = space.sample_codes(draws, np.random.default_rng(0))
    macs = space.cost(codes, ["macs"])["macs"]
    budget = int(np.quantile(macs, 0.3))
    spread = space.account.distribution("macs", 0, 2**62)
    below, above = spread.count(0, budget), spread.count(budget + 1, 2**62)
    assert below[0] == below[1]
    assert below[0] + above[0] == space.satisfying
    agrees(below[0] / space.satisfying, macs <= budget)


def agrees(fraction: float, drawn: np.ndarray[Any, Any]) -> None:
    estimate = float(drawn.mean())
    assert abs(fraction - estimate) <= 4 * (estimate * (1 - estimate) / len(drawn)) ** 0.5


@pytest.mark.soak
@pytest.mark.parametrize("cost", ["params", "activation_bytes"])
@pytest.mark.parametrize("name", NINE)
def test_counts_below_and_above_budget_sum_to_size(name: str, cost: str) -> None:
    space = space_of(name)
    least, greatest = (one.value for one in space.account.extremes(cost))
    spread = space.account.distribution(cost, least, greatest)
    middle = (least + greatest) // 2
    below, above = spread.count(least, middle), spread.count(middle + 1, greatest)
    assert below[0] == below[1]
    assert below[0] + above[0] == space.satisfying


@pytest.mark.parametrize("draws", DRAWS)
@pytest.mark.parametrize(
    ("name", "width"),
    [
        ("nas_bench_201", 0.0),
        pytest.param("autoformer", 0.0, marks=pytest.mark.soak),
        pytest.param("mobilenet_v3_ofa", 0.2, marks=pytest.mark.soak),
    ],
)
def test_joint_fractions_agree_with_a_monte_carlo_estimate(name: str, width: float, draws: int) -> None:
    """The interval, up to `width` of what it is about, has the fraction in it; draws keep both bounds."""
    space = space_of(name)
    costs = space.cost(space.sample_codes(draws, np.random.default_rng(0)))
    macs, params = (int(np.quantile(costs[one], 0.4)) for one in ("macs", "params"))
    narrowed = space.where(f"macs <= {macs} and params <= {params}")
    least, most = narrowed.count()
    assert most - least <= width * most
    fine = (costs["macs"] <= macs) & (costs["params"] <= params)
    fraction = min(max(float(fine.mean()), least / space.size), most / space.size)
    agrees(fraction, fine)
    drawn = narrowed.cost(narrowed.sample_codes(1000, np.random.default_rng(0)))
    assert max(drawn["macs"]) <= macs
    assert max(drawn["params"]) <= params


def test_conditional_and_plain_bound_on_same_cost_are_counted_together() -> None:
    body = """
    input image: f32[4, 6, 6]
    w = choose w(2, 4, 6, 8)
    k = choose k(1, 3, 5)
    require macs <= 40K
    if k > 1 {
        require macs <= 9K
    }
    require macs != 288
    output y = image |> conv(w, k)
    """
    space = archir.loads(f"net n {{{body}}}")
    free = archir.loads("net n {\n" + "\n".join(body.splitlines()[:4] + body.splitlines()[-2:]) + "\n}")
    fine = 0
    for architecture in free.enumerate():
        macs = archir.cost(free.specialize(architecture)).macs
        fine += macs <= 40_000 and macs != 288 and (architecture["k"] == 1 or macs <= 9_000)
    assert 0 < fine < free.size
    assert space.count() == (fine, fine)


def test_unsatisfiable_or_invalid_bounds_are_rejected() -> None:
    space = space_of("full_attention")
    with pytest.raises(ArchError, match=r"A1603.*macs <= 1M(.|\n)*nearest there is: macs = 13,654,656"):
        space.where("macs <= 1M").sample(0)
    with pytest.raises(ArchError, match="A0509"):
        space.where("macs")
    with pytest.raises(ArchError, match="A0509"):
        space.where("1 < 2")
    with pytest.raises(ArchError, match="A0201"):
        space.where("mac <= 3")


def test_check_detects_unsatisfiable_requirement() -> None:
    text = "net n {\ninput image: f32[4, 6, 6]\nrequire params <= 10\noutput y = image |> conv(choose w(4, 8))\n}"
    result = CliRunner().invoke(main, ["check", "-"], input=text)
    assert result.exit_code == 1
    assert "A1603" in result.stderr
    assert "nearest there is: params = 144" in result.stderr


def test_bound_on_kernels_counts_exactly() -> None:
    space = cut("depth")
    _, kernels = everything(space, "kernels")
    bounded = archir.loads(f"net n {{input image: f32[4, 6, 6]\n{CUT['depth']}\nrequire kernels <= 4\n}}")
    exact = int((kernels <= 4).sum())
    assert 0 < exact < len(kernels)
    assert bounded.count() == space.where("kernels <= 4").count() == (exact, exact)


def test_count_and_cost_commands_print_bounded_count_and_extremes() -> None:
    path = str(EXAMPLES / "nas_bench_201" / "nas_bench_201.arch")

    def run(*arguments: str) -> str:
        result = CliRunner().invoke(main, list(arguments))
        assert result.exit_code == 0, result.output
        return result.output

    assert "7,984 of them have macs <= 50M" in run("count", path, "--where", "macs <= 50M")
    assert "7,783,040" in run("cost", path)
    assert "median" in run("cost", path, "--distribution", "macs")
    assert run("sample", path, "-n", "3", "--where", "macs <= 8M").count("nas_bench_201") == 3
    assert '"macs"' in run("cost", path, "-n", "5", "--seed", "1", "--json")


def test_named_argument_is_not_mistaken_for_cost() -> None:
    text = "net n { input x: f32[4]\n w = choose w(1, 2)\n require max(macs=3, w) > 1\n output y = x |> linear(w) }"
    with pytest.raises(ArchError, match=r"A0203.*`max` takes no named arguments"):
        archir.loads(text)


def test_live_byte_terms_have_no_zero_entries() -> None:
    """So that sums of consecutive nodes are the same, and one table is made of them."""
    for name in CUT:
        for terms in SymbolicCosts(cut(name).graph).live_bytes():
            assert 0 not in terms
            assert min(terms.values()) > 0


def test_unread_operands_use_no_live_bytes() -> None:
    graph = archir.loads("net n {\n input x: f32[4]\n output y = x |> choose op { a: relu, b: tanh }\n}").graph
    (select,) = graph.outputs.values()
    alike = graph.operands(select)[0]
    nobody = graph.add(Node(Sigmoid()), *graph.inputs.values())
    graph.outputs["y"] = graph.add(Node(Select("op", (0, 0))), alike, nobody)
    assert [sum(terms.elements()) for terms in SymbolicCosts(graph).live_bytes()] == [16, 32]

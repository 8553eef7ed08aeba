"""What all architectures of a space cost at once: tables, extremes, counts and draws, against brute force."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.stats import chisquare

import archir
from archir.cli.main import main
from archir.costs import account, distribution
from archir.errors import ArchError
from archir.search.space import Space
from tests.test_spaces import SPACES, space_of

NINE = [name for name in SPACES if "level" not in name]
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


@pytest.mark.parametrize("name", NINE)
def test_tables_equal_the_specialised_graphs(name: str) -> None:
    """Thousands are compared by `make soak`; here a hundred of each space, the full-size one."""
    compare(name, 100)


@pytest.mark.soak
@pytest.mark.parametrize("name", NINE)
def test_tables_equal_a_thousand_specialised_graphs(name: str) -> None:
    compare(name, 1000)


def compare(name: str, count: int) -> None:
    space = space_of(name)
    codes = space.sample_codes(count, np.random.default_rng(0))
    names = ("params", "macs", "activation_bytes")
    found = space.cost(codes, names)
    assert list(zip(*(found[one].tolist() for one in names), strict=True)) == built(space, codes, names)


@pytest.mark.parametrize("name", CUT)
def test_peaks(name: str) -> None:
    space = cut(name)
    codes = np.array([architecture.codes for architecture in space.enumerate()], np.int16)
    names = ("params", "macs", "activation_bytes", "peak_bytes")
    found = space.cost(codes, names)
    assert list(zip(*(found[one].tolist() for one in names), strict=True)) == built(space, codes, names)


@pytest.mark.parametrize(
    "name", ["full_attention", "trionet", "glit", "mobilenet_v3_ofa", "autoformer", "nas_bench_201"]
)
def test_peaks_of_published_spaces(name: str) -> None:
    space = space_of(name)
    codes = space.sample_codes(10, np.random.default_rng(1))
    assert [(peak,) for peak in space.cost(codes, ["peak_bytes"])["peak_bytes"].tolist()] == built(
        space, codes, ("peak_bytes",)
    )


def everything(space: Space, name: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    codes = np.array([architecture.codes for architecture in space.enumerate()], np.int16)
    return codes, space.cost(codes, [name])[name]


@pytest.mark.parametrize("cost", ["params", "macs", "activation_bytes"])
@pytest.mark.parametrize("name", CUT)
def test_extremes_counts_and_quantiles_are_those_of_brute_force(name: str, cost: str) -> None:
    space = cut(name)
    codes, totals = everything(space, cost)
    least, greatest = space.account.extremes(cost)
    assert (least.value, greatest.value) == (totals.min(), totals.max())
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


def test_rounded_totals_bracket_the_count_and_draws_stay_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    space = cut("kernels and widths")
    codes, totals = everything(space, "macs")
    limit = int(np.quantile(totals, 0.5))
    monkeypatch.setattr(distribution, "FINE", 2)
    monkeypatch.setattr(account, "FEW", 2)
    narrowed = space.where(f"macs <= {limit}")
    least, most = narrowed.count()
    exact = int((totals <= limit).sum())
    assert least < exact <= most
    drawn = Counter(tuple(row) for row in narrowed.sample_codes(200 * exact, np.random.default_rng(0)).tolist())
    assert set(drawn) == {tuple(row) for row in codes[totals <= limit].tolist()}
    assert chisquare(list(drawn.values())).pvalue > 0.001


def test_several_bounds() -> None:
    space = cut("kernels and widths")
    codes, macs = everything(space, "macs")
    params = space.cost(codes, ["params"])["params"]
    most = int(np.median(macs)), int(np.median(params))
    exact = int(((macs <= most[0]) & (params <= most[1])).sum())
    narrowed = space.where(f"macs <= {most[0]} and params <= {most[1]}")
    least, greatest = narrowed.count()
    assert least <= exact <= greatest
    drawn = Counter(tuple(row) for row in narrowed.sample_codes(100 * exact, np.random.default_rng(0)).tolist())
    assert len(drawn) == exact
    assert chisquare(list(drawn.values())).pvalue > 0.001


@pytest.mark.parametrize(
    "name", ["full_attention", "trionet", "autola", "glit", "autoformer", "darts", "nas_bench_201"]
)
def test_fractions_agree_with_a_monte_carlo_estimate(name: str) -> None:
    """Below a budget, and above it: together all; within four standard errors of a million draws. The other two spaces
    have too many different totals to be counted exactly."""
    space = space_of(name)
    codes = space.sample_codes(1_000_000, np.random.default_rng(0))
    macs = space.cost(codes, ["macs"])["macs"]
    budget = int(np.quantile(macs, 0.3))
    below, above = space.account.count("macs", 0, budget), space.account.count("macs", budget + 1, 2**62)
    assert below[0] == below[1]
    assert below[0] + above[0] == space.satisfying
    fraction, estimate = below[0] / space.satisfying, float((macs <= budget).mean())
    assert abs(fraction - estimate) <= 4 * (estimate * (1 - estimate) / len(macs)) ** 0.5


def test_a_bound_under_a_condition_is_counted_beside_a_plain_one_on_the_same_cost() -> None:
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


def test_a_bound_that_no_architecture_keeps() -> None:
    space = space_of("full_attention")
    with pytest.raises(ArchError, match=r"A1603.*macs <= 1M(.|\n)*nearest there is: macs = 13,654,656"):
        space.where("macs <= 1M").sample(0)
    with pytest.raises(ArchError, match="A0509"):
        space.where("macs")
    with pytest.raises(ArchError, match="A0509"):
        space.where("1 < 2")
    with pytest.raises(ArchError, match="A0201"):
        space.where("mac <= 3")


def test_a_requirement_that_no_architecture_keeps_is_found_by_check() -> None:
    text = "net n {\ninput image: f32[4, 6, 6]\nrequire params <= 10\noutput y = image |> conv(choose w(4, 8))\n}"
    result = CliRunner().invoke(main, ["check", "-"], input=text)
    assert result.exit_code == 1
    assert "A1603" in result.stderr
    assert "nearest there is: params = 144" in result.stderr


def test_the_command_line() -> None:
    path = str(archir.api.Path("examples/nas_bench_201/nas_bench_201.arch"))

    def run(*arguments: str) -> str:
        result = CliRunner().invoke(main, list(arguments))
        assert result.exit_code == 0, result.output
        return result.output

    assert "7,984 of them have macs <= 50M" in run("count", path, "--where", "macs <= 50M")
    assert "7,783,040" in run("cost", path)
    assert "median" in run("cost", path, "--distribution", "macs")
    assert run("sample", path, "-n", "3", "--where", "macs <= 8M").count("nas_bench_201") == 3
    assert '"macs"' in run("cost", path, "-n", "5", "--seed", "1", "--json")

"""Costs of architectures within bounds equal those of a filtered list of all architectures."""

from __future__ import annotations

import json
import operator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import archir
from archir.cli.main import main
from archir.costs.means import means
from archir.costs.optimal import bounded
from archir.costs.scopes import costs_by_scope, total_costs
from archir.diagnostics.errors import ArchError
from archir.spaces.completion import largest, smallest
from archir.spaces.space import MAX_COUNTED, Space
from tests.soak import with_soak

COSTS = ("params", "macs", "kernels")
RELATIONS = {
    "<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
PARTS = [
    "x = x |> conv(choose w{0}(4, 8, 12), kernel=choose k{0}(1, 3))",
    "x = x |> choose op{0} {{ wide: conv(8) |> relu, narrow: conv(4, kernel=1), keep: identity }}",
    "repeat choose depth{0}(1, 2, 3) {{ x = x |> choose act{0} {{ hard: relu, map: conv(4), keep: identity }} }}",
    "x = concat(choose taps{0} 2 of [x |> relu, x |> conv(4, kernel=1), x |> sigmoid])",
]


def program(rng: np.random.Generator, requires: str = "") -> str:
    parts = [PARTS[part].format(i) for i, part in enumerate(rng.integers(0, len(PARTS), rng.integers(2, 4)))]
    return (
        "net n {\n input x: f32[3, 6, 6]\n s = choose s(1, 2)\n x = x |> conv(4 * s)\n "
        + "\n ".join([*parts, requires])
        + "\n output y = x\n}\n"
    )


def drawn_bounds(rng: np.random.Generator, costs: dict[str, np.ndarray[Any, Any]]) -> list[tuple[str, str, int, int]]:
    """Costs, relations, and limits for both outcomes of `s`."""
    found = []
    for name in rng.choice([*COSTS, "peak_bytes"], int(rng.integers(1, 4))):
        relations = [*RELATIONS][: 5 if name == "peak_bytes" else 6]
        limits = [int(one) + int(rng.integers(-1, 2)) for one in rng.choice(costs[name], 2)]
        same = name == "peak_bytes" or rng.random() < 0.6
        found.append((str(name), str(rng.choice(relations)), limits[0], limits[0 if same else 1]))
    return found


def case(seed: int) -> tuple[Space, Space, np.ndarray[Any, Any]]:
    """A space, the same within drawn bounds, and the outcomes of the architectures that keep these."""
    rng, free = np.random.default_rng(seed), np.random.default_rng(seed)
    space = archir.loads(program(rng))
    codes = np.array([one.codes for one in space.enumerate()], np.int16)
    costs = space.cost(codes, [*COSTS, "peak_bytes"])
    bounds = drawn_bounds(rng, costs)
    column = next(i for i, choice in enumerate(space.choices) if choice.path == "s")
    kept = np.ones(len(codes), bool)
    for name, relation, first, second in bounds:
        limits = np.where(codes[:, column] == 0, first, second)
        kept &= RELATIONS[relation](costs[name], limits)
    texts = [
        f"{name} {relation} {first}" if first == second else f"{name} {relation} ({first} if s == 1 else {second})"
        for name, relation, first, second in bounds
    ]
    asked = [one for one in texts if "if" not in one and rng.random() < 0.5]
    requires = "\n ".join(f"require {one}" for one in texts if one not in asked)
    made = archir.loads(program(free, requires))
    return space, made.where(" and ".join(asked)) if asked else made, codes[kept]


def is_listed(seed: int) -> None:
    """Whether all that is said of a bounded space is what its listed architectures say."""
    free, space, codes = case(seed)
    assert {one.codes for one in space.enumerate()} == {tuple(row) for row in codes.tolist()}
    low, high = space.count()
    assert low <= len(codes) <= high
    assert low == high or space.satisfying > MAX_COUNTED
    if not len(codes):
        for ask in (space.account.extremes, space.account.marginals, space.account.chain):
            with pytest.raises(ArchError, match="A1603"):
                ask("params")
        return
    rng = np.random.default_rng(seed)
    for name in COSTS:
        totals = free.cost(codes, [name])[name]
        least, greatest = space.account.extremes(name)
        assert (least.value, greatest.value) == (totals.min(), totals.max()) == space.account.limits(name)
        for one in (least, greatest):
            assert one.exact
            assert one.codes in {tuple(row) for row in codes.tolist()}
            assert free.cost(np.array([one.codes]), [name])[name].tolist() == [one.value]
        for position, level in enumerate(space.account.marginals(name)):
            each = {outcome: totals[codes[:, position] == outcome] for outcome in set(codes[:, position].tolist())}
            assert level == {outcome: (own.min(), own.max()) for outcome, own in each.items()}
        low, high = sorted(int(one) for one in rng.integers(totals.min() - 1, totals.max() + 2, 2))
        many = int(((totals >= low) & (totals <= high)).sum())
        assert space.account.count(name, low, high) == (many, many)
        fractions = [0.01, 0.25, 0.5, 0.9, 1.0]
        quantiles = np.quantile(totals, fractions, method="inverted_cdf").tolist()
        assert space.account.quantiles(name, fractions) == quantiles
        mean = total_costs(space.account)[name].mean
        assert mean * len(codes) == totals.sum()
        assert mean == sum(means(space.account, name).values())
        assert mean == sum(part[name].mean for part in costs_by_scope(space.account, 1).values())
        assert free.cost([largest(space, by=name)], [name])[name] == totals.max()
        assert free.cost([smallest(space, by=name)], [name])[name] == totals.min()
    peaks = free.cost(codes, ["peak_bytes"])["peak_bytes"]
    low, high = space.account.limits("peak_bytes")
    assert low <= peaks.min() <= peaks.max() <= high


@pytest.mark.parametrize("seed", with_soak(range(200), range(1, 5)))
def test_bounded_space_costs_equal_listed_architectures(seed: int) -> None:
    is_listed(seed)


def test_too_costly_bound_is_an_error_and_not_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    space = archir.loads(program(np.random.default_rng(1)))
    half = space.account.extremes("macs")[1].value // 2
    monkeypatch.setattr(bounded, "MAX_STATES", 1)
    within = space.where(f"macs <= {half} and params >= 1")
    for ask in (within.account.marginals, within.account.quantiles, lambda name: means(within.account, name)):
        with pytest.raises(ArchError, match="A1602"):
            ask("macs", [0.5]) if ask == within.account.quantiles else ask("macs")
    monkeypatch.setattr(bounded.BoundedAccount, "_optimum", lambda *_: bounded.Extreme(0, None))
    assert within.account.limits("macs")[1] <= half


TINY = """
net tiny {
    input image: f32[3, 8, 8]
    x = image
    repeat choose depth(1, 2, 3) { x = x |> choose op { conv3: conv(4), conv5: conv(4, kernel=5), skip: relu } }
    output y = x
}
"""


@pytest.mark.parametrize("more", [[], ["--by", "scope"], ["--distribution", "macs"], ["--alternatives", "macs"],
                                  ["--json"], ["-n", "5"], ["--seed", "1"]], ids=str)  # fmt: skip
def test_cost_command_applies_where_bounds(tmp_path: Path, more: list[str]) -> None:
    file = tmp_path / "tiny.arch"
    file.write_text(TINY)
    run = CliRunner().invoke
    for where, text in (("macs < 1 and params >= 10**9", "A1603"), ("params < 0", "A1603")):
        none = run(main, ["cost", str(file), "--where", where.replace("10**9", "1000000000"), *more])
        assert none.exit_code == 1
        assert text in none.output
    space = archir.load(file)
    most = space.account.extremes("macs")[1].value
    bounded = run(main, ["cost", str(file), "--where", f"macs <= {most // 2}", *more])
    assert bounded.exit_code == 0
    assert f"{most:,}" not in bounded.output
    assert str(most) not in bounded.output
    if more == ["--json"]:
        kept = [one for one in space.enumerate() if space.cost([one])["macs"][0] <= most // 2]
        found = json.loads(bounded.output)
        assert found["extremes"]["macs"][1] == max(space.cost([one])["macs"][0] for one in kept)
        assert found["within_bounds"] == [len(kept), len(kept)]

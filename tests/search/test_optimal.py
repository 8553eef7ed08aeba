"""Exact optima and fronts within cost bounds, against brute force."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import archir
from archir.cli.main import main
from archir.costs.optimal import grid, labels
from archir.costs.optimal import paths as listing
from archir.costs.optimal.network import Layer, Network
from archir.costs.optimal.optimum import optimum
from archir.diagnostics.errors import ArchError
from archir.spaces.optimal import answers, fronts
from archir.spaces.scores import AdditiveScores, Term
from archir.spaces.space import Space
from tests.conftest import EXAMPLES
from tests.soak import with_soak

SPACE = """
    net small() {
        input image: f32[3, 8, 8]
        w = choose width(4, 8, 12)
        x = image |> conv(w, kernel=choose kernel(1, 3))
        repeat choose depth(1, 2, 3) {
            x = x |> choose op {
                wide:   conv(2 * w) |> relu |> conv(w, kernel=1)
                narrow: conv(w, kernel=1)
                keep:   identity
            }
        }
        picked = choose taps 2 of [x |> relu, x |> conv(w, kernel=1), x |> sigmoid]
        x = concat(picked)
        require w > 4 or w == 4 and x.features == 8
        output logits = x |> global_avg_pool |> linear(10)
    }
"""


@pytest.fixture(scope="module")
def space() -> Space:
    return archir.loads(SPACE)


@pytest.fixture(scope="module")
def everything(space: Space) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """All architectures of the space, and what each costs."""
    codes = np.array([one.codes for one in space.enumerate()], np.int16)
    return codes, space.cost(codes, ["params", "macs", "kernels", "peak_bytes"])


BOUNDS = st.tuples(
    st.sampled_from(["params", "macs", "kernels", "peak_bytes"]),
    st.sampled_from(["<=", ">=", "<", ">", "=="]),
    st.floats(0, 1),
)
KEEPS: dict[str, Callable[[np.ndarray, int], np.ndarray]] = {
    "<=": np.less_equal, ">=": np.greater_equal, "<": np.less, ">": np.greater, "==": np.equal
}  # fmt: skip


@settings(max_examples=15, deadline=None)
@given(
    st.lists(BOUNDS, max_size=3), st.sampled_from(["params", "macs", "peak_bytes", "scores"]), st.booleans(),
    st.integers(1, 4), st.booleans(),
)  # fmt: skip
def test_optimum_equals_brute_force(
    space: Space, everything: tuple[np.ndarray, dict[str, np.ndarray]], bounds: list[tuple[str, str, float]], cost: str,
    greatest: bool, best: int, held: bool,
) -> None:  # fmt: skip
    codes, costs = everything
    scores = _scores(space, 3)
    values = costs[cost] if cost in costs else np.array([scores(space.decode(row)) for row in codes])
    fine = np.ones(len(codes), bool)
    texts = []
    for name, relation, part in bounds:
        limit = int(np.sort(costs[name])[int(part * (len(fine) - 1))])
        texts.append(f"{name} {relation} {limit}")
        fine &= KEEPS[relation](costs[name], limit)
    best = 1 if cost == "peak_bytes" else best
    fixed = {"depth": 1} if held else {}
    depth = next(i for i, choice in enumerate(space.choices) if choice.path == "depth")
    taken = codes[:, depth] == 0 if held else np.ones(len(codes), bool)
    greatest = greatest or cost == "scores"
    wanted = np.sort(values[fine & taken])[:: -1 if greatest else 1][:best].tolist()
    named: dict[str, Any] = {"maximize": scores if cost == "scores" else cost} if greatest else {"minimize": cost}
    answer = archir.optimize(space, **named, where=" and ".join(texts) or None, best=best, fixed=fixed)
    assert answer.proved
    assert list(answer.values) == wanted
    assert len(set(answer.architectures)) == len(wanted)
    for one in answer.architectures:
        assert (space.where(" and ".join(texts)) if texts else space).within(one)
        assert not held or one["depth"] == 1
    if not wanted:
        _is_least(space, [one.bound.text for one in answer.conflict], fixed)


def _is_least(space: Space, texts: list[str], fixed: dict[str, int]) -> None:
    """Each bound of a conflict left out, there are architectures; with all of them there is none."""
    assert texts
    for left in texts:
        others = " and ".join(text for text in texts if text != left)
        assert not others or archir.optimize(space, "params", where=others, fixed=fixed).architectures


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.floats(0, 1))
def test_scores_of_pairs_count_where_both_choices_are_active(
    space: Space, everything: tuple[np.ndarray, dict[str, np.ndarray]], seed: int, part: float
) -> None:
    rng = np.random.default_rng(seed)
    choices = {choice.path: choice for choice in space.choices}
    pairs = [(path,) for path in choices] + [tuple(rng.choice(list(choices), 2, replace=False)) for _ in range(4)]
    terms = []
    for paths in dict.fromkeys(pairs):
        outcomes = product(*(range(choices[path].outcome_count) for path in paths))
        terms.append(Term(paths, {one: Fraction(int(rng.integers(-50, 50)), 8) for one in outcomes}))
    scores = AdditiveScores(space.name, tuple(terms), Fraction(1, 3))
    codes, costs = everything
    limit = int(np.quantile(costs["macs"], part))
    each = [scores(space.decode(row)) for row in codes[costs["macs"] <= limit]]
    answer = archir.optimize(space, maximize=scores, where=f"macs <= {limit}")
    assert answer.values == (max(each),)
    assert scores(answer.best) == max(each)


def test_scores_of_too_many_digits_are_refused(space: Space) -> None:
    values = {(0,): Fraction(1, 10**19), (1,): Fraction(1, 7**20)}
    scores = AdditiveScores(space.name, (Term(("width",), values),))
    with pytest.raises(ArchError, match=r"A3302.*too many digits"):
        archir.optimize(space, maximize=scores)


def test_conflict_not_minimized_in_time_says_so(space: Space, monkeypatch: pytest.MonkeyPatch) -> None:
    where = "params >= 1500 and macs <= 20000 and kernels <= 90"
    assert archir.optimize(space, "macs", where=where).is_minimal
    monkeypatch.setattr(answers._Optimizing, "_search", lambda self, bounds: (None, None))
    answer = archir.optimize(space, "macs", where=where)
    assert not answer.is_minimal
    assert len(answer.conflict) == 3
    with pytest.raises(ArchError, match=r"(?s)A3301.*time was out"):
        answer.best  # noqa: B018


def test_bounds_that_depend_on_choices_are_kept() -> None:
    space = archir.loads("""
        net n() {
            input x: f32[4, 6, 6]
            k = choose k(1, 3)
            for i in 0..4 { x = x |> choose op { wide: conv(8, kernel=1) |> conv(4, kernel=1), same: relu } }
            require macs <= (10000 if k == 1 else 8000)
            output y = x |> conv(4, kernel=k)
        }
    """)
    greatest = max(int(space.cost([one])["macs"][0]) for one in space.enumerate())
    assert archir.optimize(space, maximize="macs").values == (greatest,)


def _scores(space: Space, seed: int, most: int = 100) -> AdditiveScores:
    """Of each choice, and of some pairs of them."""
    rng = np.random.default_rng(seed)
    choices = {c.path: c for c in space.choices}
    terms = [(path,) for path in choices] + [tuple(rng.choice(list(choices), 2, replace=False)) for _ in range(2)]
    made = []
    for paths in dict.fromkeys(terms):
        outcomes = product(*(range(choices[path].outcome_count) for path in paths))
        made.append(Term(paths, {one: Fraction(int(rng.integers(most)), 4) for one in outcomes}))
    return AdditiveScores(space.name, tuple(made))


def _best(rows: list[tuple[Fraction | int, ...]]) -> list[tuple[Fraction | int, ...]]:
    """Those rows, least objectives, that no other one is at least as good as."""
    every = sorted(set(rows))
    return [
        one
        for one in every
        if not any(other != one and all(a <= b for a, b in zip(other, one, strict=True)) for other in every)
    ]


WAYS = [
    ("table", ["kernels"]), ("labels", ["macs"]), ("labels", ["kernels", "params"]), ("bounds", ["macs"]),
    ("bounds", ["kernels", "params"]),
]  # fmt: skip


@pytest.mark.parametrize(("way", "costs"), WAYS)
def test_exact_front_equals_brute_force(
    space: Space, everything: tuple[np.ndarray, dict[str, np.ndarray]], costs: list[str], way: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(grid, "MAX_CELLS", 10**9 if way == "table" else -1)
    pairs = 10**9 if way == "labels" else 0
    monkeypatch.setattr(fronts, "MAX_PAIRS_FIRST", pairs)
    monkeypatch.setattr(fronts, "MAX_PAIRS", pairs)
    if way == "bounds" and len(costs) > 1:
        with pytest.raises(ArchError, match=r"(?s)A3302.*have too many different totals"):
            archir.exact_front(space, _scores(space, 5), *costs)
        return
    scores = _scores(space, 5)
    codes, known = everything
    most = int(np.quantile(known[costs[0]], 0.9))
    fine, where = known[costs[0]] <= most, f"{costs[0]} <= {most}"
    rows = [(-scores(space.decode(row)), *(int(known[one][i]) for one in costs)) for i, row in enumerate(codes)]
    best = _best([row for row, one in zip(rows, fine, strict=True) if one])
    assert len(best) >= 3
    found = archir.exact_front(space, scores, *costs, where=where)
    assert found.complete
    assert sorted((-one.values[0], *one.values[1:]) for one in found.points) == best
    for one in found.points:
        assert scores(one.architecture) == one.values[0]
        assert [int(space.cost([one.architecture], [c])[c][0]) for c in costs] == list(one.values[1:])
    few = archir.exact_front(space, scores, *costs, points=3, where=where)
    assert {(-one.values[0], *one.values[1:]) for one in few.points} <= set(best)
    assert len(few.points) == 3
    with pytest.raises(ArchError, match="A3301"):
        archir.exact_front(space, scores, *costs, where="params <= 1")


def test_traced_front_keeps_its_time_limit_and_explains_only_its_first_point(
    space: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[float | None] = []

    def optimize(*arguments: Any, **options: Any) -> answers.Answer:
        limits.append(arguments[4])
        return answers.optimize(*arguments, **options)

    monkeypatch.setattr(fronts, "optimize", optimize)
    monkeypatch.setattr(fronts, "_direct_front", lambda *arguments: None)
    explained = []
    conflict = answers._Optimizing._conflict
    monkeypatch.setattr(answers._Optimizing, "_conflict", lambda self: explained.append(1) or conflict(self))
    scores = _scores(space, 5)
    full = archir.exact_front(space, scores, "macs", seconds=600)
    few = archir.exact_front(space, scores, "macs", points=3, seconds=600)
    assert full.complete
    assert {point.values for point in few.points} <= {point.values for point in full.points}
    assert len(limits) > 6
    assert all(limit is not None and limit <= 600 for limit in limits)
    assert not explained
    with pytest.raises(ArchError, match="A3301"):
        archir.exact_front(space, scores, "macs", where="params <= 1")
    assert explained == [1]
    late = archir.exact_front(space, scores, "macs", points=3, seconds=0)
    assert (late.points, late.complete) == ((), False)


def test_bound_that_every_architecture_keeps_is_feasible(space: Space) -> None:
    most = archir.optimize(space, maximize="peak_bytes").values
    assert archir.optimize(space, maximize="peak_bytes", where="peak_bytes >= 1").values == most
    for objective, where in (("macs", "peak_bytes >= 1000000000"), ("peak_bytes", "peak_bytes < 1")):
        answer = archir.optimize(space, objective, where=where)
        assert (answer.proved, answer.architectures) == (True, ())
        assert [one.bound.text for one in answer.conflict] == [where]


@pytest.mark.parametrize("seed", with_soak(range(20), range(8)))
def test_grid_front_equals_brute_force_over_paths(seed: int) -> None:
    """Of networks with several states, whose steps lead anywhere."""
    rng = np.random.default_rng(seed)
    widths, layers = [1, *rng.integers(1, 4, 4).tolist(), 1], []
    for before, after in pairwise(widths):
        counts = rng.integers(3, 6, before)  # enough to reach all states
        sources = np.repeat(np.arange(before), counts)
        costs = rng.integers(-3, 6, (len(sources), 3)) * [1, 7, 5] + [0, 2, -1]
        goals = rng.integers(0, after, len(sources))
        goals[:after] = np.arange(after)
        layers.append(Layer(np.cumsum(counts) - counts, sources, goals, costs, np.arange(len(sources), dtype=np.int16)))
    network = Network(tuple(layers), (4, -2, 9))
    paths = [((), 0, np.array(network.constant))]
    for layer in layers:
        paths = [
            ((*codes, step), int(layer.after[step]), sums + layer.costs[step])
            for codes, state, sums in paths
            for step in np.flatnonzero(layer.sources == state).tolist()
        ]
    rows = [tuple(sums.tolist()) for *_, sums in paths]
    limit = int(np.quantile([row[2] for row in rows], 0.7))
    table = grid.Grid(network)
    for axes, limits in ((2, [None, None]), (2, [None, limit]), (1, [None, limit])):
        cells = table.front(axes, limits)
        within = [row for row in rows if limits[1] is None or row[2] <= limit]
        best = _best([row[: axes + 1] for row in within])
        for found, totals in ((table.codes(cells.indices), cells.totals), labels.front(network, axes, limits, 10**9)):
            assert sorted(tuple(one[: axes + 1].tolist()) for one in totals) == best
            for codes, sums in zip(found, totals, strict=True):
                assert next(r for r, (c, *_) in zip(rows, paths, strict=True) if c == tuple(codes)) == tuple(sums)


def test_grid_is_not_used_beyond_64_bits() -> None:
    """Signed sums may span more than any of them is."""
    layers = []
    for _ in range(4):
        costs, nothing = np.array([[-(2**60), 0], [2**60, 1], [0, 2]]), np.zeros(3, np.int64)
        layers.append(Layer(np.zeros(1, np.int64), nothing, nothing, costs, np.arange(3, dtype=np.int16)))
    assert not grid.Grid(Network(tuple(layers), (0, 0))).is_affordable
    assert grid.Grid(Network(tuple(layers[:1]), (0, 0))).is_affordable


@pytest.mark.soak
def test_llama_front_points_are_optimal() -> None:
    """Exact: the best within the costs of a point is the point."""
    space = archir.load(EXAMPLES / "llama" / "llama3.arch")
    scores, rng = _scores(space, 1, 10**9), np.random.default_rng(2)
    scores = AdditiveScores(space.name, tuple(term for term in scores.terms if len(term.choices) == 1))
    costs = ["kv_bytes(context=4096)", "decode_macs(context=4096)"]
    found = archir.exact_front(space, scores, *costs, points=1_000)
    assert len(found.points) == 1_000
    assert len({one.values for one in found.points}) == 1_000
    for one in rng.choice(len(found.points), 12, replace=False):
        value, *sums = found.points[one].values
        where = " and ".join(f"{cost} <= {most}" for cost, most in zip(costs, sums, strict=True))
        assert archir.optimize(space, maximize=scores, where=where).values == (value,)


def test_optimum_keeps_fixed_choices(space: Space) -> None:
    answer = archir.optimize(space, "params", fixed={"width": 12})
    assert answer.best["width"] == 12
    with pytest.raises(ArchError, match=r"(?s)A3303.*`widht`.*`width`"):
        archir.optimize(space, "params", fixed={"widht": 12})
    with pytest.raises(ArchError, match=r"(?s)A3303.*`width` has no `5`"):
        archir.optimize(space, "params", fixed={"width": 5})


def instance(rng: np.random.Generator, layers: int, outcomes: int, rooms: int, size: int = 100) -> Network:
    """Layers of alternatives with random costs."""
    found = []
    for _ in range(layers):
        costs = rng.integers(0, size, (outcomes, rooms + 1))
        nothing = np.zeros(outcomes, np.int64)
        found.append(Layer(np.zeros(1, np.int64), nothing, nothing, costs, np.arange(outcomes, dtype=np.int16)))
    return Network(tuple(found), (0,) * (rooms + 1))


@pytest.mark.parametrize("seed", range(30))
def test_best_paths_under_several_bounds_equal_brute_force(seed: int) -> None:
    rng = np.random.default_rng(seed)
    network = instance(rng, 6, 4, 3)
    limits = rng.integers(100, 350, 3).tolist()
    sums = sum(
        layer.costs.reshape([4 if i == j else 1 for j in range(6)] + [4]) for i, layer in enumerate(network.layers)
    )
    all_of_them = np.asarray(sums).reshape(-1, 4)
    within = all_of_them[(all_of_them[:, 1:] <= limits).all(axis=1), 0]
    answer = optimum(network, limits, 5)
    assert answer.is_proved
    assert answer.totals[:, 0].tolist() == np.sort(within)[:5].tolist()
    assert (answer.totals[:, 1:] <= limits).all()
    chosen = sum(layer.costs[answer.codes[:, i]] for i, layer in enumerate(network.layers))
    assert np.array_equal(np.asarray(chosen), answer.totals)
    assert len({row.tobytes() for row in answer.codes}) == len(answer.codes)


@pytest.mark.parametrize("seed", range(8))
def test_optimum_is_exact_near_64_bit_limit(seed: int) -> None:
    """A bound that only the least keeps drives multipliers up, until products would wrap around."""
    rng = np.random.default_rng(seed)
    network = instance(rng, 6, 4, 2, 30)
    for layer in network.layers:
        layer.costs[:, 0] *= 10**16 // 30 * (-1) ** seed
        layer.costs[:, 1] *= -1
    sums = sum(
        layer.costs.reshape([4 if i == j else 1 for j in range(6)] + [3]) for i, layer in enumerate(network.layers)
    )
    all_of_them = np.asarray(sums).reshape(-1, 3)
    limits = [int(all_of_them[:, 1].min()), int(all_of_them[:, 2].max())]
    within = all_of_them[(all_of_them[:, 1:] <= limits).all(axis=1), 0]
    answer = optimum(network, limits)
    assert answer.is_proved
    assert answer.value == within.min()
    exact = sum(
        min(sum(int(c) * w for c, w in zip(row, answer.dual_bound.weights, strict=True)) for row in layer.costs)
        for layer in network.layers
    )
    room = sum(w * limit for w, limit in zip(answer.dual_bound.weights[1:], limits, strict=True))
    assert answer.dual_bound.bound == exact - room


def test_infeasible_bounds_are_proved() -> None:
    """Twenty layers of seven, whose bounds nearly have an answer: along the objective, too many paths are alike."""
    rng = np.random.default_rng(554)
    layers = []
    for _ in range(20):
        costs, scores = rng.integers(0, 10**6, (7, 3)), rng.integers(0, 10**6, (7, 1))
        nothing, steps = np.zeros(7, np.int64), np.concatenate([scores, costs], axis=1)
        layers.append(Layer(np.zeros(1, np.int64), nothing, nothing, steps, np.arange(7, dtype=np.int16)))
    limits = [int(20 * 10**6 * part) for part in rng.uniform(0.2, 0.5, 3)]
    answer = optimum(Network(tuple(layers), (0, 0, 0, 0)), limits)
    assert answer.is_proved
    assert answer.value is None


def test_late_optimum_reports_valid_bound() -> None:
    rng = np.random.default_rng(1)
    network = instance(rng, 40, 20, 3, 10**6)
    limits = [8 * 10**6] * 3
    exact, cut = optimum(network, limits), optimum(network, limits, is_late=lambda: True)
    assert exact.value is not None
    assert not cut.is_proved
    assert cut.bound <= exact.value
    assert cut.value is None or cut.value >= exact.value


def test_optimize_command_reports_proved_optimum(tmp_path: Path) -> None:
    file = tmp_path / "small.arch"
    file.write_text(SPACE)
    run = CliRunner().invoke
    best = run(
        main, ["optimize", str(file), "--minimize", "macs", "--where", "params >= 600", "-o", str(tmp_path / "b.json")]
    )
    assert best.exit_code == 0
    assert "proved: no architecture within the bounds is better" in best.output
    assert json.loads((tmp_path / "b.json").read_text())["choices"]["width"] in (4, 8, 12)
    none = run(
        main,
        ["optimize", str(file), "--minimize", "macs", "--where", "params >= 1500 and macs <= 20000 and kernels <= 90"],
    )
    assert none.exit_code == 1
    assert "no architecture has params >= 1500 and macs <= 20000\n" in none.output
    assert "would do, if the others stay" in none.output
    several = run(main, ["optimize", str(file), "--minimize", "params", "--best", "3", "--json"])
    values = [one["value"] for one in json.loads(several.output)["architectures"]]
    assert len(values) == 3
    assert values == sorted(values)
    none = run(main, ["optimize", str(file), "--minimize", "macs", "--where", "params <= 1", "--json"])
    assert none.exit_code == 1
    answer = json.loads(none.output)
    assert answer["architectures"] == []
    assert [item["bound"] for item in answer["conflict"]] == ["params <= 1"]
    assert answer["diagnostics"][0]["code"] == "A3301"
    front = run(main, ["optimize", str(file), "--front", "macs,params"])
    assert front.exit_code == 0
    assert "1 point;" in front.output
    assert run(main, ["optimize", str(file)]).exit_code == 2


def test_optimize_command_writes_parameters_as_sample_does(tmp_path: Path) -> None:
    file, best = tmp_path / "small.arch", tmp_path / "best.json"
    file.write_text("net n(most = 8) {\n    input x: f32[4]\n    output y = x |> linear(choose width(4, most))\n}\n")
    assert CliRunner().invoke(main, ["optimize", str(file), "--minimize", "macs", "-o", str(best)]).exit_code == 0
    written = best.read_text()
    assert json.loads(written)["parameters"] == {"most": 8}
    assert written.endswith("}\n")
    assert not written.endswith("\n\n")


def test_path_listing_prunes_prefixes_with_equal_usage() -> None:
    """2**24 paths, but few ways to use the room; the best two of each go on."""
    network = instance(np.random.default_rng(0), 24, 2, 1, 2)
    found = listing.list_paths(network, [12], [1, 0], 24, count=2, max_width=2_000)
    assert found.max_width < 2_000
    assert found.totals[:, 0].tolist()[0] == optimum(network, [12]).value


def test_no_path_is_below_minimum() -> None:
    network = instance(np.random.default_rng(0), 4, 3, 1)
    low = network.column_ranges[0][0]
    for cutoff in (low - 2, low - 1):
        found = listing.list_paths(network, [400], [1, 0], cutoff)
        assert (found.codes.shape, found.totals.shape) == ((0, 4), (0, 2))
    assert listing.list_paths(network, [400], [1, 0], low).totals[:, 0].tolist() == [low]

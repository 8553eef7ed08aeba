"""The best architectures within bounds: what is proved is what listing all of them says."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import archir
from archir.base.errors import ArchError
from archir.cli.main import main
from archir.costs.optimal.network import Layer, Network
from archir.costs.optimal.optimum import optimum
from archir.search.scores.table import Scores, Term
from archir.search.spaces.optimal import answers
from archir.search.spaces.space import Space

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


@settings(max_examples=25, deadline=None)
@given(
    st.lists(BOUNDS, max_size=3), st.sampled_from(["params", "macs", "peak_bytes"]), st.booleans(), st.integers(1, 4)
)
def test_what_is_best_is_what_listing_says(
    space: Space,
    everything: tuple[np.ndarray, dict[str, np.ndarray]],
    bounds: list[tuple[str, str, float]],
    cost: str,
    greatest: bool,
    best: int,
) -> None:
    _, costs = everything
    fine = np.ones(len(costs["params"]), bool)
    texts = []
    for name, relation, part in bounds:
        limit = int(np.sort(costs[name])[int(part * (len(fine) - 1))])
        texts.append(f"{name} {relation} {limit}")
        fine &= KEEPS[relation](costs[name], limit)
    best = 1 if cost == "peak_bytes" else best
    wanted = np.sort(costs[cost][fine])[:: -1 if greatest else 1][:best].tolist()
    named = {"maximize": cost} if greatest else {"minimize": cost}
    answer = archir.optimize(space, **named, where=" and ".join(texts) or None, best=best)
    assert answer.settled
    assert [int(value) for value in answer.values] == wanted
    assert len(set(answer.architectures)) == len(wanted)
    for one in answer.architectures:
        assert (space.where(" and ".join(texts)) if texts else space).within(one)
    if not wanted:
        _is_least(space, [one.bound.text for one in answer.conflict])


def _is_least(space: Space, texts: list[str]) -> None:
    """Each bound of a conflict left out, there are architectures; with all of them there is none."""
    assert texts
    for left in texts:
        others = " and ".join(text for text in texts if text != left)
        assert not others or archir.optimize(space, "params", where=others).architectures


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
        outcomes = product(*(range(choices[path].outcomes) for path in paths))
        terms.append(Term(paths, {one: Fraction(int(rng.integers(-50, 50)), 8) for one in outcomes}))
    scores = Scores(space.name, tuple(terms), Fraction(1, 3))
    codes, costs = everything
    limit = int(np.quantile(costs["macs"], part))
    each = [scores(space.decode(row)) for row in codes[costs["macs"] <= limit]]
    answer = archir.optimize(space, maximize=scores, where=f"macs <= {limit}")
    assert answer.values == (max(each),)
    assert scores(answer.best) == max(each)


def test_scores_of_too_many_digits_are_refused(space: Space) -> None:
    values = {(0,): Fraction(1, 10**19), (1,): Fraction(1, 7**20)}
    scores = Scores(space.name, (Term(("width",), values),))
    with pytest.raises(ArchError, match=r"A3302.*too many digits"):
        archir.optimize(space, maximize=scores)


def test_a_conflict_that_time_was_out_for_says_so(space: Space, monkeypatch: pytest.MonkeyPatch) -> None:
    where = "params >= 1500 and macs <= 20000 and kernels <= 90"
    assert archir.optimize(space, "macs", where=where).fewest
    monkeypatch.setattr(answers._Optimizing, "_some", lambda self, bounds: None)
    answer = archir.optimize(space, "macs", where=where)
    assert not answer.fewest
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


def test_a_front_is_that_of_all(space: Space, everything: tuple[np.ndarray, dict[str, np.ndarray]]) -> None:
    rng = np.random.default_rng(5)
    terms = [
        Term((c.path,), {(o,): Fraction(int(rng.integers(100))) for o in range(c.outcomes)}) for c in space.choices
    ]
    scores = Scores(space.name, tuple(terms))
    codes, costs = everything
    each = [-int(scores(space.decode(row))) for row in codes]
    pairs = sorted(set(zip(each, costs["macs"].tolist(), strict=True)))
    best = [(-one[0], one[1]) for i, one in enumerate(pairs) if all(one[1] < other[1] for other in pairs[:i])]
    assert len(best) > 4
    found = archir.exact_front(space, scores, "macs")
    assert found.settled
    assert [tuple(map(int, one.values)) for one in found.points] == best
    few = archir.exact_front(space, scores, "macs", points=3)
    assert {tuple(map(int, one.values)) for one in few.points} <= set(best)
    assert len(few.points) == 3


def test_what_is_fixed_stays(space: Space) -> None:
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
def test_random_costs_under_several_bounds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    network = instance(rng, 6, 4, 3)
    limits = rng.integers(100, 350, 3).tolist()
    sums = sum(
        layer.costs.reshape([4 if i == j else 1 for j in range(6)] + [4]) for i, layer in enumerate(network.layers)
    )
    all_of_them = np.asarray(sums).reshape(-1, 4)
    within = all_of_them[(all_of_them[:, 1:] <= limits).all(axis=1), 0]
    answer = optimum(network, limits, 5)
    assert answer.settled
    assert answer.totals[:, 0].tolist() == np.sort(within)[:5].tolist()
    assert (answer.totals[:, 1:] <= limits).all()
    chosen = sum(layer.costs[answer.codes[:, i]] for i, layer in enumerate(network.layers))
    assert np.array_equal(np.asarray(chosen), answer.totals)
    assert len({row.tobytes() for row in answer.codes}) == len(answer.codes)


@pytest.mark.parametrize("seed", range(8))
def test_sums_that_nearly_fill_64_bits_are_proved_as_others(seed: int) -> None:
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
    assert answer.settled
    assert answer.value == within.min()
    exact = sum(
        min(sum(int(c) * w for c, w in zip(row, answer.proof.weights, strict=True)) for row in layer.costs)
        for layer in network.layers
    )
    room = sum(w * limit for w, limit in zip(answer.proof.weights[1:], limits, strict=True))
    assert answer.proof.bound == exact - room


def test_out_of_time_says_how_far_it_is() -> None:
    rng = np.random.default_rng(1)
    network = instance(rng, 40, 20, 3, 10**6)
    limits = [8 * 10**6] * 3
    exact, cut = optimum(network, limits), optimum(network, limits, late=lambda: True)
    assert exact.value is not None
    assert not cut.settled
    assert cut.bound <= exact.value
    assert cut.value is None or cut.value >= exact.value


def test_the_command_says_what_is_proved(tmp_path: Path) -> None:
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
    front = run(main, ["optimize", str(file), "--front", "macs,params"])
    assert front.exit_code == 0
    assert "1 point;" in front.output
    assert run(main, ["optimize", str(file)]).exit_code == 2

"""Local search, evolution, model-based strategies, Hyperband and BOHB, and the models of scores behind them."""

from __future__ import annotations

import random
from statistics import median
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import archir
from archir.diagnostics.errors import ArchError
from archir.diagrams.diagram import Choice
from archir.search.registry import create
from archir.search.surrogates.encoding import Encoding, normal_scores
from archir.search.surrogates.models import (
    BLOCK,
    HIDDEN,
    MAX_LIKELIHOOD_POINTS,
    RIDGE,
    Ensemble,
    GaussianProcess,
    expected_improvement,
    solve_lower,
    squared_distances,
)
from archir.search.variation import MAX_NEIGHBOURS, moved, neighbours
from archir.spaces.architecture import Architecture
from archir.spaces.space import Space
from tests.search.test_multi import BOUND, PLAIN, fits

HILLS = archir.loads(
    "net hills {\n input image: f32[4, 6, 6]\n x = image\n for i in 0..4 {\n"
    " x = x |> conv(choose w(2, 3, 4, 5, 6))\n }\n output y = x\n}"
)
"""625 architectures, no two of which compute the same."""


def height(architecture: Architecture) -> float:
    """One hill, of which each choice has a part; bumps of a hundredth."""
    codes = architecture.codes
    return -sum((code - 3) ** 2 for code in codes) + random.Random(str(codes)).random() / 100


def best_after(name: str, options: dict[str, Any], seed: int, trials: int) -> float:
    search = create(name, HILLS, {"trials": trials, **options}, seed)
    while batch := search.ask():
        search.tell([(one, {"accuracy": height(one.architecture)}) for one in batch])
    best = search.best()
    assert best is not None
    return height(best.architecture)


@pytest.fixture(scope="module")
def chance() -> float:
    """What is the best of 48 that are drawn."""
    return median(best_after("random", {}, seed, 48) for seed in range(9))


@pytest.mark.parametrize(
    ("name", "batch"),
    [
        ("local_search", 1),
        ("bayesian", 8),
        ("bananas", 8),
        *(pytest.param(name, 4, marks=pytest.mark.soak) for name in ("bayesian", "bananas")),
    ],
)
def test_guided_search_beats_random_search(name: str, batch: int, chance: float) -> None:
    options = {"initial": 8, "batch": batch} if name != "local_search" else {}
    found = median(best_after(name, options, seed, 48) for seed in range(9))
    assert found > chance + 0.5


# local search


def test_local_search_climbs_and_restarts_at_local_optimum() -> None:
    search = create("local_search", HILLS, {"trials": 400}, 0)
    at, told = None, {}
    restarts = 0
    while batch := search.ask():
        (one,) = batch
        near = at is not None and sum(a != b for a, b in zip(at.codes, one.architecture.codes, strict=True)) == 1
        if at is not None and not near:
            around = [height(other) for other in HILLS.neighbors(at)]
            assert max(around) < height(at), "only what is better than all around is left"
            restarts, at = restarts + 1, None
        told[one.architecture] = height(one.architecture)
        if at is None or height(one.architecture) > height(at):
            at = one.architecture
        search.tell([(one, {"accuracy": height(one.architecture)})])
        if restarts == 1:
            break
    assert restarts == 1
    assert len(told) < 120


def test_local_search_moves_to_best_neighbor_of_batch() -> None:
    search = create("local_search", HILLS, {"trials": 50, "batch": 100}, 0)
    (start,) = search.ask()
    search.tell([(start, {"accuracy": 0.0})])
    around = search.ask()
    assert {one.architecture for one in around} == set(HILLS.neighbors(start.architecture))
    search.tell([(one, {"accuracy": height(one.architecture) + 100}) for one in around])
    best = max(around, key=lambda one: height(one.architecture)).architecture
    assert all(sum(map(int.__ne__, best.codes, one.architecture.codes)) == 1 for one in search.ask())


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_neighbors_are_architectures_differing_in_one_choice(seed: int) -> None:
    rng = random.Random(seed)
    parent = PLAIN.sample(rng)
    for child in neighbours(PLAIN, parent, rng):
        assert fits(PLAIN, child)
        both = [(a, b) for a, b in zip(parent.codes, child.codes, strict=True) if a >= 0 and b >= 0]
        assert sum(a != b for a, b in both) == 1


def test_moves_are_not_undone_by_constraints() -> None:
    """A choice that must equal an earlier one cannot move alone; the earlier one can, and it follows."""
    body = " input x: f32[4, 6, 6]\n a = choose a(1, 2, 3)\n b = choose b(1, 2, 3)\n output y = x |> conv(a) |> conv(b)"
    tied = archir.loads(f"net tied {{\n{body}\n require b == a\n}}")
    rng, parent = random.Random(0), tied.architecture({"a": 1, "b": 1})
    others = {(2, 2), (3, 3)}
    assert {(one["a"], one["b"]) for one in (moved(tied, parent, rng) for _ in range(100))} == others
    assert sorted((one["a"], one["b"]) for one in neighbours(tied, parent, rng)) == sorted(others)
    fixed = archir.loads(f"net fixed {{\n{body}\n require b == 1 and a == 1\n}}")
    only = fixed.sample(0)
    assert moved(fixed, only, rng) == only
    assert not list(neighbours(fixed, only, rng))


def test_number_of_neighbors_is_limited() -> None:
    wide = archir.loads("net n {\n input x: f32[4, 6, 6]\n output y = x |> conv(choose w(1..3000))\n}")
    found = list(neighbours(wide, wide.sample(0), random.Random(0)))
    assert len(found) == MAX_NEIGHBOURS


# evolution


def test_repeated_child_rejoins_evolution_as_youngest() -> None:
    """What is good must not die out for having been found early: with two architectures, both stay."""
    space = archir.loads("net two {\n input x: f32[4, 6, 6]\n output y = x |> conv(choose w(1, 2, 3, 4))\n}")
    options = {"population": 2, "parents": 2, "tournament": 2, "trials": 3}
    ages = set()
    for seed in range(20):
        search = create("evolution", space, options, seed)
        batch = search.ask()
        search.tell([(one, {"accuracy": -float(one.id)}) for one in batch])
        before = [one.candidate.id for one in search.parents]  # type: ignore[attr-defined]
        search.ask()
        after = [one.candidate.id for one in search.parents]  # type: ignore[attr-defined]
        assert before == [0, 1]
        assert set(after) <= {0, 1}
        ages.add(tuple(after))
    assert (1, 0) in ages or (1, 1) in ages or (0, 0) in ages


# models


def choice(alternatives: tuple[Any, ...], take: int | None = None) -> Choice:
    return Choice("c", alternatives, 0, take)


@pytest.mark.parametrize(
    ("one", "distances"),
    [
        (choice(("a", "b", "c")), {(0, 1): 1.0, (0, 2): 1.0, (0, -1): 0.5, (1, 1): 0.0}),
        (choice((2, 4, 8)), {(0, 1): 0.5, (0, 2): 1.0, (1, 2): 0.5, (0, -1): 0.5, (1, -1): 0.5, (2, -1): 0.5}),
        (choice((8, 2, 4)), {(0, 1): 1.0, (1, 2): 1.0}),
        (choice(("a", "b", "c", "d"), 2), {(0, 0): 0.0, (0, 5): 1.0, (0, 1): 0.5}),
        (choice((7,)), {(0, 0): 0.0}),
    ],
    ids=["names", "numbers", "numbers without order", "two of four", "one"],
)
def test_encoded_outcomes_have_expected_distances(one: Choice, distances: dict[tuple[int, int], float]) -> None:
    for pair, wanted in distances.items():
        vectors = Encoding([one])([[outcome] for outcome in pair])
        assert squared_distances(vectors, vectors)[0, 1] == pytest.approx(wanted)


def test_normal_scores_depend_on_ranks_only() -> None:
    found = normal_scores([3.0, 1e9, -5.0, 3.0])
    assert found[0] == found[3]
    assert found[2] < found[0] < found[1]
    assert normal_scores([-one for one in (3.0, 1e9, -5.0, 3.0)]) == pytest.approx(-found)
    assert normal_scores([1.0]) == pytest.approx([0.0])


def observed(space: Space, count: int) -> tuple[Any, Any, Any, Any]:
    rng = np.random.default_rng(0)
    codes = space.sample_codes(count + 60, rng)
    vectors = Encoding(space.choices)(codes.tolist())
    numbers = normal_scores([height(space.decode(row)) for row in codes])
    return vectors[:count], numbers[:count], vectors[count:], numbers[count:]


@pytest.mark.parametrize("model", ["process", "ensemble"])
def test_models_predict_unseen_scores(model: str) -> None:
    vectors, numbers, others, truth = observed(HILLS, 80)
    rng = np.random.default_rng(0)
    fitted = GaussianProcess(vectors, numbers) if model == "process" else Ensemble(vectors, numbers, rng)
    means, deviations = fitted(others)
    assert np.corrcoef(means, truth)[0, 1] > 0.85
    own, sure = fitted(vectors)
    assert np.abs(own - numbers).mean() < np.abs(means - truth).mean()
    assert sure.mean() < deviations.mean()


def test_gaussian_process_equals_textbook_equations() -> None:
    """Equations 2.25 and 2.26 of Rasmussen and Williams, of the length and noise that it chose."""
    vectors, numbers, others, _ = observed(HILLS, 20)
    found = GaussianProcess(vectors, numbers)
    kernels = {}
    for noise in (1e-3, 1e-2, 1e-1):
        kernel = np.exp(-squared_distances(vectors, vectors) / found._length) + noise * np.eye(20)
        across = np.exp(-squared_distances(others, vectors) / found._length)
        means = across @ np.linalg.solve(kernel, numbers)
        variance = numbers @ np.linalg.solve(kernel, numbers) / 20
        left = 1 - np.einsum("ij,ji->i", across, np.linalg.solve(kernel, across.T))
        kernels[noise] = np.allclose(found(others)[0], means) and np.allclose(found(others)[1] ** 2, variance * left)
    assert sum(kernels.values()) == 1


def test_blocked_triangular_solve_satisfies_system() -> None:
    rng = np.random.default_rng(0)
    lower = np.tril(rng.normal(size=(3 * BLOCK - 7, 3 * BLOCK - 7))) / 20 + np.eye(3 * BLOCK - 7)
    right = rng.normal(size=(len(lower), 5))
    np.testing.assert_allclose(lower @ solve_lower(lower, right), right, atol=1e-9)


def test_gaussian_process_fit_on_many_points_predicts_well() -> None:
    """They are those that all of them would choose; the rest of the process is of all."""
    vectors, numbers, others, truth = observed(HILLS, 2 * MAX_LIKELIHOOD_POINTS)
    order = np.argsort(-numbers)
    found = GaussianProcess(vectors[order], numbers[order])
    assert np.corrcoef(found(others)[0], truth)[0, 1] > 0.97
    assert len(found._lower) == 2 * MAX_LIKELIHOOD_POINTS


def test_expected_improvement_is_the_mean_of_improvements() -> None:
    vectors, numbers, others, _ = observed(HILLS, 30)
    means, deviations = GaussianProcess(vectors, numbers)(others)
    draws = np.random.default_rng(0).normal(means, deviations, (20_000, len(means)))
    assert expected_improvement(vectors, numbers, others) == pytest.approx(
        np.maximum(0, draws - numbers.max()).mean(0), abs=5 * float(deviations.max()) / 20_000**0.5
    )


def test_model_based_search_handles_constant_scores() -> None:
    for name in ("bayesian", "bananas"):
        search = create(name, BOUND, {"trials": 30, "initial": 5, "batch": 5}, 0)
        count = 0
        while batch := search.ask():
            count += len(batch)
            search.tell([(one, {"accuracy": 1.0}) for one in batch])
        assert count == 30


# hyperband


def test_hyperband_has_the_published_brackets() -> None:
    """Li et al. 2018, table 1: 81 epochs, a third goes on; all brackets once more in the second round."""
    search = create("hyperband", archir.loads(_WIDE), {"rungs": 5, "rounds": 2}, 0)
    sizes = []
    while batch := search.ask():
        sizes.append((len(batch), round(81 * batch[0].budget)))
        search.tell([(one, {"accuracy": random.Random(one.id).random()}) for one in batch])
    once = [
        (81, 1), (27, 3), (9, 9), (3, 27), (1, 81), (34, 3), (11, 9), (3, 27), (1, 81), (15, 9), (5, 27), (1, 81),
        (8, 27), (2, 81), (5, 81),
    ]  # fmt: skip
    assert sizes == [*once, *once]


_WIDE = "net n {\n input x: f32[4, 6, 6]\n output y = x |> conv(choose w(1..41)) |> conv(choose v(1..41))\n}"


@pytest.mark.parametrize("options", [{"rungs": 21}, {"eta": 1_000_000, "rungs": 64}])
def test_hyperband_rejects_oversized_bracket(options: dict[str, int]) -> None:
    with pytest.raises(ArchError, match=r"A1109.*the size of the first rung, must be 1,000,000 or less"):
        create("hyperband", PLAIN, options, 0)


def test_bohb_starts_later_brackets_better_than_hyperband() -> None:
    def begun(name: str, seed: int) -> float:
        search = create(name, HILLS, {"rungs": 3, "rounds": 3}, seed)
        heights = []
        while batch := search.ask():
            new = batch[0].id >= 60
            heights += [height(one.architecture) for one in batch if new]
            search.tell([(one, {"accuracy": height(one.architecture)}) for one in batch])
        return median(heights)

    assert median(begun("bohb", s) for s in range(7)) > median(begun("hyperband", s) for s in range(7)) + 1


# candidates that compute the same


def test_search_without_dedup_tries_all_architectures() -> None:
    text = (
        "net same {\n input x: f32[4, 6, 6]\n a = choose a(1, 2)\n b = choose b(1, 2)\n output y = x |> conv(a * b)\n}"
    )
    space = archir.loads(text)
    for one, wanted in ((space, 3), (archir.without_dedup(space), 4)):
        search = create("random", one, {"trials": 10}, 0)
        codes = [candidate.architecture.codes for candidate in search.ask()]
        assert len(set(codes)) == len(codes) == wanted
    bound = archir.without_dedup(PLAIN.where("macs <= 60K"))
    search = create("bayesian", bound, {"trials": 60}, 0)
    while batch := search.ask():
        assert all(fits(bound, one.architecture) for one in batch)
        search.tell([(one, {"accuracy": height(one.architecture)}) for one in batch])


def test_full_tournament_without_repetition_picks_best_parent() -> None:
    options = {"population": 6, "parents": 6, "tournament": 6, "repetition": False, "trials": 7}
    search = create("evolution", HILLS, options, 0)
    batch = search.ask()
    search.tell([(one, {"accuracy": float(one.id == 3)}) for one in batch])
    (child,) = search.ask()
    parent = batch[3].architecture.codes
    assert sum(a != b for a, b in zip(parent, child.architecture.codes, strict=True)) == 1


def test_gaussian_process_likelihood_equals_formula() -> None:
    """Rasmussen and Williams 2006, equation 2.30, with the variance that makes it greatest."""
    rng = np.random.default_rng(0)
    vectors, numbers = rng.normal(size=(40, 5)), rng.normal(size=40)
    distances = squared_distances(vectors, vectors)
    for length, noise in ((5.0, 1e-3), (20.0, 1e-1)):
        kernel = np.exp(-distances / length) + noise * np.eye(40)
        variance = numbers @ np.linalg.inv(kernel) @ numbers / 40
        wanted = -20 * np.log(variance) - 0.5 * np.linalg.slogdet(kernel)[1]
        assert GaussianProcess._log_likelihood(np.exp(-distances / length), numbers, noise) == pytest.approx(
            wanted, rel=1e-6
        )


def test_ensemble_member_equals_ridge_fit_of_bootstrap_sample() -> None:
    """Rows with weights are fitted as rows that are there several times: ridge regression's normal equations."""
    vectors, numbers = np.random.default_rng(1).normal(size=(30, 4)), np.random.default_rng(2).normal(size=30)
    hidden, offsets, last = Ensemble._network(vectors, numbers, np.random.default_rng(3))
    again = np.random.default_rng(3)
    for shape in (hidden.shape, offsets.shape):
        again.normal(size=shape)
    drawn = again.integers(30, size=30)
    features = np.maximum(0.0, vectors[drawn] @ hidden + offsets) * (2 / HIDDEN) ** 0.5
    wanted = np.linalg.solve(features.T @ features + RIDGE * np.eye(HIDDEN), features.T @ numbers[drawn])
    np.testing.assert_allclose(last, wanted, atol=1e-9)

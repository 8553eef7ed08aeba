"""Multi-trial strategies: properties of their candidates, determinism, resuming, and variation operators."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import archir
from archir.diagnostics.errors import ArchError
from archir.diagrams.diagram import value_at
from archir.search.ask_tell import Search
from archir.search.candidate import Candidate, Scores
from archir.search.proposals import Proposals
from archir.search.registry import STRATEGIES, create
from archir.search.variation import crossover_codes, moved, moved_codes, resample_codes
from archir.spaces.architecture import Architecture
from archir.spaces.space import Space
from tests.soak import with_soak

BODY = """
    input image: f32[4, 8, 8]
    width = choose width(4, 8, 12)
    depth = choose depth(1, 2, 3)
    x = image |> conv(width)
    repeat depth {
        x = x |> choose op {
            conv: conv(width, kernel=choose kernel(1, 3, 5)) |> choose act { a: relu, b: gelu }
            groups: conv(width, kernel=3, groups=choose groups(1, 2, 4))
            skip: identity
        }
    }
"""
PLAIN = archir.loads(f"net plain {{{BODY}    output y = x\n}}")
REQUIRED = archir.loads(f"net required {{{BODY}    require depth > 1 or width >= 8\n    output y = x\n}}")
BOUND = REQUIRED.where("macs <= 60K")
SPACES = {"plain": PLAIN, "bound": BOUND}
OPTIONS: dict[str, dict[str, Any]] = {
    "random": {"trials": 40, "batch": 8},
    "exhaustive": {"batch": 200},
    "evolution": {"population": 10, "parents": 8, "tournament": 3, "mutations": 3, "crossovers": 3, "trials": 50},
    "nsga2": {"population": 10, "generations": 5},
    "successive_halving": {"population": 9, "rungs": 3, "brackets": True},
    "local_search": {"trials": 40, "batch": 2},
    "bayesian": {"trials": 40, "initial": 8, "batch": 6, "children": 30, "drawn": 10},
    "bananas": {"trials": 40, "initial": 8, "batch": 6, "children": 30, "drawn": 10},
    "hyperband": {"rungs": 3, "rounds": 2},
    "bohb": {"rungs": 3, "rounds": 2, "least": 4, "children": 30, "drawn": 10},
}
Told = list[tuple[Candidate, Scores | None]]


def score(candidate: Candidate, salt: int = 0) -> dict[str, float]:
    """Any number, but always the same one of an architecture."""
    return {"accuracy": random.Random(f"{candidate.hash} {salt}").random() * candidate.budget}


def run(search: Search, salt: int = 0, failing: float = 0.0, most: int = 10_000) -> list[Told]:
    """Search to its end, or until so many batches; what was told. Some candidates fail."""
    history: list[Told] = []
    while (batch := search.ask()) and len(history) < most:
        fails = [random.Random(f"{one.hash} {salt} fails").random() < failing for one in batch]
        history.append([(one, None if bad else score(one, salt)) for one, bad in zip(batch, fails, strict=True)])
        search.tell(history[-1])
    return history


def asked(history: list[Told]) -> list[Candidate]:
    return [candidate for told in history for candidate, _ in told]


def fits(space: Space, architecture: Architecture) -> bool:
    """Whether exactly the active choices have outcomes, and every constraint is kept."""
    outcomes = architecture.outcomes
    active = {one.choice.path for one in space.order if value_at(one.active, outcomes) is True}
    kept = all(value_at(one.condition, outcomes) is True for one in space.graph.constraints if one.cost is None)
    return active == set(outcomes) and kept and space.within(architecture)


def test_strategies_are_registered_and_unknown_ones_rejected() -> None:
    assert set(STRATEGIES) == set(OPTIONS)
    with pytest.raises(ArchError, match=r"A2504.*`evolutoin`") as caught:
        create("evolutoin", PLAIN)
    assert "evolution" in str(caught.value.diagnostics[0].hint)


@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
@pytest.mark.parametrize("name", OPTIONS)
@settings(max_examples=3, deadline=None)
@given(seed=st.integers(0, 2**63), failing=st.sampled_from([0.0, 0.3, 1.0]))
def test_candidates_are_valid_and_distinct(name: str, space: Space, seed: int, failing: float) -> None:
    keeps_the_laws(name, space, seed, failing)


@pytest.mark.soak
@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
@pytest.mark.parametrize("name", OPTIONS)
@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**63), failing=st.sampled_from([0.0, 0.3, 1.0]))
def test_candidates_are_valid_and_distinct_for_many_seeds(name: str, space: Space, seed: int, failing: float) -> None:
    keeps_the_laws(name, space, seed, failing)


def keeps_the_laws(name: str, space: Space, seed: int, failing: float) -> None:
    history = run(create(name, space, OPTIONS[name], seed), seed, failing)
    candidates = asked(history)
    assert [one.id for one in candidates] == list(range(len(candidates)))
    assert all(fits(space, one.architecture) for one in candidates)
    assert all(one.hash == space.canonical(one.architecture) for one in candidates[:10])
    assert len({(one.hash, one.budget) for one in candidates}) == len(candidates)
    failed = {one.hash for told in history for one, scores in told if scores is None}
    assert len([one for one in candidates if one.hash in failed]) == len(failed)


@pytest.mark.parametrize("name", OPTIONS)
def test_plan_is_number_and_work_of_all_trials(name: str) -> None:
    search = create(name, PLAIN, OPTIONS[name], 3)
    candidates = asked(run(search))
    trials, work = sum(count for count, _ in search.plan), sum(count * budget for count, budget in search.plan)
    if name == "exhaustive":  # equivalent architectures are scored once
        assert trials == work == PLAIN.satisfying >= len(candidates)
    else:
        assert (trials, work) == (len(candidates), pytest.approx(sum(one.budget for one in candidates)))


@pytest.mark.parametrize("name", OPTIONS)
@settings(max_examples=2, deadline=None)
@given(seed=st.integers(0, 2**63), order=st.randoms(use_true_random=False))
def test_equal_seed_and_scores_give_equal_candidates(name: str, seed: int, order: random.Random) -> None:
    tries_the_same(name, seed, order)


@pytest.mark.soak
@pytest.mark.parametrize("name", OPTIONS)
@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**63), order=st.randoms(use_true_random=False))
def test_equal_seed_and_scores_give_equal_candidates_for_many_seeds(name: str, seed: int, order: random.Random) -> None:
    tries_the_same(name, seed, order)


def tries_the_same(name: str, seed: int, order: random.Random) -> None:
    first, second = (create(name, BOUND, OPTIONS[name], seed) for _ in range(2))
    while batch := first.ask():
        assert second.ask() == batch == second.ask()
        told: Told = [(one, score(one)) for one in batch]
        first.tell(told)
        second.tell(order.sample(told, len(told)))
    assert second.ask() == []
    assert first.best() == second.best()
    assert first.front() == second.front()


@pytest.mark.parametrize("places", with_soak([4, 10**6], [4]))
@pytest.mark.parametrize("name", OPTIONS)
def test_replayed_search_equals_uninterrupted_one(name: str, places: int) -> None:
    whole = run(create(name, BOUND, OPTIONS[name], 3), failing=0.2)
    for done in range(0, len(whole), max(1, len(whole) // places)):
        resumed = create(name, BOUND, OPTIONS[name], 3)
        for told in whole[:done]:
            assert resumed.ask() == [candidate for candidate, _ in told]
            resumed.tell(told)
        assert [*whole[:done], *run(resumed, failing=0.2)] == whole


@pytest.mark.parametrize("name", ["random", "evolution", "nsga2"])
def test_different_seeds_try_different_architectures(name: str) -> None:
    one, other = (asked(run(create(name, PLAIN, OPTIONS[name], seed))) for seed in (0, 1))
    assert [a.hash for a in one] != [b.hash for b in other]


@pytest.mark.parametrize(
    "name", with_soak(["random", "evolution", "nsga2", "local_search", "bayesian"], ["evolution", "local_search"])
)
def test_a_space_that_is_used_up_ends_the_search(name: str) -> None:
    options = {"trials": 10**6} | ({"generations": None} if name == "nsga2" else {})
    candidates = asked(run(create(name, BOUND, options, 0)))
    assert {one.hash for one in candidates} == {BOUND.canonical(one) for one in BOUND.enumerate()}


def test_exhaustive_tries_all_in_order() -> None:
    candidates = asked(run(create("exhaustive", BOUND)))
    assert [one.architecture for one in candidates] == list(BOUND.unique(BOUND.enumerate()))


def test_exhaustive_search_rejects_large_space() -> None:
    with pytest.raises(ArchError, match=r"A2505.*`plain` has [\d,]+ architectures, more than 100"):
        create("exhaustive", PLAIN, {"most": 100})


def test_random_draws_are_uniform() -> None:
    """Chi-square of the first candidate of 3,000 seeds, over the architectures; four standard deviations."""
    space = archir.loads(
        "net small {\n input image: f32[4, 6, 6]\n x = image |> choose op {\n conv: conv(choose w(2, 3, 4), kernel=1)\n"
        " pool: max_pool(3)\n same: identity\n }\n output y = x\n}"
    )
    counts: dict[tuple[int, ...], int] = {}
    for seed in range(3_000):
        codes = Proposals(space, seed).sample(1)[0].architecture.codes
        counts[codes] = counts.get(codes, 0) + 1
    assert len(counts) == space.size == 5
    assert sum((count - 600) ** 2 / 600 for count in counts.values()) < 4 + 4 * 8**0.5


# children


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), p=st.floats(0, 1))
def test_children_are_architectures(seed: int, p: float) -> None:
    rng = random.Random(seed)
    one, other = REQUIRED.sample(rng), REQUIRED.sample(rng)
    for child in (
        resample_codes(REQUIRED, one.codes, rng, p),
        moved_codes(REQUIRED, one.codes, rng),
        crossover_codes(REQUIRED, one.codes, other.codes, rng),
    ):
        assert fits(REQUIRED, REQUIRED.decode(child))


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_child_has_its_genes_from_its_parents(seed: int) -> None:
    rng = random.Random(seed)
    one, other = PLAIN.sample(rng), PLAIN.sample(rng)
    child = crossover_codes(PLAIN, one.codes, other.codes, rng)
    for code, *parents in zip(child, one.codes, other.codes, strict=True):
        known = {parent for parent in parents if parent >= 0}
        assert code == -1 or not known or code in known
    assert crossover_codes(PLAIN, one.codes, one.codes, rng) == one.codes == resample_codes(PLAIN, one.codes, rng, 0.0)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_move_changes_exactly_one_active_choice(seed: int) -> None:
    rng = random.Random(seed)
    parent = PLAIN.sample(rng)
    child = moved(PLAIN, parent, rng)
    both = [(a, b) for a, b in zip(parent.codes, child.codes, strict=True) if a >= 0 and b >= 0]
    assert sum(a != b for a, b in both) == 1


def test_newly_active_choices_are_sampled_uniformly() -> None:
    parent = PLAIN.architecture({"width": 4, "depth": 1, "op[0]": "skip"})
    rng = random.Random(0)
    children = [moved(PLAIN, parent, rng) for _ in range(3_000)]
    counts = Counter(child["op[0].conv.kernel"] for child in children if child["op[0]"] == "conv")
    total = counts.total()
    assert set(counts) == {1, 3, 5}
    assert all(abs(count - total / 3) < 4 * (total * 2 / 9) ** 0.5 for count in counts.values())

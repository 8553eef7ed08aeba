"""Evolution and its presets, NSGA-II, successive halving, objectives: each against what its authors say."""

from __future__ import annotations

import random
from collections import Counter
from itertools import combinations, pairwise, product
from math import inf, nan
from typing import Any

import pytest

from archir.diagnostics.errors import ArchError
from archir.search.ask_tell import ScoredCandidate
from archir.search.objectives import objective
from archir.search.pareto import front_indices
from archir.search.registry import create
from archir.search.strategies.evolution import PRESETS, EvolutionOptions
from archir.search.strategies.hyperband import budget
from archir.search.strategies.nsga2 import fittest
from archir.search.variation import Ranking, winner_distribution
from tests.search.test_multi import BOUND, PLAIN, run


def made(name: str, options: dict[str, Any], space: Any = PLAIN, seed: int = 0) -> Any:
    return create(name, space, options, seed)


def generation(search: Any, scores: list[float | None]) -> list[int]:
    """Ask, and tell these accuracies (None for one that fails) in turn; the ids that were asked."""
    batch = search.ask()
    told = [scores[i % len(scores)] for i in range(len(batch))]
    search.tell([(one, None if s is None else {"accuracy": s}) for one, s in zip(batch, told, strict=True)])
    return [one.id for one in batch]


# evolution


def test_evolution_presets_equal_published_settings() -> None:
    spos = EvolutionOptions(preset="spos")
    assert (spos.population, spos.parents, spos.mutations, spos.crossovers) == (50, 10, 25, 25)
    assert (spos.probability, spos.generations, spos.tries, spos.survival) == (0.1, 20, 10, "best")
    ofa = EvolutionOptions(preset="ofa")
    assert (ofa.population, ofa.parents, ofa.mutations, ofa.crossovers) == (100, 25, 50, 50)
    assert (ofa.probability, ofa.generations, ofa.survival) == (0.1, 501, "best")
    real = EvolutionOptions(preset="regularised")
    assert (real.population, real.tournament, real.probability, real.survival) == (100, 25, None, "young")
    assert EvolutionOptions() == real
    table = EvolutionOptions(preset="tabulated")
    assert (table.population, table.parents, table.tournament, table.trials) == (20, 20, 5, 300)
    assert not table.repetition
    assert real.repetition
    assert set(PRESETS) == {"spos", "ofa", "regularised", "tabulated"}


def test_given_end_replaces_end_of_preset() -> None:
    assert EvolutionOptions(preset="spos", trials=30).generations is None
    assert EvolutionOptions(generations=3).trials is None
    assert EvolutionOptions(preset="spos", parents=3).generations == 20
    unset = create("evolution", PLAIN, {"trials": None, "generations": None, "population": 20_000})
    assert (unset.max_trials, unset.batches) == (20_000, 1)  # type: ignore[attr-defined]
    assert EvolutionOptions(generations=3, trials=None).trials is None


def test_spos_asks_twenty_generations_of_fifty() -> None:
    history = run(made("evolution", {"preset": "spos"}), most=30)
    assert [len(told) for told in history] == [50] * 20


def test_regularized_evolution_removes_oldest() -> None:
    options = {"population": 6, "parents": 4, "tournament": 2, "mutations": 2, "trials": 12}
    search = made("evolution", options)
    generation(search, [0.9, 0.8, 0.1, None, 0.2, 0.3])
    assert [one.candidate.id for one in search.parents] == [1, 2, 4, 5]
    generation(search, [0.5, 0.6])
    assert [one.candidate.id for one in search.parents] == [4, 5, 6, 7]
    assert search.best().id == 0, "the dead are remembered"


def test_spos_keeps_best_parents() -> None:
    search = made("evolution", {"preset": "spos", "population": 6, "parents": 3})
    generation(search, [0.9, 0.8, 0.1, None, 0.2, 0.3])
    assert [one.candidate.id for one in search.parents] == [0, 1, 5]
    generation(search, [0.0, 0.85])
    assert search.parents[0].candidate.id == 0
    assert all(one.scores["accuracy"] >= 0.85 for one in search.parents)


def test_new_population_is_sampled_when_all_fail() -> None:
    search = made("evolution", {"preset": "spos", "population": 6, "parents": 3})
    assert generation(search, [None]) == [*range(6)]
    assert (search.best(), search.front()) == (None, [])
    assert generation(search, [0.5]) == [*range(6, 12)]
    assert len(search.parents) == 3


def test_missing_children_are_sampled_at_random() -> None:
    """One parent has no child by crossover that is not itself."""
    options = {"preset": "spos", "population": 5, "parents": 1, "mutations": 0, "crossovers": 20, "generations": 2}
    history = run(made("evolution", options))
    assert [len(told) for told in history] == [5, 20]


def test_a_cost_may_be_the_objective() -> None:
    options = {"objective": "macs:min", "preset": "spos", "generations": 16}
    search = made("evolution", options)
    run(search)
    least = min(PLAIN.cost(list(PLAIN.enumerate()), ["macs"])["macs"])
    (candidate, scores), *_ = search.front()
    assert scores["macs"] == least == PLAIN.cost([candidate.architecture], ["macs"])["macs"][0]


# several objectives


def test_fittest_are_sorted_by_front_and_crowding() -> None:
    points = [(2.0, 2.0), (0.0, 4.0), (1.9, 2.1), (4.0, 0.0), (5.0, 5.0)]
    batch = create("random", PLAIN, {"batch": 5}).ask()
    scored = [ScoredCandidate(one, {}, point) for one, point in zip(batch, points, strict=True)]
    assert [points.index(one.values) for one in fittest(scored, len(scored))] == [1, 3, 0, 2, 4]


def test_nsga2_keeps_population_size_and_front() -> None:
    search = made("nsga2", {"population": 8, "generations": 4, "objectives": ["accuracy:max", "params:min"]}, BOUND)
    run(search, failing=0.2)
    assert len(search.population) == 8
    values = [one.values for one in search.scored]
    assert search.front() == [(search.scored[i].candidate, search.scored[i].scores) for i in front_indices(values)]
    best = {one.values for one in search.population}
    assert len(best & {values[i] for i in front_indices(values)}) == min(8, len(front_indices(values)))
    assert all(scores["params"] == BOUND.cost([one.architecture])["params"][0] for one, scores in search.front())


# successive halving


def test_halving_promotes_the_best_third_with_three_times_the_budget() -> None:
    search = made("successive_halving", {"population": 27, "eta": 3, "rungs": 4})
    history = run(search)
    for told, part, share in zip(history, [27, 9, 3, 1], [1 / 27, 1 / 9, 1 / 3, 1], strict=True):
        assert len(told) == part
        assert all(one.budget == pytest.approx(share) for one, _ in told)
    for told, following in pairwise(history):
        best = sorted(told, key=lambda pair: -pair[1]["accuracy"])[: len(told) // 3]
        assert [one.hash for one, _ in following] == [one.hash for one, _ in best]
    assert search.best() == history[-1][0][0]
    assert history[-1][0][0].budget == 1.0 == budget(3, 4, 3)


def test_failed_candidates_are_not_promoted() -> None:
    search = made("successive_halving", {"population": 9, "rungs": 3})
    generation(search, [None] * 7 + [0.5, 0.6])
    assert [one.budget for one in search.ask()] == [pytest.approx(1 / 3)] * 2
    generation(search, [None])
    assert search.ask() == []
    assert search.best().budget == pytest.approx(1 / 9)


def test_halving_brackets_equal_published_hyperband_table() -> None:
    """Li et al. 2018, table 1, for R = 81 and eta = 3."""
    history = run(made("successive_halving", {"population": 81, "rungs": 5, "brackets": True}))
    sizes = [(len(told), round(81 * told[0][0].budget)) for told in history]
    assert sizes == [
        *[(81, 1), (27, 3), (9, 9), (3, 27), (1, 81)],
        *[(34, 3), (11, 9), (3, 27), (1, 81)],
        *[(15, 9), (5, 27), (1, 81)],
        *[(8, 27), (2, 81)],
        (5, 81),
    ]
    first = [one.hash for told in history for one, _ in told if one.id in {0, 121, 170, 191, 201}]
    assert len(set(first)) == 5


# what is told


@pytest.mark.parametrize("value", [nan, inf, -inf])
def test_non_finite_score_counts_as_failure(value: float) -> None:
    search = made("random", {"batch": 2})
    one, other = search.ask()
    search.tell([(one, {"accuracy": value}), (other, {"accuracy": 0.1})])
    assert search.best() == other
    assert search.front() == [(other, {"accuracy": 0.1})]


def test_scores_must_have_the_objectives() -> None:
    search = made("random", {"batch": 1, "objectives": ["accuracy:max", "macs:min"]})
    (one,) = search.ask()
    with pytest.raises(ArchError, match=r"A2502.*`accuracy` was not scored"):
        search.tell([(one, {"loss": 0.5})])
    search.tell([(one, {"accuracy": 0.5})])
    assert search.best() == one


def test_tell_requires_exactly_the_asked_batch() -> None:
    search = made("random", {"batch": 3})
    batch = search.ask()
    for told in ([], batch[:2], [*batch, batch[0]], create("random", PLAIN, {"batch": 4}).ask()):
        with pytest.raises(ArchError, match=r"A2503.*asked was 0, 1, 2"):
            search.tell([(one, None) for one in told])
    search.tell([(one, None) for one in batch])
    with pytest.raises(ArchError, match=r"A2503.*asked was none"):
        search.tell([(one, None) for one in batch])


@pytest.mark.parametrize("text", ["accuracy", "accuracy:most", ":max", ""])
def test_rejects_malformed_objective(text: str) -> None:
    with pytest.raises(ArchError, match=r"A2501"):
        objective(text)


def test_rejects_empty_or_duplicate_objectives() -> None:
    for texts in ([], ["macs:min", "macs:max"]):
        with pytest.raises(ArchError, match=r"A2501.*different"):
            create("nsga2", PLAIN, {"objectives": texts})


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("evolution", {"preset": "darwin"}, "`preset`"),
        ("evolution", {"mutations": 0, "crossovers": 0}, "a generation has no children"),
        ("evolution", {"probability": 0.0, "preset": "spos"}, "`probability`"),
        ("evolution", {"parent": 3}, "there is no `parent`"),
        ("nsga2", {"population": 1}, "`population`"),
        ("nsga2", {"generations": None}, "`generations` or `trials` must be set: the search has no end"),
        ("random", {"trials": "many"}, "`trials`"),
        ("successive_halving", {"population": 8, "rungs": 3}, "must be `eta` ** (`rungs` - 1) or more"),
    ],
)
def test_rejects_invalid_strategy_options(name: str, options: dict[str, Any], said: str) -> None:
    with pytest.raises(ArchError, match="A1109") as caught:
        create(name, PLAIN, options)
    assert f"strategy `{name}`: " in str(caught.value)
    assert said in str(caught.value)


def draws_by_hand(count: int, size: int, repetition: bool) -> list[float]:
    """How likely the first of those that are drawn is each of `count`: all draws are counted."""
    found = list(product(range(count), repeat=size) if repetition else combinations(range(count), size))
    return [sum(min(one) == place for one in found) / len(found) for place in range(count)]


@pytest.mark.parametrize(("count", "size", "repetition"), [(5, 3, True), (5, 3, False), (4, 1, True), (3, 3, False)])
def test_winner_distribution_equals_simulated_tournament(count: int, size: int, repetition: bool) -> None:
    up_to = list(winner_distribution(count, size, repetition))
    each = [b - a for a, b in pairwise([0.0, *up_to])]
    assert each == pytest.approx(draws_by_hand(count, size, repetition))
    assert up_to[-1] == 1.0


def test_equal_parents_win_equally_often() -> None:
    rng = random.Random(0)
    counts: Counter[int] = Counter()
    batch = create("random", PLAIN, {"batch": 5}).ask()
    for _ in range(300):
        ranking = Ranking(2, True)
        scored = [
            ScoredCandidate(one, {}, (value,)) for one, value in zip(batch, (0.0, 0.0, 0.0, 1.0, -1.0), strict=True)
        ]
        places = [ranking.add(one, rng) for one in scored]
        ranking.remove(places[4])
        counts.update(ranking.winner(rng).candidate.id for _ in range(10))
    assert set(counts) == {0, 1, 2, 3}
    assert counts[3] == pytest.approx(3000 / 16, abs=60)
    assert max(counts[i] for i in range(3)) - min(counts[i] for i in range(3)) < 250

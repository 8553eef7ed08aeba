"""Additive scores: files, replacement scores, fitted models, and scores from architecture parameters and costs."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from click.testing import CliRunner

import archir
from archir.cli import main
from archir.diagnostics.errors import ArchError
from archir.language.elaboration.elaborate import elaborate
from archir.scoring import sources
from archir.scoring.fitting import _solve_ridge, fit_scores
from archir.scoring.replacement import replacement_scores, replacements
from archir.scoring.sources import _log_softmax
from archir.spaces.architecture import Architecture
from archir.spaces.scores import AdditiveScores, Term, read
from archir.spaces.space import Space

TEXT = """net tiny {
    input image: f32[3, 8, 8]
    a = image |> conv(8)
    b = a |> choose op {
        conv: conv(8, kernel=choose inner(3, 5))
        deep: conv(8) |> conv(8, kernel=choose further(1, 3, 5))
        skip: identity
    }
    c = a |> conv(8, kernel=choose last(1, 3))
    picked = choose inputs 2 of [a, b, c]
    output y = picked[0] + picked[1] |> global_avg_pool |> linear(4)
}"""


@pytest.fixture(scope="module")
def space() -> Space:
    return Space(elaborate(TEXT, "tiny.arch"))


def additive(space: Space, pairs: bool = False) -> AdditiveScores:
    """Scores that are all different."""
    terms = []
    for i, choice in enumerate(space.choices):
        values = {(one,): Fraction(10**i * (one + 1), 1000) for one in range(choice.outcome_count)}
        terms.append(Term((choice.path,), values))
    if pairs:
        one, other = space.choices[0], space.choices[-1]
        both = {(i, j): Fraction(i * j + 1, 7) for i in range(one.outcome_count) for j in range(other.outcome_count)}
        terms.append(Term((one.path, other.path), both))
    return AdditiveScores(space.name, tuple(terms), Fraction(1, 8), {"by": "hand"})


def test_scores_survive_file_round_trip(space: Space, tmp_path: Path) -> None:
    given = additive(space)
    given.write(tmp_path / "scores.json", space)
    found = read(tmp_path / "scores.json", space)
    assert found == given
    written = json.loads((tmp_path / "scores.json").read_text())
    assert written["kind"] == "archir scores"
    assert any("a, b" in key or "0, 1" in key for term in written["terms"] for key in term["values"])


def test_scores_that_were_read_can_be_written(space: Space, tmp_path: Path) -> None:
    made = {"by": "hand", "fitted_to": 12, "rank_correlation": 0.9, "parts": [{"ridge": 1e-3}, None, True]}
    replace(additive(space), made=made).write(tmp_path / "first.json", space)
    again = read(tmp_path / "first.json", space)
    assert again.made == made
    again.write(tmp_path / "second.json", space)
    assert (tmp_path / "second.json").read_bytes() == (tmp_path / "first.json").read_bytes()


def test_pair_terms_count_when_both_choices_are_active(space: Space, tmp_path: Path) -> None:
    given = additive(space, pairs=True)
    for architecture in space.enumerate():
        outcomes = architecture.outcomes
        wanted = given.constant
        for term in given.terms:
            key = tuple(outcomes.get(path, -1) for path in term.choices)
            wanted += term.values.get(key, Fraction(0))
        assert given(architecture) == wanted
    given.write(tmp_path / "scores.json", space)
    found = read(tmp_path / "scores.json", space)
    architecture = space.sample(0)
    assert abs(found(architecture) - given(architecture)) < Fraction(1, 10**12)


def test_replacement_scores_recover_additive_scores(space: Space) -> None:
    """Up to what an alternative's inner choices start with, which counts with the alternative."""
    truth = additive(space)
    asked: list[Architecture] = []

    def score(several: object) -> list[float]:
        assert isinstance(several, list)
        asked.extend(several)
        return [float(truth(one)) for one in several]

    found = replacement_scores(space, space.sample(3), score)
    for architecture in space.enumerate():
        assert abs(found(architecture) - truth(architecture)) < Fraction(1, 10**9)
    assert len(set(asked)) == len(asked) == found.made["evaluated"]
    assert len(asked) <= 1 + sum(choice.outcome_count for choice in space.choices)


def test_replacements_change_one_choice_and_its_nested_choices(space: Space) -> None:
    for one in replacements(space, space.sample(1)):
        before, after = one.reference.outcomes, one.architecture.outcomes
        assert before[one.path] != after[one.path] == one.outcome
        same = before.keys() & after.keys() - {one.path}
        assert all(before[path] == after[path] for path in same)


def test_pairwise_model_fits_pairwise_scores(space: Space) -> None:
    truth = additive(space, pairs=True)
    several = list(space.enumerate())
    scores = [float(truth(one)) for one in several]
    linear, pairwise = (fit_scores(space, several, scores, pairs) for pairs in (False, True))
    worst = [max(abs(float(model(one)) - float(truth(one))) for one in several) for model in (linear, pairwise)]
    assert worst[1] < 0.01 < worst[0]
    assert pairwise.made["rank_correlation"] > 0.99
    assert pairwise.made["by"] == "pairwise model"
    with pytest.raises(ArchError, match="A3323"):
        fit_scores(space, several[:7], scores[:7])


@pytest.mark.parametrize("score", [float("nan"), float("inf"), -float("inf")])
def test_scores_that_are_not_finite_are_refused(space: Space, score: float) -> None:
    with pytest.raises(ArchError, match=rf"A3323.*the score of <Architecture of tiny: .*> is {score}"):
        archir.scores(space, function=lambda architecture: score if architecture.get("op") == "skip" else 1.0)
    several = list(space.enumerate())
    with pytest.raises(ArchError, match=rf"A3323.*the score of <Architecture of tiny: .*> is {score}"):
        fit_scores(space, several, [score] * len(several))


def test_logits_that_are_not_numbers_are_refused(space: Space) -> None:
    for wrong in (float("nan"), float("inf")):
        with pytest.raises(ArchError, match=r"A3324.*learned no numbers for `op`"):
            sources.log_probability_scores(space, {"op": [0.0, wrong, 1.0]}, "the run")


def test_logits_are_log_probabilities() -> None:
    shares = _log_softmax([0.0, 0.0, float("-inf")])
    assert float(shares[0]) == float(shares[1]) == pytest.approx(-0.693147, abs=1e-5)
    assert -70 < shares[2] < -60


def test_logits_of_subset_choice_add_up(space: Space, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of three inputs: the logarithms of both probabilities."""
    picked = next(choice for choice in space.choices if choice.k == 2)
    run = SimpleNamespace(folder=tmp_path, title="a run", phases=lambda: [SimpleNamespace(name="search")])
    run.entries = ["phases/search/alphas.json"]
    run.content = lambda name: json.dumps({"logits": {picked.path: [0.0, 1.0, 2.0]}})
    monkeypatch.setattr(sources.Run, "open", lambda path: run)
    (term,) = sources.scores_from_logits(str(tmp_path), space).terms
    shares = _log_softmax([0.0, 1.0, 2.0])
    wanted = {(i,): shares[one] + shares[other] for i, (one, other) in enumerate(picked.subsets)}
    assert dict(term.values) == wanted


def test_cost_scores_are_negated_costs(tmp_path: Path) -> None:
    (tmp_path / "tiny.arch").write_text(TEXT)
    path = tmp_path / "scores.json"
    told = ["scores", str(tmp_path / "tiny.arch"), "--cost", 'weight_bytes("int8")', "-o", str(path), "--json"]
    done = CliRunner().invoke(main, told)
    assert done.exit_code == 0, done.output
    space = archir.load(tmp_path / "tiny.arch")
    made = json.loads(done.stdout)["made"]
    assert made["rank_correlation"] > 0.8
    scores, largest = archir.read_scores(path, space), space.account.extremes("params")[1]
    assert scores(space.decode(largest.codes)) == -largest.value


def test_scores_command_requires_exactly_one_source(tmp_path: Path) -> None:
    (tmp_path / "tiny.arch").write_text(TEXT)
    told = ["scores", str(tmp_path / "tiny.arch"), "-o", str(tmp_path / "scores.json")]
    assert CliRunner().invoke(main, told).exit_code == 2
    for given in (["--pairs"], ["--samples", "5"], ["--score", "loss"]):
        refused = CliRunner().invoke(main, [*told, "--cost", "macs", *given])
        assert refused.exit_code == 2
        assert f"{given[0]} needs" in refused.output


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "is not a table of scores"),
        ('{"kind": "archir scores", "schema": 2}', "is not a table of scores"),
        ('{"kind": "archir scores", "schema": 1, "terms": 3}', "`terms` a list"),
        ("{", "cannot be read as scores"),
        ('{"kind": "archir scores", "schema": 1, "constant": NaN, "terms": []}', "cannot be read as scores"),
        ('{"kind": "archir scores", "schema": 1, "constant": 1e999999, "terms": []}', "too many digits"),
        (["opp"], "there is no choice `opp`.*did you mean `op`"),
        (["op", "op", "last"], "one or two `choices`"),
        ([{"op": {"con": 1}}], "`op` has no `con`.*did you mean `conv`"),
        ([{"op": {"conv": "much"}}], "each score must be a number"),
        ([{"op": 3}], "must be labels of `op`"),
        ([["op"]], "one or two `choices`"),
    ],
)  # fmt: skip
def test_wrong_files_are_refused(space: Space, tmp_path: Path, text: object, said: str) -> None:
    if isinstance(text, list):
        choices, values = (list(text[0]), text[0]["op"]) if isinstance(text[0], dict) else (text, {})
        term = {"choices": choices, "values": values}
        text = json.dumps({"kind": "archir scores", "schema": 1, "terms": [term]})
    (tmp_path / "scores.json").write_text(str(text))
    with pytest.raises(ArchError, match=f"(?s)A3322.*{said}"):
        read(tmp_path / "scores.json", space)


@pytest.mark.parametrize("rows", [40, 200])
def test_ridge_solution_equals_dual_solution(rows: int) -> None:
    """Of as many equations as rows, or as columns, whichever are fewer."""
    rng = np.random.default_rng(rows)
    x, y = rng.integers(0, 2, (rows, 60)).astype(float), rng.normal(size=rows)
    weights, constant = _solve_ridge(x, y, 0.5)
    centred = x - x.mean(0)
    by_rows = centred.T @ np.linalg.solve(centred @ centred.T + 0.5 * np.eye(rows), y - y.mean())
    assert np.allclose(weights, by_rows, atol=1e-9)
    assert constant == pytest.approx(y.mean() - x.mean(0) @ by_rows)


def test_direction_of_a_score_is_what_the_search_recorded() -> None:
    """As of a plugin's scorer: its names are those of the search's objectives only."""
    space = archir.loads("net n { input x: f32[4]\n output y = x |> linear(choose w(2, 4)) }")
    recorded = {
        "phases/search/objective.json": json.dumps({"measures": {"loss": False}, "objectives": {"mine": False}})
    }
    run = SimpleNamespace(
        phases=lambda: [SimpleNamespace(name="search")], entries=recorded, content=lambda name: recorded[name].encode()
    )
    found = {
        name: sources._is_maximized(cast("Any", run), space, name) for name in ("mine", "loss", "accuracy", "macs")
    }
    assert found == {"mine": False, "loss": False, "accuracy": True, "macs": False}

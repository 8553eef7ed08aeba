"""What phases that try candidates leave behind."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

import archir
from archir.cli import main
from archir.diagnostics.errors import ArchError
from archir.runs import Run, Trial
from archir.scoring import sources
from archir.spaces.space import Space
from tests.torch_backend.tried import COUNTS, PHASES, elastic, trials_of

DISTINCT = ("evolve", "plane", "finals")


def test_every_trial_is_in_the_journal_once(run: Run) -> None:
    for name, count in COUNTS.items():
        trials = run.phase(name).trials()
        assert [trial.id for trial in trials] == list(range(count))
        assert {trial.status for trial in trials} == {"done"}
        assert all(set(trial.scores) >= {"accuracy", "loss"} for trial in trials)
        assert all(trial.seconds and trial.worker for trial in trials)
        if name in DISTINCT:
            assert len({trial.hash for trial in trials}) == count
        space = elastic()
        for trial in trials:
            assert space.canonical(space.architecture(trial.architecture)) == trial.hash


def test_conditional_choices_appear_only_when_active(run: Run) -> None:
    found = [trial.architecture for trial in run.phase("evolve").trials()]
    assert {one["op"] for one in found} == {"skip", "pool", "conv"}
    for one in found:
        assert ("op.conv.inner" in one) == (one["op"] == "conv"), one


def test_later_generations_descend_from_best_parents(run: Run) -> None:
    """Every candidate of a later generation that is not a draw is near one of the parents, which were the best."""
    trials = run.phase("evolve").trials()
    rows = run.phase("evolve").rows()
    assert [row["trials"] for row in rows] == [8, 14, 20, 26]
    for row in rows:
        tried = [float(trial.scores["accuracy"] or 0) for trial in trials[: int(row["trials"])]]
        assert row["validation_accuracy"] == max(tried)
        assert row["failed"] == 0


def test_halving_gives_the_best_half_the_double_budget(run: Run) -> None:
    first, second = trials_of(run, "halve")[:4], trials_of(run, "halve")[4:]
    best = sorted(first, key=lambda trial: -float(trial.scores["accuracy"] or 0))[:2]
    assert [trial.hash for trial in second] == [trial.hash for trial in best]
    assert [trial.scores for trial in second] != [trial.scores for trial in best]


def test_finalists_are_best_earlier_trials(run: Run) -> None:
    before = sorted(trials_of(run, "evolve"), key=lambda trial: -float(trial.scores["accuracy"] or 0))[:3]
    assert [trial.hash for trial in trials_of(run, "finals")] == [trial.hash for trial in before]


def test_outcomes_are_the_best_trials(run: Run) -> None:
    space = elastic()
    for name in ("evolve", "plane", "finals"):
        stored = space.architecture(json.loads(run.content(f"phases/{name}/architecture.json"))["choices"])
        trials = trials_of(run, name)
        best = max(float(trial.scores["accuracy"] or 0) for trial in trials)
        assert space.canonical(stored) in {trial.hash for trial in trials if trial.scores["accuracy"] == best}
    assert run.content("best.json") == run.content("phases/evolve/architecture.json")  # what `retrain` trained
    assert run.content("phases/retrain/architecture.json") == run.content("best.json")


def test_front_is_nondominated_and_written_as_json_svg_and_files(run: Run, said: tuple[Path, str]) -> None:
    front = json.loads(run.content("phases/plane/front.json"))
    assert front["objectives"] == ["accuracy:max", "macs:min"]
    space = elastic()
    by_id = {trial.id: trial for trial in trials_of(run, "plane")}
    points = {number: (float(trial.scores["accuracy"] or 0), -macs_of(space, trial)) for number, trial in by_id.items()}
    dominated = {
        one for one, mine in points.items()
        if any(all(a >= b for a, b in zip(other, mine, strict=True)) and other != mine for other in points.values())
    }  # fmt: skip
    ids = [row["id"] for row in front["front"]]
    assert {points[i] for i in ids} == {points[i] for i in points.keys() - dominated}
    for row in front["front"]:
        content = json.loads(run.content(f"phases/plane/front/{row['id']}.json"))
        architecture = space.architecture(content["choices"])
        assert space.canonical(architecture) == by_id[row["id"]].hash == row["hash"]
        assert row["scores"]["macs"] == macs_of(space, by_id[row["id"]])
        assert row["hash"] in said[1]
        assert f"{row['scores']['macs']:,}" in said[1]
    names = [name for name in run.entries if name.startswith("phases/plane/front/")]
    assert len(names) == len(ids)
    assert "front of `plane`" in said[1]
    picture = run.content("phases/plane/front.svg").decode()
    assert "<svg" in picture
    report = run.content("report.html").decode()
    front = report.partition('<section id="front-of-plane">')[2].partition("</section>")[0]
    assert all(f'class="point front" tabindex="0" role="button" aria-label="trial {number}' in front for number in ids)
    assert not [name for name in run.entries if name.startswith("phases/evolve/front")]


def macs_of(space: Space, trial: Trial) -> int:
    return archir.cost(space.specialize(space.architecture(trial.architecture))).macs


def test_bounds_of_a_phase_hold(run: Run) -> None:
    space = elastic()
    sizes = {
        name: [
            archir.cost(space.specialize(space.architecture(one.architecture))).params for one in trials_of(run, name)
        ]
        for name in ("evolve", "plane")
    }
    assert max(sizes["plane"]) <= 600 < max(sizes["evolve"])


def test_summary_lists_phases_trials_and_front(run: Run) -> None:
    summary = json.loads(run.content("summary.json"))
    assert list(summary["phases"]) == list(PHASES)
    for name, count in COUNTS.items():
        assert summary["phases"][name]["trials"] == count
    assert summary["fronts"]["plane"] == json.loads(run.content("phases/plane/front.json"))
    assert summary["network"]["phase"] == "retrain"
    assert summary["onnx"]["relative"] < 1e-4


def test_runs_command_lists_finished_run(run: Run) -> None:
    done = CliRunner().invoke(main, ["runs", str(run.folder), "--json"], catch_exceptions=False)
    (row,) = json.loads(done.stdout)
    assert (row["state"], row["phase"]) == ("finished", "retrain")


def test_report_starts_with_result_and_lists_trials(run: Run) -> None:
    text = run.content("report.html").decode()
    first = re.search(r'<section id="result">.*?</section>', text, re.DOTALL)
    assert first is not None
    accuracy = json.loads(run.content("summary.json"))["network"]["accuracy"]
    assert f'<th scope="row">accuracy of retrain, held out</th><td>{100 * accuracy:.2f}%</td>' in first[0]
    assert "accuracy in evolve, validation" in first[0]
    assert "run/model.onnx, with the weights of retrain, the last phase" in first[0]
    assert '<th scope="row">settings changed from the recipe</th><td>none</td>' in first[0]
    steps = re.search(r'<section id="what-to-do-next">.*?</section>', text, re.DOTALL)
    assert steps is not None
    trial = re.search(r"archir train --trial run evolve:(\d+) -o evolve-\d+", steps[0])
    assert trial is not None
    assert trials_of(run, "evolve")[int(trial[1])].id == int(trial[1])
    assert f"archir compare run evolve-{trial[1]}" in steps[0]
    for phase, count in COUNTS.items():
        table = re.search(rf'<section id="trials-of-{phase}">.*?</section>', text, re.DOTALL)
        assert table is not None
        assert table[0].count("<details>") == count
        assert f"archir train --trial run {phase}:0 -o {phase}-0" in table[0]


def test_additive_scores_are_fitted_to_trials(run: Run) -> None:
    """A model of them, which says how well it orders what it has not seen; of losses, less is better."""
    space = elastic()
    tried = [one for one in run.phase("evolve").trials() if one.scores.get("accuracy") is not None]
    for pairs in (False, True):
        scores = archir.scores(space, trials=f"{run.folder}:evolve", pairs=pairs)
        assert scores.made["fitted_to"] == len(tried)
        assert -1 <= scores.made["rank_correlation"] <= 1
        assert any(len(term.choices) == 2 for term in scores.terms) == pairs
        assert all(set(term.choices) <= {choice.path for choice in space.choices} for term in scores.terms)
    good, bad = (archir.scores(space, trials=f"{run.folder}:evolve", score=name) for name in ("accuracy", "loss"))
    assert good.constant > 0 > bad.constant
    less = [
        sources._is_maximized(run, space, name)
        for name in ("validation_loss", "macs", "params", 'weight_bytes("int8")')
    ]
    assert less == [False] * 4
    assert sources._is_maximized(run, space, "naswot")
    with pytest.raises(ArchError, match=r"A3324.*no trial of `evolve` has the score `speed`"):
        archir.scores(space, trials=f"{run.folder}:evolve", score="speed")

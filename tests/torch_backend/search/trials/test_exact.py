"""The strategy `exact`: what it comes to is the optimum of scores within bounds, and later phases train it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import archir
from archir.diagnostics.errors import ArchError
from archir.recipes.recipe import Start
from archir.runs import Run
from archir_torch.search.job import create_strategy
from tests.torch_backend.search.trials.test_scoring import tried
from tests.torch_backend.tried import elastic, gone_through, job, recipe

RECIPE = """
space = "elastic.arch"
threads = 1
export = false

[data]
source = "digits"
limit = 40

[[phase]]
name = "supernet"
strategy = "sandwich"
training = { epochs = 1, batch = 32 }
options = { drawn = 1 }

[[phase]]
name = "alternatives"
strategy = "replace_one"
start = { weights = "supernet" }
training = { batch = 32 }

[[phase]]
name = "best"
strategy = "exact"
start = { trials = "alternatives", weights = "supernet" }
training = { batch = 32 }
options = { best = 3, where = "params <= 0.6x" }

[[phase]]
name = "cheapest"
strategy = "exact"
options = { maximize = "scores.json", where = "macs <= 0.7x" }

[[phase]]
name = "trained"
strategy = "train"
start = { architecture = "best", weights = "supernet" }
training = { epochs = 1, batch = 32 }
"""


def test_exact_phase_finds_brute_force_optimum_and_trains_it(tmp_path: Path) -> None:
    path, space = recipe(tmp_path, RECIPE), elastic()
    scores = archir.scores(space, cost="macs")
    scores.write(tmp_path / "scores.json", space)
    archir.run(path, tmp_path / "run", device="cpu")
    run = Run.open(tmp_path / "run")
    table = archir.scores(space, trials=f"{tmp_path / 'run'}:alternatives", score="accuracy")
    within = space.where("params <= 0.6x")
    best = sorted((table(one) for one in within.enumerate()), reverse=True)[:3]
    found = json.loads(run.content("phases/best/optimum.json"))
    assert found["proved"]
    assert [one["value"] for one in found["best"]] == [float(value) for value in best]
    tried = run.phase("best").trials()
    assert [one.architecture for one in tried] == [one["choices"] for one in found["best"]][: len(tried)]
    chosen = json.loads(run.content("phases/best/architecture.json"))["choices"]
    assert max(tried, key=lambda one: float(one.scores["accuracy"] or 0)).architecture == chosen
    assert json.loads(run.content("summary.json"))["network"]["phase"] == "trained"
    assert json.loads(run.content("phases/trained/architecture.json"))["choices"] == chosen
    cheap = space.architecture(json.loads(run.content("phases/cheapest/architecture.json"))["choices"])
    assert scores(cheap) == max(scores(one) for one in space.where("macs <= 0.7x").enumerate())
    (tmp_path / "scores.json").unlink()  # the run has its own copy
    archir.resume(tmp_path / "run", overrides={"best.options.best": "4"})
    again = Run.open(tmp_path / "run")
    assert len(json.loads(again.content("phases/best/optimum.json"))["best"]) == 4
    assert again.content("phases/cheapest/architecture.json") == run.content("phases/cheapest/architecture.json")
    assert again.phase("best").trials()[: len(tried)] == tried


def outcome(options: dict[str, Any], **more: Any) -> dict[str, Any]:
    given = {key: more.pop(key) for key in ("alphas", "earlier", "folder") if key in more}
    return dict(create_strategy(replace(job("exact", options, **more), **given)).outcome().architecture or {})


def test_exact_minimizes_cost_and_keeps_fixed_choices() -> None:
    space = elastic()
    cheapest = min(space.enumerate(), key=lambda one: int(space.cost([one], ["macs"])["macs"][0]))
    assert outcome({"minimize": "macs"}) == dict(cheapest)
    fixed = {"width": 8, "last": "conv"}
    found = outcome({"minimize": "macs"}, open=["kernel", "op", "*inner"], fixed=fixed)
    assert found["width"] == 8
    assert found["last"] == "conv"


def test_exact_uses_logits_or_trials_of_earlier_phases() -> None:
    space = elastic()
    logits = {choice.path: [float(i) for i in range(len(choice.alternatives))] for choice in space.choices}
    found = outcome({}, alphas=logits, start=Start(alphas="darts"))
    assert found["width"] == 8
    assert found["last"] == "conv"
    earlier = tried(space, 40)
    found = outcome({"where": "params <= 800"}, earlier=earlier, start=Start(trials="tried"))
    assert space.where("params <= 800").within(space.architecture(found))


def test_exact_passes_best_candidates_to_scorer_in_cost_order() -> None:
    options = {"minimize": "params", "best": 2, "scorer": {"kind": "proxies", "proxies": ["naswot"]}}
    phase, _ = gone_through(job("exact", {**options, "objective": "naswot:max"}))
    space = elastic()
    costs = [
        int(space.cost([space.architecture(one.architecture)], ["params"])["params"][0])
        for one in phase.job.trials.by_id.values()
    ]
    assert len(costs) in (1, 2)
    assert costs == sorted(costs)


def test_exact_rejects_missing_conflicting_or_infeasible_objectives() -> None:
    with pytest.raises(ArchError, match=r"A2213.*has nothing to optimise"):
        outcome({})
    with pytest.raises(ArchError, match=r"A1109.*exclude each other"):
        outcome({"minimize": "macs", "maximize": "params"})
    with pytest.raises(ArchError, match=r"A3301.*no architecture has params <= 5"):
        outcome({"minimize": "macs", "where": "params <= 5"})

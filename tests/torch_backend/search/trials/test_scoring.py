"""What the scores of candidates are."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch

import archir
import archir_torch.data
from archir.recipes.training import Training
from archir.runs import Trial
from archir.spaces.architecture import Architecture
from archir.spaces.space import Space
from archir.utils.ranks import spearman
from archir.utils.seeds import derive_seed
from archir_torch.search.inheritance import restore_supernet
from archir_torch.search.job import Job, create_strategy
from archir_torch.search.scoring import ScoringRequest
from archir_torch.strategies.trials import TrialStrategy
from archir_torch.supernet.network import extract
from archir_torch.training.feed import Feed
from archir_torch.training.loop import run as through
from archir_torch.training.recalibration import recalibrate
from tests.soak import with_soak
from tests.torch_backend.tried import gone_through, job


def scored_by(one: Job, **scorer: Any) -> tuple[Callable[[Architecture, float], Mapping[str, float]], Job]:
    """The function of a scorer; and a job with the images that weights see, and those that scores are measured on."""
    phase = one.phase.model_copy(update={"strategy": "random", "options": {"scorer": scorer}})
    found = create_strategy(replace(one, phase=phase))
    assert isinstance(found, TrialStrategy)
    assert phase.data is not None
    weights, rest = one.data.halves()
    score = found._scoring_work.prepare()
    halved = replace(one, data=replace(one.data, train=weights, held_out=rest))
    return lambda architecture, budget: score(ScoringRequest(architecture.codes, budget)), halved


def test_inherited_score_equals_recalibrated_subnet_accuracy(supernet: Job) -> None:
    """What is extracted, recalibrated and measured by hand."""
    score, halved = scored_by(supernet, kind="inherited", recalibrate=2)
    assert supernet.supernet is not None
    model = restore_supernet(supernet.supernet, supernet.weights or {})
    feed = Feed(halved.data.train, 16, seed=derive_seed(supernet.seed, "recalibrate"))
    different = set()
    for architecture in supernet.space.enumerate():
        network = extract(model, architecture)
        recalibrate(network, [feed.batch(0).images, feed.batch(1).images])
        with torch.no_grad():
            logits = network(halved.data.held_out.images)
        labels = halved.data.held_out.labels
        found = score(architecture, 1.0)
        assert found["accuracy"] == pytest.approx(float((logits.argmax(1) == labels).double().mean()), abs=1e-9)
        loss = torch.nn.functional.cross_entropy(logits, labels)
        assert found["loss"] == pytest.approx(float(loss), rel=1e-5)
        different.add(found["loss"])
    assert len(different) > 30


def test_scores_do_not_depend_on_scoring_order(supernet: Job) -> None:
    architectures = list(supernet.space.enumerate())[::7]
    for kind in ("inherited", "training", "proxies"):
        one, other = (scored_by(supernet, kind=kind)[0] for _ in range(2))
        before = [one(architecture, 1.0) for architecture in architectures]
        after = [other(architecture, 1.0) for architecture in reversed(architectures)]
        assert before == after[::-1], kind


def test_limited_scoring_images_cover_all_classes(supernet: Job) -> None:
    held_out = supernet.data.halves()[1]
    order = held_out.labels.argsort(stable=True)
    assert held_out.labels[order][:10].unique().numel() < 10
    ordered = replace(supernet, data=replace(supernet.data, train=supernet.data.train.select(
        supernet.data.train.labels.argsort(stable=True))))  # fmt: skip
    phase = supernet.phase.model_copy(update={"strategy": "random", "options": {"scorer": {"images": 10}}})
    found = create_strategy(replace(ordered, phase=phase))
    assert isinstance(found, TrialStrategy)
    assert found._scoring_work.job(supernet.space).data.held_out.labels.tolist() == list(range(10))


def test_training_score_equals_train_strategy_result(supernet: Job) -> None:
    fresh = replace(supernet, weights=None, supernet=None)
    fresh = replace(fresh, phase=fresh.phase.model_copy(update={"training": Training(epochs=4, batch=16)}))
    score, halved = scored_by(fresh, kind="training")
    found = {}
    for index in (0, 17, 40):
        architecture = list(fresh.space.enumerate())[index]
        for budget, epochs in ((1.0, 4), (0.5, 2), (0.1, 1)):
            training = Training(epochs=epochs, batch=16)
            phase = fresh.phase.model_copy(update={"strategy": "train", "training": training})
            strategy = create_strategy(replace(halved, phase=phase, architecture=dict(architecture)))
            last = through(strategy, epochs=epochs, steps=strategy.steps, seed=fresh.seed)[-1]
            scores = score(architecture, budget)
            assert scores == {"accuracy": last["accuracy"], "loss": last["held_out_loss"]}
            found[index, budget] = scores["loss"]
    assert len(set(found.values())) == 9


def test_proxy_scores_equal_archir_scorer(supernet: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("naswot", "synflow")
    phase = supernet.phase.model_copy(update={"training": Training(batch=50)})
    score, halved = scored_by(replace(supernet, phase=phase), kind="proxies", proxies=list(names))
    assert len(halved.data.train) == 50
    monkeypatch.setattr(archir_torch.data, "minibatch", lambda *arguments, **options: halved.data.train)
    wanted = archir.scorer(names, seed=supernet.seed)
    for architecture in list(supernet.space.enumerate())[::9]:
        assert score(architecture, 1.0) == wanted(supernet.space.specialize(architecture))


CHOICES = 8
ADDITIVE = (
    "net additive() {\n    input x: f32[3]\n"
    + "".join(f"    x = x |> choose c{i}(relu, gelu, sigmoid)\n" for i in range(CHOICES))
    + "    output y = x\n}\n"
)


def planted(space: Space) -> Callable[[Architecture], float]:
    """A score that is a sum over the choices."""
    draw = torch.Generator().manual_seed(3)
    worth = {choice.path: torch.rand(3, generator=draw).tolist() for choice in space.choices}
    return lambda architecture: sum(worth[path][outcome] for path, outcome in architecture.outcomes.items()) / CHOICES


def tried(space: Space, count: int) -> list[Trial]:
    """Trials of architectures that were drawn, with the score that was planted."""
    score = planted(space)
    rng = random.Random(0)
    drawn = dict.fromkeys(space.sample(rng) for _ in range(3 * count))
    rows = [Trial(i, space.canonical(one), dict(one), "done", {"accuracy": score(one)}) for i, one in enumerate(drawn)]
    return rows[:count]


@pytest.mark.parametrize("trials", with_soak([120, 200], [120]))
def test_predictor_ranks_unseen_architectures(trials: int) -> None:
    space = archir.loads(ADDITIVE)
    known = tried(space, 60)
    options = {"scorer": {"kind": "predictor"}, "trials": trials, "batch": 60}
    phase, rows = gone_through(replace(job("random", options, space=space), earlier=known))
    seen, score = {trial.hash for trial in known}, planted(space)
    unseen = [one for one in phase.job.trials.by_id.values() if one.hash not in seen]
    assert len(unseen) > trials * 2 / 3
    rank = spearman(
        [score(space.architecture(one.architecture)) for one in unseen],
        [float(one.scores["accuracy"] or 0) for one in unseen],
    )
    assert rank is not None
    assert rank > 0.9
    assert 0.8 < float(rows[0]["predictor_rank"]) <= 1
    best = phase.outcome().architecture
    assert best is not None
    assert score(best) > max(float(one.scores["accuracy"] or 0) for one in known[:20])

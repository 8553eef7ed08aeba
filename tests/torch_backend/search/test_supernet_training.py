"""Training supernets: gradients of paths add up, the first path teaches and decays, statistics are measured anew."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import archir
from archir.diagnostics.errors import ArchError
from archir.recipes.training import Optimizer, Training
from archir.spaces.architecture import Architecture
from archir.spaces.space import Space
from archir.utils.seeds import derive_seed
from archir_torch.lowering.module import lower
from archir_torch.objectives.classification import Classification
from archir_torch.search.inheritance import restore_supernet
from archir_torch.search.job import create_strategy
from archir_torch.strategies.sandwich import Sandwich, SandwichOptions
from archir_torch.strategies.supernet import Supernet
from archir_torch.strategies.trials import TrialStrategy
from archir_torch.supernet.network import extract
from archir_torch.training.loop import run
from archir_torch.training.recalibration import recalibrate
from tests.torch_backend.searches import data, job, strategy, tiny

ELASTIC = """
net elastic() {
    input x: f32[1, 6, 6]
    width = choose width(4, 6, 8)
    x = x |> conv(width, kernel=choose kernel(1, 3), bias=false) |> batch_norm |> relu
    y = x |> choose op @op {
        skip: identity
        conv: conv(width, kernel=3, bias=false) |> batch_norm |> relu
    }
    output logits = y |> global_avg_pool |> linear(3)
}
"""


def elastic() -> Space:
    return archir.loads(ELASTIC)


def trained(kind: str, options: Mapping[str, Any] | None = None, **more: Any) -> Supernet:
    found = strategy(kind, options, space=elastic(), **more)
    assert isinstance(found, Supernet)
    return found


def gradients(search: Supernet) -> dict[str, Tensor]:
    return {n: p.grad.clone() for n, p in search.network.named_parameters() if p.grad is not None}


@pytest.mark.parametrize(
    ("kind", "options", "count"),
    [("spos", {}, 1), ("spos", {"drawn": 3}, 3), ("sandwich", {}, 4), ("fair", {}, 6)],
    ids=["one path", "three paths", "sandwich", "fair"],
)
def test_a_step_adds_up_the_gradients_of_its_paths(kind: str, options: dict[str, Any], count: int) -> None:
    """Against each path's loss by hand."""
    search = trained(kind, options, weights=Optimizer(lr=1e-9, momentum=0.0, weight_decay=0.0))
    wanted: dict[str, Tensor] = {}
    paths = paths_of(search, 0)
    assert len(paths) == count
    batch = search.feed.batch(0)
    for path in paths:
        search.network.zero_grad()
        F.cross_entropy(search.network(batch.images, path), batch.labels).backward()
        for name, gradient in gradients(search).items():
            wanted[name] = wanted.get(name, torch.zeros(())) + gradient
    measured = search.step(0)
    found = gradients(search)
    assert found.keys() == wanted.keys()
    for name, gradient in found.items():
        torch.testing.assert_close(gradient, wanted[name], rtol=1e-4, atol=1e-6)
    assert float(measured["loss"]) > 0


def paths_of(search: Supernet, index: int) -> list[Architecture]:
    """What a step trains."""
    return list(search.paths(random.Random(derive_seed(search.job.seed, "paths", index))))


def test_sampled_paths_stay_within_bounds() -> None:
    bound = archir.cost(elastic().specialize(elastic().from_outcomes({"width": 1, "kernel": 0, "op": 0}))).macs
    search = trained("spos", {"drawn": 3, "uniform": "architectures", "where": f"macs <= {bound}"})
    drawn = [path for step in range(20) for path in paths_of(search, step)]
    assert max(archir.cost(elastic().specialize(path)).macs for path in drawn) <= bound
    assert 1 < len({tuple(path.codes) for path in drawn}) < elastic().size
    (seen,) = search.evaluated_paths().values()
    assert archir.cost(elastic().specialize(seen)).macs <= bound


def test_largest_path_distills_into_smaller_paths() -> None:
    search = trained("sandwich", {"distill": 0.3, "drawn": 0}, weights=Optimizer(lr=1e-9, momentum=0.0))
    batch = search.feed.batch(0)
    top, bottom = paths_of(search, 0)
    search.network.zero_grad()
    logits = search.network(batch.images, top)
    small = search.network(batch.images, bottom)
    soft = F.kl_div(small.log_softmax(1), logits.detach().softmax(1), reduction="batchmean")
    loss = F.cross_entropy(logits, batch.labels) + 0.7 * F.cross_entropy(small, batch.labels) + 0.3 * soft
    loss.backward()
    wanted = gradients(search)
    measured = search.step(0)
    for name, gradient in gradients(search).items():
        torch.testing.assert_close(gradient, wanted[name], rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(measured["loss"], (loss / 2).detach(), rtol=1e-4, atol=1e-6)


def test_distillation_of_labels_compares_each_label() -> None:
    """A shift of all logits changes the probabilities of labels, though not those of classes."""
    search = trained("sandwich", {"distill": 0.5, "drawn": 0}, weights=Optimizer(lr=1e-9, momentum=0.0))
    search.task.objective.predicts = "labels"
    top, bottom = paths_of(search, 0)
    batch = search.feed.batch(0)
    with torch.no_grad():
        logits, small = search.network(batch.images, top), search.network(batch.images, bottom)
        target = logits.sigmoid()
        soft = F.binary_cross_entropy_with_logits(small, target) - F.binary_cross_entropy_with_logits(logits, target)
        hard = F.cross_entropy(logits, batch.labels) + 0.5 * F.cross_entropy(small, batch.labels)
    measured = search.step(0)
    torch.testing.assert_close(measured["loss"], (hard + 0.5 * soft) / 2, rtol=1e-4, atol=1e-5)


def test_weight_decay_applies_only_to_largest_path() -> None:
    """Its gradients have the decay of its weights; what it does not use does not decay."""
    weights = Optimizer(lr=1e-9, momentum=0.0, weight_decay=0.5)
    plain = trained("sandwich", {"drawn": 0}, weights=replace_decay(weights))
    decayed = trained("sandwich", {"drawn": 0, "decay": "largest"}, weights=weights)
    used = decayed.network.used(paths_of(decayed, 0)[0])
    plain.step(0)
    decayed.step(0)
    one, other = gradients(plain), gradients(decayed)
    for name, parameter in decayed.network.named_parameters():
        if name in other:
            share = used[name] if name in used and parameter.dim() > 1 else torch.zeros_like(parameter, dtype=bool)
            wanted = one[name] + 0.5 * parameter.detach() * share
            torch.testing.assert_close(other[name], wanted, rtol=1e-4, atol=1e-6)
    assert all(group["weight_decay"] == 0 for group in decayed.learner.optimizer.param_groups)


def replace_decay(settings: Optimizer) -> Optimizer:
    return settings.model_copy(update={"weight_decay": 0.0})


def test_supernet_with_all_choices_fixed_trains_one_path() -> None:
    search = trained("spos", open=(), fixed={"*": "largest"})
    assert search.space.size == 1
    (path,) = paths_of(search, 0)
    assert search.opened.completed(path) == elastic().architecture({"width": 8, "kernel": 3, "op": "conv"})


def test_rejects_choices_neither_open_nor_validly_fixed() -> None:
    with pytest.raises(ArchError, match="A2208"):
        trained("spos", open=("kernel",))
    with pytest.raises(ArchError, match="A2204"):
        trained("spos", open=("kernel", "op"), fixed={"width": 5})


def test_a_supernet_learns_and_hands_on_its_weights() -> None:
    search = trained("sandwich", {"drawn": 1}, epochs=6, weights=Optimizer(lr=0.05, momentum=0.9, clip=5.0))
    rows = run(search, epochs=search.epochs, steps=search.steps)
    assert float(rows[-1]["loss"]) < float(rows[0]["loss"])
    assert {"validation_accuracy", "smallest_validation_accuracy"} <= rows[-1].keys()
    outcome = search.outcome()
    assert outcome.supernet is not None
    model = restore_supernet(outcome.supernet, outcome.weights)
    images = data().held_out.images
    for seed in range(8):
        architecture = elastic().sample(seed)
        own = outcome.supernet.to_supernet(model.graph, architecture)
        with torch.no_grad():
            one = extract(model, own)(images)
            assert torch.equal(one, model(images, own))


def test_next_supernet_phase_starts_from_previous_weights() -> None:
    first = trained("spos", open=(), fixed={"*": "largest"}, epochs=1)
    run(first, epochs=1, steps=first.steps)
    weights = first.outcome().weights
    second = strategy("spos", space=elastic(), epochs=1)
    assert isinstance(second, Supernet)
    again = Supernet.__new__(type(second))
    type(second).__init__(again, replace(second.job, weights=weights), second.base_options)  # type: ignore[misc]
    for name, tensor in again.network.state_dict().items():
        assert torch.equal(tensor, weights[name])


def test_drop_path_that_grows_is_refused() -> None:
    with pytest.raises(ArchError, match="A1109"):
        trained("spos", training=Training(epochs=1, batch=8, drop_path="linear"))


def test_recalibration_measures_the_means_of_batches() -> None:
    """Running statistics are plain means over the batches, whatever they were before, and weights stay."""
    space = elastic()
    network = lower(space.specialize(space.architecture({"width": 4, "kernel": 1, "op": "skip"})))
    before = {name: parameter.clone() for name, parameter in network.named_parameters()}
    batches = list(data().train.images.split(8))[:4]
    with torch.no_grad():
        weight = before["conv.weight"]
        maps = [F.conv2d(batch, weight) for batch in batches]
        mean = torch.stack([one.mean((0, 2, 3)) for one in maps]).mean(0)
        variance = torch.stack([one.var((0, 2, 3)) for one in maps]).mean(0)
    for _ in range(2):
        recalibrate(network, batches)
        held = network.state_dict()
        torch.testing.assert_close(held["batch_norm.running_mean"], mean)
        torch.testing.assert_close(held["batch_norm.running_var"], variance)
    assert not network.training
    assert all(torch.equal(parameter, before[name]) for name, parameter in network.named_parameters())
    layer = network.get_submodule("batch_norm")
    assert layer.attributes["momentum"] == 0.1  # type: ignore[index]


def test_recalibration_weighs_calls_of_shared_norms_alike() -> None:
    text = """net shared {
        input x: f32[2, 2, 2]
        a = x |> batch_norm(weights="n", affine=false)
        output y = a + (x |> shift(4) |> batch_norm(weights="n", affine=false))
    }"""
    network = lower(archir.loads(text).graph)
    batches = [torch.randn(64, 2, 2, 2, generator=torch.Generator().manual_seed(seed)) for seed in range(3)]
    recalibrate(network, batches)
    mean = torch.stack([batch.mean((0, 2, 3)) for batch in batches]).mean(0) + 2
    torch.testing.assert_close(network.state_dict()["n.running_mean"], mean)


def test_inherited_architecture_keeps_supernet_weights() -> None:
    """`inherit` trains nothing: weights are the supernet's, statistics those of the training images."""
    search = trained("sandwich", {"drawn": 1}, epochs=2)
    run(search, epochs=2, steps=search.steps)
    outcome = search.outcome()
    architecture = elastic().sample(3)
    given = job("inherit", space=elastic(), epochs=1)
    inherit = create_strategy(
        replace(given, weights=outcome.weights, supernet=outcome.supernet, architecture=dict(architecture))
    )
    rows = run(inherit, epochs=1, steps=1)
    found = inherit.outcome()
    assert outcome.supernet is not None
    model = restore_supernet(outcome.supernet, outcome.weights)
    wanted = model.weights(outcome.supernet.to_supernet(model.graph, architecture))
    for name, tensor in found.weights.items():
        assert torch.equal(tensor, wanted[name]) is ("running" not in name), name
    assert 0 < float(rows[-1]["accuracy"]) <= 1
    with pytest.raises(ArchError, match="A2210"):
        create_strategy(given)


def test_random_strategy_respects_fixed_choices() -> None:
    """And options for trying candidates are not passed over: without a supernet, their default scorer has nothing."""
    drawn = strategy("random", space=elastic(), open=("op", "kernel"), fixed={"width": 6}).outcome().architecture
    assert drawn is not None
    assert drawn["width"] == 6
    tries = strategy("random", {"trials": 3}, space=elastic())
    assert isinstance(tries, TrialStrategy)
    with pytest.raises(ArchError, match="A2210"), tries:
        pass


def test_distillation_needs_predicted_classes_or_labels() -> None:
    options = SandwichOptions(distill=0.3)
    kinds = {"regression": 1, "context_autoregression": 1, "retrieval": 1, "classification": 0, "multilabel": 0}
    for kind, messages in kinds.items():
        found = list(Sandwich.mistakes(job("sandwich", objective={"kind": kind}).phase, tiny(), options))
        assert [place for place, _ in found] == [("options", "distill")] * messages


def test_distillation_of_unstated_predictions_is_refused_when_it_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """A check may not import the module of an objective."""
    monkeypatch.setattr(Classification, "predicts", None)
    with pytest.raises(ArchError, match=r"A1109.*`distill` compares predicted classes or labels"):
        trained("sandwich", {"distill": 0.3})

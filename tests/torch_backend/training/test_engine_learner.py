"""A learner does what the same steps written by hand do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from archir.diagnostics.errors import ArchError
from archir.language.elaboration.elaborate import elaborate
from archir.recipes.augmentation import Augment
from archir.recipes.training import Optimizer
from archir_torch.data import Split
from archir_torch.lowering.module import lower
from archir_torch.training.drop_path import DropPaths
from archir_torch.training.feed import Batch, Feed
from archir_torch.training.learner import Learner, resolve_precision


def network(seed: int = 0, norm: bool = False) -> nn.Sequential:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        layers = [nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8) if norm else nn.Identity(), nn.ReLU()]
        return nn.Sequential(*layers, nn.Flatten(), nn.Linear(8 * 16, 5))


def split(count: int = 48) -> Split:
    generator = torch.Generator().manual_seed(1)
    images = torch.randn(count, 3, 4, 4, generator=generator)
    return Split.labelled(images, torch.randint(0, 5, (count,), generator=generator))


def trained(module: nn.Module, learner: Learner, feed: Feed, steps: range) -> list[Any]:
    def loss(batch: Batch) -> Tensor:
        found = module(batch.images)
        return F.cross_entropy(found, batch.labels if batch.mixed is None else batch.mixed)

    return [learner.update(loss, i, feed.batch(i)) for i in steps]


def made(module: nn.Module, settings: Optimizer | None = None, **options: Any) -> Learner:
    settings = settings or Optimizer(lr=0.1, weight_decay=1e-3, clip=1.0)
    return Learner(module, settings, epochs=3, steps=4, **options)


def close(one: Mapping[str, Tensor], other: Mapping[str, Tensor], tolerance: float = 0.0) -> bool:
    assert one.keys() == other.keys()
    return all(torch.allclose(t, other[name], rtol=0, atol=tolerance) for name, t in one.items())


def test_updates_equal_handwritten_sgd_loop() -> None:
    module, by_hand, feed = network(), network(), Feed(split(), 12, seed=0)
    updates = trained(module, made(module), feed, range(12))
    groups = [
        {"params": [p for p in by_hand.parameters() if p.dim() > 1], "weight_decay": 1e-3},
        {"params": [p for p in by_hand.parameters() if p.dim() == 1], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.SGD(groups, lr=0.1, momentum=0.9)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 12)
    for index, update in enumerate(updates):
        batch = feed.batch(index)
        loss = F.cross_entropy(by_hand(batch.images), batch.labels)
        optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(by_hand.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        torch.testing.assert_close(update.loss, loss.detach())
        torch.testing.assert_close(update.norm, norm)
    assert close(module.state_dict(), by_hand.state_dict(), 1e-6)


@pytest.mark.parametrize("accumulate", [2, 5])
def test_accumulated_updates_equal_full_batch_updates(accumulate: int) -> None:
    one, other = network(), network()
    feed = Feed(split(), 12, seed=0, augment=Augment(mixup=0.3))
    whole = trained(one, made(one), feed, range(8))
    parts = trained(other, made(other, accumulate=accumulate), feed, range(8))
    assert [float(u.loss) for u in whole] == pytest.approx([float(u.loss) for u in parts], abs=1e-5)
    assert close(one.state_dict(), other.state_dict(), 1e-5)


def test_learner_gives_gradients_only_to_its_parameters() -> None:
    weight, other = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(3))
    learner = Learner({"weight": weight}, Optimizer(kind="adam"), epochs=1, steps=1)
    learner.update(lambda: (weight * other).sum(), 0)
    assert other.grad is None
    assert float(weight.detach().max()) < 1
    update = learner.update((weight * other).sum(), 0)
    assert float(update.norm) == pytest.approx(3**0.5)


def test_excluded_parameters_are_not_trained() -> None:
    module = network()
    kept = module[4].weight.detach().clone()
    learner = Learner(module, Optimizer(lr=0.1), epochs=1, steps=4, exclude=[module[4].weight])
    trained(module, learner, Feed(split(), 12, seed=0), range(2))
    assert torch.equal(module[4].weight, kept)
    assert "4.weight" not in learner.parameters
    with pytest.raises(ArchError, match=r"A1704.*nothing to train"):
        Learner(nn.ReLU(), Optimizer(), epochs=1, steps=1)


def test_apply_uses_existing_gradients() -> None:
    weight = nn.Parameter(torch.ones(4))
    learner = Learner({"w": weight}, Optimizer(lr=0.5, schedule="constant", clip=1.0), epochs=1, steps=1)
    weight.grad = torch.full((4,), 3.0)
    assert float(learner.apply(0)) == 6
    assert weight.tolist() == [0.75] * 4


def test_evaluation_uses_exponential_moving_average() -> None:
    module, feed = network(norm=True), Feed(split(), 12, seed=0)
    learner = made(module, ema=0.5)
    wanted = {name: t.clone() for name, t in module.state_dict().items() if t.is_floating_point()}
    for index in range(6):
        trained(module, learner, feed, range(index, index + 1))
        decay = min(0.5, (1 + index) / (10 + index))
        for name, average in wanted.items():
            average.lerp_(module.state_dict()[name], 1 - decay)
    before = {name: t.clone() for name, t in module.state_dict().items()}
    with learner.evaluating():
        assert not module.training
        assert not torch.is_grad_enabled()
        held = {name: t.clone() for name, t in module.state_dict().items() if name in wanted}
    assert module.training
    assert close(held, wanted, 1e-7)
    assert not close(held, {name: before[name] for name in held}, 1e-3)
    assert close(module.state_dict(), before)


@pytest.mark.parametrize("kind", ["sgd", "adam", "adamw"])
@pytest.mark.parametrize("options", [{}, {"ema": 0.9, "precision": "bf16"}, {"precision": "fp16", "accumulate": 2}])
def test_restored_learner_continues_identically(kind: Any, options: dict[str, Any]) -> None:
    settings = Optimizer(kind=kind, lr=0.01, momentum=0.9, clip=1.0)
    whole, feed = network(norm=True), Feed(split(), 12, seed=0)
    learner = made(whole, settings, **options)
    trained(whole, learner, feed, range(5))
    state = learner.state()
    again = network(seed=5, norm=True)
    goes_on = made(again, settings, **options)
    goes_on.restore(state)
    for module, one in ((whole, learner), (again, goes_on)):
        trained(module, one, feed, range(5, 9))
    one, other = learner.state(), goes_on.state()
    assert one.facts == other.facts
    assert close(one.tensors, other.tensors)


def test_low_precision_losses_stay_close_to_float32() -> None:
    losses = {}
    for precision in ("float32", "bf16", "fp16"):
        module, feed = network(), Feed(split(), 12, seed=0)
        learner = made(module, precision=precision)
        losses[precision] = [float(u.loss) for u in trained(module, learner, feed, range(12))]
        assert all(p.dtype == torch.float32 for p in module.parameters())
    assert losses["bf16"] != losses["float32"] != losses["fp16"]
    assert losses["bf16"] == pytest.approx(losses["float32"], abs=0.05)
    assert losses["fp16"] == pytest.approx(losses["float32"], abs=0.05)
    assert resolve_precision("auto", "cpu") == "float32"
    assert resolve_precision("fp16", "cpu") == "fp16"


def test_fp16_skips_step_on_gradient_overflow() -> None:
    weight = nn.Parameter(torch.ones(1))
    learner = Learner({"w": weight}, Optimizer(lr=0.1), epochs=1, steps=1, precision="fp16")
    before = learner.state().facts["scaler"]["scale"]
    learner.update(lambda: (weight * 1e38).sum(), 0)
    assert weight.tolist() == [1.0]
    assert learner.state().facts["scaler"]["scale"] == before / 2


def test_drop_path_rates_scale_up_to_declared_rates() -> None:
    text = (
        "net tiny() {\n    input x: f32[4]\n    y = x |> drop_path(0.4)\n"
        "    output z = y |> linear(4) |> drop_path(0.2)\n}\n"
    )
    module = lower(elaborate(text, "tiny.arch"))
    paths = DropPaths(module.train())
    rates = []
    for epoch in range(5):
        paths.scale(epoch / 4)
        rates.append([layer.attributes["rate"] for layer, _ in paths._rates])
    assert rates == [pytest.approx([0.4 * part, 0.2 * part]) for part in (0, 0.25, 0.5, 0.75, 1)]
    x = torch.ones(1000, 4)
    paths.scale(0)
    assert torch.equal(module(x), module.eval()(x))
    paths.scale(1)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        dropped = float((module.train()(x).detach().abs().sum(1) == 0).float().mean())
        assert dropped == pytest.approx(1 - 0.6 * 0.8, abs=0.05)

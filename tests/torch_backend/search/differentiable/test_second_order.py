"""Gradients of second order, against the same thing written by hand in double precision."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import functional_call

from archir.passes.relax import relax
from archir.recipes.training import AlphasOptimizer
from archir_torch.strategies.relaxed import Relaxed
from archir_torch.strategies.unrolled import unrolled_gradient
from archir_torch.supernet.mixture import lower_mixed
from archir_torch.training.distributed import World
from tests.torch_backend.searches import doubles, space, strategy

RATE, MOMENTUM, DECAY = 0.1, 0.9, 3e-2


def exact(
    train: Callable[[Sequence[Tensor], Tensor], Tensor], validate: Callable[[Sequence[Tensor], Tensor], Tensor],
    weights: Sequence[Tensor], alpha: Tensor, speeds: Sequence[Tensor],
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Differentiated through a step of SGD: the gradient of alpha, and the validation loss."""
    w, a = [weight.detach().requires_grad_() for weight in weights], alpha.detach().requires_grad_()
    gradients = torch.autograd.grad(train(w, a), w, create_graph=True)
    stepped = [
        weight - RATE * (MOMENTUM * speed + gradient + DECAY * weight)
        for weight, gradient, speed in zip(w, gradients, speeds, strict=True)
    ]
    loss = validate(stepped, a)
    return torch.autograd.grad(loss, a)[0], loss.detach()


def unrolled(
    train: Callable[[Sequence[Tensor], Tensor], Tensor], validate: Callable[[Sequence[Tensor], Tensor], Tensor],
    weights: Sequence[Tensor], alpha: Tensor, speeds: Sequence[Tensor], reach: float,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    before = [weight.detach().clone() for weight in weights]
    (gradient,), loss = unrolled_gradient(
        lambda still: train(weights, alpha), lambda: validate(weights, alpha), weights, [alpha],
        rate=RATE, momentum=MOMENTUM, velocity=speeds, decay=DECAY, step_length=reach,
    )  # fmt: skip
    for weight, kept in zip(weights, before, strict=True):
        torch.testing.assert_close(weight.detach(), kept, rtol=0, atol=0)
    return gradient, loss


def test_second_order_gradient_equals_formula_for_two_parameters() -> None:
    """The losses of DARTS, figure 2: w^2 - 2aw + a^2 is trained on, aw - 2a + 1 validates; a cubic term is added, so
    that the training loss has a curvature that depends on both."""
    weight, alpha = (torch.tensor([x], dtype=torch.double, requires_grad=True) for x in (-2.0, 2.0))
    speed = torch.tensor([0.3], dtype=torch.double)

    def train(w: Sequence[Tensor], a: Tensor) -> Tensor:
        return (w[0] ** 2 - 2 * a * w[0] + a**2 + 0.1 * a * w[0] ** 3).sum()

    def validate(w: Sequence[Tensor], a: Tensor) -> Tensor:
        return (a * w[0] - 2 * a + 1).sum()

    wanted, loss = exact(train, validate, [weight], alpha, [speed])
    found, value = unrolled(train, validate, [weight], alpha, [speed], reach=1e-4)
    torch.testing.assert_close(found, wanted, rtol=1e-7, atol=0)
    torch.testing.assert_close(value, loss)
    w, a = float(weight.detach()), float(alpha.detach())
    step = w - RATE * (MOMENTUM * 0.3 + 2 * w - 2 * a + 0.3 * a * w**2 + DECAY * w)
    by_hand = step - 2 + a * -RATE * (-2 + 0.3 * w**2)
    assert float(wanted) == pytest.approx(by_hand, rel=1e-12)
    first = float(torch.autograd.grad(validate([weight], alpha), alpha)[0])
    assert abs(by_hand - first) > 0.1, "the first order alone is another gradient"


def test_second_order_gradient_equals_formula_for_relaxed_network() -> None:
    net = "net n() { input x: f32[2, 5, 5]; x = x |> choose op { a: conv(2) |> tanh, b: conv(2, kernel=1) |> sigmoid, "
    net += "c: avg_pool(3, stride=1) }; output y = x |> choose then { d: gelu, e: softmax } |> flatten |> linear(3) }"
    network = lower_mixed(relax(space(net).graph)).double()
    names = list(network.names)
    parameters = dict(network.named_parameters())
    alpha = doubles(2, 3).requires_grad_()
    x, y = doubles(2, 6, 2, 5, 5), torch.arange(6) % 3

    def loss(part: int) -> Callable[[Sequence[Tensor], Tensor], Tensor]:
        def found(weights: Sequence[Tensor], a: Tensor) -> Tensor:
            shares = {name: a[i, : network.names[name]].softmax(0) for i, name in enumerate(names)}
            values = dict(zip(parameters, weights, strict=True))
            return F.cross_entropy(functional_call(network, values, (x[part],), {"weights": shares}), y)

        return found

    weights = list(parameters.values())
    speeds = [doubles(*weight.shape, seed=7) / 10 for weight in weights]
    wanted, value = exact(loss(0), loss(1), weights, alpha, speeds)
    for reach, tolerance in ((1e-2, 1e-3), (1e-4, 1e-7)):
        found, validation = unrolled(loss(0), loss(1), weights, alpha, speeds, reach)
        assert float((found - wanted).norm() / wanted.norm()) < tolerance
        torch.testing.assert_close(validation, value)
    first = torch.autograd.grad(loss(1)(weights, alpha), alpha)[0]
    assert float((first - wanted).norm() / wanted.norm()) > 1e-2


def test_second_order_step_keeps_norm_statistics_of_weight_step() -> None:
    """Where architecture parameters hardly move, a second-order step leaves what a step of the weights alone does."""
    still = AlphasOptimizer(lr=1e-30)
    second, alone = (strategy("darts", options, alphas=still) for options in ({"order": 2}, {"alpha_warmup_epochs": 2}))
    assert isinstance(second, Relaxed)
    assert isinstance(alone, Relaxed)
    assert {"loss", "alphas_loss"} == set(second.step(0))
    assert {"loss"} == set(alone.step(0))
    wanted = dict(alone.module.named_buffers())
    assert any(name.endswith("running_mean") for name in wanted)
    for name, found in second.module.named_buffers():
        assert torch.equal(found, wanted[name]), name


def test_differences_of_gradients_are_of_the_same_dropout(monkeypatch: pytest.MonkeyPatch) -> None:
    made = space(
        "net n() { input x: f32[1, 6, 6]; x = x |> conv(4) |> choose a { wide: conv(4), skip: identity }; "
        "x = x |> dropout(0.5); output y = x |> global_avg_pool |> linear(3) }"
    )
    still = AlphasOptimizer(lr=1e-30)
    search = strategy("darts", {"order": 2, "curvature": {}}, space=made, alphas=still)
    assert isinstance(search, Relaxed)
    losses: list[list[float]] = []

    def unrolled(train: Callable[[bool], Tensor], *rest: Any, **options: object) -> object:
        losses.append([float(train(True).detach()) for _ in range(3)])
        return [torch.zeros_like(alpha) for alpha in rest[-1]], torch.zeros(())

    def eigenvalue(loss: Callable[[], Tensor], *_: object) -> float:
        losses.append([float(loss().detach()) for _ in range(3)])
        return 0.0

    monkeypatch.setattr("archir_torch.strategies.relaxed.unrolled_gradient", unrolled)
    monkeypatch.setattr("archir_torch.strategies.relaxed.dominant_eigenvalue", eigenvalue)
    before = torch.get_rng_state()
    search._step_alphas(0, search.feed.batch(0))
    search._check_curvature(0, {})
    assert torch.equal(torch.get_rng_state(), before), "other steps draw as if nothing had been drawn"
    batch = search.feed.batch(1)
    search._step_alphas(1, batch)
    search._step_alphas(1, batch)
    monkeypatch.setattr("archir_torch.strategies.relaxed.world", lambda: World(1, 2))
    search._step_alphas(1, batch)
    assert [len({*each}) for each in losses] == [1] * 5
    first, curved, second, again, of_other_process = (each[0] for each in losses)
    assert second == pytest.approx(again)
    assert len({first, curved, second, of_other_process}) == 4

"""What strategies compute, against the same thing written by hand in double precision."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import functional_call

from archir.base.errors import ArchError
from archir.ir.choices.cases import Choice, at
from archir.language.elaboration.elaborate import elaborate
from archir.passes.spaces.relax import relax
from archir.search.recipes.derivation import crowded, derived
from archir.search.recipes.recipe import Derive, SkipLimit
from archir.search.recipes.training import Optimizer, Training
from archir.search.spaces.space import Space
from archir_torch.lowering.module import lower
from archir_torch.search.strategies.differentiable.alphas import Alphas, Sampling
from archir_torch.search.strategies.differentiable.curvature import dominant_eigenvalue, rising
from archir_torch.search.strategies.differentiable.expected_cost import Expected
from archir_torch.search.strategies.differentiable.relaxed import Relaxed
from archir_torch.search.strategies.differentiable.unrolled import unrolled_gradient
from archir_torch.supernet.mixture import lower_mixed
from archir_torch.training.loop import run
from tests.torch_backend.searches import images, strategy, tiny

RATE, MOMENTUM, DECAY = 0.1, 0.9, 3e-2


def space(text: str) -> Space:
    """Of a net in one line."""
    return Space(elaborate(text.replace("; ", "\n"), "reference.arch"))


def doubles(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.double, generator=torch.Generator().manual_seed(seed))


# second order


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
        lambda: train(weights, alpha), lambda: validate(weights, alpha), weights, [alpha],
        rate=RATE, momentum=MOMENTUM, velocity=speeds, decay=DECAY, reach=reach,
    )  # fmt: skip
    for weight, kept in zip(weights, before, strict=True):
        torch.testing.assert_close(weight.detach(), kept, rtol=0, atol=0)
    return gradient, loss


def test_second_order_on_a_problem_of_two_parameters() -> None:
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


def test_second_order_on_a_relaxed_network() -> None:
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


def test_statistics_of_norms_are_those_of_the_steps_that_stay() -> None:
    """Where architecture parameters hardly move, a second-order step leaves what a step of the weights alone does."""
    still = Optimizer(lr=1e-30, schedule="constant")
    second, alone = (strategy("darts", options, alphas=still) for options in ({"order": 2}, {"hold": 2}))
    assert isinstance(second, Relaxed)
    assert isinstance(alone, Relaxed)
    assert {"loss", "alphas_loss"} == set(second.step(0))
    assert {"loss"} == set(alone.step(0))
    wanted = dict(alone.module.named_buffers())
    assert any(name.endswith("running_mean") for name in wanted)
    for name, found in second.module.named_buffers():
        assert torch.equal(found, wanted[name]), name


# what is drawn


@pytest.fixture
def alphas() -> Alphas:
    net = "net n() { input x: f32[2, 4, 4]; a = x |> choose a { p: relu, q: gelu, r: tanh }; b = a |> choose b { p: "
    net += (
        "relu, q: gelu }; c = choose c 2 of [b, a, x]; output y = concat(c[0], c[1]) |> choose d { p: relu, q: tanh } }"
    )
    made = space(net)
    found = Alphas(made.choices, ["a", "b", "c", "c*", "d"]).double()
    with torch.no_grad():
        found.logits.copy_(doubles(4, 3))
    return found


def by_hand(alphas: Alphas, name: str, noise: Tensor, temperature: float) -> Tensor:
    """Gumbel-softmax of a choice's logits, as SNAS and GDAS write it."""
    row = [choice.path for choice in alphas.choices].index(name)
    count = len(alphas.choices[row].alternatives)
    perturbed = [(alphas.logits[row, i] - torch.log(-torch.log(noise[row, i]))) / temperature for i in range(count)]
    total = sum((one.exp() for one in perturbed), start=torch.zeros((), dtype=torch.double))
    return torch.stack([one.exp() / total for one in perturbed])


def gradient(values: Tensor, logits: Tensor) -> Tensor:
    """Of some function of all values."""
    return torch.autograd.grad((values * torch.arange(1.0, len(values) + 1)).square().sum(), logits, retain_graph=True)[
        0
    ]


def test_softmax_is_over_the_alternatives_of_a_choice(alphas: Alphas) -> None:
    drawn = alphas.draw("softmax")
    assert drawn.active is None
    paths = [choice.path for choice in alphas.choices]
    for name in ("a", "b", "d"):
        wanted = alphas.logits[paths.index(name), : 3 if name == "a" else 2].softmax(0)
        torch.testing.assert_close(drawn.weights[name], wanted)
        torch.testing.assert_close(gradient(drawn.weights[name], alphas.logits), gradient(wanted, alphas.logits))
    torch.testing.assert_close(drawn.weights["c*"], alphas.logits[paths.index("c")].softmax(0))


@pytest.mark.parametrize("temperature", [5.0, 1.0, 0.3])
def test_gumbel_and_single_path(alphas: Alphas, temperature: float) -> None:
    for seed in range(10):
        noise = torch.rand(alphas.logits.shape, generator=torch.Generator().manual_seed(seed)).double()
        soft = alphas.draw("gumbel", temperature, torch.Generator().manual_seed(seed))
        single = alphas.draw("single", temperature, torch.Generator().manual_seed(seed))
        assert soft.active is None
        assert single.active is not None
        for name in ("a", "b", "d"):
            wanted = by_hand(alphas, name, noise, temperature)
            slope = gradient(wanted, alphas.logits)
            torch.testing.assert_close(soft.weights[name], wanted, rtol=1e-5, atol=1e-6)
            torch.testing.assert_close(gradient(soft.weights[name], alphas.logits), slope, rtol=1e-5, atol=1e-6)
            best = int(wanted.argmax())
            hard = F.one_hot(torch.tensor(best), len(wanted)).double()
            assert single.active[name] == (best,)
            torch.testing.assert_close(single.weights[name], hard)
            through = hard - wanted.detach() + wanted
            torch.testing.assert_close(
                gradient(single.weights[name], alphas.logits), gradient(through, alphas.logits), rtol=1e-5, atol=1e-6
            )


def test_alternatives_are_drawn_as_often_as_they_are_likely(alphas: Alphas) -> None:
    """The Gumbel-max trick."""
    noise = torch.Generator().manual_seed(0)
    counts: dict[str, list[int]] = {"a": [0] * 3, "b": [0] * 2}
    draws = 4000
    for _ in range(draws):
        drawn = alphas.draw("single", 1.0, noise)
        assert drawn.active is not None
        for name, count in counts.items():
            count[drawn.active[name][0]] += 1
    for name, count in counts.items():
        assert [n / draws for n in count] == pytest.approx(alphas.probabilities()[name], abs=0.03)


def test_of_several_that_are_taken_subsets_are_as_likely_as_their_members_together(alphas: Alphas) -> None:
    (row,) = [row for row, choice in enumerate(alphas.choices) if choice.path == "c"]
    p = alphas.logits[row].detach().softmax(0)
    products = torch.stack([p[list(subset)].prod() for subset in alphas.choices[row].subsets])
    wanted = products / products.sum()
    torch.testing.assert_close(alphas.outcomes()["c"].detach(), wanted)
    torch.testing.assert_close(alphas.draw().weights["c"].detach(), wanted)
    assert len(wanted) == 3


def test_of_several_that_are_taken_an_outcome_is_drawn(alphas: Alphas) -> None:
    """A set of them, as likely as it is; alternatives have the weight of the sets that they are in."""
    (choice,) = (choice for choice in alphas.choices if choice.path == "c")
    members = torch.tensor([[float(i in subset) for i in range(3)] for subset in choice.subsets], dtype=torch.double)
    counts = torch.zeros(3, dtype=torch.double)
    noise, draws = torch.Generator().manual_seed(0), 4000
    for _ in range(draws):
        drawn = alphas.draw("single", 0.5, noise)
        assert drawn.active is not None
        (outcome,) = drawn.active["c"]
        assert drawn.active["c*"] == choice.subsets[outcome]
        counts[outcome] += 1
        if counts.sum() < 20:
            torch.testing.assert_close(drawn.weights["c"], F.one_hot(torch.tensor(outcome), 3).double())
            torch.testing.assert_close(drawn.weights["c*"], members[outcome])
            through = gradient(drawn.weights["c"] @ members, alphas.logits)
            torch.testing.assert_close(gradient(drawn.weights["c*"], alphas.logits), through)
            assert through.abs().max() > 0
    assert (counts / draws).tolist() == pytest.approx(alphas.outcomes()["c"].tolist(), abs=0.03)
    soft = alphas.draw("gumbel", 0.5, torch.Generator().manual_seed(1))
    hard = alphas.draw("single", 0.5, torch.Generator().manual_seed(1))
    assert int(soft.weights["c"].argmax()) == int(hard.weights["c"].argmax())
    assert float(soft.weights["c"].detach().sum()) == pytest.approx(1)
    torch.testing.assert_close(soft.weights["c*"], soft.weights["c"] @ members)


@pytest.mark.parametrize("sampling", ["softmax", "gumbel", "single"])
def test_without_names_nothing_is_drawn(sampling: Sampling) -> None:
    found = Alphas(space("net n() { input x: f32[2, 4, 4]; output y = x |> relu }").choices, [])
    drawn = found.draw(sampling, 1.0, torch.Generator().manual_seed(0))
    assert (drawn.weights, drawn.active or {}) == ({}, {})
    assert float(found.entropy().detach()) == 0


SUBSETS = {
    "concat": ("all", "output y = concat(c[0], c[1])"),
    "sum of weighted": ("weighted", "output y = c[0] + c[1]"),
    "a sum and its parts": ("weighted", "output y = concat(c[0] + c[1], c[0])"),
    "products": ("all", "output y = c[0] * c[1]"),
}


@pytest.mark.parametrize("name", SUBSETS)
def test_one_path_of_several_that_are_taken_is_an_architecture_of_the_space(name: str) -> None:
    """The network of what was drawn computes what the drawn architecture does."""
    edges, end = SUBSETS[name]
    text = "x = x |> conv(3, kernel=1, bias=false); c = choose c 2 of [x |> relu, x |> tanh, x, x |> gelu]"
    made = space(f"net n() {{ input x: f32[2, 4, 4]; {text}; {end} }}")
    network = lower_mixed(relax(made.graph, edges=edges)).double()  # type: ignore[arg-type]
    alphas = Alphas(made.choices, list(network.names), "normal", torch.Generator().manual_seed(0)).double()
    x = doubles(3, 2, 4, 4)
    seen = set()
    for seed in range(20):
        drawn = alphas.draw("single", 1.0, torch.Generator().manual_seed(seed))
        assert drawn.active is not None
        ran = {drawn.active[name] for name in network.names}
        subsets = [s for s in made.choices[0].subsets if {s, (made.choices[0].subsets.index(s),)} >= ran]
        (subset,) = subsets  # all names mean the same set
        labels: list[object] = [made.choices[0].alternatives[i] for i in subset]
        alone = lower(made.specialize(made.architecture({"c": labels}))).double()
        alone.load_state_dict(network.state_dict())
        found = network(x, weights=drawn.weights, active=drawn.active)
        torch.testing.assert_close(found, alone(x))
        torch.testing.assert_close(network(x, weights=drawn.weights), alone(x))
        seen.add(subset)
    assert len(seen) > 3


def test_one_path_alone_is_the_network_with_weights_of_zero_and_one() -> None:
    """What is not drawn is not run; the drawn path's weight has a gradient, its alternatives' is nothing: they were
    not looked at (GDAS, section 3.2: the outputs of what was not drawn are left out of both passes)."""
    made = tiny()
    network = lower_mixed(relax(made.graph)).double().train()
    alphas = Alphas(made.choices, list(network.names), "normal", torch.Generator().manual_seed(0)).double()
    x = images(8).images.double()
    seen = set()
    for seed in range(12):
        drawn = alphas.draw("single", 1.0, torch.Generator().manual_seed(seed))
        assert drawn.active is not None
        seen.add(tuple(drawn.active.items()))
        alone = network(x, weights=drawn.weights, active=drawn.active)
        for weight in drawn.weights.values():
            weight.retain_grad()
        alone.square().sum().backward()
        one_hot = {name: weight.detach().clone().requires_grad_() for name, weight in drawn.weights.items()}
        everything = network(x, weights=one_hot)
        torch.testing.assert_close(alone, everything)
        everything.square().sum().backward()
        for name, weight in drawn.weights.items():
            (position,) = drawn.active[name]
            full = one_hot[name].grad
            if full is None:
                assert weight.grad is None
                continue
            wanted = torch.zeros_like(full)
            wanted[position] = full[position]
            torch.testing.assert_close(weight.grad, wanted)
    assert len(seen) > 4


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_gradients_of_folded_norms(layout: torch.memory_format) -> None:
    """The norms' weights are the mixture's: against the mixture of what norms give, in both layouts."""
    net = "net n() { input x: f32[4, 6, 6]; output y = x |> choose op { a: conv(4, bias=false) |> "
    net += "batch_norm(affine=false), b: conv(4, bias=false) |> batch_norm, c: identity } }"
    network = lower_mixed(relax(space(net).graph)).train().to(memory_format=layout)  # type: ignore[call-overload]
    x = torch.randn(4, 4, 6, 6, generator=torch.Generator().manual_seed(0)).to(memory_format=layout)
    share = torch.tensor([0.2, 0.5, 0.3], requires_grad=True)
    parameters = dict(network.named_parameters())
    slope = torch.randn(4, 4, 6, 6, generator=torch.Generator().manual_seed(1)).to(memory_format=layout)

    def gradients(y: Tensor) -> tuple[Tensor, ...]:
        return torch.autograd.grad(y, [share, *parameters.values()], slope)

    def term(name: str) -> Tensor:
        w = parameters[f"op.{name}.conv.weight"]
        y = F.conv2d(x.contiguous(), w.contiguous(), padding=w.shape[-1] // 2)
        scale, shift = (parameters.get(f"op.{name}.batch_norm.{what}") for what in ("weight", "bias"))
        return F.batch_norm(y, None, None, scale, shift, training=True)

    wanted = share[0] * term("a") + share[1] * term("b") + share[2] * x
    found = network(x, weights={"op": share})
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)
    alphas, *weights = gradients(wanted)
    alone = network(x, weights={"op": share.detach()})  # as in a step of the weights
    for one, other in zip(gradients(found), [alphas, *weights], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
    for one, other in zip(torch.autograd.grad(alone, list(parameters.values()), slope), weights, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


# what networks cost


COSTLY = """
cell body(x, n) { return x |> choose op { wide: conv(n), narrow: conv(n, kernel=1), none: identity } }

net costly() {
    input x: f32[4, 8, 8]
    width = choose width(4, 8)
    x = x |> conv(width) |> body(width)
    repeat choose depth(1, 2) {
        x = x |> choose act { one: conv(width, kernel=1) |> relu, two: relu }
    }
    picks = choose picks 2 of [x, x |> conv(width), x |> conv(width, kernel=1)]
    output y = picks[0] + picks[1] |> body(width)
}
"""
"""A value, a tied choice, conditional ones, two of three."""


def brute_force(made: Space, probabilities: dict[str, Tensor], cost: str) -> Tensor:
    """Over every combination of outcomes of all choices, those that are inactive among them."""
    known: dict[str, float] = {}
    total = torch.zeros((), dtype=torch.double)
    for outcomes in product(*(range(choice.outcomes) for choice in made.choices)):
        chosen = dict(zip([choice.path for choice in made.choices], outcomes, strict=True))
        architecture = made.decode(made.encode(labelled(made, chosen)))
        key = str(architecture.codes)
        if key not in known:
            known[key] = float(made.cost([architecture], [cost])[cost][0])
        p = torch.ones((), dtype=torch.double)
        for path, outcome in chosen.items():
            p = p * probabilities[path][outcome]
        total = total + p * known[key]
    return total


def labelled(made: Space, outcomes: dict[str, int]) -> dict[str, Any]:
    """Labels of the choices that exist under some outcomes."""
    found: dict[str, Any] = {}
    for decision in made.order:
        path = decision.choice.path
        if at(decision.active, outcomes) is True:
            found[path] = decision.choice.label(outcomes[path])
    return found


def drawn_probabilities(choices: Sequence[Choice], seed: int) -> dict[str, Tensor]:
    return {c.path: doubles(c.outcomes, seed=seed + i).softmax(0) for i, c in enumerate(choices)}


@pytest.mark.parametrize("cost", ["macs", "params"])
def test_expected_costs_are_the_mean_of_all_architectures(cost: str) -> None:
    made = space(COSTLY)
    expected = Expected(made, cost)
    p = drawn_probabilities(made.choices, 3)
    torch.testing.assert_close(expected(p), brute_force(made, p, cost), rtol=1e-12, atol=0)
    uniform = {c.path: torch.full((c.outcomes,), 1 / c.outcomes, dtype=torch.double) for c in made.choices}
    torch.testing.assert_close(expected({}), brute_force(made, uniform, cost), rtol=1e-12, atol=0)


def test_gradients_of_expected_costs_are_finite_differences() -> None:
    made = space(COSTLY)
    expected = Expected(made, "macs")
    alphas = Alphas(made.choices, [c.path for c in made.choices], "zeros").double()
    with torch.no_grad():
        alphas.logits.copy_(doubles(*alphas.logits.shape))
    expected(alphas.outcomes()).backward()  # type: ignore[no-untyped-call]
    gradient = alphas.logits.grad
    assert gradient is not None
    for row, choice in enumerate(alphas.choices):
        for position in range(len(choice.alternatives)):
            sides = []
            for step in (1e-5, -1e-5):
                with torch.no_grad():
                    alphas.logits[row, position] += step
                    sides.append(float(expected(alphas.outcomes())))
                    alphas.logits[row, position] -= step
            assert (sides[0] - sides[1]) / 2e-5 == pytest.approx(float(gradient[row, position]), rel=1e-5, abs=1e-3)
    assert all(gradient.abs().amax(1) > 1)


# curvature, limits, schedules, penalties


def test_the_dominant_eigenvalue_is_that_of_the_hessian() -> None:
    matrix = doubles(6, 6)
    matrix = matrix + matrix.T
    point = doubles(2, 3, seed=1)

    def loss() -> Tensor:
        x = parameters.flatten()
        return (x @ matrix @ x) / 2 + 1e-3 * x.pow(4).sum()

    parameters = point.clone().requires_grad_()
    hessian = torch.autograd.functional.hessian(
        lambda x: (x @ matrix @ x) / 2 + 1e-3 * x.pow(4).sum(), point.flatten(), vectorize=False
    )
    values = torch.linalg.eigvalsh(hessian)
    wanted = float(values[values.abs().argmax()])
    noise = torch.Generator().manual_seed(0)
    found = dominant_eigenvalue(loss, parameters, noise, iterations=500, tolerance=1e-9)
    assert found == pytest.approx(wanted, rel=1e-4)
    torch.testing.assert_close(parameters.detach(), point, rtol=0, atol=0)


def test_where_an_eigenvalue_rises_too_fast() -> None:
    """Zela et al., section 4.3: the mean of five, five epochs ago, over the mean of five now, below 0.75."""
    calm = [1.0] * 12
    assert rising(calm) is None
    assert rising([*calm, 2.0]) is None  # mean 1.2 now: 0.83
    assert rising([*calm, 2.0, 2.0]) == 8  # mean 1.4: 0.71; five epochs before the last
    assert rising([1.0, 5.0, 9.0]) is None, "there is nothing to compare with yet"


def test_the_weakest_of_too_many_skips_is_given_up() -> None:
    made = space(
        "net n() { input x: f32[4, 4, 4]; y = x |> cell1; output z = y |> cell2 }; "
        + "; ".join(
            f"block cell{i}(x) {{ a = x |> choose a {{ skip: identity, op: relu }}; "
            "b = a |> choose b { skip: identity, op: relu }; "
            "return b |> choose c { skip: identity, op: relu, other: gelu } }"
            for i in (1, 2)
        )
    )
    strengths = {
        "cell1.a": [0.6, 0.4], "cell1.b": [0.9, 0.1], "cell1.c": [0.7, 0.1, 0.2],
        "cell2.a": [0.1, 0.9], "cell2.b": [0.8, 0.2], "cell2.c": [0.5, 0.3, 0.2],
    }  # fmt: skip

    def found(**settings: Any) -> dict[str, Any]:
        limit = SkipLimit(labels=("skip",), **settings)
        return dict(derived(made, strengths, Derive(limit=limit)))

    free = dict(derived(made, strengths, Derive()))
    assert free == found(most=3)
    assert [free[f"cell1.{c}"] for c in "abc"] == ["skip"] * 3
    assert found(most=2) == {**free, "cell1.a": "op"}
    assert found(most=1) == {**free, "cell1.a": "op", "cell1.c": "other", "cell2.c": "op"}
    assert "skip" not in found(most=0).values()
    assert strengths["cell1.a"] == [0.6, 0.4]


def searched(options: dict[str, Any], epochs: int = 4, kind: str = "darts") -> Relaxed:
    optimizer = Optimizer(kind="adam", lr=0.1, schedule="constant")
    search = strategy(kind, options, epochs=epochs, alphas=optimizer)
    assert isinstance(search, Relaxed)
    run(search, epochs=search.epochs, steps=search.steps)
    return search


def entropy(search: Relaxed) -> float:
    return float(search.alphas.entropy().detach())


def test_the_weight_of_the_entropy_changes_by_epochs() -> None:
    search = strategy("darts", {"entropy": {"first": -1.0, "last": 2.0}}, epochs=4)
    assert isinstance(search, Relaxed)
    with torch.no_grad():
        each = float(search.alphas.entropy())
        found = [float(search._regular(epoch * search.steps + step)) for epoch in range(4) for step in (0, 2)]
    assert found == pytest.approx([weight * each for weight in (-1, -1, 0, 0, 1, 1, 2, 2)], abs=1e-6)


def test_entropy_sharpens_or_levels_choices() -> None:
    free, sharp, level = (
        entropy(searched({"entropy": {"first": weight, "last": weight}}, epochs=10)) for weight in (0.0, 10.0, -10.0)
    )
    assert sharp < free < level
    assert sharp < 0.8 * free


def test_a_penalty_lowers_the_expected_cost() -> None:
    def cost(search: Relaxed) -> float:
        with torch.no_grad():
            return float(Expected(search.job.space, "macs")(search.alphas.outcomes()))

    least = float(Expected(tiny(), "macs")({"first": torch.tensor([1.0, 0, 0, 0]), "inner": torch.tensor([1.0, 0])}))
    free = cost(searched({}))
    heavy = cost(searched({"penalty": {"weight": 30.0}}, epochs=8))
    assert least <= heavy < least + 0.1 * (free - least)
    target = (free + least) / 2
    near = cost(searched({"penalty": {"weight": 30.0, "target": target}}, epochs=8))
    assert heavy < near < target, "below the target, the penalty is nothing"


def test_weights_of_searches_and_of_objectives_are_not_divided() -> None:
    training = Training(epochs=1, sharding="full")
    with pytest.raises(ArchError, match=r"A1109.*`darts` keeps weights whole; `training.sharding` is for `train`"):
        strategy(training=training)
    one = space("net one() { input x: f32[1, 6, 6]; y = x |> conv(4, kernel=3); output logits = y |> global_avg_pool }")
    with pytest.raises(ArchError, match=r"A1109.*an objective with weights of its own"):
        strategy("train", space=one, training=training, objective={"kind": "context_autoregression"})


@pytest.mark.parametrize("kind", ["darts", "gdas", "snas"])
def test_a_search_without_architecture_parameters_is_refused(kind: str) -> None:
    several = space(
        "net n() { input x: f32[1, 6, 6]; c = choose c 2 of [x |> relu, x |> gelu, x]; "
        "output y = sum(c) |> conv(3) |> global_avg_pool |> linear(3) }"
    )
    with pytest.raises(ArchError, match=r'A2215.*\n.*options.edges = "weighted"'):
        strategy(kind, space=several)
    assert {"loss", "alphas_loss"} == set(strategy(kind, {"edges": "weighted"}, space=several).step(0))
    alone = space("net n() { input x: f32[1, 6, 6]; output y = x |> conv(3) |> global_avg_pool |> linear(3) }")
    with pytest.raises(ArchError, match=r"A2215.*\n.*`train`"):
        strategy(kind, space=alone)


KINDS = ('"skip"', '"act"', '"pool"')


def test_a_limit_that_cannot_be_kept_is_an_error() -> None:
    """The space asks for what is limited: giving it up again and again would not end."""
    made = space(
        "net n() { input x: f32[2, 4, 4]; x = x |> choose a { skip: identity, act: relu }; "
        "x = x |> choose b { skip: identity, act: relu }; output y = x }"
    )
    forced = space(
        'net n() { input x: f32[2, 4, 4]; a = choose a("skip", "act"); b = choose b("skip", "act"); '
        'require a == "skip"; output y = x |> conv(1 if a == b else 2) }'
    )
    equal = {"a": [0.5, 0.5], "b": [0.6, 0.4]}
    limit = SkipLimit(labels=("skip",), most=0)
    assert dict(derived(made, equal, Derive(limit=limit))) == {"a": "act", "b": "act"}
    with pytest.raises(ArchError, match=r"A2101.*no more than 0 of `skip` cannot be kept"):
        derived(forced, equal, Derive(limit=limit))


def test_a_limit_is_kept_where_any_architecture_keeps_it() -> None:
    """Also where giving up the weakest one by one leads to nothing: in spaces of two cells with requirements between
    them, against a list of their architectures."""
    ends = {True: 0, False: 0}
    for seed in range(40):
        draw = random.Random(seed)
        chosen = "; ".join(f"{name} = choose {name}({', '.join(KINDS)})" for name in "ab")
        cells = [f"block cell{i}(x) {{ {chosen}; return [a, b] }}" for i in (1, 2)]
        names = ["one", "two", "three", "four"]
        rules = [
            f"require ({one} == {draw.choice(KINDS)}) != ({other} == {draw.choice(KINDS)})"
            for one, other in (draw.sample(names, 2) for _ in range(draw.randint(2, 4)))
        ]
        text = "; ".join([
            "net n() { input x: f32[2, 4, 4]", "one, two = cell1(x)", "three, four = cell2(x)", *rules,
            "output y = x |> conv(len([0 for kind in [one, two, three, four] if kind == \"act\"]) + 1) }", *cells,
        ])  # fmt: skip
        try:
            made = space(text)
            every = list(made.enumerate())
        except ArchError:
            continue
        most = draw.choice([0, 0, 1])
        limit = SkipLimit(labels=("skip",), most=most)
        strengths = {one.path: [draw.random() + 0.5, draw.random(), draw.random()] for one in made.choices}
        possible = any(not crowded(one, limit) for one in every)
        ends[possible] += 1
        if possible:
            assert not crowded(derived(made, strengths, Derive(limit=limit)), limit), text
        else:
            with pytest.raises(ArchError, match="A2101"):
                derived(made, strengths, Derive(limit=limit))
    assert min(ends.values()) >= 3, ends

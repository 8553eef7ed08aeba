"""What architecture parameters draw, and the networks that are drawn, against the same thing by hand."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from archir.passes.relax import relax
from archir_torch.lowering.module import lower
from archir_torch.strategies.alphas import Alphas, Sampling
from archir_torch.supernet.mixture import lower_mixed
from tests.torch_backend.searches import doubles, images, space, tiny


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
    drawn = alphas.sample("softmax")
    assert drawn.active is None
    paths = [choice.path for choice in alphas.choices]
    for name in ("a", "b", "d"):
        wanted = alphas.logits[paths.index(name), : 3 if name == "a" else 2].softmax(0)
        torch.testing.assert_close(drawn.weights[name], wanted)
        torch.testing.assert_close(gradient(drawn.weights[name], alphas.logits), gradient(wanted, alphas.logits))
    torch.testing.assert_close(drawn.weights["c*"], alphas.logits[paths.index("c")].softmax(0))


@pytest.mark.parametrize("temperature", [5.0, 1.0, 0.3])
def test_gumbel_and_single_path_samples_equal_formula(alphas: Alphas, temperature: float) -> None:
    for seed in range(10):
        noise = torch.rand(alphas.logits.shape, generator=torch.Generator().manual_seed(seed)).double()
        soft = alphas.sample("gumbel", temperature, torch.Generator().manual_seed(seed))
        single = alphas.sample("single", temperature, torch.Generator().manual_seed(seed))
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
    draws = 1500
    for _ in range(draws):
        drawn = alphas.sample("single", 1.0, noise)
        assert drawn.active is not None
        for name, count in counts.items():
            count[drawn.active[name][0]] += 1
    for name, count in counts.items():
        assert [n / draws for n in count] == pytest.approx(alphas.probabilities()[name], abs=0.05)


def test_subset_probability_is_product_of_member_probabilities(alphas: Alphas) -> None:
    (row,) = [row for row, choice in enumerate(alphas.choices) if choice.path == "c"]
    p = alphas.logits[row].detach().softmax(0)
    products = torch.stack([p[list(subset)].prod() for subset in alphas.choices[row].subsets])
    wanted = products / products.sum()
    torch.testing.assert_close(alphas.outcome_probabilities()["c"].detach(), wanted)
    torch.testing.assert_close(alphas.sample().weights["c"].detach(), wanted)
    assert len(wanted) == 3


def test_subset_choice_draws_subsets_by_probability(alphas: Alphas) -> None:
    """A set of them, as likely as it is; alternatives have the weight of the sets that they are in."""
    (choice,) = (choice for choice in alphas.choices if choice.path == "c")
    members = torch.tensor([[float(i in subset) for i in range(3)] for subset in choice.subsets], dtype=torch.double)
    counts = torch.zeros(3, dtype=torch.double)
    noise, draws = torch.Generator().manual_seed(0), 1500
    for _ in range(draws):
        drawn = alphas.sample("single", 0.5, noise)
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
    assert (counts / draws).tolist() == pytest.approx(alphas.outcome_probabilities()["c"].tolist(), abs=0.05)
    soft = alphas.sample("gumbel", 0.5, torch.Generator().manual_seed(1))
    hard = alphas.sample("single", 0.5, torch.Generator().manual_seed(1))
    assert int(soft.weights["c"].argmax()) == int(hard.weights["c"].argmax())
    assert float(soft.weights["c"].detach().sum()) == pytest.approx(1)
    torch.testing.assert_close(soft.weights["c*"], soft.weights["c"] @ members)


@pytest.mark.parametrize("sampling", ["softmax", "gumbel", "single"])
def test_space_without_choices_draws_nothing(sampling: Sampling) -> None:
    found = Alphas(space("net n() { input x: f32[2, 4, 4]; output y = x |> relu }").choices, [])
    drawn = found.sample(sampling, 1.0, torch.Generator().manual_seed(0))
    assert (drawn.weights, drawn.active or {}) == ({}, {})
    assert float(found.entropy().detach()) == 0


SUBSETS = {
    "concat": ("all", "output y = concat(c[0], c[1])"),
    "sum of weighted": ("weighted", "output y = c[0] + c[1]"),
    "a sum and its parts": ("weighted", "output y = concat(c[0] + c[1], c[0])"),
    "products": ("all", "output y = c[0] * c[1]"),
}


@pytest.mark.parametrize("name", SUBSETS)
def test_single_path_subset_equals_specialized_network(name: str) -> None:
    """The network of what was drawn computes what the drawn architecture does."""
    edges, end = SUBSETS[name]
    text = "x = x |> conv(3, kernel=1, bias=false); c = choose c 2 of [x |> relu, x |> tanh, x, x |> gelu]"
    made = space(f"net n() {{ input x: f32[2, 4, 4]; {text}; {end} }}")
    network = lower_mixed(relax(made.graph, edges=edges)).double()  # type: ignore[arg-type]
    alphas = Alphas(made.choices, list(network.names), "normal", torch.Generator().manual_seed(0)).double()
    x = doubles(3, 2, 4, 4)
    seen = set()
    for seed in range(20):
        drawn = alphas.sample("single", 1.0, torch.Generator().manual_seed(seed))
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


def test_single_path_equals_mixture_with_one_hot_weights() -> None:
    """What is not drawn is not run; the drawn path's weight has a gradient, its alternatives' is nothing: they were
    not looked at (GDAS, section 3.2: the outputs of what was not drawn are left out of both passes)."""
    made = tiny()
    network = lower_mixed(relax(made.graph)).double().train()
    alphas = Alphas(made.choices, list(network.names), "normal", torch.Generator().manual_seed(0)).double()
    x = images(8).images.double()
    seen = set()
    for seed in range(12):
        drawn = alphas.sample("single", 1.0, torch.Generator().manual_seed(seed))
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
def test_folded_norm_gradients_equal_explicit_mixture(layout: torch.memory_format) -> None:
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

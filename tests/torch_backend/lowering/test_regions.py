"""Networks in compiled regions: the figures of the plain network, and few kinds of functions."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

import archir
from archir.backends.ranges import ranged_inputs
from archir.base.errors import ArchError
from archir.ir.graph import Graph
from archir.passes.spaces.relax import relax
from archir.search.recipes.training import Training
from archir.search.spaces.space import Space
from archir_torch.lowering import regions
from archir_torch.lowering.depthwise import compile_network
from archir_torch.lowering.module import Network, lower
from archir_torch.lowering.regions import Kinds, impossible
from archir_torch.measuring.latency import random_input
from archir_torch.search.job import Job, made
from archir_torch.supernet.tuning import Plan, planned
from archir_torch.training import learner
from archir_torch.training.learner import in_regions
from tests.examples import NETS, made_small
from tests.portions import portion
from tests.torch_backend.searches import job, tiny

BLOCK = "conv(4, kernel=3) |> batch_norm |> relu"
PLAIN = f"""
net plain() {{
    input x: f32[1, 8, 8]
    x = x |> conv(4, kernel=3) |> batch_norm |> relu
    y = x |> {BLOCK} |> {BLOCK} |> conv(4, kernel=5, groups=4, bias=false)
    output logits = x + y |> relu |> global_avg_pool |> linear(3)
}}
"""
CELL = """choose {
        skip: identity
        pool: max_pool(3, stride=1) |> batch_norm(affine=false)
        wide: conv(4, kernel=5, groups=4, bias=false) |> conv(4, bias=false) |> batch_norm(affine=false)
        norm: conv(4, kernel=3, bias=false) |> batch_norm
    }"""
MIXED = f"""
net mixed() {{
    input x: f32[1, 8, 8]
    x = x |> conv(4, kernel=3) |> batch_norm
    x = x |> choose one {CELL.removeprefix("choose ")}
    x = x |> relu |> choose other {CELL.removeprefix("choose ")}
    output logits = x |> relu |> global_avg_pool |> linear(3)
}}
"""


def graph(text: str) -> Graph:
    return archir.loads(text).graph


def step(network: Network, **more: Any) -> tuple[list[Tensor], list[Tensor]]:
    """Output and gradients of a step, and buffers after it."""
    x = torch.randn(5, 1, 8, 8, generator=torch.Generator().manual_seed(1))
    y = network(x, **more)
    wanted = [p for p in [*network.parameters(), *more.get("weights", {}).values()] if p.requires_grad]
    return [y.detach(), *torch.autograd.grad(y.square().sum(), wanted)], [b.clone() for b in network.buffers()]


def close(network: Network, other: Network, **more: Any) -> None:
    for one, two in zip(step(network, **more), step(other, **more), strict=True):
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-4)


def test_a_network_in_regions_computes_the_same_and_blocks_share_functions() -> None:
    plain, compiled, kinds = lower(graph(PLAIN)).train(), lower(graph(PLAIN)).train(), Kinds("aot_eager")
    compile_network(compiled, kinds)
    close(plain, compiled)
    assert kinds.compiled() == 3, "norm and relu of all three blocks, sum and relu, the depthwise filter's gradient"
    with torch.no_grad():
        for network in (plain, compiled):
            for parameter in network.parameters():
                parameter.mul_(1.5)
    close(plain, compiled)
    assert kinds.compiled() == 3, "weights are arguments"
    x = torch.randn(2, 1, 8, 8)
    assert torch.equal(plain.eval()(x), compiled.eval()(x)), "what is evaluated runs as it did"


@pytest.mark.parametrize("still", [False, True])
def test_mixtures_in_regions_compute_the_same(still: bool) -> None:
    space, kinds = relax(graph(MIXED)), Kinds("aot_eager")
    plan = Plan(channels_last=True, depthwise=True)
    plain, compiled = planned(space, plan).train(), planned(space, plan).train()
    compile_network(compiled, kinds)
    for network in (plain, compiled):
        network.requires_grad_(not still)
    numbers = torch.Generator().manual_seed(2)
    weights = {name: torch.rand(count, generator=numbers).requires_grad_(still) for name, count in plain.names.items()}
    close(plain, compiled, weights=weights)
    found = kinds.compiled()
    close(plain, compiled, weights=weights)
    assert kinds.compiled() == found


def test_where_nothing_can_be_compiled_the_reason_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    network = lower(graph(PLAIN))
    monkeypatch.setattr(regions.shutil, "which", lambda name: None)
    in_regions(network, Training(), "cpu")
    with pytest.raises(ArchError, match="no C\\+\\+ compiler") as raised:
        in_regions(network, Training(compile=True), "cpu")
    assert raised.value.diagnostics[0].hint == "training.compile = false"
    with pytest.raises(ArchError, match="cuda_graphs"):
        in_regions(network, Training(compile=True), "cuda:0")


def test_supernets_say_that_they_are_not_compiled() -> None:
    with pytest.raises(ArchError, match="change with every path"):
        made(changed(job("spos", {})))


@pytest.mark.filterwarnings("ignore:The .grad attribute")  # torch's own, where it compiles a function again
@pytest.mark.parametrize("net", portion(NETS, []))
def test_examples_run_in_regions(net: str) -> None:
    space = Space(made_small(net))
    one = space.specialize(space.sample(1)) if space.choices else space.graph
    inputs = [random_input(kind, 4, torch.Generator().manual_seed(1)) for kind in ranged_inputs(one).values()]
    plain, compiled = lower(one).train(), lower(one).train()
    compile_network(compiled, Kinds("eager"))
    found = []
    for network in (plain, compiled):
        torch.manual_seed(0)
        found.append(network(*inputs))
    torch.testing.assert_close(found[1], found[0], rtol=1e-3, atol=1e-4)


@pytest.mark.soak
@pytest.mark.parametrize("name", ["darts", "train"])
def test_searches_train_alike(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learner, "Kinds", partial(Kinds, "aot_eager"))
    one = job(name, {})
    if name == "train":
        one = replace(one, architecture=dict(tiny().sample(0)))
    losses = [[float(trainee.step(index)["loss"]) for index in range(3)] for trainee in (made(one), made(changed(one)))]
    assert losses[1] == pytest.approx(losses[0], rel=1e-3)


@pytest.mark.soak
@pytest.mark.skipif(bool(impossible()), reason="inductor needs a C++ compiler")
def test_inductor_computes_the_same() -> None:
    plain, compiled = lower(graph(PLAIN)).train(), lower(graph(PLAIN)).train()
    compile_network(compiled, Kinds())
    close(plain, compiled)


def changed(one: Job) -> Job:
    """A job whose training is compiled."""
    training = one.phase.training.model_copy(update={"compile": True})
    return replace(one, phase=one.phase.model_copy(update={"training": training}))

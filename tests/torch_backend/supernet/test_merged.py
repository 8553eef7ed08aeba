"""Merged siblings and other ways to run a mixture: values, gradients and statistics are those of the plain network."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, cast

import pytest
import torch
from torch import Tensor

import archir
from archir.diagnostics.errors import ArchError
from archir.ir.graph import Graph
from archir.ir.verify import verify
from archir.passes.batch import batch
from archir.passes.cse import cse, merge_siblings
from archir.passes.relax import relax
from archir_torch.lowering.weights import load_weights, save_weights
from archir_torch.search.job import create_strategy
from archir_torch.strategies.relaxed import Relaxed
from archir_torch.supernet.mixture import MixedNetwork, lower_mixed
from archir_torch.supernet.tuning import Plan, lower_with_plan, tuned
from tests.examples import elaborated
from tests.soak import with_soak
from tests.torch_backend.searches import job

SPACES = {
    "darts": ("darts/darts.arch:darts", {"channels": 4, "cells": 3, "affine": False, "zero": True, "size": 8}),
    "nos": ("nos/nos.arch:nos", {"channels": 16, "cells": 3, "affine": False, "size": 8}),
    "autola": ("autola/autola.arch", {"zero": True, "affine": False, "size": 8, "depth": 8, "order": 2}),
    "autola, order 4": ("autola/autola.arch", {"zero": True, "affine": False, "size": 8, "depth": 8}),
    "nas_bench_201": ("nas_bench_201/nas_bench_201.arch", {"size": 8, "cells": 1}),
}
PLANS = [Plan(), Plan(channels_last=True), Plan(depthwise=True), Plan(batch=True), Plan(True, True, True)]


def relaxed(name: str) -> Graph:
    path, parameters = SPACES[name]
    space = elaborated(path)
    known = {key: value for key, value in parameters.items() if key in space.graph.parameters}
    return relax(elaborated(path, **known).graph)


Results = tuple[Tensor, dict[str, Tensor], dict[str, Tensor]]


def outcome(network: MixedNetwork, state: Mapping[str, Tensor]) -> Results:
    """The sum of squares of the outputs, its gradients by name, and what the state is afterwards."""
    network.load_state_dict(state)
    network.double().train()
    numbers = torch.Generator().manual_seed(0)
    x = torch.randn(4, 3, 8, 8, generator=numbers, dtype=torch.float64)
    weights = {
        name: torch.rand(count, generator=numbers, dtype=torch.float64).requires_grad_()
        for name, count in network.names.items()
    }
    result = network(x, weights=weights)
    loss = sum(y.square().sum() for y in (result.values() if isinstance(result, dict) else [result]))
    wanted = {**weights, **dict(network.named_parameters())}
    gradients = torch.autograd.grad(loss, list(wanted.values()), allow_unused=True)
    found = {name: gradient for name, gradient in zip(wanted, gradients, strict=True) if gradient is not None}
    return loss.detach(), found, network.state_dict()


def same(one: Results, other: Results) -> None:
    torch.testing.assert_close(one[0], other[0], rtol=1e-10, atol=1e-10)
    size = max(float(gradient.abs().max()) for gradient in one[1].values())
    for found, wanted in zip(other[1:], one[1:], strict=True):
        assert found.keys() == wanted.keys()
        for name in wanted:
            torch.testing.assert_close(found[name], wanted[name], rtol=1e-8, atol=1e-10 * size, msg=name)


@pytest.mark.parametrize("name", with_soak(SPACES, ["nas_bench_201"]))
def test_every_plan_equals_plain_mixture(name: str) -> None:
    graph = relaxed(name)
    plain = lower_mixed(graph)
    state = {key: value.clone() for key, value in plain.state_dict().items()}
    wanted = outcome(plain, state)
    for plan in PLANS:
        same(wanted, outcome(lower_with_plan(graph, plan), state))


@pytest.mark.parametrize("seed", with_soak(range(12), range(5)))
def test_merged_random_siblings_equal_plain_mixture(seed: int) -> None:
    graph = relax(archir.loads(random_program(random.Random(seed))).graph)
    plain = lower_mixed(graph)
    state = {key: value.clone() for key, value in plain.state_dict().items()}
    wanted = outcome(plain, state)
    for merged in (merge_siblings(graph), batch(cse(graph)), batch(merge_siblings(graph))):
        verify(merged)
        same(wanted, outcome(lower_mixed(merged), state))


def random_program(rng: random.Random) -> str:
    """Layers of choices among convolutions, alone or with norms and ReLUs behind them, that read the same maps."""
    lines = []
    values = ["x"]
    for layer in range(3):
        for i in range(rng.randint(1, 3)):
            read = rng.choice(values)
            alternatives = []
            for j in range(rng.randint(1, 4)):
                groups = rng.choice([1, 2, 4])
                kernel, bias = rng.choice([1, 3]), rng.choice(["true", "false"])
                chain = f"{read} |> conv(4, kernel={kernel}, groups={groups}, bias={bias})"
                if rng.random() < 0.7:
                    chain += f" |> batch_norm(affine={rng.choice(['true', 'false'])})"
                if rng.random() < 0.5:
                    chain += f" |> relu |> conv(4, kernel={rng.choice([1, 3])}, groups={groups})"
                alternatives.append(f"a{j}: {chain}")
            pool = f"p: {read} |> max_pool(kernel=3, stride=1) |> batch_norm(affine=false)"
            lines.append(f"    v{layer}_{i} = choose c{layer}_{i} {{ {', '.join([*alternatives, pool])} }}")
            values.append(f"v{layer}_{i}")
    body = "\n".join(lines)
    head = "net n() {\n    input image: f32[3, 8, 8]\n    x = image |> conv(4)"
    return f"{head}\n{body}\n    output y = {' + '.join(values)}\n}}"


def test_siblings_become_one_wide_operation() -> None:
    graph = relax(relaxed("darts"))
    counts = [sum(g[n].op.name == "conv" for n in g) for g in (graph, batch(cse(graph)))]
    assert counts[1] < counts[0] / 2


def test_norms_of_the_same_pool_become_one() -> None:
    graph = relaxed("darts")
    norms = [sum(g[n].op.name == "batch_norm" for n in g) for g in (cse(graph), merge_siblings(graph))]
    assert norms[1] < norms[0]


def test_norms_with_weights_are_not_shared() -> None:
    program = (
        "net n() {\n    input x: f32[4, 8, 8]\n    output y = choose c { a: x |> batch_norm, b: x |> batch_norm }\n}"
    )
    graph = relax(archir.loads(program).graph)
    assert sum(g.op.name == "batch_norm" for g in (merge_siblings(graph)[n] for n in merge_siblings(graph))) == 2


def test_weights_of_merged_nodes_are_saved_and_loaded(tmp_path: object) -> None:
    graph = relaxed("darts")
    one, other = lower_with_plan(graph, Plan(batch=True)), lower_with_plan(graph, Plan())
    x = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    weights = {name: torch.full((count,), 1 / count) for name, count in one.names.items()}
    one(x, weights=weights)  # statistics move
    save_weights(one, tmp_path / "weights.safetensors")  # type: ignore[operator]
    load_weights(other, tmp_path / "weights.safetensors")  # type: ignore[operator]
    with torch.no_grad():
        torch.testing.assert_close(one.eval()(x, weights=weights), other.eval()(x, weights=weights))


def test_weights_start_the_same_under_every_plan() -> None:
    graph = relaxed("nas_bench_201")
    states = [lower_with_plan(graph, plan, generator=torch.Generator().manual_seed(5)).state_dict() for plan in PLANS]
    for state in states[1:]:
        assert state.keys() == states[0].keys()
        assert all(torch.equal(state[name], states[0][name]) for name in state)


def test_tuning_has_no_side_effects_and_accepts_given_plan() -> None:
    graph, x = relaxed("nas_bench_201"), torch.randn(2, 3, 8, 8)
    said: list[str] = []
    before = torch.get_rng_state()
    network, plan = tuned(graph, [x], rounds=1, say=said.append, generator=torch.Generator().manual_seed(5))
    assert torch.equal(before, torch.get_rng_state())
    assert len(said) == 3
    fresh = lower_with_plan(graph, plan, generator=torch.Generator().manual_seed(5)).state_dict()
    assert all(torch.equal(value, fresh[name]) for name, value in network.state_dict().items())
    assert tuned(graph, [x], plan=Plan(batch=True))[1] == Plan(batch=True)
    _, settled = tuned(graph, [x], rounds=1, layout="channels_last", batch=False)
    assert settled.channels_last
    assert not settled.batch


def test_unknown_precisions_are_refused() -> None:
    message = "A1109.*there is no precision `bfloat16`: precisions are `auto`, `float32`, `bf16` and `fp16`"
    with pytest.raises(ArchError, match=message):
        tuned(relaxed("nas_bench_201"), [torch.randn(2, 3, 8, 8)], rounds=1, precision="bfloat16")


def test_search_uses_recorded_plan() -> None:
    """A phase that goes on later runs as it began, whatever would be measured then."""
    asked: list[str] = []

    def decided(name: str, decide: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
        asked.append(name)
        assert set(decide()) == {"channels_last", "depthwise", "batch"}
        return {"channels_last": True, "depthwise": False, "batch": False}

    search = cast(Relaxed, create_strategy(replace(job(options={"tune": True}), decide_once=decided)))
    assert asked == ["plan"]
    assert search.network.layout is torch.channels_last
    assert cast(Relaxed, create_strategy(job())).network.layout is None

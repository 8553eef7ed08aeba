"""Channels by importance: the network computes the same."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

import archir
from archir.backends.input_ranges import ranged_inputs
from archir.diagnostics.errors import ArchError
from archir.ir.graph import Graph
from archir.recipes.recipe import Start
from archir.spaces.completion import largest
from archir.spaces.space import Space
from archir_torch.lowering.module import lower
from archir_torch.reuse import IMPORTANCES, Trained, importance
from archir_torch.reuse.measures import measure_of
from archir_torch.reuse.order import order_channels
from archir_torch.reuse.units import ChannelUnits
from archir_torch.search.job import create_strategy
from archir_torch.supernet import extract
from tests.conftest import EXAMPLES
from tests.examples import NETS
from tests.soak import with_soak
from tests.torch_backend.tried import elastic, job

FEW = [
    "tasks/language/gpt.arch:gpt",
    "zoo/llama.arch:llama",
    "autola/baselines.arch:cifar",
    "tasks/shapes/shapes.arch:shapes",
]
EVERYTHING = """
net everything() {
    input image: f32[3, 6, 6]
    x = image |> conv(8, kernel=3) |> batch_norm |> relu
    x = x + (x |> conv(8, kernel=3, groups=4) |> group_norm(4) |> silu)
    x = x |> conv(8, kernel=3, groups=8) |> batch_norm
    x = x |> conv(16, kernel=1, groups=2) |> channel_shuffle(2) |> conv(8, kernel=1, groups=4)
    gate = x |> global_avg_pool(keep=true) |> conv(2, kernel=1) |> relu |> conv(8, kernel=1) |> sigmoid
    x = concat(x * gate, x |> max_pool(3, stride=1, padding=1))
    t = x |> to_tokens |> layer_norm
    a = attention(t |> linear(24), t |> linear(12), t |> linear(12), heads=8, kv_heads=4)
    t = (t |> linear(24)) + a
    gates = t |> linear(20)
    h = (gates[0:10] |> sigmoid) * gates[10:20]
    output logits = h |> flatten |> linear(5)
}
"""
"""Residual sums, groups, depthwise, shuffled, gates, concatenated, grouped-query heads, halves, flattened."""


def weights_of(graph: Graph, seed: int = 0) -> dict[str, Tensor]:
    """Weights and statistics that differ from channel to channel."""
    generator = torch.Generator().manual_seed(seed)
    given = lower(graph, generator=generator).state_dict()
    return {
        name: one + 0.2 * torch.rand(one.shape, generator=generator) if one.is_floating_point() else one
        for name, one in given.items()
    }


def computed(graph: Graph, weights: Mapping[str, Tensor], seed: int = 3) -> list[Tensor]:
    module = lower(graph).double().eval()
    module.load_state_dict({name: weights[name].double() for name in module.state_dict()})
    generator = torch.Generator().manual_seed(seed)
    inputs = [
        torch.randn(2, *x.shape, generator=generator, dtype=torch.double)
        if x.is_floating
        else torch.randint(0, x.integer_limit or 2, (2, *x.shape), generator=generator)
        for x in ranged_inputs(graph).values()
    ]
    with torch.no_grad():
        found = module(*inputs)
    return list(found.values()) if isinstance(found, dict) else [found]


@pytest.mark.parametrize("name", with_soak(list(NETS), FEW))
def test_channel_ordering_keeps_outputs_of_examples(name: str) -> None:
    file, net = name.split(":")
    space = archir.load(f"{EXAMPLES / file}:{net}", **NETS[name])
    graph = space.specialize(space.sample(0))
    weights = weights_of(graph)
    found = order_channels(Trained(graph, weights), "l1")
    assert {key: one.shape for key, one in found.items()} == {key: one.shape for key, one in weights.items()}
    assert any(not torch.equal(found[key], weights[key]) for key in weights)
    for one, other in zip(computed(graph, weights), computed(graph, found), strict=True):
        assert (one - other).abs().max() <= 1e-9 * one.abs().max()


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("tokens", range(3, 9))
def test_distinct_biased_heads_are_not_reordered(tokens: int, causal: bool) -> None:
    """Of two, every second draw is the order that they have, in which anything holds."""
    attended = f"attention(x, x, x, bias, heads=2, causal={'true' if causal else 'false'})"
    bias = f"parameter([2, {tokens}, {tokens}])"
    graph = archir.loads(f"net n {{\ninput x: f32[{tokens}, 8]\nbias = {bias}\noutput y = {attended}\n}}").graph
    (claim,) = (claim for number, claim in ChannelUnits(graph).claims.items() if graph[number].op.name == "attention")
    assert (claim.chunks, claim.across) == (2, False)


def test_channel_ordering_keeps_outputs_of_all_op_kinds() -> None:
    """Nearly all weights move; the rows of a plain layer, and of whole groups, fall."""
    graph = archir.loads(EVERYTHING).graph
    weights = weights_of(graph)
    found = order_channels(Trained(graph, weights), "l2")
    assert [key for key in weights if torch.equal(found[key], weights[key])] == ["linear_6.bias"]
    rows = found["linear_5.weight"].square().mean(1).sqrt()
    halves = (rows[:10] + rows[10:]).tolist()
    assert halves == sorted(halves, reverse=True)
    for one, other in zip(computed(graph, weights), computed(graph, found), strict=True):
        assert (one - other).abs().max() <= 1e-9 * one.abs().max()


CHAIN = "net n {\n input x: f32[6]\n h = x |> linear(8) |> relu\n output y = h |> linear(3)\n}\n"


def test_channels_are_sorted_by_importance() -> None:
    graph = archir.loads(CHAIN).graph
    weights = weights_of(graph)
    for name, power in (("l1", 1), ("l2", 2)):
        rows = order_channels(Trained(graph, weights), name)["linear.weight"].abs().pow(power).mean(1)
        assert rows.tolist() == sorted(rows.tolist(), reverse=True)


@pytest.mark.parametrize("name", ["activation", "taylor"])
def test_a_channel_that_does_nothing_is_last(name: str) -> None:
    """By activation: it is always zero. By Taylor: nobody reads it, however large it is."""
    graph = archir.loads(CHAIN).graph
    weights = weights_of(graph)
    if name == "activation":
        weights["linear.weight"][2] = 0
        weights["linear.bias"][2] = 0
    else:
        weights["linear_2.weight"][:, 2] = 0
    batches = [(torch.rand(7, 6, generator=torch.Generator().manual_seed(i)),) for i in range(2)]

    def loss(call: Any, number: int) -> Tensor:
        found: Tensor = call(*batches[number])
        return found.square().sum()

    found = order_channels(Trained(graph, weights, batches, loss), name)
    part = found["linear.weight"][-1] if name == "activation" else found["linear_2.weight"][:, -1]
    assert not part.any()
    with pytest.raises(ArchError, match=r"A2221.*needs samples"):
        order_channels(Trained(graph, weights), name)


def test_taylor_does_not_depend_on_how_samples_are_batched() -> None:
    graph = archir.loads(CHAIN).graph
    weights, samples = weights_of(graph), torch.randn(12, 6, generator=torch.Generator().manual_seed(0))
    found = []
    for size in (1, 4, 12):
        batches = [(part,) for part in samples.split(size)]

        def loss(call: Any, number: int, batches: list[tuple[Tensor, ...]] = batches) -> Tensor:
            result: Tensor = call(*batches[number])
            return result.square().sum(1).mean()

        found.append(measure_of("taylor")(Trained(graph, weights, batches, loss)))
    for other in found[1:]:
        for number, values in found[0].items():
            torch.testing.assert_close(other[number], values)


def test_plugin_importance_orders_channels() -> None:
    @importance
    def upside_down(trained: Trained) -> Mapping[int, Tensor]:
        return {number: -score for number, score in IMPORTANCES["l1"](trained).items()}

    try:
        graph = archir.loads(CHAIN).graph
        rows = order_channels(Trained(graph, weights_of(graph)), "upside_down")["linear.weight"].abs().mean(1)
        assert rows.tolist() == sorted(rows.tolist())
    finally:
        del IMPORTANCES["upside_down"]
    with pytest.raises(ArchError, match=r"A2221.*no importance measure `l3`"):
        order_channels(Trained(graph, weights_of(graph)), "l3")


@pytest.mark.parametrize("measure", ["l1", "taylor"])
def test_supernet_starts_from_ordered_weights(measure: str) -> None:
    """Its largest network computes what the trained one did, with other channels first."""
    space: Space = elastic()
    whole = space.specialize(largest(space))
    weights = weights_of(whole)
    given = replace(job("sandwich", start=Start(weights="x.safetensors", order=measure)), weights=weights)
    network = extract(create_strategy(given).network, largest(space))  # type: ignore[attr-defined]
    own = network.state_dict()
    assert any(not torch.equal(own[name], weights[name]) for name in weights)
    for one, other in zip(computed(whole, weights), computed(whole, own), strict=True):
        assert (one - other).abs().max() <= 1e-5 * one.abs().max()
    lacking = replace(given, weights={name: one for name, one in weights.items() if "linear" not in name})
    with pytest.raises(ArchError, match=r"A2221.*starts without weights of it: `linear.weight`"):
        create_strategy(lacking)


@pytest.mark.parametrize("time", ["i64[] |> embedding(10, 6)", "f32[] |> relu"])
def test_channel_ordering_handles_inputs_without_channels(time: str) -> None:
    kind, _, rest = time.partition(" |> ")
    net = f"net n {{\n input x: f32[8]\n input t: {kind}\n e = t |> {rest}\n h = x |> linear(6) |> relu\n"
    body = " output y = (h + e) |> linear(3)\n" if kind == "i64[]" else " output y = h |> linear(3)\n output z = e\n"
    assert_computes_the_same(archir.loads(net + body + "}\n").graph, 0)


def assert_computes_the_same(graph: Graph, seed: int) -> None:
    weights = weights_of(graph, seed)
    found = order_channels(Trained(graph, weights), "l1")
    assert any(not torch.equal(found[key], weights[key]) for key in weights)
    for one, other in zip(computed(graph, weights), computed(graph, found), strict=True):
        assert (one - other).abs().max() <= 1e-9 * one.abs().max()


@pytest.mark.parametrize("seed", with_soak(range(300), [3, 10, 41, 150]))
def test_channel_ordering_keeps_attention_output(seed: int) -> None:
    """Of heads that share keys and values, and heads of one channel."""
    rng = random.Random(seed)
    kv_heads, shared, width = rng.choice([1, 2, 3, 4]), rng.choice([1, 2, 3]), rng.choice([1, 2, 3])
    heads, causal = kv_heads * shared, rng.choice(["true", "false"])
    values, window = rng.choice([width, 1, 2]), rng.choice(["", ", window=2"])
    net = f"""
net n {{
    input x: f32[5, 7]
    q = x |> linear({heads * width})
    k = x |> linear({kv_heads * width})
    v = x |> linear({kv_heads * values})
    a = attention(q, k, v, heads={heads}, kv_heads={kv_heads}, causal={causal}{window})
    output y = x |> linear(6) |> relu |> linear(2)
    output z = a |> linear(3)
}}
"""
    assert_computes_the_same(archir.loads(net).graph, seed)

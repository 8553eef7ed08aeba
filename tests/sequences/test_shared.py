"""Weights that calls share on purpose: tied embeddings, layers that are applied again, steps of a loop."""

from __future__ import annotations

import random
from math import prod
from pathlib import Path

import onnx
import pytest
import torch
from safetensors import safe_open

import archir
from archir.diagnostics.errors import ArchError
from archir.ir.verify import verify
from archir.passes.batch import batch
from archir.passes.cse import merge_siblings
from archir.passes.relax import relax
from archir_torch import BACKEND as TORCH
from archir_torch.export.source.emit import emit
from archir_torch.lowering.weights import save_weights
from archir_torch.supernet.mixture import lower_mixed
from tests.architectures import inputs_of
from tests.sequences.laws import assert_deploys, assert_shared

ALBERT = """
block layer(x, heads) {
    y = x |> layer_norm
    x = x + attention(y |> linear(x.features), y, y, heads=heads, causal=true)
    return x + (x |> layer_norm |> linear(choose ratio(2, 4) * x.features) |> gelu |> linear(x.features))
}
net albert(vocabulary = 50, context = 12) {
    input tokens: i64[context]
    x = tokens |> embedding(vocabulary, choose width(16, 24), weights="table")
    heads = choose heads(2, 4)
    repeat choose depth(1, 2, 3) {
        x = x |> layer(heads, weights="layer")
    }
    output logits = x |> layer_norm |> linear(vocabulary, bias=false, weights="table")
}
"""


def test_albert_supernet_equals_subnetworks_and_deploys(tmp_path: Path) -> None:
    space = archir.loads(ALBERT)
    assert space.size == 2 * 2 * 3 * 2  # the layer's choice is made once
    verify(space.graph)
    assert_shared(space, 8)
    assert_deploys(space.specialize(space.sample(random.Random(2))), tmp_path)


def largest() -> archir.Graph:
    space = archir.loads(ALBERT)
    outcomes = {"width": 16, "heads": 2, "depth": 3, "layer.ratio": 2}
    return space.specialize(space.architecture(outcomes))


def test_shared_weights_are_counted_and_stored_once(tmp_path: Path) -> None:
    graph = largest()
    layer = (16 + 16) + (16 * 16 + 16) + (16 + 16) + (16 * 32 + 32) + (32 * 16 + 16)
    assert archir.cost(graph).params == 50 * 16 + layer + 32
    module = TORCH.lower(graph)
    assert sum(p.numel() for p in module.parameters()) == archir.cost(graph).params
    save_weights(module, tmp_path / "net.safetensors")
    with safe_open(tmp_path / "net.safetensors", "pt") as held:
        assert sorted(held.keys()) == sorted(module.state_dict())
    archir.export(graph, tmp_path / "net.onnx", module, opset=23, attention="decomposed", deployed=False)
    kept = onnx.load(tmp_path / "net.onnx").graph.initializer
    assert sum(prod(one.dims) for one in kept if not one.name.startswith("constant")) == archir.cost(graph).params


def test_tied_weight_gradient_is_sum_over_uses() -> None:
    """A table that is tied gets what it gets as an embedding and as the last layer."""
    text = "net n {{\n input t: i64[3]\n output y = t |> embedding(7, 4{}) |> relu |> linear(7, bias=false{})\n}}"
    tied = TORCH.lower(archir.loads(text.format(', weights="w"', ', weights="w"')).graph)
    apart = TORCH.lower(archir.loads(text.format("", "")).graph)
    table = torch.randn(7, 4)
    tied.load_state_dict({"w.weight": table})
    apart.load_state_dict({"embedding.weight": table, "linear.weight": table})
    tokens = torch.tensor([[1, 4, 1]])
    for module in (tied, apart):
        module(tokens).square().sum().backward()
    (one,), others = tied.parameters(), [p.grad for p in apart.parameters()]
    torch.testing.assert_close(one.grad, sum(others))


def test_parametrized_shared_layer_applies_to_all_uses() -> None:
    """What is done to the first operation's layer, such as a parametrization, holds for the other one."""
    text = """
    net n {
        input t: i64[3]
        output y = t |> embedding(7, 4, weights="w") |> linear(7, bias=false, weights="w")
    }
    """
    module = TORCH.lower(archir.loads(text).graph)
    torch.nn.utils.parametrizations.weight_norm(module.get_submodule("w"))
    found = module(torch.tensor([[1, 4, 1]]))
    table = module.get_submodule("w").weight
    torch.testing.assert_close(found[0, 0], table[1] @ table.T)


def test_emitted_file_reuses_tied_embedding() -> None:
    text = emit(largest())
    assert "F.linear(" in text
    assert "self.table.weight" in text
    assert text.count("nn.Embedding(50, 16)") == 1


UNROLLED = """
block step(x, h, width) {
    return tanh(linear(x, width) + linear(h, width, bias=false))
}
block rnn(x, width) {
    h = zero(x[0:width] |> slice(0, 1, axis=0))
    states = []
    for i in 0..x.tokens {
        h = step(x |> slice(i, i + 1, axis=0), h, width, weights="cell")
        states = states + [h]
    }
    return concat(states, axis=0)
}
net tagger {
    input x: f32[5, 8]
    output y = x |> rnn(choose width(4, 8)) |> rnn(4) |> linear(3)
}
"""


def test_unrolled_loop_steps_share_cell_weights(tmp_path: Path) -> None:
    space = archir.loads(UNROLLED)
    assert_shared(space, 2)
    graph = space.specialize(space.sample(random.Random(0)))
    assert_deploys(graph, tmp_path)
    names = {name.split(".")[0] for name in TORCH.lower(graph).state_dict()}
    assert names == {"rnn", "rnn_2", "linear"}
    (x,) = inputs_of(graph)
    module = TORCH.lower(graph)
    width = graph.inputs and module.state_dict()["rnn.cell.linear.weight"].shape[0]
    reference = torch.nn.RNN(8, width, batch_first=True)
    held = {name.removeprefix("rnn.cell."): t for name, t in module.state_dict().items() if name.startswith("rnn.")}
    reference.load_state_dict(
        {
            "weight_ih_l0": held["linear.weight"],
            "bias_ih_l0": held["linear.bias"],
            "weight_hh_l0": held["linear_2.weight"],
            "bias_hh_l0": torch.zeros(width),
        }
    )
    first = archir.loads(UNROLLED.replace("|> rnn(4) |> linear(3)", "").replace("choose width(4, 8)", str(width))).graph
    alone = TORCH.lower(first)
    alone.load_state_dict({f"rnn.cell.{name}": tensor for name, tensor in held.items()})
    torch.testing.assert_close(alone(x), reference(x)[0])


def test_block_parameter_may_be_named_weights() -> None:
    text = """
    block scaled(x, weights) { return x |> linear(weights) }
    net n {
        input x: f32[3]
        output y = x |> scaled(weights=2) |> scaled(weights=3)
    }
    """
    assert archir.cost(archir.loads(text).graph).params == (3 * 2 + 2) + (2 * 3 + 3)


def test_alternatives_may_share_weights() -> None:
    text = """
    net n {
        input x: f32[4]
        output y = x |> choose op {
            once: linear(4, weights="w")
            twice: linear(4, weights="w") |> linear(4, weights="w")
            other: linear(4)
        }
    }
    """
    space = archir.loads(text)
    assert_shared(space, 6)
    params = [archir.cost(space.specialize(one)).params for one in space.enumerate()]
    assert params == [20, 20, 20]
    assert sum(p.numel() for p in archir.supernet(space).parameters()) == 40


def test_hash_depends_on_sharing_but_not_on_its_name() -> None:
    """Not what they are called."""
    text = "net n {{\n input x: f32[4]\n output y = linear(x, 4{0}) |> relu |> linear(4{0})\n}}"
    shared, apart, again = (archir.loads(text.format(one)) for one in (', weights="w"', "", ', weights="v"'))
    hashes = [space.canonical(space.sample(0)) for space in (shared, apart, again)]
    assert hashes[0] == hashes[2] != hashes[1]


def test_shapes_must_agree_for_every_architecture() -> None:
    text = """
    net n {{
        input x: f32[4]
        w = choose w(2, 4)
        {}
        output y = x |> linear(4, weights="l") |> linear(w, weights="l")
    }}
    """
    with pytest.raises(ArchError, match=r"A0409.*the shared weights `l` would be weight \[2, 4\]"):
        archir.loads(text.format(""))
    archir.loads(text.format("require w == 4"))


def test_merging_siblings_keeps_shared_weights_correct() -> None:
    """Siblings become one wide operation, and norms of one tensor one norm, but for those whose weights others have."""
    text = """
    net n {
        input x: f32[4, 6, 6]
        a = x |> conv(4, weights="s") |> batch_norm(affine=false, weights="m")
        b = x |> conv(4) |> batch_norm(affine=false)
        c = x |> batch_norm(affine=false, weights="n") |> conv(4, weights="s")
        output y = a + b + c + batch_norm(x, affine=false) + batch_norm(a, affine=false, weights="n")
    }
    """
    graph = archir.loads(text).graph
    module = TORCH.lower(graph).train()
    x = torch.randn(5, 4, 6, 6)
    for other in (batch(graph), merge_siblings(graph)):
        verify(other)
        found = TORCH.lower(other).train()
        found.load_state_dict(module.state_dict())
        reference = TORCH.lower(graph).train()
        reference.load_state_dict(module.state_dict())
        torch.testing.assert_close(found(x), reference(x))
        assert found.state_dict().keys() == reference.state_dict().keys()
        for name, tensor in reference.state_dict().items():
            torch.testing.assert_close(found.state_dict()[name], tensor, msg=name)


def test_mixed_network_with_shared_weights_equals_each_architecture() -> None:
    text = """
    net n {
        input t: i64[6]
        x = t |> embedding(20, 8, weights="w")
        for i in 0..2 {
            x = x |> choose op { shared: linear(8, weights="l"), same: identity, own_one: linear(8), seen: seen(2) }
        }
        output y = x |> linear(20, bias=false, weights="w")
    }
    block seen(x, heads) {
        return attention(x, x, x, heads=heads, causal=true)
    }
    """
    space = archir.loads(text)
    mixed = lower_mixed(relax(space.graph)).eval()
    (tokens,) = inputs_of(space.graph)
    held = mixed.state_dict()
    for architecture in [space.sample(seed) for seed in range(4)]:
        network = TORCH.lower(space.specialize(architecture)).eval()
        network.load_state_dict({key: held[key] for key in network.state_dict()})
        weights = {name: torch.eye(length)[architecture.outcomes[name]] for name, length in mixed.names.items()}
        torch.testing.assert_close(mixed(tokens, weights=weights), network(tokens))

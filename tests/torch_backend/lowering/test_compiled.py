"""Networks with kernels: the figures of the plain network, for any widths, from one library."""

from __future__ import annotations

import gc
import subprocess
import weakref
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import archir
from archir.backends.input_ranges import ranged_inputs
from archir.diagnostics.errors import ArchError
from archir.ir.graph import Graph
from archir.passes.relax import relax
from archir.spaces.space import Space
from archir_torch.lowering.kernels import library
from archir_torch.lowering.kernels.library import unavailable_reason
from archir_torch.lowering.module import Layer, lower
from archir_torch.lowering.operations.random import dropout
from archir_torch.measuring.latency import random_input
from archir_torch.search.job import Job, create_strategy
from archir_torch.supernet.mixture import MixedNetwork
from archir_torch.supernet.network import SuperNetwork
from archir_torch.supernet.tuning import Plan, lower_with_plan
from tests.conftest import EXAMPLES
from tests.examples import NETS, small_graph
from tests.soak import with_soak
from tests.torch_backend.searches import job, tiny

needs_compiler = pytest.mark.skipif(bool(unavailable_reason()), reason="there is no C++ compiler")

PLAIN = """
net plain() {
    input x: f32[1, 8, 8]
    x = x |> conv(4, kernel=3) |> batch_norm |> relu
    y = x |> conv(4, kernel=5, groups=4, bias=false) |> conv(6, kernel=1, bias=false) |> batch_norm |> hard_swish
    y = y |> conv(6, kernel=3, groups=6, bias=false) |> conv(4, kernel=1, bias=false) |> batch_norm
    z = x |> relu |> conv(4, kernel=3, groups=4, dilation=2, bias=false)
    output logits = x + y + avg_pool(z, 3, stride=1) |> relu6 |> global_avg_pool |> linear(3)
    output map = y
}
"""
CELL = """choose {
        skip: identity
        none: zero
        pool: max_pool(3, stride=1) |> batch_norm(affine=false)
        wide: relu |> conv(4, kernel=5, groups=4, bias=false) |> conv(4, kernel=1, bias=false) |> batch_norm
        norm: conv(4, kernel=3, bias=false) |> batch_norm
    }"""
MIXED = f"""
net mixed() {{
    input x: f32[1, 8, 8]
    x = x |> conv(4, kernel=3) |> batch_norm
    x = x |> choose one {CELL.removeprefix("choose ")}
    y = x |> relu |> choose other {CELL.removeprefix("choose ")}
    output logits = x + y |> relu |> global_avg_pool |> linear(3)
}}
"""
WIDE = """
net wide() {
    input x: f32[1, 8, 8]
    width = choose width(5, 8, 19)
    x = x |> conv(width, kernel=3, bias=false) |> batch_norm |> hard_swish
    near = local_attention(conv(x, 8, kernel=1), conv(x, 8, kernel=1), x, kernel=3, heads=1)
    y = x |> choose block {
        deep: conv(width, kernel=5, groups=width, bias=false) |> conv(width, kernel=1, bias=false) |> batch_norm
        skip: identity
    }
    output logits = y + near |> relu |> global_avg_pool |> linear(3)
}
"""


def graph(text: str) -> Graph:
    return archir.loads(text).graph


def step(network: nn.Module, *inputs: Any, **more: Any) -> tuple[list[Tensor], list[Tensor]]:
    """Outputs and gradients of a step, and buffers after it."""
    x = torch.randn(5, 1, 8, 8, generator=torch.Generator().manual_seed(1)).to(next(network.parameters()).dtype)
    found = network(x, *inputs, **more)
    outputs = list(found.values()) if isinstance(found, Mapping) else [found]
    wanted = [p for p in [*network.parameters(), *more.get("weights", {}).values()] if p.requires_grad]
    gradients = torch.autograd.grad([y.square().sum() for y in outputs], wanted, allow_unused=True)
    return [*(y.detach() for y in outputs), *(g for g in gradients if g is not None)], list(network.buffers())


def close(network: nn.Module, other: nn.Module, *inputs: Any, **more: Any) -> None:
    for one, two in zip(step(network, *inputs, **more), step(other, *inputs, **more), strict=True):
        torch.testing.assert_close(one, two, rtol=1e-8, atol=1e-8)


@needs_compiler
def test_network_with_kernels_equals_plain_network() -> None:
    plain, compiled = lower(graph(PLAIN)).double().train(), lower(graph(PLAIN)).double().train()
    compiled.use_kernels()
    close(plain, compiled)
    x = torch.randn(2, 1, 8, 8, dtype=torch.double)
    compiled.load_state_dict(plain.state_dict())
    for network in (plain, compiled):
        network.eval()
    with torch.no_grad():
        one, two = plain(x), compiled(x)
    assert all(torch.equal(one[name], two[name]) for name in one), "what is evaluated runs as it did"


@needs_compiler
@pytest.mark.parametrize("still", [False, True])
@pytest.mark.parametrize("batch", [False, True])
def test_mixture_with_kernels_equals_plain_mixture(still: bool, batch: bool) -> None:
    space = relax(graph(MIXED))
    plain, compiled = (lower_with_plan(space, Plan(batch=batch)).double().train() for _ in range(2))
    compiled.use_kernels()
    for network in (plain, compiled):
        network.requires_grad_(not still)
    numbers = torch.Generator().manual_seed(2)
    weights = {
        name: torch.rand(count, generator=numbers, dtype=torch.double).requires_grad_(still)
        for name, count in plain.names.items()
    }
    close(plain, compiled, weights=weights)
    close(plain, compiled, weights=weights, active={name: [1, 3] for name in plain.names})
    assert kept(compiled, weights) < kept(plain, weights)


def kept(network: MixedNetwork, weights: Mapping[str, Tensor]) -> int:
    """Bytes of storages that are kept for gradients."""
    found: dict[int, Tensor] = {}

    def pack(tensor: Tensor) -> Tensor:
        found[tensor.untyped_storage().data_ptr()] = tensor.detach()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        network(torch.randn(5, 1, 8, 8, dtype=torch.double), weights=weights)
    return sum(tensor.untyped_storage().nbytes() for tensor in found.values())


@needs_compiler
def test_supernets_of_any_widths_need_one_library(monkeypatch: pytest.MonkeyPatch) -> None:
    library.load_library()
    monkeypatch.setattr(library.subprocess, "run", None)  # nothing is compiled from here on
    space = archir.loads(WIDE)
    plain, compiled = SuperNetwork(space.graph).double().train(), SuperNetwork(space.graph).double().train()
    compiled.load_state_dict(plain.state_dict())
    compiled.use_kernels()
    for architecture in space.enumerate():
        close(plain, compiled, architecture)


@needs_compiler
@pytest.mark.soak
@pytest.mark.parametrize("net", ["trionet/trionet.arch", "mobilenet_v3_ofa/mobilenet_v3_ofa.arch"])
def test_a_thousand_paths_need_one_library(net: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    run = subprocess.run
    monkeypatch.setattr(library.subprocess, "run", lambda *given, **more: calls.append(given) or run(*given, **more))
    sizes = {"size": 32} if "trionet" in net else {"resolution": 32}
    space = archir.load(EXAMPLES / net, **sizes)
    model = SuperNetwork(space.graph).train()
    model.use_kernels()
    for seed in range(1000):
        model.zero_grad()
        model(torch.randn(2, 3, 32, 32), space.sample(seed, policy="choices")).square().sum().backward()
    assert len(calls) <= 2, "what version the compiler is, and the library"


@needs_compiler
def test_replaced_layer_receives_materialized_maps() -> None:
    plain, compiled = lower(graph(PLAIN)).double().train(), lower(graph(PLAIN)).double().train()
    compiled.use_kernels()
    for network in (plain, compiled):
        named = {name.removesuffix(".weight"): p.shape for name, p in network.named_parameters()}
        name = next(name for name, shape in named.items() if shape == (6, 4, 1, 1))
        home, _, last = name.rpartition(".")
        torch.manual_seed(0)
        network.get_submodule(home).add_module(last, nn.Conv2d(4, 6, 1).double())
    close(plain, compiled)


@needs_compiler
def test_library_is_compiled_once_and_compiler_errors_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    sources = tmp_path / "source"
    sources.mkdir()
    monkeypatch.setattr(library, "SOURCE", sources)
    (sources / "library.cpp").write_text('extern "C" int one() { return 1; }\n')
    built = library.build_library()
    assert built.exists()
    assert library.build_library() == built
    assert [path.name for path in built.parent.iterdir()] == [built.name], "nothing is left beside it"
    (sources / "library.cpp").write_text("no program\n")
    with pytest.raises(ArchError, match=r"kernels cannot be compiled: .*error") as raised:
        library.build_library()
    assert raised.value.diagnostics[0].hint == "training.compile = false"


@needs_compiler
@pytest.mark.parametrize("net", with_soak(NETS, []))
def test_examples_with_kernels_equal_plain_networks(net: str) -> None:
    space = Space(small_graph(net))
    one = space.specialize(space.sample(1)) if space.choices else space.graph
    inputs = [random_input(kind, 4, torch.Generator().manual_seed(1)) for kind in ranged_inputs(one).values()]
    inputs = [x.double() if x.is_floating_point() else x for x in inputs]  # norms of few pixels magnify rounding
    plain, compiled = lower(one).double().train(), lower(one).double().train()
    compiled.use_kernels()
    found = []
    for network in (plain, compiled):
        for layer in network.modules():
            if isinstance(layer, Layer) and layer.function is dropout:  # is drawn in the order of memory
                layer.attributes["rate"] = 0.0
        torch.manual_seed(0)
        found.append(network(*inputs))
    torch.testing.assert_close(found[1], found[0], rtol=1e-6, atol=1e-7)


@needs_compiler
@pytest.mark.parametrize("name", ["darts", "train", "spos"])
def test_compiled_training_losses_equal_plain_losses(name: str) -> None:
    one = job(name, {})
    if name == "train":
        one = replace(one, architecture=dict(tiny().sample(0)))
    losses = [
        [float(trainee.step(index)["loss"]) for index in range(3)]
        for trainee in (create_strategy(one), create_strategy(changed(one)))
    ]
    assert losses[1] == pytest.approx(losses[0], rel=1e-3)


def changed(one: Job) -> Job:
    """A job whose training is compiled."""
    training = one.phase.training.model_copy(update={"compile": True})
    return replace(one, phase=one.phase.model_copy(update={"training": training}))


def test_functions_of_composite_operations_are_freed_with_their_supernet() -> None:
    space = archir.loads(
        "net n { input x: f32[4, 6, 6]\n a = x |> choose a { feature: relu, gate: relu |> as_gate }\n"
        " output y = calibrate(x, a, x) |> conv(choose w(2, 4)) }"
    )
    model = SuperNetwork(space.graph).train()
    model.use_kernels()
    plan = model.plan(space.sample(0))
    functions = [step.action.function for step in plan.steps]
    references = [weakref.ref(each) for each in functions if "<locals>" in getattr(each, "__qualname__", "")]
    assert references
    del model, plan, functions
    gc.collect()
    assert [each() for each in references if each() is not None] == []

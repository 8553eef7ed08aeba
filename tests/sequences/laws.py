"""Properties of spaces with any inputs: of their supernets, networks and exports."""

from __future__ import annotations

import random
from pathlib import Path

import torch

import archir
from archir.ir.graph import Graph
from archir.spaces.space import Space
from archir_onnx import BACKEND as ONNX
from archir_torch import BACKEND as TORCH
from archir_torch.export.source.emit import emit
from archir_torch.supernet.network import SuperNetwork, extract
from tests.architectures import inputs_of
from tests.torch_backend.export.test_emit import imported, last_class


def assert_shared(space: Space, count: int = 4, seed: int = 0) -> None:
    """Assert that an architecture computes the same in the supernet as its own network, with gradients of all used
    weights."""
    supernet = SuperNetwork(space.graph, torch.Generator().manual_seed(seed)).train()
    rng = random.Random(seed)
    for _ in range(count):
        architecture = space.sample(rng)
        network = extract(supernet, architecture)
        inputs = inputs_of(space.specialize(architecture))
        shared_output, own_output = supernet(*inputs, architecture), network(*inputs)
        pairs = (
            [(shared_output[name], own_output[name]) for name in own_output]
            if isinstance(own_output, dict)
            else [(shared_output, own_output)]
        )
        for actual, expected in pairs:
            torch.testing.assert_close(actual, expected)
        supernet.zero_grad()
        sum(actual.square().mean() for actual, _ in pairs).backward()
        used = supernet.used(architecture)
        for name, parameter in supernet.named_parameters():
            outside = ~used[name] if name in used else torch.ones_like(parameter, dtype=torch.bool)
            assert parameter.grad is None or not parameter.grad[outside].any(), name


def assert_deploys(graph: Graph, folder: Path, **form: object) -> None:
    """Assert that a network trains, costs what it holds, and is equal as a certified ONNX model and as a Python
    file."""
    module = TORCH.lower(graph).train()
    inputs = inputs_of(graph)
    results = module(*inputs)
    results = [*results.values()] if isinstance(results, dict) else [results]
    sum(actual.square().mean() for actual in results).backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in module.parameters())
    assert archir.cost(graph).params == sum(p.numel() for p in module.parameters())
    path = folder / "net.onnx"
    assert archir.export(graph, path, module.eval(), certified=True, **form).relative < 1e-4
    assert ONNX.verify(path).differences["CPUExecutionProvider"] < 1e-4
    text = emit(graph)
    emitted = getattr(imported(folder / "net.py", text), last_class(text))().eval()
    emitted.load_state_dict(module.state_dict())
    with torch.no_grad():
        module_output, emitted_output = module(*inputs), emitted(*inputs)
    pairs = (
        zip(module_output.values(), emitted_output.values(), strict=True)
        if isinstance(module_output, dict)
        else [(module_output, emitted_output)]
    )
    for actual, expected in pairs:
        torch.testing.assert_close(actual, expected, rtol=0, atol=0)

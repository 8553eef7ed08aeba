"""Properties of every architecture of every space: shapes, gradients, ONNX parity, and costs as torch counts them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

import archir
from archir.backends.input_ranges import ranged_inputs
from archir.ir.graph import Graph
from archir.ir.typing import infer
from archir.ops.attention import AxialAttention, LocalAttention
from archir_torch import BACKEND as TORCH
from archir_torch.lowering.rules import RULES, Rule
from archir_torch.measuring.latency import random_input


def assert_works(graph: Graph, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert that a network with one image input trains, exports, and has the computed costs."""
    module: nn.Module = TORCH.lower(graph).train()
    output = module(image_of(graph, 2))
    results = output.values() if isinstance(output, dict) else [output]
    sum(result.square().mean() for result in results).backward()
    gradients = [p.grad for p in module.parameters() if p.grad is not None]
    assert gradients
    assert all(gradient.isfinite().all() for gradient in gradients)
    cost = archir.cost(graph)
    assert sum(p.numel() for p in module.parameters()) == cost.params
    assert counted_macs(graph, monkeypatch) == cost.macs
    assert archir.export(graph, folder / "net.onnx", module.eval()).relative <= 1e-4


def image_of(graph: Graph, batch: int) -> Tensor:
    """Return random images of a network's input size."""
    (image,) = inputs_of(graph, batch, 0)
    return image


def inputs_of(graph: Graph, batch: int = 2, seed: int = 1) -> list[Tensor]:
    """Return random inputs; integers are within the range of the table that they index."""
    generator = torch.Generator().manual_seed(seed)
    return [random_input(kind, batch, generator) for kind in ranged_inputs(graph).values()]


def counted_macs(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return multiply-accumulates by torch's counter, and by closed formulas for operations that it does not see."""
    with monkeypatch.context() as patched:
        for op in (LocalAttention, AxialAttention):
            patched.setitem(RULES, op, Rule(lambda query, key, value, **weights: value * 1, ()))
        module = TORCH.lower(graph).eval().requires_grad_(False)  # the counter fails if a result is a parameter
    counter = FlopCounterMode(display=False)
    with counter, sdpa_kernel(SDPBackend.MATH), torch.no_grad():
        module(image_of(graph, 1))
    return sum(counter.get_flop_counts()["Global"].values()) // 2 + hidden_macs(graph)


def hidden_macs(graph: Graph) -> int:
    """Return the multiply-accumulates of operations whose fast form torch's counter does not see, by closed formulas.

    Local attention: positions x (window x (query + value channels) + side of the window x query channels).
    Axial attention: positions x span x (2 x query channels + value channels).
    """
    types, total = infer(graph), 0
    for number in graph:
        op = graph[number].op
        operands = [types[operand].shape for operand in graph.operands(number)]
        if isinstance(op, LocalAttention):
            (query, height, width), value = operands[0], operands[2][0]
            offsets = op.kernel * query if op.relative else 0
            total += height * width * (op.kernel**2 * (query + value) + offsets)
        if isinstance(op, AxialAttention):
            (query, height, width), value = operands[0], operands[2][0]
            span = height if op.axis == "height" else width
            total += height * width * span * (query + value + (query if op.relative else 0))
    return total

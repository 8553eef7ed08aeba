"""The published spaces: a hundred random architectures of each, trained for a step, exported, compared and counted."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

import archir
from archir.ir.graph import Graph
from archir.ir.typing import infer
from archir.ops.attention import AxialAttention, LocalAttention
from archir_torch import BACKEND as TORCH
from archir_torch.rules import RULES, Rule
from tests.conftest import EXAMPLES

MANY, PARTS = 100, 5


@dataclass(frozen=True)
class Example:
    """A space, its size, and parameters that make its networks small."""

    path: str
    size: int
    small: dict[str, Any] = field(default_factory=dict)


SPACES = {
    "autola": Example("autola/autola.arch", 8**10, {"depth": 8, "size": 8}),
    "full_attention": Example("full_attention/full_attention.arch", 7**15, {"channels": 16, "size": 8}),
    "trionet": Example(
        "trionet/trionet.arch", 71_810_804_455_625_701_830_000_000, {"channels": 64, "size": 32, "classes": 10}
    ),
    "nos": Example("nos/nos.arch:nos", 320_332_086_112_500**2, {"channels": 16, "cells": 3, "size": 16}),
    "darts": Example("darts/darts.arch:darts", (180 * 7**8) ** 2, {"channels": 8, "cells": 3, "size": 16}),
}


def space_of(name: str, **parameters: Any) -> archir.Space:
    return archir.load(EXAMPLES / SPACES[name].path, **parameters)


def hidden_macs(graph: Graph) -> int:
    """The closed formulas of operations whose fast form torch's counter does not see, or sees otherwise.

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


def counted_macs(graph: Graph, x: Tensor, monkeypatch: pytest.MonkeyPatch) -> int:
    """Multiply-accumulates by torch's counter where it sees them, and by the closed formulas where it does not."""
    with monkeypatch.context() as patched:
        for op in (LocalAttention, AxialAttention):
            patched.setitem(RULES, op, Rule(lambda query, key, value, **weights: value * 1, ()))
        module = TORCH.lower(graph).eval()
    counter = FlopCounterMode(display=False)
    with counter, sdpa_kernel(SDPBackend.MATH), torch.no_grad():
        module(x)
    return sum(counter.get_flop_counts()["Global"].values()) // 2 + hidden_macs(graph)


def inputs_of(graph: Graph, batch: int) -> Tensor:
    (number,) = graph.inputs.values()
    return torch.randn(batch, *infer(graph)[number].shape, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name", SPACES)
def test_size(name: str) -> None:
    assert space_of(name).size == SPACES[name].size


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("name", SPACES)
def test_random_architectures(name: str, part: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    space = space_of(name, **SPACES[name].small)
    assert space.size == SPACES[name].size
    for seed in range(part, MANY, PARTS):
        graph = space.specialize(space.sample(seed))
        module = TORCH.lower(graph).train()
        output = module(inputs_of(graph, 2))
        results = output.values() if isinstance(output, dict) else [output]
        sum(result.square().mean() for result in results).backward()
        used = [p.grad for p in module.parameters() if p.grad is not None]
        assert used
        assert all(gradient.isfinite().all() for gradient in used)
        cost = archir.cost(graph)
        assert sum(p.numel() for p in module.parameters()) == cost.params
        assert counted_macs(graph, inputs_of(graph, 1), monkeypatch) == cost.macs
        assert archir.export(graph, tmp_path / "net.onnx", module.eval()).relative <= 1e-4


@pytest.mark.parametrize("name", SPACES)
def test_full_size(name: str, tmp_path: Path) -> None:
    space = space_of(name)
    graph = space.specialize(space.sample(0))
    module = TORCH.lower(graph).eval()
    assert archir.export(graph, tmp_path / "net.onnx", module).relative <= 1e-4

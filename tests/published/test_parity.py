"""Two hundred sampled architectures at three widths: torch against onnxruntime, the graph's costs against counters."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

import archir
from archir.ir.graph import Graph
from archir.ir.typing import infer
from archir_torch import BACKEND as TORCH
from tests.conftest import EXAMPLES
from tests.soak import with_soak

WIDTHS = (16, 32, 48)
PER_WIDTH = 67
PARTS = PER_WIDTH
SIZE = 16


def local_attention_macs(graph: Graph) -> int:
    """Positions x (window x (query and value channels) + window's side x query channels), for each local attention.

    The first term are the two products over the window, the second the queries against the offsets of rows and columns.
    """
    types = infer(graph)
    total = 0
    for number in graph:
        op = graph[number].op
        if op.name == "local_attention":
            query, _, value = (types[operand].shape for operand in graph.operands(number))
            attributes = op.attributes()
            kernel, relative = attributes["kernel"], attributes["relative"]
            total += query[1] * query[2] * (kernel**2 * (query[0] + value[0]) + (kernel * query[0] if relative else 0))
    return total


def counted_macs(module: torch.nn.Module, x: torch.Tensor) -> dict[str, int]:
    """What torch's counter sees: convolutions, linear maps and matrix products. The flash kernel would hide from it."""
    counter = FlopCounterMode(display=False)
    with counter, sdpa_kernel(SDPBackend.MATH), torch.no_grad():
        module(x)
    return {str(op): flops // 2 for op, flops in counter.get_flop_counts()["Global"].items()}


@pytest.mark.parametrize("width", with_soak(WIDTHS, WIDTHS[:1]))
@pytest.mark.parametrize("part", with_soak(range(PARTS), [0]))
def test_full_attention_costs_and_outputs_agree(width: int, part: int, tmp_path: Path) -> None:
    space = archir.load(EXAMPLES / "full_attention" / "full_attention.arch", channels=width, size=SIZE)
    architectures = [space.sample(seed) for seed in range(PER_WIDTH)][part::PARTS]
    x = torch.randn(1, 3, SIZE, SIZE)
    for architecture in architectures:
        graph = space.specialize(architecture)
        module = TORCH.lower(graph).eval()
        cost = archir.cost(graph)
        assert sum(p.numel() for p in module.parameters()) == cost.params
        seen = counted_macs(module, x)
        offsets = sum(n for op, n in seen.items() if "bmm" in op) - nonlocal_macs(graph)
        window = local_attention_macs(graph)
        assert sum(seen.values()) - offsets + window == cost.macs
        report = archir.export(graph, tmp_path / "net.onnx", module)
        assert report.relative <= 1e-4


def nonlocal_macs(graph: Graph) -> int:
    types = infer(graph)
    total = 0
    for number in graph:
        if graph[number].op.name == "attention":
            query, key, value = (types[operand] for operand in graph.operands(number))
            total += (
                (query.elements // query.channels) * (key.elements // key.channels) * (query.channels + value.channels)
            )
    return total


def test_at_least_200_architectures_are_compared() -> None:
    assert PER_WIDTH * len(WIDTHS) >= 200


def test_local_attention_macs_match_formula_at_paper_size() -> None:
    """One local layer of the first stage at C = 16: m = 8 channels at 32 x 32, a 7 x 7 window."""
    space = archir.load(EXAMPLES / "full_attention" / "full_attention.arch")
    uniform = space.specialize(space.architecture({choice.path: "local_k7_h8" for choice in space.choices}))
    types = infer(uniform)
    first = next(
        n
        for n in uniform
        if uniform[n].scope.startswith("stage[0].layer[0]") and uniform[n].op.name == "local_attention"
    )
    op = uniform[first].op
    assert op.macs(*(types[i] for i in uniform.operands(first))) == 32 * 32 * (49 * (8 + 8) + 7 * 8)

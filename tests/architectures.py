"""What must hold of every architecture of every space: shapes, gradients, ONNX parity, costs as torch counts them."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

import archir
from archir.ir.graph import Graph
from archir.search.space import Space
from tests.test_parity import counted_macs


def assert_works(graph: Graph, folder: Path) -> None:
    """One network of one image input and one output of logits, made from its graph, trains and exports."""
    module = archir.compile(graph)
    assert isinstance(module, nn.Module)
    (entrance,) = graph.inputs.values()
    image = graph[entrance].op.infer().shape
    cost = archir.cost(graph)
    assert sum(p.numel() for p in module.parameters()) == cost.params
    frozen = module.eval().requires_grad_(
        False
    )  # the counter cannot look at a trained tensor that is passed on as it is
    assert sum(counted_macs(frozen, torch.randn(1, *image)).values()) == cost.macs
    y = module.train().requires_grad_()(torch.randn(4, *image))
    y.square().sum().backward()
    assert y.isfinite().all()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in module.parameters())
    report = archir.export(graph, folder / "net.onnx", module.eval())
    assert report.relative <= 1e-4


def assert_samples_work(space: Space, seeds: range, folder: Path) -> None:
    """Random architectures of a space work."""
    for seed in seeds:
        assert_works(space.specialize(space.sample(seed)), folder)

"""Random architectures of the published spaces in every precision and on the oldest and the newest opset."""

from __future__ import annotations

from pathlib import Path

import pytest

import archir
from archir_onnx.lowering.export_options import OPSETS
from archir_torch import BACKEND as TORCH
from tests.published.test_spaces import SPACES, space_of
from tests.soak import with_soak

MANY = 20
PARTS = [range(1), pytest.param(range(1, MANY), marks=pytest.mark.soak)]


@pytest.mark.parametrize("seeds", PARTS, ids=["one", "others"])
@pytest.mark.parametrize("name", with_soak(SPACES, ["full_attention", "darts", "nas_bench_201", "autoformer"]))
def test_random_architectures_export_in_every_precision_and_opset(name: str, seeds: range, tmp_path: Path) -> None:
    space = space_of(name, **SPACES[name].small)
    for seed in seeds:
        graph = space.specialize(space.sample(1000 + seed))
        module = TORCH.lower(graph).eval()
        for opset in (min(OPSETS), max(OPSETS)):
            report = archir.export(graph, tmp_path / "net.onnx", module, opset=opset)
            assert report.providers[0] == "CPUExecutionProvider"
            assert report.relative <= 1e-4
        assert archir.export(graph, tmp_path / "half.onnx", module, precision="float16").relative <= 1e-2

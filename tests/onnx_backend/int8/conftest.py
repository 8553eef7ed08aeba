"""What tests of int8 share: who looks at models, and two networks that were trained on the digits."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

import archir
from archir.backends.samples import Interface, Samples
from archir.ir.types import TensorType
from archir_onnx.verification import sandbox
from archir_torch import BACKEND as TORCH
from tests.onnx_backend.int8.nets import FLAT, NET


@pytest.fixture
def isolated() -> None:
    """Models of others are looked at by a process of their own, as users have it."""


@pytest.fixture(autouse=True)
def _looked_at_here(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """That process takes half a second to start: only tests that want it `isolated` wait for it."""
    if "isolated" in request.fixturenames:
        return

    def computed(
        path: Path, providers: Sequence[str], sizes: Mapping[str, int], elements: int, execute: bool = True
    ) -> dict[str, dict[str, list[float]]]:
        return sandbox._run_request({"path": path, "providers": providers, "sizes": sizes, "run": execute})

    for module in ("quantization.quantize", "verification.certificate"):  # a package has the function `quantize`, too
        monkeypatch.setattr(sys.modules[f"archir_onnx.{module}"], "run_sandboxed", computed)


@pytest.fixture(scope="package")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A convolutional network that was trained on the digits."""
    graph = archir.loads(NET).graph
    module, result = archir.train(graph, settings={"epochs": 6})
    assert result.accuracy > 0.9
    path = tmp_path_factory.mktemp("trained") / "net.onnx"
    archir.export(graph, path, module, metadata={"architecture": '{\n  "choices": {}\n}', "recipe": "none"})
    return path


@pytest.fixture(scope="package")
def flat(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network of three linear maps that was trained on the digits."""
    graph = archir.loads(FLAT).graph
    module, _ = archir.train(graph, settings={"epochs": 8, "augment": False, "lr": 1e-2})
    path = tmp_path_factory.mktemp("flat") / "net.onnx"
    archir.export(graph, path, module)
    return path


@pytest.fixture(scope="package")
def digits() -> Samples:
    """The digits, for calibration and to be judged on."""
    interface = Interface("digits", {"image": TensorType((1, 8, 8))}, {"logits": TensorType((10,))})
    return TORCH.samples("digits", interface)

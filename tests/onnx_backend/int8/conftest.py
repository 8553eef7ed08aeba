"""Fixtures of the tests of int8: models are verified in this process, and networks are trained on the digits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
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
    """Verify imported models in a separate process, as users do."""


@pytest.fixture(autouse=True)
def _verify_here(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Verify imported models in this process, unless a test is `isolated`: starting the other takes half a second."""
    if "isolated" in request.fixturenames:
        return

    def run_here(
        path: Path, providers: Sequence[str], sizes: Mapping[str, int], elements: int, execute: bool = True
    ) -> dict[str, dict[str, list[float]]]:
        return sandbox._run_request({"path": path, "providers": providers, "sizes": sizes, "run": execute})

    for module in ("quantization.quantize", "verification.certificate"):  # a package has the function `quantize`, too
        monkeypatch.setattr(import_module(f"archir_onnx.{module}"), "run_sandboxed", run_here)


@pytest.fixture(scope="package")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a convolutional network that was trained on the digits."""
    graph = archir.loads(NET).graph
    module, result = archir.train(graph, settings={"epochs": 6})
    assert result.accuracy > 0.9
    path = tmp_path_factory.mktemp("trained") / "net.onnx"
    archir.export(graph, path, module, metadata={"architecture": '{\n  "choices": {}\n}', "recipe": "none"})
    return path


@pytest.fixture(scope="package")
def flat(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a network of three linear maps that was trained on the digits."""
    graph = archir.loads(FLAT).graph
    module, _ = archir.train(graph, settings={"epochs": 8, "augment": False, "lr": 1e-2})
    path = tmp_path_factory.mktemp("flat") / "net.onnx"
    archir.export(graph, path, module)
    return path


@pytest.fixture(scope="package")
def digits() -> Samples:
    """Return the digits, for calibration and evaluation."""
    interface = Interface("digits", {"image": TensorType((1, 8, 8))}, {"logits": TensorType((10,))})
    return TORCH.samples("digits", interface)

"""Quantization of models from other exporters: typed weights, external data, weights that are also inputs."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
import torch
from onnx import helper
from torch import nn

import archir
from archir_onnx import BACKEND as ONNX
from archir_onnx.quantization import Mode
from archir_onnx.quantization.sensitivity import relative_error
from tests.onnx_backend.int8.nets import FLAT
from tests.onnx_backend.quantised import ERROR, noise


def quantises(path: Path, mode: Mode, name: str = "image") -> None:
    """A model of images [1, 8, 8] in int8 is certified, and not far from what it was."""
    made = ONNX.quantize(path, path.with_name("int8.onnx"), noise(name, (1, 8, 8)), mode=mode, seconds=0)
    assert not made.in_float
    assert ONNX.verify(path.with_name("int8.onnx")).differences["CPUExecutionProvider"] <= 1e-6
    fresh = noise(name, (1, 8, 8), 4, 1).training
    (wanted,), (found,) = (ONNX.run(one, fresh).values() for one in (path, path.with_name("int8.onnx")))
    assert relative_error(found, wanted) <= ERROR


def _states_types(model: onnx.ModelProto) -> None:
    infos = [helper.make_tensor_value_info(one.name, one.data_type, one.dims) for one in model.graph.initializer]
    model.graph.value_info.extend(infos)


def _replaceable(model: onnx.ModelProto) -> None:
    infos = [helper.make_tensor_value_info(one.name, one.data_type, one.dims) for one in model.graph.initializer]
    model.graph.input.extend(infos)


def _of_version_3(model: onnx.ModelProto) -> None:
    _replaceable(model)
    model.ir_version = 3


FORMS: dict[str, Callable[[onnx.ModelProto], None]] = {
    "with types of weights": _states_types, "with weights that are inputs": _replaceable, "of IR 3": _of_version_3,
}  # fmt: skip


@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize("form", FORMS)
def test_quantizes_models_in_other_exporters_forms(form: str, mode: Mode, tmp_path: Path) -> None:
    graph = archir.loads(FLAT).graph
    archir.export(graph, tmp_path / "net.onnx", archir.compile(graph))
    model = onnx.load(tmp_path / "net.onnx")
    FORMS[form](model)
    beside = form == "with types of weights"
    onnx.save(model, tmp_path / "net.onnx", save_as_external_data=beside, location="net.data", size_threshold=0)
    quantises(tmp_path / "net.onnx", mode)


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(8, 16)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        self.head = nn.Linear(16, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.head(self.layer(self.embed(x[:, 0])).mean(1))
        return made


MODULES: dict[str, Callable[[], nn.Module]] = {
    "mlp": lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)), "encoder": Encoder,
}  # fmt: skip


@pytest.mark.soak
@pytest.mark.parametrize("name", MODULES)
def test_quantizes_models_of_torch_exporter(name: str, tmp_path: Path) -> None:
    """Its exporter alone takes seconds."""
    batch = ({0: torch.export.Dim("batch")},)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            MODULES[name]().eval(), (torch.randn(2, 1, 8, 8),), tmp_path / "net.onnx", input_names=["image"],
            dynamo=True, dynamic_shapes=batch, verbose=False,
        )  # fmt: skip
    for mode in ("auto", "static", "dynamic"):
        quantises(tmp_path / "net.onnx", mode)


@pytest.mark.parametrize("mode", ["static", "dynamic"])
def test_quantizes_layers_after_group_norms(mode: Mode, tmp_path: Path) -> None:
    """onnx infers no types for group norms, which the quantiser needs."""
    text = """net norms {
    input image: f32[1, 8, 8]
    x = image |> conv(8, kernel=3) |> group_norm(2) |> relu
    output y = x |> conv(8, kernel=3) |> group_norm(2) |> global_avg_pool |> linear(10)
}"""
    graph = archir.loads(text).graph
    archir.export(graph, tmp_path / "net.onnx", archir.compile(graph))
    made = ONNX.quantize(tmp_path / "net.onnx", tmp_path / "int8.onnx", noise("image", (1, 8, 8)), mode=mode, seconds=0)
    assert len(made.in_float) == (2 if mode == "dynamic" else 0)

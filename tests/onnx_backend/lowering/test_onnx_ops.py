"""Every operation gives the same result in torch and onnxruntime; structure of exported models."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
import torch

import archir
from archir.diagnostics.errors import ArchError
from archir.ir.graph import Graph
from archir_onnx import BACKEND as ONNX
from archir_onnx.files.models import Model, save
from archir_onnx.lowering.export_options import OPSETS
from archir_onnx.lowering.model import build
from archir_onnx.lowering.rules import missing_rules
from archir_onnx.running.sessions import session
from archir_torch import BACKEND as TORCH
from tests.conftest import EXAMPLES
from tests.op_cases import CASES, Case, graph_of, name_of


def test_no_operation_lacks_a_lowering() -> None:
    assert missing_rules() == []


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_torch_and_onnxruntime_agree(case: Case, tmp_path: Path) -> None:
    graph = graph_of(*case)
    module = TORCH.lower(graph)
    with torch.no_grad():
        for name, tensor in module.state_dict().items():
            if name.endswith(("running_mean", "running_var", "weight", "bias")):
                tensor += torch.rand(tensor.shape)
    report = archir.export(graph, tmp_path / "one.onnx", module)
    assert report.relative < 1e-5
    assert report.batches == (1, 3)


@pytest.mark.parametrize("opset", OPSETS)
def test_network_exports_on_every_opset(opset: int, tmp_path: Path) -> None:
    text = """
    net all {
        input image: f32[8, 6, 6]
        x = image |> conv(8) |> group_norm(4) |> gelu |> hard_swish |> mish |> silu
        t = x |> to_tokens |> rms_norm
        t = t + attention(t, t, t, heads=2)
        output y = t |> layer_norm |> global_avg_pool |> linear(3)
    }
    """
    graph = archir.loads(text).graph
    report = archir.export(graph, tmp_path / "net.onnx", TORCH.lower(graph), opset=opset)
    model = onnx.load(tmp_path / "net.onnx")
    assert (model.opset_import[0].version, model.ir_version) == (opset, OPSETS[opset])
    assert report.relative < 1e-4


def tiny() -> Graph:
    text = """
    net tiny {
        input image: f32[3, 8, 8]
        x = image |> conv(4) |> batch_norm |> relu |> dropout
        output features = x
        output logits = x |> global_avg_pool |> linear(2)
    }
    """
    return archir.loads(text).graph


def test_export_keeps_node_names_weights_and_metadata(tmp_path: Path) -> None:
    graph = tiny()
    module, metadata = TORCH.lower(graph), {"architecture": "{}"}
    archir.export(graph, tmp_path / "deployed.onnx", module, metadata=metadata)
    deployed = onnx.load(tmp_path / "deployed.onnx")
    assert [node.name for node in deployed.graph.node][:2] == ["conv/Conv", "relu/Relu"]
    archir.export(graph, tmp_path / "tiny.onnx", module, metadata=metadata, deployed=False)
    model = onnx.load(tmp_path / "tiny.onnx")
    assert [node.name for node in model.graph.node][:3] == ["conv/Conv", "batch_norm/BatchNormalization", "relu/Relu"]
    assert {"conv.weight", "linear.bias"} <= {tensor.name for tensor in model.graph.initializer}
    assert [output.name for output in model.graph.output] == ["features", "logits"]
    assert model.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"
    assert {entry.key: entry.value for entry in model.metadata_props} == {"net": "tiny", "architecture": "{}"}


SHARED = {
    "offsets of windows of other sizes": """
    input a: f32[64, 32, 32]
    input b: f32[64, 8, 8]
    output large = local_attention(a, a, a, kernel=7, heads=2, weights="t")
    output small = local_attention(b, b, b, kernel=7, heads=2, weights="t")
    output heads = local_attention(b, b, b, kernel=7, heads=4, weights="t")""",
    "slopes of maps and volumes": """
    input a: f32[3, 4, 4]
    input b: f32[3, 2, 4, 4]
    output map = a |> prelu(weights="t")
    output volume = b |> prelu(weights="t")""",
}


@pytest.mark.parametrize("what", SHARED)
def test_shared_weights_may_be_needed_in_different_forms(what: str, tmp_path: Path) -> None:
    graph = archir.loads(f"net shared {{{SHARED[what]}\n}}").graph
    assert archir.export(graph, tmp_path / "net.onnx", archir.compile(graph)).relative < 1e-5


def test_an_input_may_be_an_output(tmp_path: Path) -> None:
    graph = archir.loads("net same {\n input x: f32[3]\n output y = x\n output z = x\n}").graph
    assert archir.export(graph, tmp_path / "same.onnx", TORCH.lower(graph)).absolute == 0


def test_a_changed_weight_is_noticed(tmp_path: Path) -> None:
    graph = tiny()
    module = TORCH.lower(graph)
    arrays = {name: array.copy() for name, array in TORCH.arrays(module).items()}
    arrays["linear.weight"] += 0.1
    with pytest.raises(ArchError, match=r"A0913.*differs from the network by"):
        ONNX.write(graph, tmp_path / "tiny.onnx", arrays, reference=TORCH.runner(module))


def test_missing_weights_are_named() -> None:
    graph = tiny()
    arrays = TORCH.arrays(TORCH.lower(graph))
    del arrays["conv.weight"]
    with pytest.raises(ArchError, match=r"A0912.*1 weights are missing.*`conv.weight`"):
        ONNX.lower(graph, arrays)


def test_rejects_open_choices_old_opset_and_bad_file(tmp_path: Path) -> None:
    space = archir.load(EXAMPLES / "full_attention" / "full_attention.arch")
    with pytest.raises(ArchError, match=r"A0901.*`stage\[0\]\.layer\[0\]\.op`.* and 11 more must be chosen") as error:
        ONNX.lower(space.graph, {})
    assert len(error.value.diagnostics) == 1
    with pytest.raises(ArchError, match=r"A0911.*opset 16 is not supported; 17 to 26 are"):
        ONNX.lower(tiny(), TORCH.arrays(TORCH.lower(tiny())), opset=16)
    (tmp_path / "no.onnx").write_bytes(b"no model")
    with pytest.raises(ArchError, match="A0914"):
        session(tmp_path / "no.onnx")


def test_cuda_is_never_replaced_by_the_cpu(tmp_path: Path) -> None:
    graph = tiny()
    archir.export(graph, tmp_path / "tiny.onnx", TORCH.lower(graph))
    if torch.cuda.is_available():
        assert session(tmp_path / "tiny.onnx", ["CUDAExecutionProvider"]).get_providers()[0] == "CUDAExecutionProvider"
    else:
        with pytest.raises(ArchError, match="A0914"):
            session(tmp_path / "tiny.onnx", ["CUDAExecutionProvider"])


def test_saved_file_equals_model_in_memory(tmp_path: Path) -> None:
    model = build(tiny(), TORCH.arrays(TORCH.lower(tiny())), metadata={"space": "caf\u00e9"})
    half = np.arange(300, dtype=ml_dtypes.bfloat16).reshape(3, 100)
    model = Model(model.proto, {**model.weights, "half": half, "scalar": np.array(2.5), "none": np.zeros((0, 3))})
    save(model, tmp_path / "tiny.onnx")
    found = onnx.load(tmp_path / "tiny.onnx")
    assert found == model.to_proto()
    last = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in found.graph.initializer}
    assert (last["half"] == half).all()
    assert (last["scalar"], last["none"].shape) == (2.5, (0, 3))


def test_large_model_stores_weights_in_external_file(tmp_path: Path) -> None:
    graph = tiny()
    module = TORCH.lower(graph)
    model = build(graph, TORCH.arrays(module))
    files = save(model, tmp_path / "large.onnx", max_bytes=64)
    assert [file.name for file in files] == ["large.onnx", "large.onnx.data"]
    onnx.checker.check_model(str(files[0]), full_check=True)
    x = np.random.default_rng(0).standard_normal((2, 3, 8, 8)).astype(np.float32)
    wanted, found = TORCH.runner(module)({"image": x}), ONNX.run(files[0], {"image": x})
    assert all(np.allclose(wanted[name], found[name], atol=1e-5) for name in wanted)

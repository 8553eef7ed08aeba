"""onnxruntime sessions on devices, some of them faked, and errors for unavailable ones."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import onnx
import onnxruntime
import pytest

import archir
from archir.backends import get
from archir.diagnostics.errors import ArchError, fail
from archir_onnx.running import sessions
from archir_onnx.running.sessions import session, shape_nodes

VERIFY = import_module("archir_onnx.verification.verify")  # imported before a test replaces what it imports
CUDA = "CUDAExecutionProvider"
CLASS_TOKEN = """
import std.transformer

net tokens() {
    input image: f32[3, 8, 8]
    x = image |> conv(8, kernel=4, stride=4) |> to_tokens |> class_token
    output y = x |> layer_norm |> linear(4)
}
"""
CONV = "net n() {\n input image: f32[3, 8, 8]\n output y = image |> conv(8) |> relu |> global_avg_pool |> linear(5)\n}"


def exported(text: str, path: Path, **options: Any) -> Path:
    graph = archir.loads(text).graph
    get("onnx").write(graph, path, get("torch").arrays(archir.compile(graph)), **options)
    return path


class Pretended:
    """A session on a GPU that is not there; the nodes of `stay` are on the processor."""

    made: dict[str, Any]
    stay: frozenset[str] = frozenset()

    def __init__(self, model: Any, options: Any, providers: Sequence[Any]) -> None:
        type(self).made = {"options": options, "providers": providers}
        self._nodes = (onnx.load_from_string(model) if isinstance(model, bytes) else onnx.load(model)).graph.node

    def get_providers(self) -> list[str]:
        return [CUDA, "CPUExecutionProvider"]

    def get_provider_graph_assignment_info(self) -> list[Any]:
        def part(provider: str, node: Any) -> Any:
            return SimpleNamespace(ep_name=provider, get_nodes=lambda: [node])

        return [part("CPUExecutionProvider" if n.name in self.stay else CUDA, n) for n in self._nodes]


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> type[Pretended]:
    class Here(Pretended):
        """Of this test alone."""

    monkeypatch.setattr(sessions, "available_providers", lambda: ("CPUExecutionProvider", CUDA))
    monkeypatch.setattr(onnxruntime, "InferenceSession", Here)
    return Here


def test_cuda_session_allows_shape_nodes_on_cpu(gpu: type[Pretended], tmp_path: Path) -> None:
    model = exported(CLASS_TOKEN, tmp_path / "tokens.onnx")
    graph = onnx.load(model).graph
    gpu.stay = frozenset(shape_nodes(graph))
    assert {node.op_type for node in graph.node if node.name in gpu.stay} == {"Shape", "Concat"}
    session(model, (CUDA,))
    assert gpu.made["options"].get_session_config_entry("session.record_ep_graph_assignment_info") == "1"


def test_cuda_session_rejects_other_nodes_on_cpu(gpu: type[Pretended], tmp_path: Path) -> None:
    model = exported(CLASS_TOKEN, tmp_path / "tokens.onnx")
    gpu.stay = frozenset({next(node.name for node in onnx.load(model).graph.node if node.op_type == "Conv")})
    with pytest.raises(
        ArchError, match=r"A0914.*onnxruntime lacks a kernel on CUDA that the model needs: `Conv conv"
    ) as e:
        session(model, (CUDA,))
    assert "--for cuda" in str(e.value)


@pytest.mark.parametrize(
    "message",
    [
        "[ONNXRuntimeError] : 9 : NOT_IMPLEMENTED : BatchNormalization node with name 'norm'",
        "[ONNXRuntimeError] : 1 : FAIL : transformer_memcpy.cc:253 !node_provider_type.empty() was false. "
        "Provider type for BatchNormalization node with name 'norm' is not set.",
    ],
)
def test_a_model_without_kernels_names_the_operator(
    message: str, gpu: type[Pretended], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: Any) -> None:
        raise RuntimeError(message)

    model = exported(CONV, tmp_path / "net.onnx")
    monkeypatch.setattr(onnxruntime, "InferenceSession", refuse)
    expected = "A0914.*lacks a kernel on CUDA that the model needs: BatchNormalization node with name 'norm'"
    with pytest.raises(ArchError, match=expected):
        session(model, (CUDA,))


def test_tensor_concat_is_no_shape_node(tmp_path: Path) -> None:
    graph = onnx.load(exported(CLASS_TOKEN, tmp_path / "tokens.onnx")).graph
    tensors = [node.name for node in graph.node if node.op_type == "Concat" and node.name not in shape_nodes(graph)]
    assert len(tensors) == 1
    assert not {"Expand", "Reshape"} & {node.op_type for node in graph.node if node.name in shape_nodes(graph)}


def test_older_onnxruntime_disables_all_cpu_fallback(
    gpu: type[Pretended], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = exported(CONV, tmp_path / "net.onnx")
    monkeypatch.setattr(sessions, "_CAN_RECORD", False)
    session(model, (CUDA,))
    assert gpu.made["options"].get_session_config_entry("session.disable_cpu_ep_fallback") == "1"


def test_libraries_that_pip_installed_are_loaded_for_gpus_alone(
    gpu: type[Pretended], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    loaded: list[bool] = []

    def preload() -> None:
        print("Failed to load libcudart.so.13")
        loaded.append(True)

    monkeypatch.setattr(onnxruntime, "preload_dlls", preload)
    model = exported(CONV, tmp_path / "net.onnx")
    sessions._preload.cache_clear()
    try:
        with pytest.raises(ArchError, match="A0914"):
            session(model)
        assert not loaded
        session(model, (CUDA,))
        session(model, (CUDA,))
        assert loaded == [True]
        assert "libcudart" not in capsys.readouterr().out
    finally:
        sessions._preload.cache_clear()


def test_export_reports_device_that_cannot_run_model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refusing(model: Any, providers: Sequence[str] = (), threads: int = 0) -> Any:
        if providers == (CUDA,):
            raise fail("A0914", "onnxruntime cannot run the model: no memory")
        return session(model, providers, threads)

    monkeypatch.setattr(VERIFY, "available_providers", lambda: ("CPUExecutionProvider", CUDA))
    monkeypatch.setattr(VERIFY, "session", refusing)
    graph = archir.loads(CONV).graph
    report = archir.export(graph, tmp_path / "net.onnx", archir.compile(graph))
    assert report.providers == ("CPUExecutionProvider",)
    assert str(report).endswith("on onnxruntime CPU; not on CUDA: onnxruntime cannot run the model: no memory")


def test_doctor_tries_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {what: (found, trouble) for what, found, trouble in get("onnx").devices()}
    assert rows["onnxruntime cpu"] == ("works", "")
    if rows.get("onnxruntime cuda", ("",))[0] != "works":
        monkeypatch.setattr("archir_onnx.available_providers", lambda: ("CPUExecutionProvider", CUDA))
        monkeypatch.setattr("archir_onnx.onnxruntime.get_available_providers", lambda: [CUDA, "CPUExecutionProvider"])
        rows = {what: (found, trouble) for what, found, trouble in get("onnx").devices()}
        found, trouble = rows["onnxruntime cuda"]
        assert found == "refuses"
        assert "onnxruntime has no CUDAExecutionProvider here" in trouble
        assert "onnxruntime-gpu[cuda,cudnn]" in trouble


@pytest.mark.parametrize("opset", [17, 20, 21])
@pytest.mark.parametrize("text", [CONV, CLASS_TOKEN, CONV.replace("relu", "upsample(2) |> max_pool(2)")])
def test_bfloat16_names_the_opset_that_it_needs(text: str, opset: int, tmp_path: Path) -> None:
    with pytest.raises(ArchError, match=r"A0911.*models in bfloat16 with .*`Conv`.* need opset 22") as refused:
        exported(text, tmp_path / "net.onnx", precision="bfloat16", opset=opset)
    assert refused.value.diagnostics[0].hint == "--opset 22"
    exported(text, tmp_path / "net.onnx", precision="bfloat16", opset=22)


def test_export_ignores_unrequested_providers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """onnxruntime without a GPU is built for Azure, which has kernels for no model of archir's."""
    monkeypatch.setattr(
        onnxruntime, "get_available_providers", lambda: ["AzureExecutionProvider", "CPUExecutionProvider"]
    )
    for function in (sessions.available_providers, sessions.missing_requirement):
        function.cache_clear()
    try:
        graph = archir.loads(CONV).graph
        report = archir.export(graph, tmp_path / "net.onnx", archir.compile(graph))
    finally:
        for function in (sessions.available_providers, sessions.missing_requirement):
            function.cache_clear()
    assert (report.providers, report.note) == (("CPUExecutionProvider",), "")

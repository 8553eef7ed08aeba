"""ONNX export of networks for texts and series of any length."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import archir
from archir.diagnostics.errors import ArchError
from archir.ir.graph import Graph
from archir_onnx import BACKEND as ONNX
from archir_torch import BACKEND as TORCH
from tests.examples import NETS, elaborated

OPEN = ("batch", "tokens")
TEXT = """
import std.experts
import std.transformer
net text(n = 12) {
    input words: i64[n]
    input there: bool[1, n]
    input last: i64[]
    x = words |> embedding(50, 16)
    x = x + (words |> positions |> embedding(30, 16)) |> class_token |> slice(1, none, axis=0) |> position_embedding
    y = x |> layer_norm
    x = x + attention(y, y, y, there, heads=4, causal=true) |> mixture_of_experts(4, k=2)
    x = x + (x |> conv1d(16, kernel=4) |> sinusoidal) + (x |> rotary_attention(2))
    output next = x |> linear(50)
    output end = gather(x, last) |> linear(3)
    output mean = x |> global_avg_pool |> linear(3)
}
"""


def assert_right(graph: Graph, folder: Path, lengths: tuple[int, ...], **form: object) -> str:
    """A model with any number of tokens is right at those that are tried, and at these; what is said of it."""
    module, path = TORCH.lower(graph), folder / "net.onnx"
    report = archir.export(graph, path, module, dynamic=OPEN, certified=True, **form)
    assert report.relative < 1e-4
    assert ONNX.verify(path).differences["CPUExecutionProvider"] < 1e-4
    dims = onnx.load(path).graph.input[0].type.tensor_type.shape.dim
    assert [dim.dim_param for dim in dims][:2] == [*OPEN]
    rng = np.random.default_rng(0)
    for tokens in lengths:
        other = archir.loads(TEXT, n=tokens).graph
        network = TORCH.lower(other)
        state = module.state_dict()
        state["position_embedding.parameter.value"] = state["position_embedding.parameter.value"][:tokens]
        network.load_state_dict(state)
        given = {
            "words": rng.integers(0, 50, (2, tokens)),
            "there": rng.random((2, 1, tokens)) < 0.7,
            "last": rng.integers(0, tokens, 2),
        }
        wanted, found = TORCH.runner(network)(given), ONNX.run(path, given)
        assert all(np.abs(found[name] - wanted[name]).max() < 1e-4 for name in wanted)
    return str(report)


@pytest.mark.parametrize(
    "form", [{}, *(pytest.param({"opset": opset}, marks=pytest.mark.soak) for opset in (17, 26))], ids=str
)
def test_text_network_exports_for_any_length(form: dict[str, object], tmp_path: Path) -> None:
    said = assert_right(archir.loads(TEXT).graph, tmp_path, (1, 5, 12), **form)
    assert "at 6, 11, 2 and 1 tokens" in said  # of 24, the last are beyond what is learned
    assert "24" not in said


def test_series_network_exports_for_any_length(tmp_path: Path) -> None:
    text = "net n {\n input x: f32[9, 4]\n output y = x |> conv1d(8, stride=2) |> relu |> max_pool1d(3) |> linear(2)\n}"
    graph = archir.loads(text).graph
    module, path = TORCH.lower(graph), tmp_path / "net.onnx"
    assert archir.export(graph, path, module, dynamic=OPEN).sizes == ((4,), (8,), (18,), (2,), (1,))
    x = np.random.default_rng(0).standard_normal((2, 31, 4)).astype(np.float32)
    assert np.abs(ONNX.run(path, {"x": x})["y"] - TORCH.runner(module)({"x": x})["y"]).max() < 1e-5


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("x |> flatten |> linear(3)", r"at 4 tokens, `linear.weight` of `linear` would be \[3, 16\], not \[3, 32\]"),
        ("x |> rnn(4)", "the number of tokens cannot be left open: at 4 tokens, slice 4:5 of an axis of 4"),
        ("x |> reshape([16, 2])", "at 4 tokens, .*reshape"),
    ],
)
def test_fixed_length_operation_is_rejected_with_its_location(body: str, message: str, tmp_path: Path) -> None:
    graph = archir.loads(f"import std.recurrent\nnet n {{\n input x: f32[8, 4]\n output y = {body}\n}}").graph
    with pytest.raises(ArchError, match=f"A0932.*{message}") as error:
        archir.export(graph, tmp_path / "net.onnx", TORCH.lower(graph), dynamic=OPEN)
    assert error.value.diagnostics[0].span is not None


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ("input x: f32[3, 8, 8]\n output y = x", "takes no tokens"),
        ("input x: i64[3]\n input y: i64[4]\n output z = x", r"tokens of several lengths: \[3, 4\]"),
    ],
)
def test_rejects_open_length_without_single_token_length(inputs: str, message: str, tmp_path: Path) -> None:
    graph = archir.loads(f"net n {{\n {inputs}\n}}").graph
    with pytest.raises(ArchError, match=f"A0932.*{message}: there is no single length to leave open"):
        archir.export(graph, tmp_path / "net.onnx", TORCH.lower(graph), dynamic=OPEN)


@pytest.mark.parametrize(
    "name", ["llama", *(pytest.param(name, marks=pytest.mark.soak) for name in ("gpt", "hat", "pythia"))]
)
def test_zoo_text_networks_export_for_any_length(name: str, tmp_path: Path) -> None:
    net = f"zoo/{name}.arch:{name}"
    space = elaborated(net, **NETS[net] | ({"target": 5} if name == "hat" else {}))
    graph = space.specialize(space.sample(0))
    report = archir.export(graph, tmp_path / "net.onnx", TORCH.lower(graph), dynamic=OPEN)
    assert report.relative < 1e-4
    assert report.sizes


def test_rejects_open_length_for_relative_position_table(tmp_path: Path) -> None:
    """T5's buckets of distances are worked out for the lengths that the net has."""
    net = "zoo/switch.arch:switch"
    space = elaborated(net, **NETS[net] | {"target": 5})
    graph = space.specialize(space.sample(0))
    with pytest.raises(ArchError, match=r"A0932.*a mask must be \[2, 2\] or \[2, 2, 2\]"):
        archir.export(graph, tmp_path / "net.onnx", TORCH.lower(graph), dynamic=OPEN)

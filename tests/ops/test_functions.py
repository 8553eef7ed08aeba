"""Elementwise functions, masks, sums and norms on tensors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import archir
from archir.diagnostics.errors import ArchError
from archir.ir.typing import infer
from archir_torch.lowering.module import lower
from archir_torch.supernet.network import SuperNetwork, extract


def net(body: str, takes: str = "f32[5, 4]") -> archir.Space:
    return archir.loads(f"net n {{\n input x: {takes}\n{body}\n}}")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("1 / (x ** 2 + 1)", lambda x: 1 / (x**2 + 1)),
        ("3 / exp(x)", lambda x: 3 / x.exp()),
        ("sqrt(abs(x)) * sqrt(16)", lambda x: x.abs().sqrt() * 4),
        ("log(exp(x)) + abs(-2)", lambda x: x + 2),
        ("sin(x) ** 2 + cos(x) ** 2", torch.ones_like),
        ("(x |> abs) ** 0.5", lambda x: x.abs() ** 0.5),
        ("where(greater(x, 0), x, x * 0.25)", lambda x: F.leaky_relu(x, 0.25)),
        ("where(less(x, mean_over(x, 0)), x, zero(x))", lambda x: torch.where(x < x.mean(1, keepdim=True), x, 0)),
        ("cumsum(x, axis=0)", lambda x: x.cumsum(1)),
        ("x / sum_over(exp(x), 1)", lambda x: x / x.exp().sum(2, keepdim=True)),
        ("normalize(x)", lambda x: x / x.norm(dim=2, keepdim=True)),
        ("instance_norm(x, affine=false)", lambda x: F.instance_norm(x.transpose(1, 2)).transpose(1, 2)),
        ("prelu(x)", lambda x: F.leaky_relu(x, 0.25)),
    ],
)
def test_function_equals_torch(text: str, wanted: Callable[[Tensor], Tensor], tmp_path: Path) -> None:
    graph, x = net(f"output y = {text}").graph, torch.randn(3, 5, 4)
    network = lower(graph).eval()
    torch.testing.assert_close(network(x), wanted(x), rtol=1e-4, atol=1e-4)
    assert archir.export(graph, tmp_path / "net.onnx", network).relative < 1e-5


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("minimum(x, 2)", r"write `x \|> clamp\(high=2\)`"),
        ("x |> maximum(0)", r"write `x \|> clamp\(low=2\)`"),
        ("x * log(2)", "of numbers there is `log2`"),
        ("where(x, x, x)", r"A0408.*expected a mask of truth values, got f32\[5, 4\](.*\n)*.*`greater\(a, b\)`"),
        ("greater(x, 0) |> relu", "A0408.*expected floating-point numbers, got bool"),
        ("cumsum(x, 2)", "axis 2 of .* does not exist"),
        ("normalize(x, -3)", "axis -3 of .* does not exist"),
        ("2 ** x", r"`\*\*` does not work on"),
    ],
)
def test_rejects_invalid_operands(text: str, said: str) -> None:
    with pytest.raises(ArchError, match=said):
        net(f"output y = {text}")


def test_functions_of_numbers_give_numbers() -> None:
    graph = net("output y = x |> linear(sqrt(16) + abs(-3))").graph
    assert infer(graph)[graph.outputs["y"]].shape == (5, 7)
    with pytest.raises(ArchError, match="A0302"):
        net("output y = x |> linear(sqrt(-1))")


def test_masks_may_be_inputs_and_outputs(tmp_path: Path) -> None:
    graph = net("input keep: bool[4]\n output y = where(keep, x, -x)\n output m = x |> less(1)", "f32[4]").graph
    assert infer(graph)[graph.outputs["m"]].dtype == "bool"
    network = lower(graph).eval()
    x, keep = torch.tensor([[1.0, 2.0, -3.0, 0.0]]), torch.tensor([[True, False, False, True]])
    found = network(x, keep)
    assert found["y"].tolist() == [[1, -2, 3, 0]]
    assert found["m"].tolist() == [[False, False, True, True]]
    for opset in (17, 26):
        assert archir.export(graph, tmp_path / "net.onnx", network, opset=opset).absolute == 0


def test_one_hot_selects_weight_columns(tmp_path: Path) -> None:
    graph = archir.loads("net n {\n input x: i64[3]\n output y = x |> one_hot(4) |> linear(2, bias=false)\n}").graph
    network = lower(graph)
    columns = network.state_dict()["linear.weight"].T
    torch.testing.assert_close(network(torch.tensor([[3, 0, 1]])), columns[[3, 0, 1]].unsqueeze(0))
    assert network.double()(torch.tensor([[3, 0, 1]])).dtype == torch.float64
    assert archir.cost(graph).params == 8
    assert archir.export(graph, tmp_path / "net.onnx", network.float()).relative < 1e-5


def test_padding_masks_and_positions_follow_token_ids(tmp_path: Path) -> None:
    graph = archir.loads("""
        net n {
            input ids: i64[5]
            hidden = ids |> equal(1) |> to_numbers
            output m = ids |> equal(1)
            output y = ids |> positions(padding=1) |> embedding(7, 2)
            output z = hidden * -100 + 1
        }
    """).graph
    network = lower(graph).eval()
    ids = torch.tensor([[7, 8, 1, 9, 1]])
    found = network(ids)
    assert found["m"].tolist() == [[False, False, True, False, True]]
    assert found["z"].tolist() == [[1, 1, -99, 1, -99]]
    table = network.state_dict()["embedding.weight"]
    torch.testing.assert_close(found["y"], table[[2, 3, 1, 4, 1]].unsqueeze(0))
    assert network.double()(ids)["z"].dtype == torch.float64
    assert archir.cost(graph).params == 14
    for opset in (17, 26):
        assert archir.export(graph, tmp_path / "net.onnx", network.float(), opset=opset).relative < 1e-6


@pytest.mark.parametrize(
    ("takes", "body", "said"),
    [
        ("f32[5]", "output y = x |> equal(1)", "expected integers, got f32[5]"),
        ("f32[5]", "output y = x |> to_numbers", "expected integers or truth values, got f32[5]"),
        ("f32[5, 2]", "output y = x |> positions(padding=1)", "`padding` needs integers i64[N]"),
        ("i64[5]", "output y = x |> positions(padding=1) |> embedding(6, 2)", "6 is looked up, and there are 6"),
    ],
)
def test_token_functions_reject_wrong_types_and_table_size(takes: str, body: str, said: str) -> None:
    with pytest.raises(ArchError) as refused:
        archir.loads(f"net n {{\n input x: {takes}\n {body}\n}}")
    assert said in str(refused.value)


def test_supernet_equals_extracted_networks() -> None:
    space = net("""
        width = choose width(4, 8)
        y = x |> linear(width) |> choose act { a: prelu, b: instance_norm, c: abs }
        output z = where(greater(y, 0.1), y, normalize(y)) |> linear(2)
    """)
    model, x = SuperNetwork(space.graph).eval(), torch.randn(2, 5, 4)
    for architecture in space.enumerate():
        torch.testing.assert_close(model(x, architecture), extract(model, architecture)(x))

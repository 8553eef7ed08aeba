"""Kinds of tensors (features, gates, kernels), their unions at choices, and calibration."""

from __future__ import annotations

import pytest
import torch

import archir
from archir.diagnostics.errors import ArchError
from archir.diagrams.diagram import leaves
from archir.ir.reader import parse_graph
from archir.ir.typing import infer
from archir.ir.verify import verify
from archir.passes.expand import expand

UNION = """
block channel_gate(x) { return x |> global_avg_pool(keep=true) |> sigmoid |> as_gate }
block kernels(x, k) {
    bank = x |> conv(k * k, kernel=1) |> reshape([k * k, x.height * x.width]) |> softmax
    features = x |> reshape([x.channels, x.height * x.width])
    return matmul(features, bank, transpose=true) |> reshape([x.channels, k, k]) |> as_kernel
}
net n {
    input image: f32[8, 6, 6]
    a = image |> choose a { conv: conv(8), gate: channel_gate, kernel3: kernels(3), kernel5: kernels(5) }
    b = image |> choose b { conv: conv(8), gate: channel_gate }
    output y = calibrate(image, [a, b])
}
"""


def test_choice_among_kinds_has_union_kind() -> None:
    space = archir.loads(UNION)
    types = infer(space.graph)
    kinds = {frozenset(leaves(x.kind)) for x in types.values()}
    assert frozenset({"feature", "gate", "kernel"}) in kinds
    verify(space.graph)
    again = parse_graph(archir.print_graph(space.graph))
    assert archir.print_graph(again) == archir.print_graph(space.graph)


def test_calibration_equals_its_equation() -> None:
    space = archir.loads(UNION)
    torch.manual_seed(0)
    x = torch.randn(3, 8, 6, 6)
    for architecture in space.enumerate():
        network = space.specialize(architecture)
        module = archir.compile(network).eval()
        state = module.state_dict()

        def branch(name: str, choices: object = architecture, state: object = state) -> tuple[str, torch.Tensor]:
            assert isinstance(choices, archir.Architecture)
            assert isinstance(state, dict)
            picked = str(choices[name])
            if picked == "gate":
                return "gate", x.mean((2, 3), keepdim=True).sigmoid()
            if picked == "conv":
                return "feature", torch.nn.functional.conv2d(x, state[f"{name}.conv.weight"], padding=1)
            k = int(picked[-1])
            bank = torch.nn.functional.conv2d(x, state[f"{name}.{picked}.conv.weight"]).flatten(2).softmax(-1)
            return "kernel", (x.flatten(2) @ bank.transpose(1, 2)).unflatten(2, (k, k))

        parts = [branch("a"), branch("b")]
        features = [value for kind, value in parts if kind == "feature"]
        f = sum(features[1:], features[0]) if features else x
        wanted = f.clone()
        for kind, value in parts:
            if kind == "gate":
                wanted += f * value
            if kind == "kernel":
                size = value.shape[-1]
                for sample in range(3):
                    wanted[sample] += torch.nn.functional.conv2d(
                        f[sample : sample + 1], value[sample, :, None], padding=size // 2, groups=8
                    )[0]
        torch.testing.assert_close(module(x), wanted, rtol=1e-4, atol=1e-5)


def test_expanded_calibration_keeps_meaning_and_cost() -> None:
    space = archir.loads(UNION)
    for architecture in space.enumerate():
        network = space.specialize(architecture)
        expanded = expand(network)
        assert not [n for n in expanded if expanded[n].op.name == "calibrate"]
        assert archir.cost(expanded).macs == archir.cost(network).macs
        verify(expanded)


def test_calibration_with_open_choice_is_not_expanded() -> None:
    graph = archir.loads(UNION).graph
    assert [n for n in expand(graph) if expand(graph)[n].op.name == "calibrate"]


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("gate + image", "kinds differ"),
        ("calibrate(gate, image)", "first operand must be a feature"),
        ("calibrate(image, [image, image |> conv(4)])", "features differ"),
        ("dynamic_conv(image, image[0:8])", "expected kernels"),
        ("gate |> relu", "expected a feature"),
        ("concat([image, gate])", "expected a feature"),
        ("image |> as_kernel", "square and odd"),
    ],
)
def test_rejects_operations_on_wrong_kinds(value: str, says: str) -> None:
    before = "gate = image |> global_avg_pool(keep=true) |> sigmoid |> as_gate"
    text = f"net n {{\ninput image: f32[8, 6, 6]\n{before}\noutput y = {value}\n}}"
    with pytest.raises(ArchError, match=says):
        archir.loads(text)


def test_a_feature_times_a_gate_is_a_feature() -> None:
    text = "net n {\ninput image: f32[8, 6, 6]\noutput y = (image * (image |> sigmoid |> as_gate)) |> conv(4)\n}"
    graph = archir.loads(text).graph
    assert infer(graph)[graph.outputs["y"]].shape == (4, 6, 6)

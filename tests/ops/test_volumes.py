"""Transposed convolutions and volumes: sizes, deployed networks, shared weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import archir
from archir.diagnostics.errors import ArchError
from archir.ir.typing import infer
from archir.passes.deploy import deploy
from archir.passes.sharing import Sharing
from archir_torch import BACKEND as TORCH
from archir_torch.lowering.module import lower
from archir_torch.supernet.network import SuperNetwork, extract


def net(body: str, takes: str = "f32[4, 5, 6]") -> archir.Space:
    return archir.loads(f"net n {{\n input x: {takes}\n{body}\n}}")


@pytest.mark.parametrize(
    ("call", "shape"),
    [
        ("conv_transpose(8, stride=2)", (8, 10, 12)),
        ("conv_transpose(8, 2, 2)", (8, 10, 12)),
        ("conv_transpose(8, [4, 1], [2, 1])", (8, 10, 6)),
        ("conv_transpose(8, 1, 3)", (8, 15, 18)),
        ('conv_transpose(8, 3, padding="valid")', (8, 7, 8)),
        ("conv_transpose(8, 3, 2, padding=1)", (8, 9, 11)),
        ("conv_transpose(8, 3, 2, padding=1, output_padding=[1, 0])", (8, 10, 11)),
    ],
)
def test_transposed_convolution_has_expected_output_size(call: str, shape: tuple[int, ...]) -> None:
    graph = net(f"output y = x |> {call}").graph
    assert infer(graph)[graph.outputs["y"]].shape == shape
    assert lower(graph)(torch.randn(2, 4, 5, 6)).shape == (2, *shape)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            "conv_transpose(8, 4)",
            "the extra position of an even window must be below 1",
        ),
        ("conv_transpose(8, 3, 2, 1, 2)", "`output_padding` must be below 2, the stride, got 2"),
        ('conv_transpose(8, 3, 2, "same", 1)', '`output_padding` follows from `padding="same"`'),
        ("conv_transpose(8, 3, padding=[0, 1, 0, 0])", "`padding` must be the same on both sides"),
        ("conv_transpose(8, 3, padding=4)", "a padding of 4 crops all of 5 positions"),
        ("conv_transpose(8, groups=3)", "4 input channels do not split into 3 groups"),
        ("pad([1, 2])", "`amount` must be one number or four, none of them negative"),
        ("conv3d(8)", r"expected a volume \[C, D, H, W\], got f32\[4, 5, 6\]"),
    ],
)
def test_rejects_invalid_arguments(call: str, said: str) -> None:
    with pytest.raises(ArchError, match=said):
        net(f"output y = x |> {call}")


def test_a_transposed_convolution_is_the_gradient_of_a_convolution() -> None:
    there = lower(net("output y = x |> conv(3, [3, 5], [2, 1], 1)", "f32[4, 9, 8]").graph)
    back = lower(net("output y = x |> conv_transpose(4, [3, 5], [2, 1], 1)", "f32[3, 5, 6]").graph)
    back.load_state_dict({"conv_transpose.weight": there.state_dict()["conv.weight"]})
    x, y = torch.randn(1, 4, 9, 8), torch.randn(1, 3, 5, 6)
    torch.testing.assert_close((there(x) * y).sum(), (x * back(y)).sum())


UNET = """
block twice(x, width) { return x |> conv(width) |> batch_norm |> relu |> conv(width) |> batch_norm |> relu }
net unet(classes = 3) {
    input image: f32[2, 8, 12]
    width = choose width(4, 8)
    top = image |> twice(width)
    low = top |> max_pool(2, 2) |> twice(2 * width)
    up = low |> conv_transpose(width, kernel=choose kernel(2, 4), stride=2) |> batch_norm |> relu
    output mask = concat(top, up) |> twice(width) |> conv(classes, kernel=1, bias=true)
}
"""


def test_batch_norms_behind_transposed_convolutions_are_folded(tmp_path: Path) -> None:
    space = archir.loads(UNET)
    graph = space.specialize(space.sample(0))
    module = lower(graph)
    module(torch.randn(4, 2, 8, 12))  # running statistics that are not those that it starts with
    made, weights = deploy(graph, TORCH.arrays(module.eval()))
    assert "batch_norm" not in {made[number].op.name for number in made}
    x = np.random.default_rng(0).standard_normal((2, 2, 8, 12)).astype(np.float32)
    deployed = lower(made)
    deployed.load_state_dict({name: torch.from_numpy(array) for name, array in weights.items()})
    wanted, found = (TORCH.runner(one.eval())({"image": x})["mask"] for one in (module, deployed))
    assert np.abs(wanted - found).max() < 1e-5
    assert archir.export(graph, tmp_path / "unet.onnx", module, dynamic=("batch", "height", "width")).relative < 1e-5


def test_deploy_keeps_batch_norm_after_grouped_transposed_convolution() -> None:
    graph = net("output y = x |> conv_transpose(4, 2, 2, groups=2) |> batch_norm").graph
    made, _ = deploy(graph, TORCH.arrays(lower(graph)))
    assert "batch_norm" in {made[number].op.name for number in made}


def test_transposed_convolutions_share_channels_and_kernels() -> None:
    space = archir.loads(UNET)
    sharing = Sharing(space.graph)
    (scope,) = {space.graph[n].scope for n in sharing.types if space.graph[n].op.name == "conv_transpose"}
    assert sharing.largest[scope]["weight"].shape == (16, 8, 4, 4)
    model, x = SuperNetwork(space.graph).eval(), torch.randn(2, 2, 8, 12)
    for architecture in space.enumerate():
        torch.testing.assert_close(model(x, architecture), extract(model, architecture)(x))


VOLUMES = """
net volumes() {
    input scan: f32[1, 4, 8, 8]
    width = choose width(4, 6)
    x = scan |> conv3d(width, kernel=choose kernel([1, 3, 3], 3), stride=[1, 2, 2]) |> batch_norm |> relu
    x = x + (x |> avg_pool3d(3) |> conv3d(width, kernel=1) |> group_norm(2) |> gelu)
    x = concat(x, x |> max_pool3d(2, stride=2) |> upsample(2)) |> dropout
    output sizes = x |> global_max_pool |> linear(x.depth + x.height + x.width)
    output logits = x |> global_avg_pool(keep=true) |> conv3d(3, 1, bias=true) |> flatten
}
"""


def test_volume_supernet_equals_extracted_networks(tmp_path: Path) -> None:
    space, x = archir.loads(VOLUMES), torch.randn(2, 1, 4, 8, 8)
    model = SuperNetwork(space.graph).eval()
    for architecture in space.enumerate():
        wanted, found = extract(model, architecture)(x), model(x, architecture)
        for name, tensor in wanted.items():
            torch.testing.assert_close(found[name], tensor)
        assert wanted["sizes"].shape == (2, 4 + 4 + 4)
    graph = space.specialize(space.sample(1))
    module = lower(graph)
    for opset in (17, 26):
        assert archir.export(graph, tmp_path / "net.onnx", module, opset=opset).relative < 1e-5
    flat = net("output y = x |> conv3d(6, [1, 3, 3])", "f32[2, 4, 5, 6]").graph
    assert archir.cost(flat).macs == 2 * 6 * 9 * 4 * 5 * 6


def test_volumes_are_padded_and_resized() -> None:
    x = torch.randn(2, 4, 3, 5, 6)
    for call, wanted in (
        ("pad([1, 0, 2, 3, 0, 4])", F.pad(x, (1, 0, 2, 3, 0, 4))),
        ("pad(1)", F.pad(x, (1,) * 6)),
        ('resize([6, 4, 9], mode="bilinear")', F.interpolate(x, (6, 4, 9), mode="trilinear")),
        ("resize(factor=2)", F.interpolate(x, scale_factor=2.0)),
    ):
        made = lower(net(f"output y = x |> {call}", "f32[4, 3, 5, 6]").graph)
        torch.testing.assert_close(made(x), wanted)
    for call in ('resize(4, mode="bicubic")', 'resize(4, mode="bilinear", antialias=true)'):
        with pytest.raises(ArchError, match="are for maps, got f32"):
            net(f"output y = x |> {call}", "f32[4, 3, 5, 6]")

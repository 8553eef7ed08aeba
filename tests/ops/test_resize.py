"""Resizing, adaptive pooling and pixel shuffle equal torch, also with dynamic image sizes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import archir
from archir.diagnostics.errors import ArchError
from archir.equivalence.canonical import canonical_hash
from archir_onnx import BACKEND as ONNX
from archir_torch import BACKEND as TORCH
from archir_torch.lowering.module import lower


def net(body: str, takes: str = "f32[4, 8, 6]") -> archir.Space:
    return archir.loads(f"net n {{\n input x: {takes}\n{body}\n}}")


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        ('resize([5, 9], mode="bilinear")', lambda x: F.interpolate(x, (5, 9), mode="bilinear")),
        ('resize(factor=3 / 2, mode="bicubic")', lambda x: F.interpolate(x, (12, 9), mode="bicubic")),
        (
            'resize(7, mode="bilinear", align_corners=true)',
            lambda x: F.interpolate(x, (7, 7), mode="bilinear", align_corners=True),
        ),
        (
            'resize([5, 7], mode="bilinear", antialias=true)',
            lambda x: F.interpolate(x, (5, 7), mode="bilinear", antialias=True),
        ),
        ("resize(factor=2)", lambda x: F.interpolate(x, scale_factor=2.0)),
        ("resize([3, 4])", lambda x: x[:, :, [0, 2, 5]][..., [0, 1, 3, 4]]),
        ("adaptive_avg_pool([3, 6])", lambda x: F.adaptive_avg_pool2d(x, (3, 6))),
        ("adaptive_max_pool(4)", lambda x: F.adaptive_max_pool2d(x, 4)),
        ("pixel_shuffle(2)", lambda x: F.pixel_shuffle(x, 2)),
        ("pixel_unshuffle(2) |> pixel_shuffle(2)", lambda x: x),
    ],
)  # fmt: skip
def test_resize_operations_equal_torch(call: str, wanted: object) -> None:
    x = torch.randn(2, 4, 8, 6)
    assert callable(wanted)
    torch.testing.assert_close(lower(net(f"output y = x |> {call}").graph)(x), wanted(x))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("resize()", "give either `size` or `factor`"),
        ("resize(4, factor=2)", "give either `size` or `factor`"),
        ("resize(4, align_corners=true)", '`align_corners` has no effect with "nearest"'),
        ('resize(4, mode="bicubic", antialias=true)', '`antialias` is for "bilinear" without `align_corners`'),
        ("resize(factor=0.1)", r"nothing is left of f32\[4, 8, 6\] at a size of 0 x 0"),
        ("resize([4, 4, 4])", r"`size` is one number, or one for each of 2 axes: \[4, 4, 4\]"),
        ('resize(4, mode="linear")', '`mode` of `resize` must be "nearest" or "bilinear" or "bicubic"'),
        ("adaptive_avg_pool(7)", "6 pixels do not split into 7 regions of at least one pixel"),
        ("pixel_shuffle(3)", "4 channels are not a multiple of 9, the pixels per channel"),
        ("pixel_unshuffle(4)", "8 x 6 pixels do not split into squares of 4"),
    ],
)
def test_rejects_invalid_sizes(call: str, said: str) -> None:
    with pytest.raises(ArchError, match=said):
        net(f"output y = x |> {call}")


def test_a_factor_is_a_fraction() -> None:
    assert [net(f"output y = x |> resize(factor={f})", "f32[1, 9, 30]").graph for f in ("1 / 3", "0.1 + 0.2")]
    lengths = [
        lower(net(f"output y = x |> resize(factor={f})", "f32[1, 30, 9]").graph)(torch.zeros(1, 1, 30, 9)).shape[2:]
        for f in ("1 / 3", "0.7", "29 / 10")
    ]
    assert [tuple(shape) for shape in lengths] == [(10, 3), (21, 6), (87, 26)]


def test_size_preserving_operations_are_canonicalized_away() -> None:
    same = ['resize([8, 6], mode="bicubic")', "resize(factor=1)", "adaptive_max_pool([8, 6])", "pixel_shuffle(1)"]
    assert {canonical_hash(net(f"output y = x |> {call} |> relu").graph) for call in same} == {
        canonical_hash(net("output y = x |> relu").graph)
    }
    one, other = (net(f"output y = x |> resize({by})").graph for by in ("[16, 12]", "factor=2"))
    assert canonical_hash(one) == canonical_hash(other)


FUSED = """
net fused(size = 16) {
    input image: f32[3, size, size]
    x = image |> conv(8, 3, 2) |> relu
    y = x |> conv(8, 3, 2) |> resize([x.height, x.width], mode=choose mode("nearest", "bilinear", "bicubic"))
    y = y |> resize(factor=1 / 2, mode="bilinear", antialias=true) |> resize(factor=2)
    z = x |> conv(32) |> pixel_shuffle |> pixel_unshuffle |> conv(8, 1) |> resize(factor=1 / 2) |> resize(factor=2)
    output y = (x + y + z) |> adaptive_avg_pool(1) |> flatten |> linear(4)
}
"""


def test_resize_exports_dynamic_size_only_with_factors(tmp_path: Path) -> None:
    """Sizes that are numbers stay: what is resized to them is refused; factors follow the image."""
    space = archir.loads(FUSED)
    graph = space.specialize(space.sample(0))
    with pytest.raises(ArchError, match="A0932"):
        archir.export(graph, tmp_path / "net.onnx", lower(graph), dynamic=("batch", "height", "width"))
    space = archir.loads(FUSED.replace("[x.height, x.width]", "factor=2"))
    for architecture in space.enumerate():
        graph = space.specialize(architecture)
        module, path = lower(graph), tmp_path / "net.onnx"
        report = archir.export(graph, path, module, dynamic=("batch", "height", "width"))
        assert report.relative < 1e-5
        x = np.random.default_rng(1).standard_normal((1, 3, 20, 28)).astype(np.float32)
        wanted, found = TORCH.runner(module.eval())({"image": x}), ONNX.run(path, {"image": x})
        assert all(np.abs(wanted[name] - found[name]).max() < 1e-4 for name in wanted)


def test_dynamic_size_error_names_adaptive_pool(tmp_path: Path) -> None:
    graph = net("output y = x |> conv(2) |> adaptive_max_pool(3) |> flatten").graph
    with pytest.raises(ArchError, match=r"A0932.*the windows of `adaptive_max_pool` depend on them"):
        archir.export(graph, tmp_path / "net.onnx", lower(graph), dynamic=("height", "width"))

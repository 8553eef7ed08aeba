"""`std.transformer`: DeiT has its published sizes, and blocks equal their formulas written in torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import archir
from archir_torch.lowering.operations.attention import rotary
from tests.conftest import EXAMPLES


def made(body: str, dims: str) -> nn.Module:
    text = f"import std.transformer\nnet one() {{\n input x: f32[{dims}]\n output y = x |> {body}\n}}"
    module = archir.compile(archir.loads(text).graph)
    assert isinstance(module, nn.Module)
    return module.eval()


def named(module: nn.Module) -> Mapping[str, Tensor]:
    """The module's weights, by their names below the block."""
    return {name.split(".", 1)[1]: tensor for name, tensor in module.state_dict().items()}


@pytest.mark.parametrize(
    ("width", "heads", "params", "macs"),
    [
        (192, 3, 5_717_416, 1_253_683_200),
        (384, 6, 22_050_664, 4_598_882_304),
        (768, 12, 86_567_656, 17_563_828_224),
    ],
)
def test_deit_counts_match_paper(width: int, heads: int, params: int, macs: int) -> None:
    """Touvron et al. 2021, table 1: 5 M, 22 M and 86 M parameters."""
    cost = archir.cost(archir.load(EXAMPLES / "deit_tiny.arch", width=width, heads=heads).graph)
    assert (cost.params, cost.macs) == (params, macs)


def test_drop_path_rises_from_zero() -> None:
    text = """
    import std.transformer
    net small(drop = 0) {
        input image: f32[3, 8, 8]
        output y = image |> deit(8, 2, depth=3, classes=4, patch=4, drop=drop)
    }
    """
    for drop, rates in ((0.2, [0.1, 0.1, 0.2, 0.2]), (0, [])):
        graph = archir.loads(text, drop=drop).graph
        assert [n.op.attributes()["rate"] for n in map(graph.__getitem__, graph) if n.op.name == "drop_path"] == rates


def test_patch_merging_equals_swin_reference() -> None:
    """Liu et al. 2021: every second row and column, rows before columns, as in the reference implementation."""
    module = made("patch_merging(height=4)", "24, 3")
    x = torch.randn(2, 24, 3)
    grid = x.reshape(2, 4, 6, 3)
    parts = [grid[:, 0::2, 0::2], grid[:, 1::2, 0::2], grid[:, 0::2, 1::2], grid[:, 1::2, 1::2]]
    weights = named(module)
    merged = F.layer_norm(torch.cat(parts, -1).reshape(2, 6, 12), (12,))
    torch.testing.assert_close(module(x), merged @ weights["linear.weight"].T)
    assert tuple(module(x).shape) == (2, 6, 6)


@pytest.mark.parametrize(("act", "function"), [("sigmoid", torch.sigmoid), ("silu", F.silu), ("gelu", F.gelu)])
def test_gated_unit_equals_formula(act: str, function: Callable[[Tensor], Tensor]) -> None:
    x = torch.randn(2, 5, 8)
    torch.testing.assert_close(made(f"gated_unit({act})", "5, 8")(x), x[..., :4] * function(x[..., 4:]))
    torch.testing.assert_close(made("gated_unit", "5, 8")(x), F.glu(x))


def test_gated_feed_forward_keeps_the_parameters() -> None:
    plain, gated = (made(name, "5, 96") for name in ("feed_forward", "gated_feed_forward"))
    sizes = [sum(p.numel() for p in module.parameters() if p.dim() > 1) for module in (plain, gated)]
    assert sizes == [8 * 96 * 96, 8 * 96 * 96]


def test_convolution_heads_match_glit_parameters_and_reach() -> None:
    """GLiT's local module, section 3.2: parameters 2 i d + 2 i + i K + i + 2 i + i d + d for i = E d."""
    module, d, kernel, inner = made("convolution_heads(5, 2)", "9, 6"), 6, 5, 12
    count = sum(p.numel() for p in module.parameters())
    assert count == 2 * inner * d + 2 * inner + inner * kernel + inner + 2 * inner + inner * d + d
    x = torch.randn(2, 9, 6)
    far = x.clone()
    far[:, 8] += 1.0
    changed = (module(x) - module(far)).abs().sum(-1)[0] > 0
    assert changed.tolist() == [False] * 6 + [True] * 3


def test_rotary_turns_each_pair_by_its_position() -> None:
    """As complex numbers: pair i of position n is multiplied by exp(i n / base^(2 i / width))."""
    x = torch.randn(2, 7, 12, dtype=torch.float64)
    y = rotary(x, heads=2, base=100.0).unflatten(2, (2, 6))
    split = x.unflatten(2, (2, 6))
    points = torch.complex(split[..., :3], split[..., 3:])
    angles = torch.arange(7)[:, None] * 100.0 ** (-2 * torch.arange(3, dtype=torch.float64) / 6)
    wanted = points * torch.polar(torch.ones_like(angles), angles)[:, None]
    torch.testing.assert_close(y[..., :3], wanted.real, atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(y[..., 3:], wanted.imag, atol=1e-6, rtol=1e-5)


def test_rotary_products_depend_on_distance_alone() -> None:
    query, key = torch.randn(8), torch.randn(8)
    queries, keys = (rotary(one.expand(1, 9, 8), heads=1, base=10000.0)[0] for one in (query, key))
    products = queries @ keys.T
    for distance in range(-8, 9):
        diagonal = products.diagonal(distance)
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(("heads", "base"), [(3, 10000.0), (8, 10000.0), (2, 0.0)])
def test_rotary_rejects_invalid_heads_or_base(heads: int, base: float) -> None:
    with pytest.raises(archir.ArchError, match="A04"):
        archir.loads(f"net one() {{\n input x: f32[4, 8]\n output y = x |> rotary({heads}, {base})\n}}")


def test_rotary_attention_depends_on_token_order() -> None:
    module = made("rotary_attention(2)", "5, 8")
    x = torch.randn(2, 5, 8)
    assert not torch.allclose(module(x[:, [1, 0, 2, 3, 4]])[:, [1, 0, 2, 3, 4]], module(x), atol=1e-3)

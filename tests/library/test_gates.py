"""The library's attention gates equal handwritten torch modules with the same weights."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import archir
from archir.diagnostics.errors import ArchError
from archir.ir.graph import Graph
from archir_torch.lowering.module import lower

CHANNELS, HEIGHT, WIDTH = 32, 9, 9


def graph(call: str, dims: tuple[int, ...] = (CHANNELS, HEIGHT, WIDTH)) -> Graph:
    shape = ", ".join(map(str, dims))
    return archir.loads(f"import std.gates\nnet n {{ input x: f32[{shape}]\n output y = x |> {call}\n}}").graph


class Squeezed(nn.Sequential):
    """Two fully connected layers."""

    def __init__(self, hidden: int, bias: bool, channels: int = CHANNELS) -> None:
        super().__init__(nn.Linear(channels, hidden, bias), nn.ReLU(), nn.Linear(hidden, channels, bias))


class Se(nn.Module):
    def __init__(self, hidden: int, bias: bool) -> None:
        super().__init__()
        self.layers = Squeezed(hidden, bias)

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.sigmoid(self.layers(x.mean((2, 3))))[:, :, None, None]


class ChannelAttention(Se):
    def forward(self, x: Tensor) -> Tensor:
        gate = torch.sigmoid(self.layers(x.mean((2, 3))) + self.layers(x.amax((2, 3))))
        return x * gate[:, :, None, None]


class SpatialAttention(nn.Module):
    def __init__(self, layers: nn.Module) -> None:
        super().__init__()
        self.layers = layers

    def forward(self, x: Tensor) -> Tensor:
        pooled = torch.stack((x.max(1).values, x.mean(1)), 1)
        return x * torch.sigmoid(self.layers(pooled))


class NormAttention(SpatialAttention):
    def forward(self, x: Tensor) -> Tensor:
        return x * torch.sigmoid(self.layers(x))


def plain(kernel: int, dilation: int = 1) -> nn.Sequential:
    pad = dilation * (kernel // 2)
    return nn.Sequential(nn.Conv2d(2, 1, kernel, padding=pad, dilation=dilation, bias=False), nn.BatchNorm2d(1))


def separable(inputs: int, outputs: int, dilation: int = 1) -> list[nn.Module]:
    return [
        nn.Conv2d(inputs, inputs, 3, padding=dilation, dilation=dilation, groups=inputs, bias=False),
        nn.Conv2d(inputs, outputs, 1, bias=False),
        nn.BatchNorm2d(outputs),
    ]


class GatherExcite(nn.Module):
    """Windows of 2 * extent - 1 pixels, each pixel gated by that of its own cell of the grid."""

    def __init__(self, extent: int) -> None:
        super().__init__()
        self.extent = extent

    def forward(self, x: Tensor) -> Tensor:
        gate = torch.empty_like(x)
        for row in range(x.shape[2]):
            for column in range(x.shape[3]):
                top, left = row // self.extent * self.extent, column // self.extent * self.extent
                reach = self.extent - 1
                rows = slice(max(0, top - reach), top + reach + 1)
                columns = slice(max(0, left - reach), left + reach + 1)
                gate[:, :, row, column] = x[:, :, rows, columns].mean((2, 3))
        return x * torch.sigmoid(gate)


class LearnedGather(nn.Module):
    def __init__(self, factor: int, layers: list[nn.Module], hidden: int | None = None) -> None:
        super().__init__()
        self.factor, self.layers = factor, nn.Sequential(*layers)
        self.excite = Squeezed(hidden, True) if hidden else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        gathered = self.excite(self.layers(x).movedim(1, -1)).movedim(-1, 1)
        gate = gathered.repeat_interleave(self.factor, 2).repeat_interleave(self.factor, 3)[:, :, :HEIGHT, :WIDTH]
        return x * torch.sigmoid(gate)


def depthwise(kernel: int, stride: int, padding: int) -> list[nn.Module]:
    layer = nn.Conv2d(CHANNELS, CHANNELS, kernel, stride, padding, groups=CHANNELS, bias=False)
    return [layer, nn.BatchNorm2d(CHANNELS)]


class CoordinateAttention(nn.Module):
    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.shared = nn.Sequential(nn.Conv2d(CHANNELS, hidden, 1), nn.BatchNorm2d(hidden), nn.Hardswish())
        self.height, self.width = nn.Conv2d(hidden, CHANNELS, 1), nn.Conv2d(hidden, CHANNELS, 1)

    def forward(self, x: Tensor) -> Tensor:
        both = self.shared(torch.cat((x.mean(3), x.mean(2)), 2)[:, :, :, None])
        rows, columns = both.split(x.shape[2:], 2)
        return x * torch.sigmoid(self.height(rows)) * torch.sigmoid(self.width(columns)).transpose(2, 3)


class Eca(nn.Module):
    def __init__(self, kernel: int) -> None:
        super().__init__()
        self.conv = nn.Conv1d(1, 1, kernel, padding=kernel // 2, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        gate = self.conv(x.mean((2, 3))[:, None])[:, 0]
        return x * torch.sigmoid(gate)[:, :, None, None]


GATES: dict[str, Callable[[], nn.Module]] = {
    "se": lambda: Se(2, True),
    "se(4, bias=false)": lambda: Se(8, False),
    "se(64)": lambda: Se(1, True),
    "se(hidden=5)": lambda: Se(5, True),
    "channel_attention": lambda: ChannelAttention(2, True),
    "channel_attention(4, false)": lambda: ChannelAttention(8, False),
    "spatial_attention": lambda: SpatialAttention(plain(7)),
    "spatial_attention(3, 2)": lambda: SpatialAttention(plain(3, 2)),
    "cbam(8)": lambda: nn.Sequential(ChannelAttention(4, True), SpatialAttention(plain(7))),
    "spatial_gate": lambda: SpatialAttention(nn.Sequential(*separable(2, 2), nn.ReLU(), *separable(2, 1))),
    "spatial_gate(2)": lambda: SpatialAttention(
        nn.Sequential(
            nn.Conv2d(2, 1, 3, padding=2, dilation=2, bias=False), nn.Conv2d(1, 1, 1, bias=False), nn.BatchNorm2d(1)
        )
    ),
    "norm_attention": lambda: NormAttention(
        nn.Sequential(*separable(CHANNELS, CHANNELS), nn.ReLU(), *separable(CHANNELS, CHANNELS))
    ),
    "norm_attention(2)": lambda: NormAttention(nn.Sequential(*separable(CHANNELS, CHANNELS, 2))),
    "gather_excite": lambda: GatherExcite(max(HEIGHT, WIDTH)),
    "gather_excite(2)": lambda: GatherExcite(2),
    "gather_excite(4)": lambda: GatherExcite(4),
    "gather_excite(learned=true)": lambda: LearnedGather(HEIGHT, depthwise(HEIGHT, 1, 0)),
    "gather_excite(2, true)": lambda: LearnedGather(2, depthwise(3, 2, 1)),
    "gather_excite(4, true, 16)": lambda: LearnedGather(4, [*depthwise(3, 2, 1), nn.ReLU(), *depthwise(3, 2, 1)], 2),
    "coordinate_attention": lambda: CoordinateAttention(8),
    "coordinate_attention(2)": lambda: CoordinateAttention(16),
    "eca": lambda: Eca(3),
    "eca(5)": lambda: Eca(5),
}


def weights(module: nn.Module) -> list[Tensor]:
    """Weights and running statistics, in the order of definition."""
    return [value for name, value in module.state_dict().items() if not name.endswith("num_batches_tracked")]


@pytest.mark.parametrize("call", GATES)
def test_gate_equals_handwritten_module(call: str) -> None:
    torch.manual_seed(0)
    ours, theirs = lower(graph(call)).double(), GATES[call]().double()
    assert len(weights(ours)) == len(weights(theirs))
    for mine, other in zip(weights(ours), weights(theirs), strict=True):
        assert mine.numel() == other.numel()
        other.copy_(torch.rand_like(other) - 0.5 if other.dim() > 1 else torch.rand_like(other) + 0.1)
        mine.copy_(other.reshape(mine.shape))
    x = torch.randn(3, CHANNELS, HEIGHT, WIDTH, dtype=torch.float64)
    with torch.no_grad():
        for mode in (False, True):
            torch.testing.assert_close(ours.train(mode)(x), theirs.train(mode)(x))


@pytest.mark.parametrize("channels", [4, 8, 16, 64])
def test_gate_parameter_counts_match_autola(channels: int) -> None:
    """The counts of AutoLA's operations for a group of c channels, with hidden layers of h = c / 4."""
    hidden = max(1, channels // 4)

    def params(call: str) -> int:
        return archir.cost(graph(call, (channels, 8, 8))).params

    assert params("norm_attention") == 2 * channels**2 + 22 * channels
    assert params("norm_attention(2)") == channels**2 + 11 * channels
    assert (params("spatial_gate"), params("spatial_gate(2)")) == (48, 21)
    assert params("se(4, bias=false)") == params("channel_attention(4, bias=false)") == 2 * channels * hidden
    assert params("cbam(4)") == 2 * channels * hidden + hidden + channels + 100
    assert params("spatial_gate(affine=false)") == 48 - 6
    assert params("norm_attention(affine=false)") == 2 * channels**2 + 18 * channels


def test_ecas_kernel_grows_with_the_channels() -> None:
    """The nearest odd number to (log2 C + 1) / 2, as its authors' code finds it."""
    kernels = {channels: archir.cost(graph("eca", (channels, 4, 4))).params for channels in (16, 64, 256, 512, 2048)}
    assert kernels == {16: 3, 64: 3, 256: 5, 512: 5, 2048: 7}


@pytest.mark.parametrize("op", ["mean_over", "max_over"])
def test_rejects_missing_axis(op: str) -> None:
    with pytest.raises(ArchError, match="axis 3 of f32"):
        graph(f"{op}(3)")


def test_max_over_and_mean_over_equal_torch() -> None:
    x = torch.randn(2, 3, 4, 5)
    found = lower(graph("max_over(-2) |> mean_over(0)", (3, 4, 5)))(x)
    torch.testing.assert_close(found, F.max_pool2d(x, (4, 1)).mean(1, keepdim=True))

"""The library's residual networks: exact counts, and values against networks written by hand in torch."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import archir
from archir.diagnostics.errors import ArchError
from archir.ir.graph import Graph
from archir_torch.lowering.module import lower

BLOCKS = """
block se_of(x, reduction) {
    return x |> se(reduction, bias=false)
}
block twice_se(x) {
    return x |> se |> se
}
block local(x, width, stride) {
    y = x |> local_self_attention(kernel=7, heads=8, project=false)
    return y if stride == 1 else y |> avg_pool(kernel=stride, stride=stride)
}
block inside_bottleneck(x, width, stride, attention, settings, shortcut) {
    return x |> bottleneck(width, stride, attention, settings, shortcut, inside=true)
}
block local_bottleneck(x, width, stride, attention, settings, shortcut) {
    return x |> bottleneck(width, stride, operator=local)
}
"""
LIBRARIES = "".join(f"import std.{name}\n" for name in ("attention", "gates", "preactivation", "resnet"))
BASIC, BOTTLENECK = "64, basic_block", "256, bottleneck"


def graph(call: str, size: int = 32, channels: int = 3) -> Graph:
    net = f"net n {{\n input image: f32[{channels}, {size}, {size}]\n output y = image |> {call}\n}}"
    return archir.loads(LIBRARIES + BLOCKS + net).graph


def counts(call: str, size: int = 32) -> tuple[int, int]:
    cost = archir.cost(graph(call, size))
    return cost.params, cost.macs


def params(call: str, size: int = 32) -> int:
    return counts(call, size)[0]


@pytest.mark.parametrize(
    ("depth", "projected", "padded", "half_se", "half_cbam"),
    [
        (20, 272_474, 269_722, 288_602, 290_006),
        (32, 466_906, 464_154, 493_786, 496_126),
        (56, 855_770, 853_018, 904_154, 908_366),
    ],
)
def test_cifar_resnet_parameter_counts_match_published_ones(
    depth: int, projected: int, padded: int, half_se: int, half_cbam: int
) -> None:
    assert params(f"cifar_resnet({depth})") == projected
    assert params(f"cifar_resnet({depth}, shortcut=padded)") == padded
    assert params(f"cifar_resnet({depth}, attention=se_of, settings=2)") == half_se
    assert params(f"cifar_resnet({depth}, attention=cbam, settings=2)") == half_cbam
    assert params(f"cifar_resnet({depth}, attention=se_of, settings=2, shortcut=padded)") == half_se - 2752


@pytest.mark.parametrize(("depth", "projected", "padded"), [(20, 40.8, 40.6), (32, 69.1, 68.9), (56, 125.7, 125.5)])
def test_cifar_resnet_macs_match_published_ones(depth: int, projected: float, padded: float) -> None:
    assert round(counts(f"cifar_resnet({depth})")[1] / 1e6, 1) == projected
    assert round(counts(f"cifar_resnet({depth}, shortcut=padded)")[1] / 1e6, 1) == padded


@pytest.mark.parametrize(
    ("call", "params", "macs"),
    [
        (f"resnet(stage_depths(18), {BASIC})", 11_689_512, 1_814_073_344),
        (f"resnet(stage_depths(34), {BASIC})", 21_797_672, 3_663_761_408),
        (f"resnet(stage_depths(26), {BOTTLENECK})", 13_696_552, 2_342_256_640),
        (f"resnet(stage_depths(38), {BOTTLENECK})", 19_626_792, 3_215_720_448),
        (f"resnet(stage_depths(50), {BOTTLENECK})", 25_557_032, 4_089_184_256),
        (f"resnet(stage_depths(101), {BOTTLENECK})", 44_549_160, 7_801_405_440),
        (f"resnet(stage_depths(152), {BOTTLENECK})", 60_192_808, 11_513_626_624),
        ("resnet(stage_depths(50), 256, resnext_32x4d)", 25_028_904, 4_230_479_872),
        (f"resnet(stage_depths(18), {BASIC}, attention=se)", 11_778_592, 1_814_160_384),
        (f"resnet(stage_depths(50), {BOTTLENECK}, attention=se)", 28_088_024, 4_091_699_200),
        (f"resnet(stage_depths(50), {BOTTLENECK}, attention=cbam)", 28_089_624, 4_095_573_110),
        (f"resnet(stage_depths(101), {BOTTLENECK}, attention=se, settings=16)", 49_326_872, 7_806_148_608),
    ],
)
def test_imagenet_resnet_counts_match_published_ones(call: str, params: int, macs: int) -> None:
    assert counts(call, 224) == (params, macs)


def test_small_image_resnet_counts_match_published_ones() -> None:
    assert counts("resnet(stage_depths(18), stem=cifar_stem, classes=10)") == (11_173_962, 555_422_720)
    assert counts("wide_resnet") == (36_479_194, 5_243_328_768)
    assert params("wide_resnet(16, 8, classes=100)") == 11_007_540
    assert counts("pyramidnet") == (2_528_712, 506_852_896)
    assert params("pyramidnet(classes=100)") == 2_564_802


def test_local_attention_resnet26_matches_trionet_parameters() -> None:
    """Local attention in ResNet-26: TrioNet's table 2 gives 10.3 M parameters.

    Against ResNet-26, each of the 8 blocks has three 1x1 convolutions and offsets where nine taps were.
    """
    found = params("resnet(stage_depths(26), 256, local_bottleneck)", 224)
    inner = [64] + [128] * 2 + [256] * 4 + [512]
    assert found == 13_696_552 + sum((3 - 9) * width**2 + 7 * width for width in inner)
    assert round(found / 1e6, 1) == 10.3


@pytest.mark.parametrize(
    ("unit", "widths"),
    [("basic_block", (64, 128)), ("bottleneck", (64, 128)), ("inside_bottleneck", (16, 32))],
)
def test_attention_adds_expected_parameters_to_each_unit(unit: str, widths: tuple[int, int]) -> None:
    plain = params(f"residual_stages([1, 1], 64, {unit})")
    for reduction in (2, 4):
        more = params(f"residual_stages([1, 1], 64, {unit}, se_of, {reduction})") - plain
        assert more == sum(2 * width * (width // reduction) for width in widths)
    twice = params(f"residual_stages([1, 1], 64, {unit}, twice_se)") - plain
    assert twice == 2 * sum(2 * width * max(1, width // 16) + width + max(1, width // 16) for width in widths)


@pytest.mark.parametrize("call", ["wide_resnet(10, 1, {})", "pyramidnet(11, 6, {})"])
def test_attention_adds_parameters_to_preactivated_networks(call: str) -> None:
    assert params(call.format("attention=se")) > params(call.format("attention=identity"))
    assert params(call.format("attention=se_of, settings=1")) > params(call.format("attention=se_of, settings=4"))


def test_rejects_impossible_cifar_depth() -> None:
    with pytest.raises(ArchError, match="must be an integer"):
        graph("cifar_resnet(21)")


# values


def conv(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Module:
    return nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)


def conv_norm(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Module:
    return nn.Sequential(conv(inputs, outputs, kernel, stride, groups), nn.BatchNorm2d(outputs))


class Basic(nn.Module):
    def __init__(self, option: str) -> None:
        super().__init__()
        self.option = option
        self.first, self.second = conv_norm(8, 12, 3, 2), conv_norm(12, 12, 3)
        self.shortcut = conv_norm(8, 12, 1, 2) if option == "B" else None

    def forward(self, x: Tensor) -> Tensor:
        y = self.second(self.first(x).relu())
        short = self.shortcut(x) if self.shortcut else F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, 0, 4))
        return (y + short).relu()


class Bottleneck(nn.Module):
    def __init__(self, inner: int, groups: int) -> None:
        super().__init__()
        self.first = conv_norm(8, inner, 1)
        self.second = conv_norm(inner, inner, 3, 2, groups)
        self.third = conv_norm(inner, 64, 1)
        self.shortcut = conv_norm(8, 64, 1, 2)

    def forward(self, x: Tensor) -> Tensor:
        return (self.third(self.second(self.first(x).relu()).relu()) + self.shortcut(x)).relu()


class Preactivated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before, self.first = nn.BatchNorm2d(8), conv(8, 12, 3, 2)
        self.between, self.second, self.shortcut = nn.BatchNorm2d(12), conv(12, 12, 3), conv(8, 12, 1, 2)

    def forward(self, x: Tensor) -> Tensor:
        active = self.before(x).relu()
        return self.second(self.between(self.first(active)).relu()) + self.shortcut(active)


class Pyramid(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before = nn.BatchNorm2d(8)
        self.first, self.second = conv_norm(8, 5, 1), conv_norm(5, 5, 3, 2)
        self.third = conv_norm(5, 20, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = self.third(self.second(self.first(self.before(x)).relu()).relu())
        return y + F.pad(F.avg_pool2d(x, 2), (0, 0, 0, 0, 0, 12))


UNITS: dict[str, nn.Module] = {
    "basic_block(12, 2)": Basic("B"),
    "basic_block(12, 2, shortcut=padded)": Basic("A"),
    "bottleneck(64, 2)": Bottleneck(16, 1),
    "bottleneck(64, 2, ratio=1/2, groups=4)": Bottleneck(32, 4),
    "resnext_32x4d(64, 2)": Bottleneck(32, 32),
    "preactivated(12, 2)": Preactivated(),
    "pyramid_bottleneck(5, 2)": Pyramid(),
}


def weights(module: nn.Module) -> dict[tuple[int, ...], list[Tensor]]:
    """Weights and running statistics by shape, in order."""
    found: dict[tuple[int, ...], list[Tensor]] = {}
    for name, value in module.state_dict().items():
        if not name.endswith("num_batches_tracked"):
            found.setdefault(tuple(value.shape), []).append(value)
    return found


@pytest.mark.parametrize("call", UNITS)
def test_residual_unit_equals_handwritten_module(call: str) -> None:
    torch.manual_seed(0)
    ours, theirs = lower(graph(call, 6, 8)).double(), UNITS[call].double()
    mine, other = weights(ours), weights(theirs)
    assert {shape: len(found) for shape, found in mine.items()} == {shape: len(found) for shape, found in other.items()}
    for shape, found in other.items():
        for source, target in zip(found, mine[shape], strict=True):
            source.copy_(torch.rand_like(source) - (0.5 if len(shape) > 1 else 0.0))
            target.copy_(source)
    x = torch.randn(3, 8, 6, 6, dtype=torch.float64)
    with torch.no_grad():
        for mode in (False, True):
            torch.testing.assert_close(ours.train(mode)(x), theirs.train(mode)(x))

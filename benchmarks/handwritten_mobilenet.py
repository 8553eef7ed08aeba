"""MobileNetV2 (Sandler et al. 2018, table 2) as a torch module written by hand."""

from __future__ import annotations

from torch import Tensor, nn

STAGES = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]
"""Expansion, channels, number of blocks, and stride of the first block."""


def conv_bn(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
    return [conv, nn.BatchNorm2d(outputs), nn.ReLU6(inplace=True)]


class InvertedResidual(nn.Module):
    """An inverted residual block with a linear bottleneck (section 3.4)."""

    def __init__(self, inputs: int, outputs: int, stride: int, expansion: int) -> None:
        super().__init__()
        hidden = inputs * expansion
        expand_layers = conv_bn(inputs, hidden, 1) if expansion > 1 else []
        self.body = nn.Sequential(
            *expand_layers, *conv_bn(hidden, hidden, 3, stride, hidden),
            nn.Conv2d(hidden, outputs, 1, bias=False), nn.BatchNorm2d(outputs),
        )  # fmt: skip
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.body(x)
        return x + y if self.residual else y


class MobileNetV2(nn.Module):
    """MobileNetV2 for 224 x 224 images and 1,000 classes."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        layers, width = conv_bn(3, 32, 3, 2), 32
        for expansion, channels, count, stride in STAGES:
            for index in range(count):
                layers.append(InvertedResidual(width, channels, stride if index == 0 else 1, expansion))
                width = channels
        self.features = nn.Sequential(*layers, *conv_bn(width, 1280, 1))
        self.classifier = nn.Linear(1280, classes)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.classifier(self.features(x).mean((2, 3)))
        return y

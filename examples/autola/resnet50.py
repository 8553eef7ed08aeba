"""ResNet-50 (He et al. 2016) as people write it in torch, with a place for a module in every block.

    archir compile imagenet.arch --arch hoga_paper.json --block hoga --to torch -o hoga.py

writes a module for it: `ResNet50(Hoga)`. As in the paper, it goes after the norm of the 3x3 convolution.
"""

from __future__ import annotations

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor, nn

Maker = Callable[[int], nn.Module]
"""Makes a module from maps of that many channels to maps of the same shape."""


class Bottleneck(nn.Module):
    def __init__(self, channels: int, width: int, stride: int, attention: Maker) -> None:
        super().__init__()
        self.reduce = conv_norm(channels, width, 1)
        self.spatial = conv_norm(width, width, 3, stride)
        self.attention = attention(width)
        self.expand = conv_norm(width, 4 * width, 1)
        same = stride == 1 and channels == 4 * width
        self.shortcut = nn.Identity() if same else conv_norm(channels, 4 * width, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        y = self.spatial(F.relu(self.reduce(x)))
        y = self.expand(F.relu(self.attention(y)))
        return F.relu(y + self.shortcut(x))


class ResNet50(nn.Module):
    def __init__(self, attention: Maker = lambda channels: nn.Identity(), classes: int = 1000) -> None:
        super().__init__()
        self.stem = conv_norm(3, 64, 7, 2)
        blocks, channels = [], 64
        for width, depth, stride in [(64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)]:
            for i in range(depth):
                blocks.append(Bottleneck(channels, width, stride if i == 0 else 1, attention))
                channels = 4 * width
        self.blocks = nn.Sequential(*blocks)
        self.classifier = nn.Linear(channels, classes)

    def forward(self, image: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.stem(image)), 3, 2, 1)
        return self.classifier(self.blocks(x).mean((2, 3)))


def conv_norm(channels: int, width: int, kernel: int, stride: int = 1) -> nn.Module:
    conv = nn.Conv2d(channels, width, kernel, stride, kernel // 2, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(width))

"""ResNet-50 (He et al. 2016) as a torch module, with a slot for an attention module in every block.

    archir compile imagenet.arch --arch hoga_paper.json --block hoga --to torch -o hoga.py

writes an attention module for the slot: `ResNet50(Hoga)`. As in the paper, it follows the norm of the 3x3 convolution.
"""

from __future__ import annotations

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor, nn

ModuleFactory = Callable[[int], nn.Module]
"""Creates a module that maps `channels` channels to the same shape."""


class Bottleneck(nn.Module):
    """Bottleneck block with attention after its 3x3 convolution."""

    def __init__(self, channels: int, width: int, stride: int, attention: ModuleFactory) -> None:
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
    """ResNet-50 with an attention module in each block."""

    def __init__(self, attention: ModuleFactory = lambda channels: nn.Identity(), classes: int = 1000) -> None:
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
    """Return a convolution with a batch norm."""
    conv = nn.Conv2d(channels, width, kernel, stride, kernel // 2, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(width))

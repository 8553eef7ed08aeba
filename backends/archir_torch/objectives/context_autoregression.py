"""Context auto-regression: self-supervised prediction of masked image regions (arXiv 2111.07139)."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor, nn

from archir.diagnostics.errors import fail
from archir.ir.graph import Graph, NodeId
from archir.passes.expose import features
from archir.utils.settings import Settings
from archir_torch.data import Data
from archir_torch.lowering.generators import seeded_generator as seeded
from archir_torch.objectives.objective import (
    Batch,
    Objective,
    Outputs,
    image_shape,
    objective,
    output_node,
    output_shape,
)

MAX_BOXES = 16
"""Maximum number of masked boxes per image."""
_SIDES = (4 / 32, 8 / 32)
"""Minimum and maximum side length of a masked box, as fractions of the image's side."""
_MAX_MASKED = 1 / 4
"""Maximum fraction of the pixels of an image that is masked."""


class ContextSettings(Settings):
    """Settings of `context_autoregression`.

    `output` names the feature map that the decoder reads, by default the input of the last global pooling. `over` is
    the region over which the loss is averaged: the masked pixels, or the whole image.
    """

    output: str | None = None
    over: Literal["masked", "image"] = "masked"


@objective("context_autoregression")
class ContextAutoregression(Objective):
    """Mean absolute difference between an image and its reconstruction from the network's feature map by a decoder.

    The network is an encoder without a head. In its input images, masked pixels are zero (in normalised values).
    """

    model = ContextSettings
    criterion = "error"
    larger = False

    def __init__(self, settings: ContextSettings | None = None, folder: Path | None = None) -> None:
        super().__init__()
        self.settings = settings or ContextSettings.model_validate({})
        self.decoder: nn.Module = nn.Identity()

    @property
    def name(self) -> str:
        """Name of the output that the decoder reads."""
        return self.settings.output or "features"

    @property
    def directions(self) -> dict[str, bool]:
        """Directions of the measures: `error` is the only one, and smaller is better."""
        return {"error": False}

    def reads(self, graph: Graph) -> dict[str, NodeId]:
        """Return the node of the output in the settings, by default the input of the last global pooling."""
        return {self.name: output_node(graph, self.name) if self.settings.output else features(graph)}

    def check(self, graph: Graph, data: Data) -> None:
        """Check that the only input of the net is an image. Raises ArchError (A1116) if it is not."""
        self._image(graph, data)

    @staticmethod
    def _image(graph: Graph, data: Data) -> tuple[int, ...]:
        return image_shape(graph, data, "`context_autoregression` restores parts of images: it")

    def prepare(self, graph: Graph, data: Data, generator: torch.Generator) -> None:
        """Create the decoder.

        Raises ArchError (A1903) if the output is not a feature map, or is higher or wider than the image.
        """
        channels, height, width = output_shape(graph, self.name, 3)
        image = self._image(graph, data)
        if height > image[1] or width > image[2]:
            text = (
                f"the output `{self.name}` of `{graph.name}` is {height} x {width}, the image {image[1]} x {image[2]}"
            )
            raise fail("A1903", text, None, "the decoder can only enlarge: choose an output no larger than the image")
        self.decoder = decoder((channels, height, width), image, generator)

    def inputs(self, batch: Batch, seed: int) -> Tensor:
        """Return the images with masked pixels set to zero."""
        return batch.images.masked_fill(self._masks(batch, seed), 0)

    def loss(self, outputs: Outputs, batch: Batch, seed: int) -> Tensor:
        """Return the mean absolute error over the masked pixels in the batch, or over all pixels."""
        difference = self._difference(outputs, batch)
        if self.settings.over == "image":
            return difference.mean()
        masks = self._masks(batch, seed)
        return (difference * masks).sum() / (masks.sum() * batch.images.shape[1]).clamp(min=1)

    def measure(self, outputs: Outputs, batch: Batch, seed: int) -> dict[str, Tensor]:
        """Return `error`: the mean absolute error over an image's masked pixels, summed over images."""
        masks = self._masks(batch, seed)
        masked = (masks.sum((1, 2, 3)) * batch.images.shape[1]).clamp(min=1)
        return {"error": ((self._difference(outputs, batch) * masks).sum((1, 2, 3)) / masked).sum()}

    def _difference(self, outputs: Outputs, batch: Batch) -> Tensor:
        decoded: Tensor = self.decoder(outputs[self.name])
        return (decoded - batch.images).abs()

    def _masks(self, batch: Batch, seed: int) -> Tensor:
        count, _, height, width = batch.images.shape
        return masks(count, height, width, seed, batch.images.device)


def masks(count: int, height: int, width: int, seed: int, device: torch.device | str = "cpu") -> Tensor:
    """Sample masks [count, 1, height, width] (bool): unions of random boxes.

    Side lengths are uniform from an eighth to a quarter of the image's side (4 to 8 of 32 pixels); positions are
    uniform within the image. Boxes are added until the next box would make the mask cover more than a quarter of the
    image; there are at most 16 boxes.
    """
    uniforms = torch.rand(4, count, MAX_BOXES, generator=seeded(seed, "masks")).to(device)
    rows = _interval_masks(uniforms[0], uniforms[1], height)[..., :, None]
    columns = _interval_masks(uniforms[2], uniforms[3], width)[..., None, :]
    covered = torch.zeros(count, height, width, dtype=torch.bool, device=device)
    fits = torch.ones(count, 1, 1, dtype=torch.bool, device=device)
    for box in range(
        MAX_BOXES
    ):  # one box of all images at a time: a single operation over all boxes is ten times slower
        union = covered | (rows[:, box] & columns[:, box])
        fits = fits & (union.sum((1, 2), keepdim=True) <= height * width * _MAX_MASKED)
        covered = torch.where(fits, union, covered)
    return covered[:, None]


def _interval_masks(length_number: Tensor, start_number: Tensor, size: int) -> Tensor:
    """Return boolean masks [..., size] of random intervals, from uniform numbers for their lengths and their starts."""
    min_length, max_length = (max(1, round(part * size)) for part in _SIDES)
    length = min_length + (length_number * (max_length - min_length + 1)).long().clamp(max=max_length - min_length)
    begin = torch.minimum((start_number * (size - length + 1)).long(), size - length)[..., None]
    positions = torch.arange(size, device=length_number.device)
    return (begin <= positions) & (positions < begin + length[..., None])


def decoder(encoded: tuple[int, ...], image: tuple[int, ...], generator: torch.Generator) -> nn.Sequential:
    """Build a decoder from a map [C, h, w] to an image.

    The decoder consists of stages that double the size and halve the channels, and a final 3 x 3 convolution. A stage
    is nearest-neighbour upsampling, a 3 x 3 convolution, batch norm and ReLU. The last stage upsamples to the size of
    the image, which may be less than twice the size of the stage's input.
    """
    channels, height, width = encoded
    stages = math.ceil(math.log2(max(image[1] / height, image[2] / width)))
    layers: list[nn.Module] = []
    for stage in range(1, stages + 1):
        size = (min(image[1], height << stage), min(image[2], width << stage)) if stage < stages else image[1:]
        out_channels = max(1, channels // 2)
        layers += [nn.Upsample(size=tuple(size)), _conv(channels, out_channels, generator)]
        layers += [nn.BatchNorm2d(out_channels), nn.ReLU(inplace=True)]
        channels = out_channels
    return nn.Sequential(*layers, _conv(channels, image[0], generator))


def _conv(channels: int, out_channels: int, generator: torch.Generator) -> nn.Module:
    """Return a 3 x 3 convolution whose weights are initialised from the generator, without torch's global generator."""
    conv: nn.Conv2d = nn.utils.skip_init(nn.Conv2d, channels, out_channels, 3, padding=1, bias=False)
    nn.init.kaiming_normal_(conv.weight, nonlinearity="relu", generator=generator)
    return conv

"""Context auto-regression: masked parts of an image are told from the rest of it, without labels (arXiv 2111.07139)."""

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
from archir_torch.lowering.generators import generator as seeded
from archir_torch.objectives.objective import Batch, Objective, Outputs, image, objective, output, shape

BOXES = 16
_SIDES = (4 / 32, 8 / 32)
_MASKED = 1 / 4


class ContextSettings(Settings):
    """`output` names the map that the decoder reads, by default what the final global pooling reads; `over` is what
    the loss is a mean over."""

    output: str | None = None
    over: Literal["masked", "image"] = "masked"


@objective("context_autoregression")
class ContextAutoregression(Objective):
    """The mean absolute difference of what a decoder makes of the network's map and the image.

    The network is an encoder without a head, and is given images with zeros (of the normalised image) at the masks.
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
        """The output that is read."""
        return self.settings.output or "features"

    @property
    def directions(self) -> dict[str, bool]:
        """`error`."""
        return {"error": False}

    def reads(self, graph: Graph) -> dict[str, NodeId]:
        """The named output, or what the final global pooling reads."""
        return {self.name: output(graph, self.name) if self.settings.output else features(graph)}

    def check(self, graph: Graph, data: Data) -> None:
        """Whether the net takes an image."""
        self._image(graph, data)

    @staticmethod
    def _image(graph: Graph, data: Data) -> tuple[int, ...]:
        return image(graph, data, "`context_autoregression` restores parts of images: it")

    def prepare(self, graph: Graph, data: Data, generator: torch.Generator) -> None:
        """The decoder. Raises ArchError (A1903) if the output is no map, or higher or wider than the image."""
        channels, height, width = shape(graph, self.name, 3)
        image = self._image(graph, data)
        if height > image[1] or width > image[2]:
            text = (
                f"the output `{self.name}` of `{graph.name}` is {height} x {width}, the image {image[1]} x {image[2]}"
            )
            raise fail("A1903", text, None, "a decoder makes maps larger")
        self.decoder = decoder((channels, height, width), image, generator)

    def inputs(self, batch: Batch, seed: int) -> Tensor:
        """The images, zero at the masks."""
        return batch.images.masked_fill(self._masks(batch, seed), 0)

    def loss(self, outputs: Outputs, batch: Batch, seed: int) -> Tensor:
        """The mean over all masked pixels of the batch, or over all pixels."""
        difference = self._difference(outputs, batch)
        if self.settings.over == "image":
            return difference.mean()
        masks = self._masks(batch, seed)
        return (difference * masks).sum() / (masks.sum() * batch.images.shape[1]).clamp(min=1)

    def measure(self, outputs: Outputs, batch: Batch, seed: int) -> dict[str, Tensor]:
        """`error`: for each image the mean over its masked pixels."""
        masks = self._masks(batch, seed)
        masked = (masks.sum((1, 2, 3)) * batch.images.shape[1]).clamp(min=1)
        return {"error": ((self._difference(outputs, batch) * masks).sum((1, 2, 3)) / masked).sum()}

    def _difference(self, outputs: Outputs, batch: Batch) -> Tensor:
        made: Tensor = self.decoder(outputs[self.name])
        return (made - batch.images).abs()

    def _masks(self, batch: Batch, seed: int) -> Tensor:
        count, _, height, width = batch.images.shape
        return masks(count, height, width, seed, batch.images.device)


def masks(count: int, height: int, width: int, seed: int, device: torch.device | str = "cpu") -> Tensor:
    """Masks [count, 1, height, width] bool, each the union of random boxes that covers at most a quarter of the image.

    Sides are drawn uniformly from an eighth to a quarter of the image's (4 to 8 of 32 pixels), places uniformly within
    it; there are as many boxes as fit before the first that does not, and at most 16.
    """
    drawn = torch.rand(4, count, BOXES, generator=seeded(seed, "masks")).to(device)
    rows = _inside(drawn[0], drawn[1], height)[..., :, None]
    columns = _inside(drawn[2], drawn[3], width)[..., None, :]
    covered = torch.zeros(count, height, width, dtype=torch.bool, device=device)
    fits = torch.ones(count, 1, 1, dtype=torch.bool, device=device)
    for box in range(BOXES):  # all images at once; unions of all boxes in one operation take ten times as long
        union = covered | (rows[:, box] & columns[:, box])
        fits = fits & (union.sum((1, 2), keepdim=True) <= height * width * _MASKED)
        covered = torch.where(fits, union, covered)
    return covered[:, None]


def _inside(side: Tensor, place: Tensor, size: int) -> Tensor:
    """Which of `size` places lie in an interval [..., size], for uniform numbers that say how long it is and where."""
    low, high = (max(1, round(part * size)) for part in _SIDES)
    length = low + (side * (high - low + 1)).long().clamp(max=high - low)
    begin = torch.minimum((place * (size - length + 1)).long(), size - length)[..., None]
    places = torch.arange(size, device=side.device)
    return (begin <= places) & (places < begin + length[..., None])


def decoder(encoded: tuple[int, ...], image: tuple[int, ...], generator: torch.Generator) -> nn.Sequential:
    """From a map [C, h, w] to an image: stages of twice the size and half the channels, then a 3 x 3 convolution.

    A stage is nearest upsampling, a 3 x 3 convolution, batch norm and ReLU; the last makes the image's size where that
    is no power of two times the map's.
    """
    channels, height, width = encoded
    stages = math.ceil(math.log2(max(image[1] / height, image[2] / width)))
    layers: list[nn.Module] = []
    for stage in range(1, stages + 1):
        size = (min(image[1], height << stage), min(image[2], width << stage)) if stage < stages else image[1:]
        after = max(1, channels // 2)
        layers += [nn.Upsample(size=tuple(size)), _conv(channels, after, generator)]
        layers += [nn.BatchNorm2d(after), nn.ReLU(inplace=True)]
        channels = after
    return nn.Sequential(*layers, _conv(channels, image[0], generator))


def _conv(channels: int, after: int, generator: torch.Generator) -> nn.Module:
    """A 3 x 3 convolution whose weights come from the generator alone."""
    made: nn.Conv2d = nn.utils.skip_init(nn.Conv2d, channels, after, 3, padding=1, bias=False)
    nn.init.kaiming_normal_(made.weight, nonlinearity="relu", generator=generator)
    return made

"""Attention transfer: where the maps of a teacher are strong, its student's should be.

Zagoruyko and Komodakis 2017; Li et al. (neural operator search), equations 6 and 7.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import torch
import torch.nn.functional as F
from pydantic import Field, model_validator
from torch import Tensor

from archir.base.errors import fail
from archir.base.settings import NonNegative, Settings
from archir.ir.graph import Graph, NodeId
from archir.ir.typing import infer
from archir.language.elaboration.elaborate import elaborate
from archir.language.elaboration.files import read
from archir_torch.data import Data
from archir_torch.lowering.module import Network, lower
from archir_torch.lowering.weights import load_weights
from archir_torch.objectives.objective import Batch, Objective, Outputs, image, objective, output, shape


class TransferSettings(Settings):
    """`teacher` is an .arch file (`FILE:NET` of one with several nets), made with `parameters`; `weights` are its
    safetensors. `stages` are the outputs that are compared, `teacher_stages` what the teacher calls them. `form` is
    the mean squared difference, or the norm of equation 6.
    """

    teacher: str
    weights: str
    parameters: dict[str, Any] = Field(default_factory=dict)
    stages: tuple[str, ...] = Field(("stage1", "stage2", "stage3"), min_length=1, strict=False)
    teacher_stages: tuple[str, ...] | None = Field(None, strict=False)
    weight: NonNegative = 1e3
    form: Literal["squares", "eq6"] = "squares"

    @model_validator(mode="after")
    def _as_many(self) -> TransferSettings:
        if self.teacher_stages is not None and len(self.teacher_stages) != len(self.stages):
            raise ValueError("the teacher has as many stages as are compared")
        return self


@objective("attention_transfer")
class AttentionTransfer(Objective):
    """Half the weight times the sum over stages of how far the attention maps of student and teacher are apart.

    The teacher sees the images of the batch; it is neither trained nor saved, and its norms use what they remember.
    """

    model = TransferSettings
    criterion = "transfer"
    larger = False

    def __init__(self, settings: TransferSettings, folder: Path | None = None) -> None:
        super().__init__()
        self.settings = settings
        self._folder = folder or Path()
        self._teacher: tuple[Network, ...] = ()

    @property
    def directions(self) -> dict[str, bool]:
        """`transfer`."""
        return {"transfer": False}

    def reads(self, graph: Graph) -> dict[str, NodeId]:
        """The student's stages."""
        return {name: output(graph, name) for name in self.settings.stages}

    def prepare(self, graph: Graph, data: Data, generator: torch.Generator) -> None:
        """The teacher. Raises ArchError: what is wrong with its file or weights, or A1902, A1903."""
        for name in self.settings.stages:
            shape(graph, name, 3)
        taught = _elaborated(self._folder / self.settings.teacher, self.settings.parameters)
        for name in self._pairs.values():
            output(taught, name)
            shape(taught, name, 3)
        taken = image(graph, data, "`attention_transfer`")
        wanted = [infer(taught)[number].shape for number in taught.inputs.values()]
        if wanted != [taken]:
            raise fail("A1903", f"the teacher `{taught.name}` takes {wanted}, and images are {list(taken)}")
        teacher = lower(taught)
        load_weights(teacher, self._folder / self.settings.weights)
        self._teacher = (teacher.eval().requires_grad_(False),)

    def loss(self, outputs: Outputs, batch: Batch, seed: int) -> Tensor:
        """Half the weight times the sum over stages of the means over the batch."""
        return self._apart(outputs, batch).mean()

    def measure(self, outputs: Outputs, batch: Batch, seed: int) -> dict[str, Tensor]:
        """`transfer`: the loss."""
        return {"transfer": self._apart(outputs, batch).sum()}

    @property
    def _pairs(self) -> dict[str, str]:
        """The teacher's outputs by the student's."""
        return dict(zip(self.settings.stages, self.settings.teacher_stages or self.settings.stages, strict=True))

    def _apart(self, outputs: Outputs, batch: Batch) -> Tensor:
        """How far student and teacher are apart [n]."""
        teacher = self._teacher[0].to(batch.images.device)  # no child, so neither trained, saved nor set to training
        with torch.no_grad():
            taught = teacher(batch.images)
        total = batch.images.new_zeros(len(batch.images))
        for mine, its in self._pairs.items():
            one, other = attention(*_alike(outputs[mine], taught[its]))
            apart = one - other
            total = total + (apart.square().mean(1) if self.settings.form == "squares" else apart.norm(dim=1))
        return self.settings.weight / 2 * total


def attention(*maps: Tensor) -> Iterator[Tensor]:
    """For each map [n, C, H, W] the sums of squares over channels, as vectors [n, H * W] of length 1."""
    for map in maps:
        yield F.normalize(map.float().square().sum(1).flatten(1), dim=1)


def _alike(one: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
    """Two maps, of which the larger one was averaged to the size of the smaller one."""
    height, width = (min(pair) for pair in zip(one.shape[2:], other.shape[2:], strict=True))
    return F.adaptive_avg_pool2d(one, (height, width)), F.adaptive_avg_pool2d(other, (height, width))


def _elaborated(path: Path, parameters: Mapping[str, Any]) -> Graph:
    """The graph of `FILE` or `FILE:NET`."""
    net = None
    if not path.exists() and ":" in path.name:
        name, net = path.name.rsplit(":", 1)
        path = path.with_name(name)
    return elaborate(read(path), str(path), folder=path.resolve().parent, net=net, parameters=parameters)

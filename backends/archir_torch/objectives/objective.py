"""What is minimised, and what is measured on held-out images."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Protocol

import torch
from torch import Tensor, nn

from archir.base.errors import fail, listed, suggest
from archir.base.settings import Settings
from archir.ir.graph import Graph, NodeId
from archir.ir.types import TensorType
from archir.ir.typing import infer
from archir_torch.data import Data

Outputs = Mapping[str, Tensor]
"""What a network makes of a batch, by the names of `Objective.reads`."""


class Batch(Protocol):
    """Images [n, C, H, W], labels [n], and the probabilities of classes [n, classes] if images were mixed."""

    @property
    def images(self) -> Tensor:
        """Normalised pixels."""

    @property
    def labels(self) -> Tensor:
        """Classes, from 0."""

    @property
    def targets(self) -> Tensor | None:
        """Probabilities of classes after mixup or cutmix."""


class Objective(nn.Module, ABC):
    """A task: the outputs it looks at, what the network is given, the loss, and measures.

    `reads` and `prepare` are called once, in this order; the network then has the outputs that `reads` names (see
    `archir.passes.expose`), and parts that are trained along with it, such as a decoder, are parameters of the
    objective. Everything random is a function of the `seed` that is given for a batch: `inputs`, `loss` and `measure`
    of one batch are called with the same.

    A subclass with settings of its own names their model as `model`; `folder` is where their relative paths start.
    """

    model: ClassVar[type[Settings]] = Settings
    """The settings that a recipe may give."""
    criterion: str = "accuracy"
    """The measure that says which of two networks is better."""
    larger: bool = True
    """Whether more of it is better."""

    def __init__(self, settings: Settings | None = None, folder: Path | None = None) -> None:
        super().__init__()

    @abstractmethod
    def reads(self, graph: Graph) -> dict[str, NodeId]:
        """The nodes that are looked at, by the names of their outputs. Raises ArchError (A1902)."""

    def prepare(self, graph: Graph, data: Data, generator: torch.Generator) -> None:
        """Make the parts that are trained, for a graph with the outputs that are read. Raises ArchError (A1903)."""

    def inputs(self, batch: Batch, seed: int) -> Tensor:
        """What the network is given: the images."""
        return batch.images

    @abstractmethod
    def loss(self, outputs: Outputs, batch: Batch, seed: int) -> Tensor:
        """What is minimised, a mean over the batch."""

    def measure(self, outputs: Outputs, batch: Batch, seed: int) -> dict[str, Tensor]:
        """Sums over the images of a batch. Added up over batches, and divided by the images, they are reported."""
        return {}


class Together(Objective):
    """A task, and losses that are added to its own."""

    def __init__(self, task: Objective, *added: Objective) -> None:
        super().__init__()
        self.parts: Sequence[Objective] = (task, *added)
        for number, part in enumerate(self.parts):
            self.add_module(str(number), part)
        self.criterion, self.larger = task.criterion, task.larger

    def reads(self, graph: Graph) -> dict[str, NodeId]:
        """What any of them reads."""
        return {name: number for part in self.parts for name, number in part.reads(graph).items()}

    def prepare(self, graph: Graph, data: Data, generator: torch.Generator) -> None:
        """The parts of all of them."""
        for part in self.parts:
            part.prepare(graph, data, generator)

    def inputs(self, batch: Batch, seed: int) -> Tensor:
        """What the task gives the network."""
        return self.parts[0].inputs(batch, seed)

    def loss(self, outputs: Outputs, batch: Batch, seed: int) -> Tensor:
        """The sum of all losses."""
        return torch.stack([part.loss(outputs, batch, seed) for part in self.parts]).sum()

    def measure(self, outputs: Outputs, batch: Batch, seed: int) -> dict[str, Tensor]:
        """The measures of all of them."""
        return {name: value for part in self.parts for name, value in part.measure(outputs, batch, seed).items()}


def output(graph: Graph, name: str) -> NodeId:
    """The node of a named output. Raises ArchError (A1902)."""
    if name not in graph.outputs:
        hint = suggest(name, graph.outputs) or f"its outputs are {listed(list(graph.outputs))}"
        raise fail("A1902", f"`{graph.name}` has no output `{name}`", None, hint)
    return graph.outputs[name]


def shape(graph: Graph, name: str, rank: int) -> tuple[int, ...]:
    """The shape of an output, without the batch. Raises ArchError (A1903) if it is of another rank, or not known."""
    kind: TensorType = infer(graph)[graph.outputs[name]]
    if kind.rank != rank or kind.varied:
        wanted = {1: "a vector", 3: "a map [C, H, W]"}[rank] + " of a size that no choice changes"
        raise fail("A1903", f"the output `{name}` of `{graph.name}` is {kind}, not {wanted}")
    return kind.shape

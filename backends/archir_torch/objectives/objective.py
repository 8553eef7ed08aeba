"""What is minimised, and what is measured on held-out samples."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Protocol, TypeVar

import torch
from torch import Tensor, nn

from archir.diagnostics.errors import fail, listed, suggest
from archir.ir.graph import Graph, NodeId
from archir.ir.types import TensorType
from archir.ir.typing import infer
from archir.plugins.registry import Registry
from archir.utils.settings import Settings
from archir_torch.data import Data
from archir_torch.objectives.measures import Compared, Measure

Outputs = Mapping[str, Tensor]
"""What a network makes of a batch, by the names of `Objective.reads`."""


class Batch(Protocol):
    """Samples: inputs and targets by name, and the probabilities of classes [n, classes] if images were mixed."""

    @property
    def inputs(self) -> Mapping[str, Tensor]:
        """By the names that the net has for them, in its order."""

    @property
    def targets(self) -> Mapping[str, Tensor]:
        """By the names that the data have for them."""

    @property
    def images(self) -> Tensor:
        """The first input."""

    @property
    def labels(self) -> Tensor:
        """The first target."""

    @property
    def mixed(self) -> Tensor | None:
        """Probabilities of classes after mixup or cutmix."""

    def __len__(self) -> int:
        """How many samples."""


class Objective(nn.Module, ABC):
    """A task: the outputs it looks at, what the network is given, the loss, and measures.

    `reads`, `check` and `prepare` are called once, in this order; the network then has the outputs that `reads` names
    (see `archir.passes.expose`), and parts that are trained along with it, such as a decoder, are parameters of the
    objective. Everything random is a function of the `seed` that is given for a batch: `inputs`, `loss` and `measure`
    of one batch are called with the same.

    A subclass with settings of its own names their model as `model`; `folder` is where their relative paths start.
    """

    model: ClassVar[type[Settings]] = Settings
    """The settings that a recipe may give."""
    criterion: str = "loss"
    """The measure that says which of two networks is better."""
    larger: bool = False
    """Whether more of it is better."""
    measures: Sequence[Measure] = ()
    """What is measured beside the loss, of the first output that is read and the first target."""
    compares: ClassVar[Compared | None] = None
    """What the target is. Integers are no labels to an objective of numbers, and samples are not divided by them."""

    def __init__(self, settings: Settings | None = None, folder: Path | None = None) -> None:
        super().__init__()

    def reads(self, graph: Graph) -> dict[str, NodeId]:
        """The nodes that are looked at, by the names of their outputs: the first output. Raises ArchError (A1902)."""
        return dict([next(iter(graph.outputs.items()))])

    def check(self, graph: Graph, data: Data) -> None:
        """Raise ArchError (A1108, A1116, A1903) if outputs or targets are not what the loss takes. The graph may have
        choices."""

    def prepare(self, graph: Graph, data: Data, generator: torch.Generator) -> None:
        """Make the parts that are trained, for a graph with the outputs that are read. Raises ArchError (A1903)."""

    def inputs(self, batch: Batch, seed: int) -> Tensor | tuple[Tensor, ...]:
        """What the network is given: its input, or its inputs in order."""
        return batch.images if len(batch.inputs) == 1 else tuple(batch.inputs.values())

    @abstractmethod
    def loss(self, outputs: Outputs, batch: Batch, seed: int) -> Tensor:
        """What is minimised, a mean over the batch."""

    def measure(self, outputs: Outputs, batch: Batch, seed: int) -> dict[str, Tensor]:
        """Sums over the samples of a batch, which `figures` makes figures of when they are added up over batches."""
        found = {"loss": self.loss(outputs, batch, seed) * len(batch)}
        return found | {one.name: one.sums(*self.compared(outputs, batch)) for one in self.measures}

    def compared(self, outputs: Outputs, batch: Batch) -> tuple[Tensor, Tensor]:
        """What measures compare: an output, and a target."""
        return next(iter(outputs.values())), batch.labels

    def figures(self, sums: Mapping[str, Tensor], samples: int) -> dict[str, float]:
        """The figures of sums over so many samples: what a measure says, or the mean."""
        known = {one.name: one for one in self.measures}
        return {
            name: known[name].figure(total, samples) if name in known else float(total) / samples
            for name, total in sums.items()
        }

    @property
    def directions(self) -> dict[str, bool]:
        """The names of all figures, and whether more of it is better."""
        return {"loss": False, **{one.name: one.larger for one in self.measures}, self.criterion: self.larger}

    @property
    def whole(self) -> frozenset[str]:
        """The measures that are no functions of sums, and are given a row for each sample."""
        return frozenset(one.name for one in self.measures if one.whole)

    @property
    def declared(self) -> bool:
        """Whether `directions` has all that `measure` gives, which an objective of somebody's own may not say."""
        kind = type(self)
        return kind.measure is Objective.measure or kind.directions is not Objective.directions


OBJECTIVES: Registry[str, type[Objective]] = Registry("objective", "objectives")
"""All of them, by the names that recipes have for them."""

O_ = TypeVar("O_", bound=type[Objective])


def objective(name: str) -> Callable[[O_], O_]:
    """Register a class as an objective."""

    def register(kind: O_) -> O_:
        OBJECTIVES.register(name, kind)
        return kind

    return register


def given(objective: Objective, batch: Batch, seed: int) -> tuple[Tensor, ...]:
    """What an objective gives a network."""
    found = objective.inputs(batch, seed)
    return (found,) if isinstance(found, Tensor) else found


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

    def check(self, graph: Graph, data: Data) -> None:
        """What any of them takes."""
        for part in self.parts:
            part.check(graph, data)

    def prepare(self, graph: Graph, data: Data, generator: torch.Generator) -> None:
        """The parts of all of them."""
        for part in self.parts:
            part.prepare(graph, data, generator)

    def inputs(self, batch: Batch, seed: int) -> Tensor | tuple[Tensor, ...]:
        """What the task gives the network."""
        return self.parts[0].inputs(batch, seed)

    def loss(self, outputs: Outputs, batch: Batch, seed: int) -> Tensor:
        """The sum of all losses."""
        return torch.stack([part.loss(outputs, batch, seed) for part in self.parts]).sum()

    def measure(self, outputs: Outputs, batch: Batch, seed: int) -> dict[str, Tensor]:
        """The measures of all of them; those of added losses whose names are taken begin with their number."""
        found: dict[str, Tensor] = {}
        for number, part in enumerate(self.parts):
            for name, value in part.measure(outputs, batch, seed).items():
                found[_free(name, number, found)] = value
        return found

    def figures(self, sums: Mapping[str, Tensor], samples: int) -> dict[str, float]:
        """The figures of all of them."""
        found: dict[str, float] = {}
        for number, part in enumerate(self.parts):
            own = {name: _free(name, number, found) for name in part.directions}
            own = {name: key for name, key in own.items() if key in sums}
            made = part.figures({name: sums[key] for name, key in own.items()}, samples)
            found |= {own[name]: value for name, value in made.items()}
        return found

    @property
    def directions(self) -> dict[str, bool]:
        """Those of all of them."""
        found: dict[str, bool] = {}
        for number, part in enumerate(self.parts):
            found |= {_free(name, number, found): larger for name, larger in part.directions.items()}
        return found

    @property
    def whole(self) -> frozenset[str]:
        """Those of all of them."""
        found: dict[str, bool] = {}
        for number, part in enumerate(self.parts):
            found |= {_free(name, number, found): name in part.whole for name in part.directions}
        return frozenset(name for name, whole in found.items() if whole)


def _free(name: str, number: int, taken: Mapping[str, object]) -> str:
    return f"also{number}_{name}" if number and name in taken else name


def output(graph: Graph, name: str) -> NodeId:
    """The node of a named output. Raises ArchError (A1902)."""
    if name not in graph.outputs:
        hint = suggest(name, graph.outputs) or f"its outputs are {listed(list(graph.outputs))}"
        raise fail("A1902", f"`{graph.name}` has no output `{name}`", None, hint)
    return graph.outputs[name]


def image(graph: Graph, data: Data, what: str) -> tuple[int, ...]:
    """[C, H, W] of the images of data, for an objective of which `what` says what it does with them. Raises ArchError
    (A1116) if a net takes anything else."""
    found = tuple(data.train.pixels[torch.tensor([0])].shape[1:])
    if len(data.train.inputs) != 1 or len(found) != 3:
        span = graph[next(iter(graph.inputs.values()))].span
        raise fail("A1116", f"{what} needs a net whose only input is an image [C, H, W]", span)
    return found


def shape(graph: Graph, name: str, rank: int) -> tuple[int, ...]:
    """The shape of an output, without the batch. Raises ArchError (A1903) if it is of another rank, or not known."""
    kind: TensorType = infer(graph)[graph.outputs[name]]
    if kind.rank != rank or kind.varied:
        forms = {1: "a vector", 2: "tokens [N, D]", 3: "a map [C, H, W]"}
        text = f"the output `{name}` of `{graph.name}` is {kind}, not {forms[rank]} of a size that no choice changes"
        raise fail("A1903", text, graph[graph.outputs[name]].span)
    return kind.shape

"""Base class of objectives: the loss to minimise, and the measures on held-out samples."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Literal, Protocol, TypeVar

import torch
from torch import Tensor, nn

from archir.diagnostics.errors import fail, join_names
from archir.diagnostics.hints import suggest
from archir.ir.graph import Graph, NodeId
from archir.ir.types import TensorType
from archir.ir.typing import infer
from archir.plugins.registry import Registry
from archir.utils.settings import Settings
from archir_torch.data import Data
from archir_torch.objectives.measures import Measure, TargetKind

Outputs = Mapping[str, Tensor]
"""Outputs of a network for a batch, by the names that `Objective.reads` returns."""


class Batch(Protocol):
    """Protocol of a batch: inputs and targets by name, and class probabilities [n, classes] if images were mixed."""

    @property
    def inputs(self) -> Mapping[str, Tensor]:
        """Inputs by the net's input names, in the order of the net."""

    @property
    def targets(self) -> Mapping[str, Tensor]:
        """Targets by their names in the data source."""

    @property
    def images(self) -> Tensor:
        """The first input."""

    @property
    def labels(self) -> Tensor:
        """The first target."""

    @property
    def mixed(self) -> Tensor | None:
        """Class probabilities [n, classes] after mixup or CutMix; None if images were not mixed."""

    def __len__(self) -> int:
        """Return the number of samples."""


class Objective(nn.Module, ABC):
    """Base class of objectives, which define the outputs to read, the network's inputs, a loss and measures.

    `reads`, `check` and `prepare` are called once, in this order. Afterwards the network has the outputs that `reads`
    returned (see `archir.passes.expose`). Modules that are trained along with the network, such as a decoder, are
    submodules of the objective. Random numbers must depend on `seed` only: `inputs`, `loss` and `measure` get the
    same seed for the same batch.

    A subclass that has settings sets `model` to the class of these settings; relative paths in the settings are
    resolved against `folder`.
    """

    model: ClassVar[type[Settings]] = Settings
    """Class of the objective's settings in a recipe."""
    criterion: str = "loss"
    """Name of the measure that decides which of two networks is better."""
    larger: bool = False
    """True if a larger value of the criterion is better."""
    measures: Sequence[Measure] = ()
    """Measures in addition to the loss. They compare the first output with the first target."""
    compares: TargetKind | None = None
    """Kind of the target.

    With "numbers", integer targets are not class labels, and data are not stratified by class.
    """
    predicts: Literal["classes", "labels"] | None = None
    """Whether the first output is the logits of classes or of labels, which in-place distillation compares."""

    def __init__(self, settings: Settings | None = None, folder: Path | None = None) -> None:
        super().__init__()

    def reads(self, graph: Graph) -> dict[str, NodeId]:
        """Return the nodes that the objective reads, by output name; by default the first output.

        Raises ArchError (A1902) if the graph has no such output.
        """
        return dict([next(iter(graph.outputs.items()))])

    def check(self, graph: Graph, data: Data) -> None:
        """Raise ArchError (A1108, A1116, A1903) if outputs or targets do not fit the loss. The graph may contain
        choices."""

    def prepare(self, graph: Graph, data: Data, generator: torch.Generator) -> None:
        """Create the modules that are trained along with the network.

        The graph has the outputs that `reads` returned. Raises ArchError (A1903) if an output does not have the shape
        that these modules need.
        """

    def inputs(self, batch: Batch, seed: int) -> Tensor | tuple[Tensor, ...]:
        """Return the input of the network, or a tuple of its inputs in the order of the net."""
        return batch.images if len(batch.inputs) == 1 else tuple(batch.inputs.values())

    @abstractmethod
    def loss(self, outputs: Outputs, batch: Batch, seed: int) -> Tensor:
        """Return the loss, averaged over the batch."""

    def measure(self, outputs: Outputs, batch: Batch, seed: int) -> dict[str, Tensor]:
        """Return sums over the samples in a batch, by measure name. The caller adds them up over batches for
        `figures`."""
        sums = {"loss": self.loss(outputs, batch, seed) * len(batch)}
        return sums | {metric.name: metric.sums(*self.compared(outputs, batch)) for metric in self.measures}

    def compared(self, outputs: Outputs, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the output and the target that the measures compare."""
        return next(iter(outputs.values())), batch.labels

    def figures(self, sums: Mapping[str, Tensor], samples: int) -> dict[str, float]:
        """Compute the value of each measure from its sums over all samples; a name without a measure is averaged over
        samples."""
        by_name = {metric.name: metric for metric in self.measures}
        return {
            name: by_name[name].figure(total, samples) if name in by_name else float(total) / samples
            for name, total in sums.items()
        }

    @property
    def directions(self) -> dict[str, bool]:
        """Direction of every measure by name: True if larger is better."""
        return {"loss": False, **{metric.name: metric.larger for metric in self.measures}, self.criterion: self.larger}

    @property
    def measures_of_all_samples(self) -> frozenset[str]:
        """Names of the measures that need a row for each sample instead of sums."""
        return frozenset(metric.name for metric in self.measures if metric.needs_all_samples)

    @property
    def declared(self) -> bool:
        """True if `directions` is known to have every name that `measure` returns.

        False for a subclass that overrides `measure` but not `directions`.
        """
        kind = type(self)
        return kind.measure is Objective.measure or kind.directions is not Objective.directions


OBJECTIVES: Registry[str, type[Objective]] = Registry("objective", "objectives", "archir_torch.objectives")
"""Registry of objective classes by name."""

O_ = TypeVar("O_", bound=type[Objective])


def objective(name: str) -> Callable[[O_], O_]:
    """Return a decorator that registers a class as the objective `name`."""

    def register(kind: O_) -> O_:
        OBJECTIVES.register(name, kind)
        return kind

    return register


def network_inputs(objective: Objective, batch: Batch, seed: int) -> tuple[Tensor, ...]:
    """Return the network inputs that an objective computes from a batch, always as a tuple."""
    inputs = objective.inputs(batch, seed)
    return (inputs,) if isinstance(inputs, Tensor) else inputs


class CombinedObjective(Objective):
    """Task with additional losses; the total loss is their sum."""

    def __init__(self, task: Objective, *added: Objective) -> None:
        super().__init__()
        self.parts: Sequence[Objective] = (task, *added)
        for number, part in enumerate(self.parts):
            self.add_module(str(number), part)
        self.criterion, self.larger = task.criterion, task.larger
        self.compares, self.predicts = task.compares, task.predicts

    def reads(self, graph: Graph) -> dict[str, NodeId]:
        """Return the nodes that the task or any additional objective reads."""
        return {name: number for part in self.parts for name, number in part.reads(graph).items()}

    def check(self, graph: Graph, data: Data) -> None:
        """Check outputs and targets for the task and all additional objectives."""
        for part in self.parts:
            part.check(graph, data)

    def prepare(self, graph: Graph, data: Data, generator: torch.Generator) -> None:
        """Create the trained modules of the task and all additional objectives."""
        for part in self.parts:
            part.prepare(graph, data, generator)

    def inputs(self, batch: Batch, seed: int) -> Tensor | tuple[Tensor, ...]:
        """Return the network inputs as the task defines them."""
        return self.parts[0].inputs(batch, seed)

    def loss(self, outputs: Outputs, batch: Batch, seed: int) -> Tensor:
        """Return the sum of all losses."""
        return torch.stack([part.loss(outputs, batch, seed) for part in self.parts]).sum()

    def measure(self, outputs: Outputs, batch: Batch, seed: int) -> dict[str, Tensor]:
        """Return the sums of all objectives by measure name.

        If several objectives have a measure of the same name, later ones get a prefix, such as `also1_` for objective
        1.
        """
        sums: dict[str, Tensor] = {}
        for number, part in enumerate(self.parts):
            for name, value in part.measure(outputs, batch, seed).items():
                sums[_unique_name(name, number, sums)] = value
        return sums

    def figures(self, sums: Mapping[str, Tensor], samples: int) -> dict[str, float]:
        """Return the values of the measures of all objectives; names that none of them declares are averaged over
        samples."""
        figures: dict[str, float] = {}
        for number, part in enumerate(self.parts):
            keys = {name: _unique_name(name, number, figures) for name in part.directions}
            keys = {name: key for name, key in keys.items() if key in sums}
            part_figures = part.figures({name: sums[key] for name, key in keys.items()}, samples)
            figures |= {keys[name]: value for name, value in part_figures.items()}
        undeclared = sums.keys() - figures.keys()
        return figures | {name: float(total) / samples for name, total in sums.items() if name in undeclared}

    @property
    def directions(self) -> dict[str, bool]:
        """Direction of every measure of all objectives: True if larger is better."""
        directions: dict[str, bool] = {}
        for number, part in enumerate(self.parts):
            directions |= {_unique_name(name, number, directions): larger for name, larger in part.directions.items()}
        return directions

    @property
    def measures_of_all_samples(self) -> frozenset[str]:
        """Names of the measures, of all objectives, that need a row for each sample."""
        needs_rows: dict[str, bool] = {}
        for number, part in enumerate(self.parts):
            needs_rows |= {
                _unique_name(name, number, needs_rows): name in part.measures_of_all_samples for name in part.directions
            }
        return frozenset(name for name, by_sample in needs_rows.items() if by_sample)


def _unique_name(name: str, number: int, taken: Mapping[str, object]) -> str:
    """Return the name for a measure of an objective, with a prefix if the name is already taken."""
    return f"also{number}_{name}" if number and name in taken else name


def output_node(graph: Graph, name: str) -> NodeId:
    """Return the node of a named output. Raises ArchError (A1902) if the graph has no such output."""
    if name not in graph.outputs:
        hint = suggest(name, graph.outputs) or f"its outputs are {join_names(list(graph.outputs))}"
        raise fail("A1902", f"`{graph.name}` has no output `{name}`", None, hint)
    return graph.outputs[name]


def image_shape(graph: Graph, data: Data, reason: str) -> tuple[int, ...]:
    """Return the shape [C, H, W] of the images in the data.

    Raises ArchError (A1116) if the net has several inputs, or if its input is not an image. `reason` begins the error
    message and says which objective needs images.
    """
    shape = tuple(data.train.pixels[torch.tensor([0])].shape[1:])
    if len(data.train.inputs) != 1 or len(shape) != 3:
        span = graph[next(iter(graph.inputs.values()))].span
        raise fail("A1116", f"{reason} needs a net whose only input is an image [C, H, W]", span)
    return shape


def output_shape(graph: Graph, name: str, rank: int) -> tuple[int, ...]:
    """Return the shape of an output without the batch axis.

    Raises ArchError (A1903) if the rank of the output is not `rank`, or if its shape depends on choices.
    """
    kind: TensorType = infer(graph)[graph.outputs[name]]
    if kind.rank != rank or kind.is_varying:
        forms = {1: "a vector", 2: "tokens [N, D]", 3: "a map [C, H, W]"}
        text = f"the output `{name}` of `{graph.name}` is {kind}, not {forms[rank]} of a size that no choice changes"
        raise fail("A1903", text, graph[graph.outputs[name]].span)
    return kind.shape

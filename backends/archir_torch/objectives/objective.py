"""Base class of objectives: the loss that is minimised, and the measures on held-out samples."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Protocol, TypeVar

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
"""A network's outputs for a batch, by the names that `Objective.reads` returns."""


class Batch(Protocol):
    """Protocol of a batch: inputs and targets by name, and class probabilities [n, classes] if images were mixed."""

    @property
    def inputs(self) -> Mapping[str, Tensor]:
        """Inputs by the net's input names, in its order."""

    @property
    def targets(self) -> Mapping[str, Tensor]:
        """Targets by the names in the data."""

    @property
    def images(self) -> Tensor:
        """The first input."""

    @property
    def labels(self) -> Tensor:
        """The first target."""

    @property
    def mixed(self) -> Tensor | None:
        """Class probabilities after mixup or CutMix."""

    def __len__(self) -> int:
        """Return the number of samples."""


class Objective(nn.Module, ABC):
    """Base class of objectives: the outputs that a task reads, the inputs it gives to the network, its loss and
    measures.

    `reads`, `check` and `prepare` are called once, in this order. The network then has the outputs that `reads` names
    (see `archir.passes.expose`), and parts that are trained along with it, such as a decoder, are parameters of the
    objective. Random numbers are a function of `seed`: `inputs`, `loss` and `measure` of the same batch get the same
    seed.

    A subclass with settings of its own sets `model` to their class; relative paths in the settings start at `folder`.
    """

    model: ClassVar[type[Settings]] = Settings
    """Class of the settings that a recipe may give."""
    criterion: str = "loss"
    """The measure that decides which of two networks is better."""
    larger: bool = False
    """True if a larger criterion is better."""
    measures: Sequence[Measure] = ()
    """Measures in addition to the loss; they compare the first output with the first target."""
    compares: ClassVar[TargetKind | None] = None
    """Kind of the target. For "numbers", integers are not class labels, and data are not split by class."""

    def __init__(self, settings: Settings | None = None, folder: Path | None = None) -> None:
        super().__init__()

    def reads(self, graph: Graph) -> dict[str, NodeId]:
        """Return the nodes that the objective reads, by output name; by default the first output. Raises ArchError
        (A1902)."""
        return dict([next(iter(graph.outputs.items()))])

    def check(self, graph: Graph, data: Data) -> None:
        """Raise ArchError (A1108, A1116, A1903) if outputs or targets do not fit the loss. The graph may contain
        choices."""

    def prepare(self, graph: Graph, data: Data, generator: torch.Generator) -> None:
        """Create the trained parts for a graph that has the outputs of `reads`. Raises ArchError (A1903)."""

    def inputs(self, batch: Batch, seed: int) -> Tensor | tuple[Tensor, ...]:
        """Return the network's input, or its inputs in order."""
        return batch.images if len(batch.inputs) == 1 else tuple(batch.inputs.values())

    @abstractmethod
    def loss(self, outputs: Outputs, batch: Batch, seed: int) -> Tensor:
        """Return the loss, a mean over the batch."""

    def measure(self, outputs: Outputs, batch: Batch, seed: int) -> dict[str, Tensor]:
        """Return sums over the samples of a batch. These are added up over batches and passed to `figures`."""
        sums = {"loss": self.loss(outputs, batch, seed) * len(batch)}
        return sums | {metric.name: metric.sums(*self.compared(outputs, batch)) for metric in self.measures}

    def compared(self, outputs: Outputs, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the output and the target that the measures compare."""
        return next(iter(outputs.values())), batch.labels

    def figures(self, sums: Mapping[str, Tensor], samples: int) -> dict[str, float]:
        """Compute figures from sums over all samples: by the measure of that name, otherwise as the mean."""
        by_name = {metric.name: metric for metric in self.measures}
        return {
            name: by_name[name].figure(total, samples) if name in by_name else float(total) / samples
            for name, total in sums.items()
        }

    @property
    def directions(self) -> dict[str, bool]:
        """Names of all figures, each with True if more is better."""
        return {"loss": False, **{metric.name: metric.larger for metric in self.measures}, self.criterion: self.larger}

    @property
    def measures_of_all_samples(self) -> frozenset[str]:
        """Names of the measures that need a row for each sample instead of sums."""
        return frozenset(metric.name for metric in self.measures if metric.needs_all_samples)

    @property
    def declared(self) -> bool:
        """True if `directions` has all names that `measure` returns; unknown (False) if a subclass overrides only
        `measure`."""
        kind = type(self)
        return kind.measure is Objective.measure or kind.directions is not Objective.directions


OBJECTIVES: Registry[str, type[Objective]] = Registry("objective", "objectives")
"""Registry of objectives by name."""

O_ = TypeVar("O_", bound=type[Objective])


def objective(name: str) -> Callable[[O_], O_]:
    """Return a decorator that registers a class as the objective `name`."""

    def register(kind: O_) -> O_:
        OBJECTIVES.register(name, kind)
        return kind

    return register


def network_inputs(objective: Objective, batch: Batch, seed: int) -> tuple[Tensor, ...]:
    """Return the network's inputs for a batch as a tuple."""
    inputs = objective.inputs(batch, seed)
    return (inputs,) if isinstance(inputs, Tensor) else inputs


class CombinedObjective(Objective):
    """A task and losses that are added to its own."""

    def __init__(self, task: Objective, *added: Objective) -> None:
        super().__init__()
        self.parts: Sequence[Objective] = (task, *added)
        for number, part in enumerate(self.parts):
            self.add_module(str(number), part)
        self.criterion, self.larger = task.criterion, task.larger

    def reads(self, graph: Graph) -> dict[str, NodeId]:
        """Return the nodes that any of the parts reads."""
        return {name: number for part in self.parts for name, number in part.reads(graph).items()}

    def check(self, graph: Graph, data: Data) -> None:
        """Check the outputs and targets of all parts."""
        for part in self.parts:
            part.check(graph, data)

    def prepare(self, graph: Graph, data: Data, generator: torch.Generator) -> None:
        """Create the trained parts of all objectives."""
        for part in self.parts:
            part.prepare(graph, data, generator)

    def inputs(self, batch: Batch, seed: int) -> Tensor | tuple[Tensor, ...]:
        """Return the network's inputs as the task defines them."""
        return self.parts[0].inputs(batch, seed)

    def loss(self, outputs: Outputs, batch: Batch, seed: int) -> Tensor:
        """Return the sum of all losses."""
        return torch.stack([part.loss(outputs, batch, seed) for part in self.parts]).sum()

    def measure(self, outputs: Outputs, batch: Batch, seed: int) -> dict[str, Tensor]:
        """Return the sums of all parts; a name that is already taken gets the prefix `also` and the part's number."""
        sums: dict[str, Tensor] = {}
        for number, part in enumerate(self.parts):
            for name, value in part.measure(outputs, batch, seed).items():
                sums[_unique_name(name, number, sums)] = value
        return sums

    def figures(self, sums: Mapping[str, Tensor], samples: int) -> dict[str, float]:
        """Return the figures of all parts."""
        figures: dict[str, float] = {}
        for number, part in enumerate(self.parts):
            keys = {name: _unique_name(name, number, figures) for name in part.directions}
            keys = {name: key for name, key in keys.items() if key in sums}
            part_figures = part.figures({name: sums[key] for name, key in keys.items()}, samples)
            figures |= {keys[name]: value for name, value in part_figures.items()}
        return figures

    @property
    def directions(self) -> dict[str, bool]:
        """The figures of all parts, each with True if more is better."""
        directions: dict[str, bool] = {}
        for number, part in enumerate(self.parts):
            directions |= {_unique_name(name, number, directions): larger for name, larger in part.directions.items()}
        return directions

    @property
    def measures_of_all_samples(self) -> frozenset[str]:
        """Names of the measures of all parts that need a row for each sample."""
        needs_rows: dict[str, bool] = {}
        for number, part in enumerate(self.parts):
            needs_rows |= {
                _unique_name(name, number, needs_rows): name in part.measures_of_all_samples for name in part.directions
            }
        return frozenset(name for name, by_sample in needs_rows.items() if by_sample)


def _unique_name(name: str, number: int, taken: Mapping[str, object]) -> str:
    """Return the name of a part's figure, with a prefix if the name is already taken."""
    return f"also{number}_{name}" if number and name in taken else name


def output_node(graph: Graph, name: str) -> NodeId:
    """Return the node of a named output. Raises ArchError (A1902) if there is none."""
    if name not in graph.outputs:
        hint = suggest(name, graph.outputs) or f"its outputs are {join_names(list(graph.outputs))}"
        raise fail("A1902", f"`{graph.name}` has no output `{name}`", None, hint)
    return graph.outputs[name]


def image_shape(graph: Graph, data: Data, reason: str) -> tuple[int, ...]:
    """Return the shape [C, H, W] of the images in the data. `reason` is the beginning of the message: why the objective
    needs images.

    Raises ArchError (A1116) if the net has an input that is not an image, or several inputs.
    """
    shape = tuple(data.train.pixels[torch.tensor([0])].shape[1:])
    if len(data.train.inputs) != 1 or len(shape) != 3:
        span = graph[next(iter(graph.inputs.values()))].span
        raise fail("A1116", f"{reason} needs a net whose only input is an image [C, H, W]", span)
    return shape


def output_shape(graph: Graph, name: str, rank: int) -> tuple[int, ...]:
    """Return the shape of an output without the batch. Raises ArchError (A1903) if it has another rank or depends on
    choices."""
    kind: TensorType = infer(graph)[graph.outputs[name]]
    if kind.rank != rank or kind.is_varying:
        forms = {1: "a vector", 2: "tokens [N, D]", 3: "a map [C, H, W]"}
        text = f"the output `{name}` of `{graph.name}` is {kind}, not {forms[rank]} of a size that no choice changes"
        raise fail("A1903", text, graph[graph.outputs[name]].span)
    return kind.shape

"""Interfaces between backends: samples as arrays, and evaluation of models on held-out samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from numpy.typing import NDArray

from archir.diagnostics.errors import NO_SPAN
from archir.ir.graph import Graph, Node
from archir.ir.structure import Input
from archir.ir.types import TensorType

Arrays = Mapping[str, NDArray[Any]]
"""Arrays [n, ...] by input or output name."""
Call = Callable[[Arrays], Arrays]
"""Model as a function from input arrays to output arrays."""


class Evaluator(Protocol):
    """Held-out samples, and an objective that evaluates a model's outputs on them."""

    @property
    def criterion(self) -> str:
        """Measure by which models are compared."""

    @property
    def larger(self) -> bool:
        """True if larger values of the criterion are better."""

    def __len__(self) -> int:
        """Return the number of samples."""

    def measured(self, call: Call) -> dict[str, float]:
        """Return the measures of a model on all samples; the criterion comes first."""

    def halves(self) -> tuple[Evaluator, Evaluator]:
        """Split into two evaluators with half of the samples each; within each class, samples alternate between
        them."""


@dataclass(frozen=True, eq=False)
class Samples:
    """Samples as network inputs, with an evaluator for held-out data.

    `training` are some of the training samples, `held_out` some of the held-out ones. `scales` describes the
    normalisation of each input: `mean`, `std`, and `of` (`pixels` or `numbers`). `classes` are the names of the classes
    by their numbers, if the samples have one label each. `evaluator` is None if nothing can be measured.
    """

    training: Arrays
    held_out: Arrays = field(default_factory=dict)
    scales: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    evaluator: Evaluator | None = None
    classes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(next(iter(self.training.values())))


@dataclass(frozen=True)
class Interface:
    """Input and output types of a model without the batch axis, by name.

    `resizing` describes how images are resized to its inputs (see `archir.data.metadata`); empty for the default.
    `labels` names the classes in the order of the first output, if the model names them. `raw` names the inputs that
    the model normalises itself.
    """

    name: str
    inputs: Mapping[str, TensorType]
    outputs: Mapping[str, TensorType]
    resizing: Mapping[str, Any] = field(default_factory=dict)
    labels: tuple[str, ...] = ()
    raw: frozenset[str] = frozenset()

    @property
    def graph(self) -> Graph:
        """Graph with these inputs and outputs, and no operations between them."""
        result = Graph(self.name)
        result.outputs = {
            name: result.add(Node(Input(f"output {name}", kind.shape, kind.dtype), NO_SPAN, name))
            for name, kind in self.outputs.items()
        }
        for name, kind in self.inputs.items():
            result.add(Node(Input(name, kind.shape, kind.dtype), NO_SPAN, name))
        return result

"""Samples as arrays, and what is measured on others: what one backend hands to another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from numpy.typing import NDArray

from archir.diagnostics.errors import NOWHERE
from archir.ir.graph import Graph, Node
from archir.ir.structure import Input
from archir.ir.types import TensorType

Arrays = Mapping[str, NDArray[Any]]
"""Of many samples, by the names of inputs or outputs."""
Call = Callable[[Arrays], Arrays]
"""A model, as a function of its inputs."""


class Judge(Protocol):
    """Held-out samples, and an objective that measures on them what models compute."""

    @property
    def criterion(self) -> str:
        """The measure that says which of two models is better."""

    @property
    def larger(self) -> bool:
        """Whether more of it is better."""

    def __len__(self) -> int:
        """How many samples."""

    def measured(self, call: Call) -> dict[str, float]:
        """What a model comes to, the criterion first."""

    def halves(self) -> tuple[Judge, Judge]:
        """The same with each half of the samples: of every class, every other one."""


@dataclass(frozen=True, eq=False)
class Samples:
    """Samples as a network takes them: `training` are some of those that it is trained on, `held_out` a few of the
    others. `scales` say by the names of inputs how they were normalised: `mean`, `std`, and `of` what, pixels or
    numbers. `judge` is None where nothing can be measured."""

    training: Arrays
    held_out: Arrays = field(default_factory=dict)
    scales: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    judge: Judge | None = None

    def __len__(self) -> int:
        return len(next(iter(self.training.values())))


@dataclass(frozen=True)
class Interface:
    """The types of samples that a model takes and gives, by name."""

    name: str
    inputs: Mapping[str, TensorType]
    outputs: Mapping[str, TensorType]

    @property
    def graph(self) -> Graph:
        """A graph that has these inputs and outputs, and nothing between: for whoever asks what they are."""
        made = Graph(self.name)
        made.outputs = {
            name: made.add(Node(Input(f"output {name}", one.shape, one.dtype), NOWHERE, name))
            for name, one in self.outputs.items()
        }
        for name, one in self.inputs.items():
            made.add(Node(Input(name, one.shape, one.dtype), NOWHERE, name))
        return made

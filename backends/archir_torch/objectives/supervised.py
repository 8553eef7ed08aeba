"""Base class of supervised tasks, and checks that outputs and targets match."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar

import torch
from torch import Tensor

from archir.diagnostics.errors import ArchError, Span, fail, join_names
from archir.diagnostics.hints import suggest
from archir.ir.graph import Graph, NodeId
from archir.utils.settings import ListAsTuple, NonNegative, Settings
from archir_torch.data import Data
from archir_torch.objectives.measures import measures_of
from archir_torch.objectives.objective import Batch, Objective, Outputs, output_node


class TaskSettings(Settings):
    """Settings of supervised tasks.

    `output` and `target` name the output and the target to compare, by default the first ones. The loss is multiplied
    by `weight`. `criterion` is the measure by which networks are compared; `measures` are additional measures.
    """

    output: str | None = None
    target: str | None = None
    weight: NonNegative = 1.0
    criterion: str | None = None
    measures: Annotated[tuple[str, ...], ListAsTuple] = ()


class Supervised(Objective):
    """Base class of tasks whose loss compares an output with a target."""

    model: ClassVar[type[TaskSettings]] = TaskSettings

    def __init__(self, settings: TaskSettings | None = None, folder: Path | None = None) -> None:
        super().__init__()
        self.settings = settings or self.model.model_validate({})
        self.configure()
        added = [name for name in self.settings.measures if name not in self.directions]
        self.measures = (*self.measures, *measures_of(added, self.compares))
        criterion = self.settings.criterion
        if criterion is not None:
            directions = self.directions
            if criterion not in directions:
                hint = suggest(criterion, directions) or f"measures are {join_names([*directions])}"
                raise fail("A1109", f"`criterion = {criterion!r}`: this objective has no such measure", None, hint)
            self.criterion, self.larger = criterion, directions[criterion]

    def configure(self) -> None:
        """Set the attributes that depend on the settings, such as `measures`. The constructor calls this method."""

    def reads(self, graph: Graph) -> dict[str, NodeId]:
        """Return the node of the output that is compared with the target."""
        name = self.settings.output
        return super().reads(graph) if name is None else {name: output_node(graph, name)}

    def target(self, data: Data) -> Tensor:
        """Return the target of all samples: training samples first, then held-out ones.

        Raises ArchError (A1116) if the data have no such target, or if the shape or dtype of the target differs between
        training and held-out samples.
        """
        targets, name = data.train.targets, self.settings.target
        if not targets:
            raise fail("A1116", "the data have no targets, only inputs")
        if name is not None and name not in targets:
            hint = suggest(name, targets) or f"targets are {join_names([*targets])}"
            raise fail("A1116", f"the data have no target `{name}`", None, hint)
        name = name or next(iter(targets))
        training, held_out = targets[name], data.held_out.targets[name]
        if training.shape[1:] != held_out.shape[1:] or training.dtype != held_out.dtype:
            raise fail(
                "A1116",
                f"`{name}` is {describe_target(training)} in training samples, but {describe_target(held_out)} in "
                "held-out ones",
            )
        all_targets = torch.cat([training, held_out])
        if all_targets.is_floating_point() and not all_targets.isfinite().all():
            raise fail("A1116", f"`{name}` holds numbers that are not finite")
        return all_targets

    def compared(self, outputs: Outputs, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the output and the target that the settings name."""
        output = outputs[self.settings.output] if self.settings.output else next(iter(outputs.values()))
        return output, batch.targets[self.settings.target] if self.settings.target else batch.labels


def output_span(graph: Graph, name: str) -> Span:
    """Return the source span of an output, for messages."""
    return graph[graph.outputs[name]].span


def classes_hint(graph: Graph, classes: int) -> str | None:
    """Return a hint to set the net's parameter `classes`; None if the net has no such parameter."""
    if "classes" not in graph.parameters:
        return None
    return f"try -p classes={classes}, in a recipe parameters.classes = {classes}"


def target_error(message: str, span: Span | None = None, hint: str | None = None) -> ArchError:
    """Return an error (A1116) about targets that do not suit an objective; `span` locates the output."""
    return fail("A1116", message, span, hint)


def describe_target(target: Tensor) -> str:
    """Return the dtype and the per-sample shape of targets as text for messages, such as `float32 [3]`."""
    return f"{str(target.dtype).removeprefix('torch.')} {list(target.shape[1:])}"

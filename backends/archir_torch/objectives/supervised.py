"""Tasks that compare an output with a target: which ones, and whether they can be compared."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar

import torch
from torch import Tensor

from archir.diagnostics.errors import ArchError, Span, fail, listed, suggest
from archir.ir.graph import Graph, NodeId
from archir.utils.settings import Many, NonNegative, Settings
from archir_torch.data import Data
from archir_torch.objectives.measures import measures_of
from archir_torch.objectives.objective import Batch, Objective, Outputs, output


class TaskSettings(Settings):
    """`output` names the output of the net and `target` the target of the data that are compared, by default the first
    of each; the loss is multiplied by `weight`; `criterion` is the measure that candidates are scored by; `measures`
    are names of further ones."""

    output: str | None = None
    target: str | None = None
    weight: NonNegative = 1.0
    criterion: str | None = None
    measures: Annotated[tuple[str, ...], Many] = ()


class Supervised(Objective):
    """The loss of an output and a target."""

    model: ClassVar[type[TaskSettings]] = TaskSettings

    def __init__(self, settings: TaskSettings | None = None, folder: Path | None = None) -> None:
        super().__init__()
        self.settings = settings or self.model.model_validate({})
        self.begin()
        further = [name for name in self.settings.measures if name not in self.directions]
        self.measures = (*self.measures, *measures_of(further, self.compares))
        wanted = self.settings.criterion
        if wanted is not None:
            known = self.directions
            if wanted not in known:
                hint = suggest(wanted, known) or f"measures are {listed([*known])}"
                raise fail("A1109", f"`criterion = {wanted!r}` is nothing that is measured", None, hint)
            self.criterion, self.larger = wanted, known[wanted]

    def begin(self) -> None:
        """Settle what the settings decide."""

    def reads(self, graph: Graph) -> dict[str, NodeId]:
        """The output that is compared."""
        name = self.settings.output
        return super().reads(graph) if name is None else {name: output(graph, name)}

    def target(self, data: Data) -> Tensor:
        """The target of all samples, those that are trained on first. Raises ArchError (A1116)."""
        known, name = data.train.targets, self.settings.target
        if not known:
            raise fail("A1116", "the data have no targets, only inputs")
        if name is not None and name not in known:
            hint = suggest(name, known) or f"targets are {listed([*known])}"
            raise fail("A1116", f"the data have no target `{name}`", None, hint)
        name = name or next(iter(known))
        first, rest = known[name], data.held_out.targets[name]
        if first.shape[1:] != rest.shape[1:] or first.dtype != rest.dtype:
            raise fail("A1116", f"`{name}` is {form(first)} to train on, and {form(rest)} in what is held out")
        found = torch.cat([first, rest])
        if found.is_floating_point() and not found.isfinite().all():
            raise fail("A1116", f"`{name}` holds numbers that are not finite")
        return found

    def compared(self, outputs: Outputs, batch: Batch) -> tuple[Tensor, Tensor]:
        """The output and the target."""
        output = outputs[self.settings.output] if self.settings.output else next(iter(outputs.values()))
        return output, batch.targets[self.settings.target] if self.settings.target else batch.labels


def place(graph: Graph, name: str) -> Span:
    """Where an output is written."""
    return graph[graph.outputs[name]].span


def wider(graph: Graph, classes: int) -> str | None:
    """What to write for as many classes, where a net has a parameter for them."""
    if "classes" not in graph.parameters:
        return None
    return f"try -p classes={classes}, in a recipe parameters.classes = {classes}"


def unfit(why: str, span: Span | None = None, hint: str | None = None) -> ArchError:
    """The diagnostic for targets that an objective cannot take, which shows the output that they are for."""
    return fail("A1116", why, span, hint)


def form(target: Tensor) -> str:
    """What targets are, in words: `float32 [3]` for each sample."""
    return f"{str(target.dtype).removeprefix('torch.')} {list(target.shape[1:])}"

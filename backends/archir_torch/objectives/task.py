"""What a network is trained to do: an objective, and the outputs that it wants."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from archir.ir.graph import Graph
from archir.passes.expose import expose
from archir.utils.seeds import mixed
from archir_torch.data import Data, Split
from archir_torch.lowering.generators import generator
from archir_torch.objectives.objective import Objective, given
from archir_torch.training import distributed
from archir_torch.training.feed import Batch

Call = Callable[..., Any]
"""A network as a function of its inputs: one tensor, or tensors by the names of outputs."""

LOOK = 256
"""Samples that are looked at together, when something is measured."""


def prepared(objective: Objective, graph: Graph, data: Data, seed: int) -> Graph:
    """A graph with the outputs that an objective reads, for which it is ready now. Raises ArchError (A1108, A1116,
    A1902, A1903)."""
    found = expose(graph, objective.reads(graph))
    objective.check(found, data)
    objective.prepare(found, data, generator(seed, "objective"))
    return found


class Task:
    """An objective at work on a network whose outputs have these names."""

    def __init__(self, objective: Objective, names: Sequence[str], *, seed: int, device: str) -> None:
        self.objective, self._names, self._seed, self._device = objective.to(device), tuple(names), seed, device
        self._last = (-1, 0)

    def loss(self, call: Call, batch: Batch, index: int) -> Tensor:
        """The loss of a batch, or of a part of one, at a step."""
        step, part = self._last
        self._last = (index, part + 1 if step == index else 0)
        seed = mixed(self._seed, "task", *self._last, distributed.world().rank)
        return self.objective.loss(self.outputs(call(*self.given(batch, seed))), batch, seed)

    def given(self, batch: Batch, seed: int = 0) -> tuple[Tensor, ...]:
        """What the network is given of a batch."""
        return given(self.objective, batch, seed)

    def begin(self, index: int) -> None:
        """The losses that come are those of a step, whatever was computed before."""
        self._last = (index, -1)

    def measured(self, call: Call, split: Split, epoch: int) -> dict[str, float]:
        """What the objective measures, its criterion first: figures of a split, which the processes share."""
        rank, size = distributed.world()
        totals: dict[str, Tensor] = {}
        looks = list(enumerate(torch.arange(len(split)).split(LOOK)))
        for turn in range(0, len(looks), size):  # processes look equally often: networks may be divided between them
            own = turn + rank < len(looks)
            number, rows = looks[turn + rank if own else 0]
            batch = _batch(split, rows, self._device)
            seed = mixed(self._seed, "measure", number)
            outputs = self.outputs(call(*self.given(batch, seed)))
            for name, value in self.objective.measure(outputs, batch, seed).items():
                part = value.double()
                if name in self.objective.whole:
                    part = part.new_zeros(len(split), *part.shape[1:]).index_copy_(0, rows.to(part.device), part)
                totals[name] = totals.get(name, 0) + (part if own else torch.zeros_like(part))
        distributed.add(totals)
        found = self.objective.figures({name: total.cpu() for name, total in sorted(totals.items())}, len(split))
        return dict(sorted(found.items(), key=lambda one: (one[0] != self.objective.criterion, one[0])))

    def outputs(self, found: Any) -> Mapping[str, Tensor]:
        """The outputs by name."""
        outputs: Mapping[str, Tensor] = {self._names[0]: found} if isinstance(found, Tensor) else found
        return outputs


def _batch(split: Split, rows: Tensor, device: str) -> Batch:
    inputs = {name: one[rows].to(device) for name, one in split.inputs.items()}
    return Batch(inputs, {name: one[rows].to(device) for name, one in split.targets.items()})


def tested(measured: Mapping[str, float]) -> dict[str, float]:
    """Measures of held-out samples by the names that rows of figures have for them: `accuracy`, `held_out_loss`."""
    return {"held_out_loss" if name == "loss" else name: value for name, value in measured.items()}


def validated(measured: Mapping[str, float]) -> dict[str, float]:
    """The same of the samples that choose in a search: `validation_accuracy`, `validation_loss`."""
    return {f"validation_{name}": value for name, value in measured.items()}

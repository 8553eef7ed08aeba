"""Task: an objective bound to a network that has the outputs which the objective reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from archir.ir.graph import Graph
from archir.passes.expose import expose
from archir.utils.seeds import derive_seed
from archir_torch.data import Data, Split
from archir_torch.lowering.generators import seeded_generator
from archir_torch.objectives.objective import Objective, network_inputs
from archir_torch.training import distributed
from archir_torch.training.feed import Batch

Call = Callable[..., Any]
"""Network as a function from inputs to a tensor, or to tensors by output name."""

EVAL_BATCH = 256
"""Batch size in evaluation."""


def prepare_graph(objective: Objective, graph: Graph, data: Data, seed: int) -> Graph:
    """Check and prepare an objective for a graph; return the graph with the outputs that the objective reads.

    Raises ArchError (A1108, A1116, A1902, A1903).
    """
    exposed = expose(graph, objective.reads(graph))
    objective.check(exposed, data)
    objective.prepare(exposed, data, seeded_generator(seed, "objective"))
    return exposed


class Task:
    """Objective together with the output names of the network, the seed and the device."""

    def __init__(self, objective: Objective, names: Sequence[str], *, seed: int, device: str) -> None:
        self.objective, self._names, self._seed, self._device = objective.to(device), tuple(names), seed, device
        self._last = (-1, 0)

    def loss(self, call: Call, batch: Batch, index: int) -> Tensor:
        """Return the loss of a batch at step `index`.

        A step may be divided into parts; each further call with the same `index` gets the next part and uses a seed of
        its own.
        """
        step, part = self._last
        self._last = (index, part + 1 if step == index else 0)
        seed = derive_seed(self._seed, "task", *self._last, distributed.world().rank)
        return self.objective.loss(self.outputs(call(*self.network_inputs(batch, seed))), batch, seed)

    def network_inputs(self, batch: Batch, seed: int = 0) -> tuple[Tensor, ...]:
        """Return the inputs that the objective feeds to the network for a batch."""
        return network_inputs(self.objective, batch, seed)

    def begin(self, index: int) -> None:
        """Start a step: reset the part number, so that the next call of `loss` is the first part of step `index`."""
        self._last = (index, -1)

    def measure(self, call: Call, split: Split) -> dict[str, float]:
        """Return all measures on a split, the criterion first. The batches are divided among the processes."""
        rank, size = distributed.world()
        totals: dict[str, Tensor] = {}
        batches = list(enumerate(torch.arange(len(split)).split(EVAL_BATCH)))
        for start in range(0, len(batches), size):  # all processes run equally often, because networks may be sharded
            is_real = start + rank < len(batches)
            position, rows = batches[start + rank if is_real else 0]
            batch = _batch(split, rows, self._device)
            seed = derive_seed(self._seed, "measure", position)
            outputs = self.outputs(call(*self.network_inputs(batch, seed)))
            for name, value in self.objective.measure(outputs, batch, seed).items():
                sums = value.double()
                if name in self.objective.measures_of_all_samples:
                    if name not in totals:
                        totals[name] = sums.new_zeros(len(split), *sums.shape[1:])
                    if is_real:
                        totals[name].index_copy_(0, rows.to(sums.device), sums)
                else:
                    totals[name] = totals.get(name, 0) + (sums if is_real else torch.zeros_like(sums))
        distributed.add(totals)
        figures = self.objective.figures({name: total.cpu() for name, total in sorted(totals.items())}, len(split))
        return dict(sorted(figures.items(), key=lambda item: (item[0] != self.objective.criterion, item[0])))

    def outputs(self, result: Any) -> Mapping[str, Tensor]:
        """Return the result of a network as outputs by name."""
        outputs: Mapping[str, Tensor] = {self._names[0]: result} if isinstance(result, Tensor) else result
        return outputs


def _batch(split: Split, rows: Tensor, device: str) -> Batch:
    inputs = {name: column[rows].to(device) for name, column in split.inputs.items()}
    return Batch(inputs, {name: column[rows].to(device) for name, column in split.targets.items()})


def as_held_out(measured: Mapping[str, float]) -> dict[str, float]:
    """Rename measures on held-out samples for rows of metrics: `loss` becomes `held_out_loss`, others keep their
    names."""
    return {"held_out_loss" if name == "loss" else name: value for name, value in measured.items()}


def as_validation(measured: Mapping[str, float]) -> dict[str, float]:
    """Rename measures on the validation samples of a search: `validation_accuracy`, `validation_loss`."""
    return {f"validation_{name}": value for name, value in measured.items()}

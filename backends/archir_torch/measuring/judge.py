"""What an objective measures of models of other backends: of functions of arrays, on held-out samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from archir.backends.samples import Call, Interface, Samples
from archir.data.inputs import Input
from archir.recipes.plugins import import_named
from archir.utils.settings import parsed
from archir_torch.data import Split, load
from archir_torch.objectives.task import Task, prepared
from archir_torch.search.single import Settings, objective_of

FEW = 16
"""Held-out samples that models are compared on."""


@dataclass(frozen=True, eq=False)
class Judge:
    """A task whose network is a function of arrays; `names` are those of its inputs."""

    task: Task
    split: Split
    names: Sequence[str]
    labelled: bool

    @property
    def criterion(self) -> str:
        """That of the objective."""
        return self.task.objective.criterion

    @property
    def larger(self) -> bool:
        """Whether more of it is better."""
        return self.task.objective.larger

    def __len__(self) -> int:
        return len(self.split)

    def measured(self, call: Call) -> dict[str, float]:
        """What the objective measures, its criterion first."""

        def network(*inputs: Tensor) -> dict[str, Tensor]:
            found = call({name: one.numpy() for name, one in zip(self.names, inputs, strict=True)})
            return {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in found.items()}

        with torch.no_grad():
            return self.task.measured(network, self.split, 0)

    def halves(self) -> tuple[Judge, Judge]:
        """The same with each half of the samples: of every class, every other one."""
        rows = torch.arange(len(self.split))
        turns = rows
        if self.labelled:
            labels = self.split.labels
            turns = labels.clone()  # classes begin in turns, too: some have one sample
            for label in labels.unique():
                turns[labels == label] += torch.arange(int((labels == label).sum()))
        one, other = (replace(self, split=self.split.chosen(rows[turns % 2 == half])) for half in (0, 1))
        return one, other


def samples(
    source: Any, interface: Interface, *, objective: Mapping[str, Any] | None, training: int, seed: int, judged: bool
) -> Samples:
    """The samples of a source as arrays: so many that are trained on, drawn by the seed, a few that are held out, and
    what an objective measures on all of these. Raises ArchError (A1108, A1116, A11xx, A19xx)."""
    import_named(source, objective or {})
    made = objective_of(parsed(Settings, {} if objective is None else {"objective": dict(objective)}))
    taken = tuple(Input(name, one) for name, one in interface.inputs.items())
    data = load(source, taken, seed=seed, labelled=made.compares != "numbers")
    judge = None
    if judged and (objective is not None or data.classes):
        names = tuple(prepared(made, interface.graph, data, seed).outputs)
        judge = Judge(
            Task(made, names, seed=seed, device="cpu"), data.held_out, [*interface.inputs], bool(data.classes)
        )
    drawn = torch.randperm(len(data.train), generator=torch.Generator().manual_seed(seed))[:training]
    few = torch.arange(min(FEW, len(data.held_out)))
    trained, others = ({name: one[rows].numpy() for name, one in part.inputs.items()}
                       for part, rows in ((data.train, drawn), (data.held_out, few)))  # fmt: skip
    return Samples(trained, others, {name: asdict(one) for name, one in data.scales.items()}, judge)

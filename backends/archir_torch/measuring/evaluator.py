"""Evaluation of other backends' models, as functions of arrays, by an objective on held-out samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from archir.backends.samples import Call, Interface, Samples
from archir.data.inputs import Input
from archir.data.metadata import resizing_of
from archir.data.sources import source_label
from archir.diagnostics.errors import fail, join_names
from archir.ir.types import TensorType
from archir.recipes.plugins import import_named
from archir.utils.settings import parse_settings
from archir_torch.data import Data, Split, load
from archir_torch.objectives.classification import Classification
from archir_torch.objectives.task import Task, prepare_graph
from archir_torch.search.single import Settings, objective_of

MAX_HELD_OUT = 16
"""Maximum number of held-out samples on which the outputs of two models are compared."""


@dataclass(frozen=True, eq=False)
class Evaluator:
    """Evaluates models that are functions of arrays, by an objective on held-out samples.

    `names` lists the names of the inputs; `labelled` is True if the only target is a class label.
    """

    task: Task
    split: Split
    names: Sequence[str]
    labelled: bool

    @property
    def criterion(self) -> str:
        """Name of the measure by which the objective decides which of two models is better."""
        return self.task.objective.criterion

    @property
    def larger(self) -> bool:
        """Whether a larger value of the criterion is better."""
        return self.task.objective.larger

    def __len__(self) -> int:
        return len(self.split)

    def measured(self, call: Call) -> dict[str, float]:
        """Evaluate a model; return all measures of the objective by name, the criterion first."""

        def network(*inputs: Tensor) -> dict[str, Tensor]:
            outputs = call({name: tensor.numpy() for name, tensor in zip(self.names, inputs, strict=True)})
            return {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in outputs.items()}

        with torch.no_grad():
            return self.task.measure(network, self.split)

    def halves(self) -> tuple[Evaluator, Evaluator]:
        """Return two evaluators on half of the samples each; the samples of every class are dealt out alternately.

        A single sample is in both.
        """
        if len(self.split) == 1:
            return self, self
        order = torch.argsort(self.split.labels, stable=True) if self.labelled else torch.arange(len(self.split))
        first, second = (replace(self, split=self.split.select(order[half::2].sort().values)) for half in (0, 1))
        return first, second


def samples(
    source: Any, interface: Interface, *, objective: Mapping[str, Any] | None, training: int, seed: int, judged: bool,
    pixels: tuple[Sequence[float], Sequence[float]] | None = None,
) -> Samples:  # fmt: skip
    """Return training samples and held-out samples of a source as arrays, with an evaluator.

    The seed selects `training` training samples; up to `MAX_HELD_OUT` held-out samples are returned. The evaluator is
    None if `judged` is false, or if there is neither an `objective` nor a class label. `pixels` is the mean and
    standard deviation by which images are normalised, by default those of the training samples. Classes are numbered
    as the interface's labels are. Raises ArchError (A0933, A11xx, A19xx).
    """
    import_named(source, objective or {})
    task_objective = objective_of(parse_settings(Settings, {} if objective is None else {"objective": dict(objective)}))
    resizing = resizing_of(interface.resizing)
    inputs = tuple(Input(name, column, resizing=resizing) for name, column in interface.inputs.items())
    data = load(source, inputs, seed=seed, labelled=task_objective.compares != "numbers", pixels=pixels)
    classifies = judged and isinstance(task_objective, Classification)
    if classifies:
        data = _numbered_by_model(data, interface, source)
    evaluator = None
    if judged and (objective is not None or data.classes):
        names = tuple(prepare_graph(task_objective, interface.graph, data, seed).outputs)
        evaluator = Evaluator(
            Task(task_objective, names, seed=seed, device="cpu"), data.held_out, [*interface.inputs], bool(data.classes)
        )
    train_rows = torch.randperm(len(data.train), generator=torch.Generator().manual_seed(seed))[:training]
    held_out_rows = torch.arange(min(MAX_HELD_OUT, len(data.held_out)))
    training_arrays, held_out_arrays = ({name: column[rows].numpy() for name, column in part.inputs.items()}
                       for part, rows in ((data.train, train_rows), (data.held_out, held_out_rows)))  # fmt: skip
    return Samples(
        training_arrays,
        held_out_arrays,
        {name: asdict(column) for name, column in data.scales.items()},
        evaluator,
        data.classes if classifies else (),
    )


def _numbered_by_model(data: Data, interface: Interface, source: Any) -> Data:
    """Return data whose classes have the numbers of the model's classes, which are matched by name.

    If the model has no names of classes, or the data have only numbers, the numbers of the data stay. Raises ArchError
    (A1117) if names do not match, or if the model has no names and another number of classes.
    """
    if not data.classes or data.classes == tuple(map(str, range(len(data.classes)))):
        return data
    output, kind = next(iter(interface.outputs.items()), ("", TensorType(())))
    names, labels = f"the classes of {source_label(source)} are {join_names(data.classes, 10)}", interface.labels
    if not labels:
        if kind.rank == 1 and kind.shape[0] > len(data.classes):  # fewer outputs are an error of the objective
            text = f"{names}, and the output `{output}` has {kind.shape[0]}"
            raise fail("A1117", text, None, "name the model's classes in the order of its outputs with --labels")
        return data
    if any(labels.count(name) != 1 for name in data.classes):
        text = f"{names}, and those of the model are {join_names(labels, 10)}"
        raise fail("A1117", text, None, "rename the folders, or name the model's classes again with --labels")
    numbers = torch.tensor([labels.index(name) for name in data.classes])

    def renumbered(split: Split) -> Split:
        """Return a part with the model's numbers of classes."""
        return replace(split, targets={name: numbers[column] for name, column in split.targets.items()})

    return replace(data, train=renumbered(data.train), held_out=renumbered(data.held_out), classes=labels)

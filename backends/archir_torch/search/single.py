"""Training of a single network without a recipe: `archir.train`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

import torch
from pydantic import Field
from torch import Tensor, nn

from archir.diagnostics.errors import fail
from archir.recipes.augmentation import Augment
from archir.recipes.training import MAX_LR, Momentum, Optimizer
from archir.utils.frames import Tabular
from archir.utils.settings import Count, NonNegative, Positive, Seed
from archir.utils.settings import Settings as Checked
from archir_torch.data import Data
from archir_torch.objectives import Objective, create
from archir_torch.objectives.create import kind_of
from archir_torch.objectives.task import Task, as_held_out
from archir_torch.training import checkpoint_folder as checkpoint
from archir_torch.training import distributed, loop
from archir_torch.training.checkpoint_state import State
from archir_torch.training.feed import Feed, is_image
from archir_torch.training.learner import Learner
from archir_torch.training.norms import synchronise


class Settings(Checked):
    """Settings of training. The learning rate falls from `lr` by a cosine schedule, after a linear warm-up."""

    limit: int | None = Field(None, ge=2, le=10**12)
    """Maximum number of training samples, and of held-out samples."""
    epochs: Count = 20
    batch: Count = 64
    optimizer: Literal["adamw", "sgd"] = "adamw"
    lr: float = Field(2e-3, gt=0, le=MAX_LR)
    momentum: Momentum = 0.9
    weight_decay: NonNegative = 0.01
    schedule: Literal["cosine", "constant"] = "cosine"
    warmup_epochs: NonNegative = 1
    label_smoothing: float = Field(0.0, ge=0, lt=1)
    clip: Positive | None = 5.0
    precision: Literal["auto", "float32", "bf16"] = "auto"
    augment: bool = True
    flip: bool = False
    seed: Seed = 0
    objective: dict[str, Any] = Field(default_factory=lambda: {"kind": "classification"})
    """Objective: its `kind` and its settings (docs/objectives.md)."""


@dataclass(frozen=True)
class Epoch:
    """Results of an epoch: mean training loss, measures on held-out samples, seconds."""

    epoch: int
    loss: float
    measures: Mapping[str, float]
    seconds: float

    @property
    def figures(self) -> dict[str, float]:
        """All results by name."""
        return {"epoch": self.epoch, "loss": self.loss, **self.measures, "seconds": self.seconds}


@dataclass(frozen=True)
class Result(Tabular):
    """Result of training: metrics of all epochs, a description of the data (`images`), and the criterion.

    The criterion is the measure by which networks are compared; `larger` tells whether larger values of it are better.
    The trained module holds the weights of the last epoch.
    """

    history: tuple[Epoch, ...] = field(default_factory=tuple)
    images: Mapping[str, Any] = field(default_factory=dict)
    criterion: str = "accuracy"
    larger: bool = True

    def __repr__(self) -> str:
        last = self.history[-1].figures if self.history else {}
        text = ", ".join(f"{name} {value:.4g}" for name, value in last.items() if name not in ("epoch", "seconds"))
        return f"<Result of {len(self.history):,} epochs{': ' * bool(text)}{text}>"

    def columns(self) -> dict[str, list[Any]]:
        """Return the columns of the table of metrics, one row per epoch."""
        names = dict.fromkeys(name for epoch in self.history for name in epoch.figures)
        return {name: [epoch.figures.get(name) for epoch in self.history] for name in names}

    @property
    def measures(self) -> Mapping[str, float]:
        """Measures on held-out samples after the last epoch."""
        return self.history[-1].measures

    @property
    def shown(self) -> Mapping[str, float]:
        """Measures to display: all except the loss, or the loss if it is the only one."""
        without_loss = {name: value for name, value in self.measures.items() if name != "held_out_loss"}
        return without_loss or self.measures

    @property
    def accuracy(self) -> float:
        """Held-out accuracy after the last epoch. Raises KeyError if the objective does not measure accuracy."""
        return self.measures["accuracy"]


class Progress(Protocol):
    """Protocol of observers that show the progress of training."""

    def start(self, epochs: int, steps: int) -> None:
        """Called when training begins, with the number of epochs and the total number of remaining steps."""

    def step(self, loss: float) -> None:
        """Called after a step."""

    def epoch(self, epoch: Epoch) -> None:
        """Called after an epoch with its results."""


class NullProgress:
    """Progress that ignores all events."""

    def start(self, epochs: int, steps: int) -> None:
        """Ignore the start."""

    def step(self, loss: float) -> None:
        """Ignore a step."""

    def epoch(self, epoch: Epoch) -> None:
        """Ignore an epoch."""


def fit(
    module: nn.Module,
    data: Data,
    settings: Settings,
    *,
    objective: Objective | None = None,
    names: Sequence[str] = ("output",),
    folder: Path | None = None,
    resume: bool = False,
    device: str = "cpu",
    progress: Progress | None = None,
) -> Result:
    """Train a module, and return its metrics. `names` lists the names of the module's outputs.

    `objective` must be prepared for these outputs; by default it is created from the settings. With `folder`, a
    checkpoint is written after every epoch; with `resume`, training continues from that checkpoint. A run that was
    interrupted and resumed ends with the same weights as an uninterrupted one (bit for bit on the CPU). Raises
    ArchError: A1105 (the checkpoint is corrupt), A1106 (the checkpoint has other settings), A1107 (the loss
    diverged).
    """
    objective = objective or objective_of(settings)
    task = Task(objective, names, seed=settings.seed, device=device)
    trainer = _NetworkTrainer(module, data, settings, task, device)
    checkpointer = _FolderCheckpointer(folder, settings, resume) if folder is not None else None
    rows = loop.run(
        trainer,
        epochs=settings.epochs,
        steps=trainer.feed.steps,
        checkpointer=checkpointer,
        callback=_ProgressCallback(progress or NullProgress()),
        seed=settings.seed,
    )
    return Result(tuple(map(_epoch, rows)), criterion=objective.criterion, larger=objective.larger)


class _NetworkTrainer:
    """Trainable (see `archir_torch.training.loop`) that trains a single network on its task."""

    steady = True

    def __init__(self, module: nn.Module, data: Data, settings: Settings, task: Task, device: str) -> None:
        self._network, self._task, self._held_out = module.to(device), task, data.held_out
        rank, size = distributed.world()
        self.feed = Feed(
            data.train, settings.batch, seed=settings.seed, augment=_augment(settings, data), device=device,
            rank=rank, world=size,
        )  # fmt: skip
        has_parameters = any(True for _ in task.objective.parameters())
        self._module = nn.ModuleDict({"network": module, "objective": task.objective}) if has_parameters else module
        synchronise(self._module)
        self._learner = Learner(
            self._module.train(),
            _optimizer(settings),
            epochs=settings.epochs,
            steps=self.feed.steps,
            precision=settings.precision,
        )

    def step(self, index: int) -> Mapping[str, float | Tensor]:
        """Make one update of the weights."""
        self._task.begin(index)
        update = self._learner.update(
            lambda part: self._task.loss(self._network, part, index), index, self.feed.batch(index)
        )
        return {"loss": update.loss}

    def evaluate(self, epoch: int) -> Mapping[str, float]:
        """Return the measures on the held-out samples."""
        with self._learner.evaluating():
            return as_held_out(self._task.measure(self._network, self._held_out))

    def state(self) -> State:
        """Return the learner's state."""
        return self._learner.state()

    def restore(self, state: State) -> None:
        """Continue from a saved state."""
        self._learner.restore(state)

    def finished(self) -> str | None:
        """Return None: training lasts until the last epoch."""
        return None


class _FolderCheckpointer:
    """Checkpointer that stores the last checkpoint in a folder; `last` reads it only if `resume` is set."""

    def __init__(self, folder: Path, settings: Settings, resume: bool) -> None:
        self._folder, self._settings, self._resume = folder, settings.model_dump(), resume

    def last(self) -> State | None:
        """Return the state in the checkpoint; None if there is no checkpoint or `resume` is not set.

        Raises ArchError (A1106) if the checkpoint has other settings.
        """
        checkpoint_contents = checkpoint.read(self._folder) if self._resume else None
        if checkpoint_contents is None:
            return None
        tensors, record = checkpoint_contents
        saved_settings = (
            Settings.model_validate({}).model_dump() | record["settings"]
        )  # settings added to archir since then had their default values
        if saved_settings != self._settings:
            differences = [
                f"`{name}` was {saved_settings.get(name)}, and is {value}"
                for name, value in self._settings.items()
                if saved_settings.get(name) != value
            ]
            text = f"the checkpoint in {self._folder} was made with other settings: {'; '.join(differences)}"
            raise fail("A1106", text, None, "resume with the original settings, or choose another folder")
        return State(tensors, record["state"])

    def save(self, state: State) -> None:
        """Write a checkpoint."""
        facts = {"settings": self._settings, "state": state.facts}
        checkpoint.write(self._folder, state.facts["loop"]["index"], dict(state.tensors), facts)

    def record(self, row: loop.Figures) -> None:
        """Do nothing, because the checkpoint contains the metrics."""


class _ProgressCallback:
    """Callback that forwards events to a Progress."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def start(self, phase: str, epochs: int, steps: int, steps_done: int) -> None:
        """Forward the start of training."""
        self._progress.start(epochs, epochs * steps - steps_done)

    def step(self, index: int, measured: Mapping[str, float]) -> None:
        """Forward a step."""
        self._progress.step(measured["loss"])

    def epoch(self, row: loop.Figures) -> None:
        """Forward an epoch."""
        self._progress.epoch(_epoch(row))


def _epoch(row: loop.Figures) -> Epoch:
    """Convert a row of metrics to an `Epoch`."""
    measures = {name: float(value) for name, value in row.items() if name not in ("epoch", "loss", "seconds")}
    return Epoch(int(row["epoch"]), float(row["loss"]), measures, float(row["seconds"]))


def objective_of(settings: Settings) -> Objective:
    """Create the objective that the settings define. Raises ArchError (A1109, A1901)."""
    options = {name: value for name, value in settings.objective.items() if name != "kind"}
    kind = str(settings.objective.get("kind", "classification"))
    if settings.label_smoothing and "label_smoothing" in kind_of(kind).model.model_fields:
        options.setdefault("label_smoothing", settings.label_smoothing)
    return create(kind, options)


def _augment(settings: Settings, data: Data) -> Augment | None:
    """Return the augmentation of images: shifts by up to an eighth of the shorter side, and mirroring if `flip` is
    set.

    Returns None if augmentation is off or the first input is not an image.
    """
    first = data.train.pixels[torch.zeros(1, dtype=torch.long)]
    if not settings.augment or not is_image(first):
        return None
    return Augment(shift=min(first.shape[2:]) // 8, flip=settings.flip)


def _optimizer(settings: Settings) -> Optimizer:
    """Convert training settings to optimizer settings."""
    return Optimizer(
        kind=settings.optimizer,
        lr=settings.lr,
        momentum=settings.momentum,
        nesterov=settings.momentum > 0,
        weight_decay=settings.weight_decay,
        clip=settings.clip,
        schedule=settings.schedule,
        warmup_epochs=settings.warmup_epochs,
    )

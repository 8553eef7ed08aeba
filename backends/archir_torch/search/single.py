"""Training one network on its own: a trainee of the engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

import torch
from pydantic import Field
from torch import Tensor, nn

from archir.diagnostics.errors import fail
from archir.recipes.training import MOST_LR, Augment, Momentum, Optimizer
from archir.utils.frames import Framed
from archir.utils.settings import Count, NonNegative, Positive, Seed
from archir.utils.settings import Settings as Checked
from archir_torch.data import Data
from archir_torch.objectives import Objective, create
from archir_torch.objectives.create import kind_of
from archir_torch.objectives.task import Task, tested
from archir_torch.training import checkpoint_folder as checkpoint
from archir_torch.training import distributed, loop
from archir_torch.training.augment import is_image
from archir_torch.training.checkpoint_state import State
from archir_torch.training.feed import Feed
from archir_torch.training.learner import Learner
from archir_torch.training.norms import synchronise


class Settings(Checked):
    """How a network is trained; learning rates fall from `lr` along a cosine, after a linear warm-up."""

    epochs: Count = 20
    batch: Count = 64
    optimizer: Literal["adamw", "sgd"] = "adamw"
    lr: float = Field(2e-3, gt=0, le=MOST_LR)
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
    """Its `kind` and its settings (docs/objectives.md)."""


@dataclass(frozen=True)
class Epoch:
    """What was measured in an epoch: mean training loss, measures of held-out samples, seconds."""

    epoch: int
    loss: float
    measures: Mapping[str, float]
    seconds: float

    @property
    def figures(self) -> dict[str, float]:
        """All of it by name."""
        return {"epoch": self.epoch, "loss": self.loss, **self.measures, "seconds": self.seconds}


@dataclass(frozen=True)
class Result(Framed):
    """The epochs of a training run, what is to be known of its data, and by which measure networks are compared; the
    module holds the last weights."""

    history: tuple[Epoch, ...] = field(default_factory=tuple)
    images: Mapping[str, Any] = field(default_factory=dict)
    criterion: str = "accuracy"

    def __repr__(self) -> str:
        last = self.history[-1].figures if self.history else {}
        said = ", ".join(f"{name} {value:.4g}" for name, value in last.items() if name not in ("epoch", "seconds"))
        return f"<Result of {len(self.history):,} epochs{': ' * bool(said)}{said}>"

    def columns(self) -> dict[str, list[Any]]:
        """The epochs, and what was measured after each."""
        names = dict.fromkeys(name for one in self.history for name in one.figures)
        return {name: [one.figures.get(name) for one in self.history] for name in names}

    @property
    def measures(self) -> Mapping[str, float]:
        """Those of held-out samples after the last epoch."""
        return self.history[-1].measures

    @property
    def shown(self) -> Mapping[str, float]:
        """The measures without the loss, if there are others."""
        others = {name: value for name, value in self.measures.items() if name != "held_out_loss"}
        return others or self.measures

    @property
    def accuracy(self) -> float:
        """Held-out accuracy after the last epoch, where that is measured."""
        return self.measures["accuracy"]


class Progress(Protocol):
    """Who wants to know how training goes."""

    def start(self, epochs: int, steps: int) -> None:
        """Training begins: so many epochs, so many steps in all."""

    def step(self, loss: float) -> None:
        """A step was done."""

    def epoch(self, done: Epoch) -> None:
        """An epoch was done."""


class Silent:
    """Nobody wants to know."""

    def start(self, epochs: int, steps: int) -> None:
        """Nothing."""

    def step(self, loss: float) -> None:
        """Nothing."""

    def epoch(self, done: Epoch) -> None:
        """Nothing."""


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
    """Train a module whose outputs have these names; the objective is ready for them, and by default that of the
    settings. With a folder, a checkpoint is written there after every epoch; `resume` goes on from it.

    A run that was killed and resumed ends with the same weights as one that was not (on the CPU, to the bit).
    Raises ArchError: A1105 (damaged checkpoint), A1106 (it belongs to other settings), A1107 (the loss is no number).
    """
    objective = objective or objective_of(settings)
    task = Task(objective, names, seed=settings.seed, device=device)
    trainee = _Network(module, data, settings, task, device)
    keeper = _Folder(folder, settings, resume) if folder is not None else None
    rows = loop.run(
        trainee,
        epochs=settings.epochs,
        steps=trainee.feed.steps,
        keeper=keeper,
        watch=_Shown(progress or Silent()),
        seed=settings.seed,
    )
    return Result(tuple(map(_epoch, rows)), criterion=objective.criterion)


class _Network:
    """A network that is trained, and what it is trained to do."""

    steady = True

    def __init__(self, module: nn.Module, data: Data, settings: Settings, task: Task, device: str) -> None:
        self._network, self._task, self._held_out = module.to(device), task, data.held_out
        rank, size = distributed.world()
        self.feed = Feed(
            data.train, settings.batch, seed=settings.seed, augment=_augment(settings, data), device=device,
            rank=rank, world=size,
        )  # fmt: skip
        has_parts = any(True for _ in task.objective.parameters())
        self._module = nn.ModuleDict({"network": module, "objective": task.objective}) if has_parts else module
        synchronise(self._module)
        self._learner = Learner(
            self._module.train(),
            _optimizer(settings),
            epochs=settings.epochs,
            steps=self.feed.steps,
            precision=settings.precision,
        )

    def step(self, index: int) -> Mapping[str, float | Tensor]:
        """An update."""
        self._task.begin(index)
        update = self._learner.update(
            lambda part: self._task.loss(self._network, part, index), index, self.feed.batch(index)
        )
        return {"loss": update.loss}

    def evaluate(self, epoch: int) -> Mapping[str, float]:
        """A look at the held-out samples."""
        with self._learner.evaluating():
            return tested(self._task.measured(self._network, self._held_out, epoch))

    def state(self) -> State:
        """That of the learner."""
        return self._learner.state()

    def restore(self, state: State) -> None:
        """Go on from a state."""
        self._learner.restore(state)

    def finished(self) -> str | None:
        """Never before the last epoch."""
        return None


class _Folder:
    """A folder with the last checkpoint, which is gone on from if `resume`."""

    def __init__(self, folder: Path, settings: Settings, resume: bool) -> None:
        self._folder, self._settings, self._resume = folder, settings.model_dump(), resume

    def last(self) -> State | None:
        """The checkpoint, if it is of the same settings."""
        found = checkpoint.read(self._folder) if self._resume else None
        if found is None:
            return None
        tensors, record = found
        known = (
            Settings.model_validate({}).model_dump() | record["settings"]
        )  # settings that came later were as they are by default
        if known != self._settings:
            changed = [
                f"`{name}` was {known.get(name)}, and is {value}"
                for name, value in self._settings.items()
                if known.get(name) != value
            ]
            text = f"the checkpoint in {self._folder} was made with other settings: {'; '.join(changed)}"
            raise fail("A1106", text, None, "give the settings that it was begun with, or name another folder")
        return State(tensors, record["state"])

    def save(self, state: State) -> None:
        """Write a checkpoint."""
        facts = {"settings": self._settings, "state": state.facts}
        checkpoint.write(self._folder, state.facts["loop"]["index"], dict(state.tensors), facts)

    def record(self, row: loop.Figures) -> None:
        """The checkpoint has the rows."""


class _Shown:
    """A watch that tells a progress."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def start(self, phase: str, epochs: int, steps: int, done: int) -> None:
        """Training begins."""
        self._progress.start(epochs, epochs * steps - done)

    def step(self, index: int, measured: Mapping[str, float]) -> None:
        """A step was done."""
        self._progress.step(measured["loss"])

    def epoch(self, row: loop.Figures) -> None:
        """An epoch was done."""
        self._progress.epoch(_epoch(row))


def _epoch(row: loop.Figures) -> Epoch:
    others = {name: float(value) for name, value in row.items() if name not in ("epoch", "loss", "seconds")}
    return Epoch(int(row["epoch"]), float(row["loss"]), others, float(row["seconds"]))


def objective_of(settings: Settings) -> Objective:
    """The objective of settings. Raises ArchError (A1109, A1901)."""
    given = {name: value for name, value in settings.objective.items() if name != "kind"}
    kind = str(settings.objective.get("kind", "classification"))
    if settings.label_smoothing and "label_smoothing" in kind_of(kind).model.model_fields:
        given.setdefault("label_smoothing", settings.label_smoothing)
    return create(kind, given)


def _augment(settings: Settings, data: Data) -> Augment | None:
    """Images are shifted by an eighth."""
    first = data.train.pixels[torch.zeros(1, dtype=torch.long)]
    if not settings.augment or not is_image(first):
        return None
    return Augment(shift=min(first.shape[2:]) // 8, flip=settings.flip)


def _optimizer(settings: Settings) -> Optimizer:
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

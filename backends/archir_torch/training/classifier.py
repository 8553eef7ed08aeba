"""Training one network on labelled images: a trainee of the engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from archir.base.errors import fail
from archir.base.settings import Count, NonNegative, Positive, Seed
from archir.base.settings import Settings as Checked
from archir.search.recipes.training import MOST_LR, Augment, Momentum, Optimizer
from archir_torch.data import Data, Split
from archir_torch.training import distributed, loop
from archir_torch.training.checkpoints import folder as checkpoint
from archir_torch.training.checkpoints.state import State
from archir_torch.training.feed import Batch, Feed
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


@dataclass(frozen=True)
class Epoch:
    """What was measured in an epoch: mean training loss, accuracy on held-out images, seconds."""

    epoch: int
    loss: float
    accuracy: float
    seconds: float


@dataclass(frozen=True)
class Result:
    """The epochs of a training run, and what is to be known of its images; the module holds the last weights."""

    history: tuple[Epoch, ...] = field(default_factory=tuple)
    images: Mapping[str, Any] = field(default_factory=dict)

    @property
    def accuracy(self) -> float:
        """Held-out accuracy after the last epoch."""
        return self.history[-1].accuracy


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
    folder: Path | None = None,
    resume: bool = False,
    device: str = "cpu",
    progress: Progress | None = None,
) -> Result:
    """Train a module. With a folder, a checkpoint is written there after every epoch; `resume` goes on from it.

    A run that was killed and resumed ends with the same weights as one that was not (on the CPU, to the bit).
    Raises ArchError: A1105 (damaged checkpoint), A1106 (it belongs to other settings), A1107 (the loss is no number).
    """
    progress = progress or Silent()
    trainee = _Network(module, data, settings, device)
    keeper = _Folder(folder, settings, resume) if folder is not None else None
    rows = loop.run(
        trainee,
        epochs=settings.epochs,
        steps=trainee.feed.steps,
        keeper=keeper,
        watch=_Shown(progress or Silent()),
        seed=settings.seed,
    )
    return Result(tuple(map(_epoch, rows)))


class _Network:
    """A network that is trained; the measure is its accuracy on held-out images."""

    steady = True

    def __init__(self, module: nn.Module, data: Data, settings: Settings, device: str) -> None:
        self._module, self._held_out, self._settings, self._device = module.to(device), data.held_out, settings, device
        rank, size = distributed.world()
        shift = min(data.train.pixels[torch.zeros(1, dtype=torch.long)].shape[2:]) // 8
        augment = Augment(shift=shift, flip=settings.flip) if settings.augment else None
        self.feed = Feed(
            data.train, settings.batch, seed=settings.seed, augment=augment, device=device, rank=rank, world=size
        )
        synchronise(module)
        self._learner = Learner(
            module.train(),
            _optimizer(settings),
            epochs=settings.epochs,
            steps=self.feed.steps,
            precision=settings.precision,
        )

    def step(self, index: int) -> Mapping[str, float | Tensor]:
        """An update."""
        return {"loss": self._learner.update(self._loss, index, self.feed.batch(index)).loss}

    def _loss(self, batch: Batch) -> Tensor:
        found = logits(self._module(batch.images))
        return F.cross_entropy(found, batch.labels, label_smoothing=self._settings.label_smoothing)

    def evaluate(self, epoch: int) -> Mapping[str, float]:
        """A look at the held-out images."""
        with self._learner.evaluating():
            return {"accuracy": evaluate(self._module, self._held_out, device=self._device)}

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
        if record["settings"] != self._settings:
            changed = [name for name, value in self._settings.items() if record["settings"].get(name) != value]
            raise fail("A1106", f"the checkpoint in {self._folder} was made with other settings: {', '.join(changed)}")
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
    return Epoch(int(row["epoch"]), float(row["loss"]), float(row["accuracy"]), float(row["seconds"]))


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


def logits(output: Any) -> Tensor:
    """The first output of a network: of several, the one that is named first."""
    found: Tensor = next(iter(output.values())) if isinstance(output, dict) else output
    return found


def evaluate(module: nn.Module, split: Split, *, device: str = "cpu", batch: int = 256) -> float:
    """The part of images whose label has the largest logit."""
    module.eval()
    right = torch.zeros((), dtype=torch.long, device=device)
    with torch.no_grad():
        for rows in torch.arange(len(split)).split(batch):
            images, labels = split.pixels[rows].to(device), split.labels[rows].to(device)
            right += (logits(module(images)).argmax(1) == labels).sum()
    return int(right) / len(split)

"""Training one network on labelled images: a plain loop, seeded, that can be killed and resumed."""

from __future__ import annotations

import math
import time
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

import torch
import torch.nn.functional as F
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor, nn

from archir.errors import fail
from archir_torch import checkpoint
from archir_torch.data import Data, Split, augmented


class Settings(BaseModel):
    """How a network is trained; learning rates fall from `lr` along a cosine, after a linear warm-up."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    epochs: int = Field(20, ge=1)
    batch: int = Field(64, ge=1)
    optimizer: Literal["adamw", "sgd"] = "adamw"
    lr: float = Field(2e-3, gt=0)
    momentum: float = Field(0.9, ge=0, lt=1)
    weight_decay: float = Field(0.01, ge=0)
    schedule: Literal["cosine", "constant"] = "cosine"
    warmup_epochs: float = Field(1, ge=0)
    label_smoothing: float = Field(0.0, ge=0, lt=1)
    clip: float | None = Field(5.0, gt=0)
    precision: Literal["auto", "float32", "bf16"] = "auto"
    augment: bool = True
    flip: bool = False
    seed: int = 0


@dataclass(frozen=True)
class Epoch:
    """What was measured in an epoch: mean training loss, accuracy on held-out images, seconds."""

    epoch: int
    loss: float
    accuracy: float
    seconds: float


@dataclass(frozen=True)
class Result:
    """The epochs of a training run; the module holds the weights of the last one."""

    history: tuple[Epoch, ...] = field(default_factory=tuple)

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
    module.to(device)
    run = _Run(module, data, settings, device)
    if resume and folder is not None:
        run.restore(folder)
    steps = math.ceil(len(data.train) / settings.batch)
    progress.start(settings.epochs, steps * (settings.epochs - len(run.history)))
    devices = [torch.device(device)] if device != "cpu" else []
    with torch.random.fork_rng(devices):
        for number in range(len(run.history), settings.epochs):
            torch.manual_seed(settings.seed * 1_000_003 + number)  # what dropout and drop path draw from
            done = run.epoch(number, progress)
            if folder is not None:
                run.save(folder)
            progress.epoch(done)
    return Result(tuple(run.history))


class _Run:
    """A training run in progress."""

    def __init__(self, module: nn.Module, data: Data, settings: Settings, device: str) -> None:
        self.module, self.data, self.settings, self.device = module, data, settings, device
        self.history: list[Epoch] = []
        self.optimizer = _optimizer(module, settings)
        self.train = Split(data.train.images.to(device), data.train.labels.to(device))
        self.steps = math.ceil(len(self.train) / settings.batch)
        low = settings.precision == "bf16" or (settings.precision == "auto" and device.startswith("cuda"))
        self.precision: Any = torch.autocast(device.split(":")[0], torch.bfloat16) if low else nullcontext()

    def epoch(self, number: int, progress: Progress) -> Epoch:
        """One pass over the training images, then a look at the held-out ones."""
        begin = time.perf_counter()
        settings = self.settings
        generator = torch.Generator().manual_seed(settings.seed * 1_000_003 + number)
        order = torch.randperm(len(self.train), generator=generator).to(self.device)
        self.module.train()
        total = torch.zeros((), device=self.device)
        for step, rows in enumerate(order.split(settings.batch)):
            for group in self.optimizer.param_groups:
                group["lr"] = settings.lr * self._factor(number * self.steps + step)
            images, labels = self.train.images[rows], self.train.labels[rows]
            if settings.augment:
                images = augmented(images, generator, flip=settings.flip)
            with self.precision:
                loss = F.cross_entropy(logits(self.module(images)), labels, label_smoothing=settings.label_smoothing)
            value = float(loss.detach())
            if not math.isfinite(value):
                hint = "lower --lr, or clip gradients; the last checkpoint is whole"
                raise fail("A1107", f"the loss became {value} in epoch {number + 1}, step {step + 1}", None, hint)
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()
            if settings.clip is not None:
                nn.utils.clip_grad_norm_(self.module.parameters(), settings.clip)
            self.optimizer.step()
            total += loss.detach() * len(rows)
            progress.step(value)
        accuracy = evaluate(self.module, self.data.held_out, device=self.device)
        done = Epoch(number, float(total) / len(self.train), accuracy, time.perf_counter() - begin)
        self.history.append(done)
        return done

    def _factor(self, step: int) -> float:
        warm = self.settings.warmup_epochs * self.steps
        if step < warm:
            return (step + 1) / (warm + 1)
        if self.settings.schedule == "constant":
            return 1.0
        left = max(1.0, self.settings.epochs * self.steps - warm)
        return 0.5 * (1 + math.cos(math.pi * min(1.0, (step - warm) / left)))

    def save(self, folder: Path) -> None:
        """Write a checkpoint."""
        weights = {f"module.{name}": tensor for name, tensor in self.module.state_dict().items()}
        facts = {"settings": self.settings.model_dump(), "history": [vars(epoch) for epoch in self.history]}
        checkpoint.write(folder, len(self.history), weights | checkpoint.optimizer_tensors(self.optimizer), facts)

    def restore(self, folder: Path) -> None:
        """Go on from the checkpoint of a folder, if there is one."""
        found = checkpoint.read(folder)
        if found is None:
            return
        tensors, record = found
        if record["settings"] != self.settings.model_dump():
            changed = [k for k, v in self.settings.model_dump().items() if record["settings"].get(k) != v]
            raise fail("A1106", f"the checkpoint in {folder} was made with other settings: {', '.join(changed)}")
        weights = {name.removeprefix("module."): t for name, t in tensors.items() if name.startswith("module.")}
        self.module.load_state_dict(weights)
        checkpoint.restore_optimizer(self.optimizer, tensors)
        self.history = [Epoch(**epoch) for epoch in record["history"]]


def _optimizer(module: nn.Module, settings: Settings) -> torch.optim.Optimizer:
    """Norms, biases and other vectors do not decay."""
    parameters = [p for p in module.parameters() if p.requires_grad]
    groups: list[dict[str, Any]] = [
        {"params": [p for p in parameters if p.dim() > 1], "weight_decay": settings.weight_decay},
        {"params": [p for p in parameters if p.dim() <= 1], "weight_decay": 0.0},
    ]
    if settings.optimizer == "adamw":
        return torch.optim.AdamW(groups, lr=settings.lr)
    return torch.optim.SGD(groups, lr=settings.lr, momentum=settings.momentum, nesterov=settings.momentum > 0)


def logits(output: Any) -> Tensor:
    """The first output of a network: of several, the one that is named first."""
    found: Tensor = next(iter(output.values())) if isinstance(output, dict) else output
    return found


def evaluate(module: nn.Module, split: Split, *, device: str = "cpu", batch: int = 256) -> float:
    """The part of images whose label has the largest logit."""
    module.eval()
    right = 0
    with torch.no_grad():
        for images, labels in zip(split.images.split(batch), split.labels.split(batch), strict=True):
            right += int((logits(module(images.to(device))).argmax(1).cpu() == labels).sum())
    return right / len(split)

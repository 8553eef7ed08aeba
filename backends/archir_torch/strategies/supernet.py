"""Training a supernet: each step trains some of its architectures, which share their weights."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Literal

from torch import Tensor, nn

from archir.diagnostics.errors import ArchError, Diagnostic
from archir.recipes.open_choices import settle
from archir.recipes.recipe import Phase
from archir.recipes.supernet import SupernetRecord
from archir.spaces.architecture import Architecture
from archir.spaces.partial import largest, smallest
from archir.spaces.space import Space
from archir.utils.seeds import mixed
from archir.utils.settings import Amount, Count, Path, Settings
from archir_torch.lowering.generators import generator
from archir_torch.reuse.start import in_order
from archir_torch.search.inheritance import take_over
from archir_torch.search.job import Job, Outcome
from archir_torch.search.task import Task, validated
from archir_torch.supernet import Sharing, SuperNetwork, extract
from archir_torch.supernet.turns import Output
from archir_torch.training import distributed
from archir_torch.training.checkpoint_state import State
from archir_torch.training.feed import Batch, Feed
from archir_torch.training.kernels import Steps, with_kernels
from archir_torch.training.learner import Learner
from archir_torch.training.norms import freeze, synchronise
from archir_torch.training.recalibration import recalibrate


class SupernetOptions(Settings):
    """What everything that trains a supernet can be told."""

    sharing: Sharing = "heads"
    """Which channels a smaller attention has: the first ones of each head, or (`leading`) of all together."""
    evaluate_every: Count = 1
    """Epochs from one look at architectures, by default the largest and the smallest, to the next."""
    recalibrate: Amount = 4
    """Batches on which statistics of norms are measured before such a look."""


class Supernet(ABC):
    """A trainee: a step adds up the gradients of the architectures that `paths` names, and makes one update.

    Weights see their part of the training images; the others are for whoever searches afterwards.
    """

    taught = 0.0
    """How much of the loss of all but the first architecture is what the first one predicts."""
    decayed: Literal["all", "first"] = "all"
    """Whether weights decay in every step, whoever uses them, or only those of the first architecture."""

    def __init__(self, job: Job, options: SupernetOptions) -> None:
        self.job, self.basics = job, options
        phase, training = job.phase, job.phase.training
        for _, mistake in self.mistakes(phase, job.space, options):
            raise ArchError(mistake)
        self.epochs = training.epochs
        self.opened = settle(job.space, phase.open, phase.fixed, job.architecture)
        self.space = self.opened.space
        self.prepare()
        self.task = Task(job, self.space.graph)
        by_head = options.sharing == "heads"
        weights = generator(job.seed, "weights")
        self.network = SuperNetwork(self.task.graph, weights, by_head).to(job.device)
        self.module = nn.ModuleDict({"network": self.network, "objective": self.task.objective}).train()
        if job.weights is not None:
            most = job.space.specialize(self.opened.completed(largest(self.space)))
            take_over(self.network, in_order(job, most, job.weights), job.named)
        if training.norms == "frozen":
            freeze(self.module)
        elif training.sync_norms:
            synchronise(self.module)
        rank, size = distributed.world()
        settings = phase.data
        assert settings is not None
        first, self.validation = job.data.halves()
        self.feed = Feed(
            first, training.batch, seed=mixed(job.seed, "train"), augment=phase.augment or settings.augment,
            device=job.device, rank=rank, world=size, classes=len(job.data.classes),
        )  # fmt: skip
        self.steps = self.feed.steps
        decay = {} if self.decayed == "all" else {"weight_decay": 0.0}
        self.learner = Learner(
            self.module, phase.weights.model_copy(update=decay), epochs=self.epochs, steps=self.steps,
            precision=training.precision, accumulate=training.accumulate, ema=training.ema,
        )  # fmt: skip
        self._teacher: Tensor | None = None
        with_kernels(self.network, training, job.device, self._measured, job.decided)

    @classmethod
    def mistakes(cls, phase: Phase, space: Space, options: SupernetOptions) -> Iterator[tuple[Path, Diagnostic]]:
        """Rates of `drop_path` that change."""
        if phase.training.drop_path != "constant":
            text = f"phase `{phase.name}`: a supernet's rates of `drop_path` are those of the net"
            yield ("training", "drop_path"), Diagnostic("A1109", text)

    def _measured(self) -> Steps[SuperNetwork]:
        """Those of the first step's paths, one after the other."""
        inputs = self.task.part_of(self.feed)
        paths = self.paths(random.Random(mixed(self.job.seed, "paths", 0)))

        def call(path: Architecture) -> Callable[[SuperNetwork], Output]:
            return lambda network: network(*inputs, path)

        return Steps(self.epochs * self.steps, [call(path) for path in paths])

    def prepare(self) -> None:
        """Make what `paths` needs, when `space` is there: what is within bounds, or what is drawn first."""
        self.within = self.space

    @abstractmethod
    def paths(self, rng: random.Random) -> Sequence[Architecture]:
        """The architectures that a step trains: a function of the generator alone."""

    def step(self, index: int) -> Mapping[str, float | Tensor]:
        """The gradients of all paths together; the mean of their losses."""
        self.task.begin(index)
        paths = self.paths(random.Random(mixed(self.job.seed, "paths", index)))
        losses = [partial(self._loss, path, number, index) for number, path in enumerate(paths)]
        update = self.learner.update(losses, index, self.feed.batch(index))
        return {"loss": update.loss / len(paths)}

    def _loss(self, path: Architecture, number: int, index: int, batch: Batch) -> Tensor:
        predicted: list[Tensor] = []

        def call(*inputs: Tensor) -> object:
            found = self.network(*inputs, path)
            predicted.append(found if isinstance(found, Tensor) else next(iter(found.values())))
            return found

        loss = self.task.loss(call, batch, index)
        if self.taught:
            if number == 0:
                self._teacher = predicted[0].detach()
            elif self._teacher is not None:
                soft = -(self._teacher.softmax(-1) * predicted[0].log_softmax(-1)).sum(-1).mean()
                loss = (1 - self.taught) * loss + self.taught * soft
        if self.decayed == "first" and number == 0:
            decay = self._decay(path)
            loss = loss + (decay - decay.detach())
        return loss

    def _decay(self, path: Architecture) -> Tensor:
        """A number whose gradient is what weight decay adds to the gradients of a path's weights."""
        settings, named = self.job.phase.weights, dict(self.network.named_parameters())
        total = next(iter(named.values())).new_zeros(())
        for name, part in self.network.cuts(path).items():
            parameter = named.get(self.network.actual(name))
            if parameter is not None and (parameter.dim() > 1 or settings.decay_norms):
                own = parameter if part is None else part.of(parameter)
                total = total + own.square().sum()
        return settings.weight_decay / 2 * total

    def evaluate(self, epoch: int) -> Mapping[str, float]:
        """What is looked at, on the images that weights do not see."""
        if (epoch + 1) % self.basics.evaluate_every and epoch + 1 < self.epochs:
            return {}
        found: dict[str, float] = {}
        with self.learner.evaluating():
            for name, path in self.looked_at().items():
                network = extract(self.network, path)
                recalibrate(network, self._calibration())
                measured = validated(self.task.measured(network, self.validation, epoch))
                found |= {f"{name}{key}": value for key, value in measured.items()}
        return found

    def looked_at(self) -> Mapping[str, Architecture]:
        """The largest and the smallest architecture, by what their figures' names begin with."""
        return {"": largest(self.space), "smallest_": smallest(self.space)}

    def _calibration(self) -> list[tuple[Tensor, ...]]:
        count = min(self.basics.recalibrate, self.steps)
        return [self.task.given(self.feed.batch(index)) for index in range(count)]

    def state(self) -> State:
        """That of the learner."""
        return self.learner.state()

    def restore(self, state: State) -> None:
        """Go on from a state."""
        self.learner.restore(state)

    def finished(self) -> str | None:
        """Not before the last epoch."""
        return None

    def outcome(self) -> Outcome:
        """The weights."""
        with self.learner.evaluating():
            weights = {name: tensor.detach().clone() for name, tensor in self.network.state_dict().items()}
        record = SupernetRecord.of(self.opened, self.network.graph, self.basics.sharing)
        return Outcome(weights=weights, supernet=record)

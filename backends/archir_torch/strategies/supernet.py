"""Supernet training: each step trains some architectures of a space, which share their weights."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Literal

from torch import Tensor, nn

from archir.diagnostics.errors import ArchError, Diagnostic
from archir.recipes.job import SupernetRecord
from archir.recipes.open_choices import fix_choices
from archir.recipes.recipe import Phase
from archir.spaces.architecture import Architecture
from archir.spaces.completion import largest, smallest
from archir.spaces.space import Space
from archir.utils.seeds import derive_seed
from archir.utils.settings import Amount, Count, Path, Settings
from archir_torch.lowering.generators import seeded_generator
from archir_torch.objectives.distillation import divergence
from archir_torch.reuse.start import order_start_weights
from archir_torch.search.inheritance import copy_matching
from archir_torch.search.job import Job, Outcome
from archir_torch.search.task import Task, as_validation
from archir_torch.supernet import SharedChannels, SuperNetwork, extract
from archir_torch.supernet.step_timing import Output
from archir_torch.training.checkpoint_state import State
from archir_torch.training.feed import Batch
from archir_torch.training.kernels import StepWorkload, with_kernels
from archir_torch.training.learner import Learner
from archir_torch.training.norms import freeze, synchronise
from archir_torch.training.recalibration import recalibrate


class SupernetOptions(Settings):
    """Options common to all strategies that train a supernet."""

    sharing: SharedChannels = "heads"
    """Channels that a smaller attention uses.

    With `heads`, these are the first channels of each head; with `leading`, the first channels over all heads.
    """
    evaluate_every: Count = 1
    """Number of epochs between evaluations of sample architectures, by default the largest and the smallest."""
    recalibrate: Amount = 4
    """Number of batches from which batch-norm statistics are recomputed before an evaluation."""


class Supernet(ABC):
    """Base class of supernet training. A step sums the gradients over the architectures from `paths` and makes one
    update.

    Weights are trained on one half of the training data; the other half is reserved for a later search.
    """

    distill_share = 0.0
    """Weight of the first architecture's predictions in the loss of all other architectures in a step."""
    decay_scope: Literal["all", "first"] = "all"
    """Weights to which weight decay applies: all, or only those of the first architecture in a step."""

    def __init__(self, job: Job, options: SupernetOptions) -> None:
        self.job, self.base_options = job, options
        phase, training = job.phase, job.phase.training
        for _, mistake in self.mistakes(phase, job.space, options):
            raise ArchError(mistake)
        self.epochs = training.epochs
        self.opened = fix_choices(job.space, phase.open, phase.fixed, job.architecture)
        self.space = self.opened.space
        self.prepare()
        self.task = Task(job, self.space.graph)
        by_head = options.sharing == "heads"
        init_generator = seeded_generator(job.seed, "weights")
        self.network = SuperNetwork(self.task.graph, init_generator, by_head).to(job.device)
        self.module = nn.ModuleDict({"network": self.network, "objective": self.task.objective}).train()
        if job.weights is not None:
            largest_graph = job.space.specialize(self.opened.completed(largest(self.space)))
            copy_matching(self.network, order_start_weights(job, largest_graph, job.weights), job.renamed)
        if training.norms == "frozen":
            freeze(self.module)
        elif training.sync_norms:
            synchronise(self.module)
        weight_half, self.validation = job.data.halves()
        self.feed = self.task.feed(weight_half, "train")
        self.steps = self.feed.steps
        decay = {} if self.decay_scope == "all" else {"weight_decay": 0.0}
        self.learner = Learner(
            self.module, phase.weights.model_copy(update=decay), epochs=self.epochs, steps=self.steps,
            precision=training.precision, accumulate=training.accumulate, ema=training.ema,
        )  # fmt: skip
        self._teacher: Tensor | None = None
        with_kernels(self.network, training, job.device, self._kernel_workload, job.decide_once)

    @classmethod
    def mistakes(cls, phase: Phase, space: Space, options: SupernetOptions) -> Iterator[tuple[Path, Diagnostic]]:
        """Yield an error if the rates of `drop_path` are set to change during training."""
        if phase.training.drop_path != "constant":
            text = f"phase `{phase.name}`: supernets keep the constant `drop_path` rates of the net"
            yield ("training", "drop_path"), Diagnostic("A1109", text)

    def _kernel_workload(self) -> StepWorkload[SuperNetwork]:
        """Return the workload for timing kernels: the architectures of the first step."""
        inputs = self.task.sample_inputs(self.feed)
        paths = self.paths(random.Random(derive_seed(self.job.seed, "paths", 0)))

        def call(path: Architecture) -> Callable[[SuperNetwork], Output]:
            return lambda network: network(*inputs, path)

        return StepWorkload(self.epochs * self.steps, [call(path) for path in paths])

    def prepare(self) -> None:
        """Hook for subclasses: compute what `paths` needs. The hook is called after `space` is set."""
        self.bounded_space = self.space

    @abstractmethod
    def paths(self, rng: random.Random) -> Sequence[Architecture]:
        """Return the architectures to train in a step. They must depend only on the random generator."""

    def step(self, index: int) -> Mapping[str, float | Tensor]:
        """Sum the gradients of all architectures and make one update. Return the mean of their losses."""
        self.task.begin(index)
        paths = self.paths(random.Random(derive_seed(self.job.seed, "paths", index)))
        losses = [partial(self._loss, path, number, index) for number, path in enumerate(paths)]
        update = self.learner.update(losses, index, self.feed.batch(index))
        return {"loss": update.loss / len(paths)}

    def _loss(self, path: Architecture, number: int, index: int, batch: Batch) -> Tensor:
        """Return the loss of one architecture.

        The loss may include distillation from the first architecture and, for the first architecture, a weight-decay
        term.
        """
        predicted: list[Tensor] = []

        def call(*inputs: Tensor) -> object:
            result = self.network(*inputs, path)
            predicted.append(result if isinstance(result, Tensor) else next(iter(result.values())))
            return result

        loss = self.task.loss(call, batch, index)
        if self.distill_share:
            if number == 0:
                self._teacher = predicted[0].detach()
            elif self._teacher is not None:
                form = self.task.objective.predicts
                assert form is not None, "the strategy refuses other objectives"
                soft = divergence(predicted[0], self._teacher, form, 1.0).mean()
                loss = (1 - self.distill_share) * loss + self.distill_share * soft
        if self.decay_scope == "first" and number == 0:
            decay = self._decay(path)
            loss = loss + (decay - decay.detach())
        return loss

    def _decay(self, path: Architecture) -> Tensor:
        """Return a scalar whose gradient is the weight decay on the weights that an architecture uses."""
        settings, parameters = self.job.phase.weights, dict(self.network.named_parameters())
        total = next(iter(parameters.values())).new_zeros(())
        for name, part in self.network.slices(path).items():
            parameter = parameters.get(self.network.parameter_name(name))
            if parameter is not None and (parameter.dim() > 1 or settings.decay_norms):
                used = parameter if part is None else part.take(parameter)
                total = total + used.square().sum()
        return settings.weight_decay / 2 * total

    def evaluate(self, epoch: int) -> Mapping[str, float]:
        """Return measures of the architectures in `evaluated_paths`, on the half of the training data that trains no
        weights."""
        if (epoch + 1) % self.base_options.evaluate_every and epoch + 1 < self.epochs:
            return {}
        metrics: dict[str, float] = {}
        with self.learner.evaluating():
            for name, path in self.evaluated_paths().items():
                network = extract(self.network, path)
                recalibrate(network, self._calibration_inputs())
                measured = as_validation(self.task.measure(network, self.validation))
                metrics |= {f"{name}{key}": value for key, value in measured.items()}
        return metrics

    def evaluated_paths(self) -> Mapping[str, Architecture]:
        """Return the architectures to evaluate, by prefix of their metrics' names: the largest and the smallest."""
        return {"": largest(self.space), "smallest_": smallest(self.space)}

    def _calibration_inputs(self) -> list[tuple[Tensor, ...]]:
        """Return the network inputs for recalibrating batch norms."""
        count = min(self.base_options.recalibrate, self.steps)
        return [self.task.network_inputs(self.feed.batch(index)) for index in range(count)]

    def state(self) -> State:
        """Return the learner's state."""
        return self.learner.state()

    def restore(self, state: State) -> None:
        """Continue from a saved state."""
        self.learner.restore(state)

    def finished(self) -> str | None:
        """Return None: training lasts until the last epoch."""
        return None

    def outcome(self) -> Outcome:
        """Return the supernet and its weights."""
        with self.learner.evaluating():
            weights = {name: tensor.detach().clone() for name, tensor in self.network.state_dict().items()}
        record = SupernetRecord.of(self.opened, self.network.graph, self.base_options.sharing)
        return Outcome(weights=weights, supernet=record)

"""Differentiable search: weights and architecture parameters of a relaxed graph are trained alternately."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from archir.diagnostics.errors import Diagnostic, fail
from archir.ir.graph import Graph
from archir.passes.fold import fold
from archir.passes.partial import partial
from archir.passes.relax import Edges, relax
from archir.recipes.derivation import derive_limited, overfull_cells
from archir.recipes.open_choices import fix_choices, open_paths
from archir.recipes.recipe import Derive, Phase
from archir.spaces.architecture import Architecture
from archir.spaces.space import Space
from archir.utils.settings import Count, Finite, ListAsTuple, NonNegative, Path, Positive, Settings
from archir_torch.lowering.generators import seeded_generator, seeded_noise
from archir_torch.lowering.precision import full_precision
from archir_torch.lowering.replay import GraphedNetwork
from archir_torch.search.inheritance import copy_matching
from archir_torch.search.job import Job, Outcome
from archir_torch.search.task import Task, as_validation
from archir_torch.strategies.alphas import Alphas, Init, SampledWeights, Sampling
from archir_torch.strategies.curvature import dominant_eigenvalue, rollback_epoch
from archir_torch.strategies.expected_cost import ExpectedCost, missing_mean
from archir_torch.strategies.unrolled import unrolled_gradient
from archir_torch.supernet.mixture import MixedNetwork
from archir_torch.supernet.step_timing import Output
from archir_torch.supernet.tuning import Plan, lower_with_plan, tuned
from archir_torch.training.checkpoint_state import State
from archir_torch.training.distributed import world
from archir_torch.training.drop_path import DropPaths
from archir_torch.training.feed import Batch
from archir_torch.training.kernels import StepWorkload, with_kernels
from archir_torch.training.learner import Learner, can_replay
from archir_torch.training.norms import synchronise

GIVES = ("alphas", "architecture", "weights")
"""Kinds of results that later phases can start from."""


_NO_CHOICES_HINT = "train a net without choices with `train`"
_FIXED_HINT = "without `open`, all choices that `fixed` does not name are searched: name fewer choices in `fixed`"


class Entropy(Settings):
    """Weight of the mean entropy of choices in the loss of the architecture parameters.

    The weight changes linearly over epochs from `first` to `last`.
    """

    first: Finite = 0.0
    last: Finite


class Penalty(Settings):
    """Weight of the exact expected value of a cost in the loss of the architecture parameters.

    With a `target`, the penalty is the amount by which the expected cost exceeds the target, as a fraction of the
    target. Without a `target`, the penalty is the expected cost divided by its value at uniform probabilities.
    """

    cost: str = "macs"
    weight: NonNegative = 0.1
    target: float | None = Field(default=None, gt=0, le=1e30)


class Curvature(Settings):
    """Early stopping by the dominant eigenvalue of the validation loss (see `archir_torch.strategies.curvature`)."""

    window: Count = 5
    back: Count = 5
    drop: float = Field(default=0.75, gt=0, lt=1)
    iterations: Count = 20


class Options(Settings):
    """Options of all differentiable strategies."""

    order: Literal[1, 2] = 1
    """Order of the gradient; with 2, the gradient is computed through an optimizer step of the weights."""
    edges: Edges = "all"
    init: Init = "normal"
    alpha_warmup_epochs: NonNegative = 0.0
    """Number of epochs at the start in which only the weights are trained."""
    temperature: Annotated[tuple[Positive, Positive], ListAsTuple] = (1.0, 1.0)
    """Temperature of the noise in the first and in the last epoch; changes linearly from epoch to epoch."""
    partial: Count = 1
    """Use 1/partial of the channels in mixtures; the other channels bypass the mixtures.

    Source: Xu et al. 2020, PC-DARTS, section 3.2.
    """
    tune: bool = False
    """Measure at the beginning of the phase which execution plan is fastest, and use it for the whole run.

    Plans differ in rounding, so two searches with the same seed give the same numbers only if they use the same plan.
    """
    entropy: Entropy | None = None
    penalty: Penalty | None = None
    curvature: Curvature | None = None
    where: str = ""
    """Cost bounds that the derived architecture must satisfy in addition to those of the space.

    Example: `latency('cpu.json') <= 3ms`. Training is not restricted: all alternatives are trained.
    """


class Relaxed:
    """Base class of differentiable strategies. A step trains the architecture parameters, then the weights.

    The architecture parameters and the weights are each trained on batches from their own half of the training data.
    """

    sampling: Sampling = "softmax"
    steady = True

    def __init__(self, job: Job, options: Options) -> None:
        self.job, self.options = job, options
        phase, training = job.phase, job.phase.training
        self.epochs = training.epochs
        self.opened = fix_choices(job.space, phase.open, phase.fixed, job.architecture)
        self.bounded_space = self.opened.space.where(options.where) if options.where else self.opened.space
        graph, paths = self.opened.space.graph, set(self.opened.space.graph.decisions)
        partial_graph = partial(graph, paths, options.partial)
        self.task = Task(job, relax(partial_graph, paths, options.edges))
        self._create_feeds(job)
        self.steps = self.feed.steps
        self.network = self._create_network(fold(self.task.graph))
        self.alphas = Alphas(
            job.space.choices, list(self.network.names), options.init, seeded_generator(job.seed, "alphas")
        ).to(job.device)
        if not self.alphas.choices:
            hint = 'inputs that a choice takes are summed without weights: set options.edges = "weighted"'
            has_subsets = any(choice.k is not None for choice in job.space.choices)
            text = f"phase `{phase.name}` has no architecture parameters: there is nothing to search"
            raise fail("A2215", text, None, hint if has_subsets else _NO_CHOICES_HINT)
        if job.alphas is not None:
            self.alphas.load(job.alphas)
        self.module = nn.ModuleDict({"network": self.network, "objective": self.task.objective}).train()
        if job.weights is not None:
            copy_matching(self.network, job.weights, job.renamed)
        if training.sync_norms:
            synchronise(self.module)
        self.weight_learner = Learner(
            self.module, phase.weights, epochs=self.epochs, steps=self.steps, precision=training.precision,
            accumulate=training.accumulate,
        )  # fmt: skip
        first_order = options.order == 1  # second order: differences of gradients need float32 and full batches
        self.alpha_learner = Learner(
            {"logits": self.alphas.logits}, phase.alphas, epochs=self.epochs, steps=self.steps,
            precision=training.precision if first_order else "float32",
            accumulate=training.accumulate if first_order else 1,
        )  # fmt: skip
        with_kernels(self.network, training, job.device, self._kernel_workload, job.decide_once)
        self.paths = DropPaths(self.network)
        self.call = GraphedNetwork(self.network, possible=can_replay(training, self.paths))
        self.expected = (
            None if options.penalty is None else ExpectedCost(self.opened.space, options.penalty.cost).to(job.device)
        )
        self.history = [self.alphas.logits.detach().cpu().clone()]
        self.eigenvalues: list[float] = []
        self.stopped: str | None = None
        self.rollback: int | None = None

    @classmethod
    def mistakes(cls, phase: Phase, space: Space, options: Options) -> Iterator[tuple[Path, Diagnostic]]:
        """Yield errors for options that have no effect or would fail.

        These are: no choice to search, a temperature without noise, architecture parameters that are never trained, and
        a penalty on a cost without an expected value.
        """
        prefix = f"phase `{phase.name}`: "
        if not open_paths(space, phase.open, phase.fixed):
            setting = "open" if phase.open is not None else "fixed"
            hint = "`open = []` opens no choice: name some in `open`" if setting == "open" else _FIXED_HINT
            hint = hint if space.choices else _NO_CHOICES_HINT
            text = f"phase `{phase.name}` has no architecture parameters: there is nothing to search"
            yield (setting if space.choices else "strategy",), Diagnostic("A2215", text, None, hint)
        if cls.sampling == "softmax" and "temperature" in options.model_fields_set:
            text = f"{prefix}`{phase.strategy}` uses no noise, so `temperature` has no effect"
            yield ("options", "temperature"), Diagnostic("A1109", text, None, "remove it; `gdas` and `snas` use it")
        epochs = phase.training.epochs
        name, warmup_epochs = "alpha_warmup_epochs", options.alpha_warmup_epochs
        if warmup_epochs >= epochs:
            is_explicit = name in options.model_fields_set
            text = f"{prefix}with `{name} = {warmup_epochs:g}`{'' if is_explicit else ' by default'}"
            text += f", none of {epochs} epochs trains architecture parameters"
            hint = f"`{name}` must be less than `training.epochs`: options.{name} = {epochs // 2}"
            place: Path = ("options", name) if is_explicit else ("training", "epochs")
            yield place, Diagnostic("A1109", text, None, hint)
        if options.penalty is not None and (no_mean := missing_mean(space, options.penalty.cost)) is not None:
            yield ("options", "penalty", "cost"), no_mean

    def _create_network(self, graph: Graph) -> MixedNetwork:
        """Create the module of the relaxed graph; with `tune`, it uses the fastest execution plan."""
        dense = self.sampling != "single"

        def measure_plan() -> Mapping[str, bool]:
            inputs = self.task.network_inputs(self.feed.batch(0))
            return asdict(tuned(graph, inputs, dense=dense, precision=self.job.phase.training.precision)[1])

        plan = Plan(**self.job.decide_once("plan", measure_plan)) if self.options.tune else Plan()
        return lower_with_plan(graph, plan, dense=dense, generator=seeded_generator(self.job.seed, "weights")).to(
            self.job.device
        )

    def _kernel_workload(self) -> StepWorkload[MixedNetwork]:
        """Return the workload for timing kernels.

        It computes gradients for weights and architecture parameters in one pass, although training computes them
        separately.
        """
        inputs = self.task.sample_inputs(self.feed)

        def call(network: MixedNetwork) -> Output:
            sampled = self._sample(0, "weights")
            result: Output = network(*inputs, weights=sampled.weights, active=sampled.active)
            return result

        return StepWorkload(self.epochs * self.steps, [call], [self.alphas.logits])

    def _create_feeds(self, job: Job) -> None:
        """Create two feeds, for weights and for architecture parameters, each with one half of the training data."""
        weight_half, self.validation = job.data.halves()
        self.feed, self.alpha_feed = self.task.feed(weight_half, "weights"), self.task.feed(self.validation, "alphas")

    # training steps

    def step(self, index: int) -> Mapping[str, float | Tensor]:
        """Train the architecture parameters (after the warm-up epochs), then the weights."""
        if self.job.phase.training.drop_path == "linear":
            self.paths.scale(index // self.steps / self.epochs)
        self.task.begin(index)
        measured: dict[str, float | Tensor] = {}
        batch = self.feed.batch(index)
        if index >= self.options.alpha_warmup_epochs * self.steps:
            measured["alphas_loss"] = self._step_alphas(index, batch)
        sampled = self._detached(self._sample(index, "weights"))
        update = self.weight_learner.update(lambda part: self._loss(part, sampled, index), index, batch)
        return {"loss": update.loss, **measured}

    def _step_alphas(self, index: int, batch: Batch) -> Tensor:
        """Make one update of the architecture parameters, and return their loss."""
        alpha_batch = self.alpha_feed.batch(index)
        if self.options.order == 2:
            return self._step_alphas_unrolled(index, batch, alpha_batch)

        def loss(part: Batch) -> Tensor:
            return self._loss(part, self._sample(index, "alphas"), index, freeze_weights=True) + self._regularization(
                index
            )

        return self.alpha_learner.update(loss, index, alpha_batch).loss

    def _step_alphas_unrolled(self, index: int, batch: Batch, alpha_batch: Batch) -> Tensor:
        """Make one update of the architecture parameters, with the gradient through an optimizer step of the weights.

        Norm statistics are restored afterwards, because the stepped weights are discarded. The computation is in
        float32: in 16 bits, a difference of gradients would be mostly rounding error.
        """
        settings = self.job.phase.weights
        parameters = list(self.weight_learner.parameters.values())
        optimizer = self.weight_learner.optimizer
        decays = {p: group["weight_decay"] for group in optimizer.param_groups for p in group["params"]}

        def train(freeze_weights: bool) -> Tensor:
            self.task.begin(index)
            with seeded_noise(
                self.job.device, self.job.seed, "unrolled", index, world().rank
            ):  # the same for all differences
                sampled = self._sample(index, "alphas")
                return self._weighted_loss(batch, sampled, index, freeze_weights=freeze_weights)

        with full_precision(self.job.device), _preserve_buffers(self.module):
            gradients, value = unrolled_gradient(
                train,
                lambda: (
                    self._weighted_loss(alpha_batch, self._sample(index, "alphas"), index) + self._regularization(index)
                ),
                parameters,
                [self.alphas.logits],
                rate=self.weight_learner.rate(index),
                momentum=settings.momentum,
                velocity=[optimizer.state.get(p, {}).get("momentum_buffer") for p in parameters],
                decay=[decays[p] for p in parameters],
            )
        self.alphas.logits.grad = gradients[0]
        self.alpha_learner.apply(index)
        return value

    def _loss(self, batch: Batch, sampled: SampledWeights, index: int, *, freeze_weights: bool = False) -> Tensor:
        """Return the loss of a batch. With `freeze_weights`, no gradients are computed for the weights."""

        def call(*inputs: Tensor) -> object:
            return self.call(*inputs, weights=sampled.weights, active=sampled.active, still=freeze_weights)

        return self.task.loss(call, batch, index)

    def _weighted_loss(
        self, batch: Batch, sampled: SampledWeights, index: int, *, freeze_weights: bool = False
    ) -> Tensor:
        """Return this process's share of the mean loss over all processes.

        The loss is multiplied by the weight of the batch, because processes may have different numbers of samples.
        """
        return self._loss(batch, sampled, index, freeze_weights=freeze_weights) * batch.weight

    def _call(self, sampled: SampledWeights) -> Callable[..., object]:
        """Return the network as a function of its inputs, with the mixture weights fixed."""
        return lambda *inputs: self.network(*inputs, weights=sampled.weights, active=sampled.active)

    def _sample(self, index: int, purpose: str) -> SampledWeights:
        """Sample mixture weights, with noise that depends on the seed, the `purpose` and the step only."""
        noise = seeded_generator(self.job.seed, "noise", purpose, index) if self.sampling != "softmax" else None
        return self.alphas.sample(self.sampling, self._temperature(index), noise)

    def _temperature(self, index: int) -> float:
        """Return the temperature at a step."""
        first, last = self.options.temperature
        return first + (last - first) * (index // self.steps) / max(1, self.epochs - 1)

    @staticmethod
    def _detached(sampled: SampledWeights) -> SampledWeights:
        """Return mixture weights detached from the autograd graph."""
        return SampledWeights({name: weight.detach() for name, weight in sampled.weights.items()}, sampled.active)

    def _regularization(self, index: int) -> Tensor:
        """Return the entropy and cost terms in the loss of the architecture parameters."""
        total = torch.zeros((), device=self.job.device)
        entropy, penalty = self.options.entropy, self.options.penalty
        if entropy is not None:
            progress = (index // self.steps) / max(1, self.epochs - 1)
            total = total + (entropy.first + (entropy.last - entropy.first) * progress) * self.alphas.entropy()
        if penalty is not None and self.expected is not None:
            mean = self.expected(self.alphas.outcome_probabilities())
            if penalty.target is not None:
                above = (mean / penalty.target - 1).clamp_min(0)
            else:
                above = mean / float(self.expected({}))
            total = total + penalty.weight * above.to(total)
        return total

    # after an epoch

    def evaluate(self, epoch: int) -> Mapping[str, float]:
        """Return measures of the mixture on the half of the training data on which the architecture parameters are
        trained."""
        with self.weight_learner.evaluating():
            sampled = self.alphas.sample()
            metrics = as_validation(self.task.measure(self._call(sampled), self.validation))
        metrics["entropy"] = float(self.alphas.entropy().detach())
        if self.expected is not None and self.options.penalty is not None:
            with torch.no_grad():
                metrics[f"expected_{self.options.penalty.cost}"] = float(
                    self.expected(self.alphas.outcome_probabilities())
                )
        self.history.append(self.alphas.logits.detach().cpu().clone())
        self._check_curvature(epoch, metrics)
        limit = self.job.phase.derive.limit
        if limit is not None and limit.stop and self.stopped is None:
            unlimited = self.job.phase.derive.model_copy(update={"limit": None})
            cells = overfull_cells(self._derive(self.alphas.logits, unlimited), limit)
            if cells:
                self.stopped = f"more than {limit.most} of {', '.join(limit.labels)} in {', '.join(sorted(cells))}"
        return metrics

    def _derive(self, logits: Tensor, settings: Derive) -> Architecture:
        """Derive an architecture from logits, within the cost bounds."""
        strengths = self.alphas.probabilities(logits)
        if (
            self.bounded_space.has_cost_bounds
        ):  # choices that are not open keep their outcomes, whatever the bounds require
            return self.opened.completed(derive_limited(self.bounded_space, strengths, settings))
        return derive_limited(self.job.space, {**strengths, **self.opened.strengths}, settings)

    def shown(self) -> Mapping[str, float]:
        """Return the probabilities of all alternatives, by path and label, for the journal and the live report."""
        probabilities = self.alphas.probabilities()
        return {
            f"{choice.path}/{label}": probability
            for choice in self.alphas.choices
            for label, probability in zip(choice.alternatives, probabilities[choice.path], strict=True)
        }

    def _check_curvature(self, epoch: int, metrics: dict[str, float]) -> None:
        """Compute the dominant eigenvalue of the Hessian, and stop the search if it has risen too fast."""
        settings = self.options.curvature
        if settings is None:
            return
        batch = self.alpha_feed.batch(epoch * self.steps)
        noise = seeded_generator(self.job.seed, "eigenvalue", epoch)

        def loss() -> Tensor:
            self.task.begin(epoch * self.steps)
            with seeded_noise(
                self.job.device, self.job.seed, "curvature", epoch, world().rank
            ):  # the same for all differences
                return self.task.loss(self._call(self.alphas.sample()), batch, epoch * self.steps) * batch.weight

        with full_precision(self.job.device), _preserve_buffers(self.module):
            value = dominant_eigenvalue(loss, self.alphas.logits, noise, settings.iterations)
        metrics["eigenvalue"] = value
        self.eigenvalues.append(value)
        back = rollback_epoch(self.eigenvalues, settings.window, settings.back, settings.drop)
        if back is not None and self.stopped is None:
            self.stopped = f"the dominant eigenvalue rises: architecture parameters of epoch {back + 1} are taken"
            self.rollback = back + 1

    def finished(self) -> str | None:
        """Return the reason why the search stops early; None to continue."""
        return self.stopped

    # state

    def state(self) -> State:
        """Return the weights, the architecture parameters, their optimizers, and the history of the search."""
        history = State({"history": torch.stack(self.history)}, {
            "eigenvalues": self.eigenvalues, "stopped": self.stopped, "returned": self.rollback,
        })  # fmt: skip
        return State.merge(weights=self.weight_learner.state(), alphas=self.alpha_learner.state(), search=history)

    def restore(self, state: State) -> None:
        """Continue from a saved state."""
        self.weight_learner.restore(state.part("weights"))
        self.alpha_learner.restore(state.part("alphas"))
        search = state.part("search")
        self.history = list(search.tensors["history"])
        self.eigenvalues, self.stopped = list(search.facts["eigenvalues"]), search.facts["stopped"]
        self.rollback = search.facts["returned"]

    # results

    def outcome(self) -> Outcome:
        """Return the derived architecture, the architecture parameters with their history, and the weights."""
        logits = self.history[self.rollback if self.rollback is not None else -1]
        rows = [self.alphas.probabilities(past_logits) for past_logits in self.history]
        return Outcome(
            architecture=self._derive(logits, self.job.phase.derive),
            alphas=self.alphas.by_path(logits),
            history={choice.path: [row[choice.path] for row in rows] for choice in self.alphas.choices},
            weights={name: tensor.detach() for name, tensor in self.network.state_dict().items()},
        )


@contextmanager
def _preserve_buffers(module: nn.Module) -> Iterator[None]:
    """Context manager that restores the buffers of a module, such as norm statistics, on exit."""
    saved = [buffer.clone() for buffer in module.buffers()]
    try:
        yield
    finally:
        with torch.no_grad():
            for buffer, value in zip(module.buffers(), saved, strict=True):
                buffer.copy_(value)

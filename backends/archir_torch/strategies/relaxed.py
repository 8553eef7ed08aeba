"""Differentiable search: weights and architecture parameters of a relaxed graph, trained in turns."""

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
from archir.recipes.derivation import crowded, derived
from archir.recipes.open_choices import searched, settle
from archir.recipes.recipe import Derive, Phase
from archir.spaces.architecture import Architecture
from archir.spaces.space import Space
from archir.utils.seeds import mixed
from archir.utils.settings import Count, Finite, Many, NonNegative, Path, Positive, Settings
from archir_torch.lowering.generators import generator
from archir_torch.lowering.precision import exact
from archir_torch.lowering.replay import Replayed
from archir_torch.search.inheritance import take_over
from archir_torch.search.job import Job, Outcome
from archir_torch.search.task import Task, validated
from archir_torch.strategies.alphas import Alphas, Drawn, Init, Sampling
from archir_torch.strategies.curvature import dominant_eigenvalue, rising
from archir_torch.strategies.expected_cost import Expected, unknown_mean
from archir_torch.strategies.unrolled import unrolled_gradient
from archir_torch.supernet.mixture import MixedNetwork
from archir_torch.supernet.tuning import Plan, planned, tuned
from archir_torch.supernet.turns import Output
from archir_torch.training import distributed
from archir_torch.training.checkpoint_state import State
from archir_torch.training.drop_path import DropPaths
from archir_torch.training.feed import Batch, Feed
from archir_torch.training.kernels import Steps, with_kernels
from archir_torch.training.learner import Learner, replayable
from archir_torch.training.norms import synchronise

GIVES = ("alphas", "architecture", "weights")
"""What later phases can start from."""


_NONE = "train a net without choices with `train`"
_LEFT = "without `open`, what `fixed` does not name is searched: let it name fewer choices"


class Entropy(Settings):
    """A weight of the choices' mean entropy in the loss of architecture parameters, changing linearly by epochs."""

    first: Finite = 0.0
    last: Finite


class Penalty(Settings):
    """A weight of a cost's exact mean under the architecture parameters in their loss.

    With a `target`, how far the mean is above it, as a part of it; without one, the mean as a part of what it is where
    all alternatives are as likely.
    """

    cost: str = "macs"
    weight: NonNegative = 0.1
    target: float | None = Field(default=None, gt=0, le=1e30)


class Curvature(Settings):
    """When the dominant eigenvalue of the validation loss stops a search (see `differentiable.curvature`)."""

    window: Count = 5
    back: Count = 5
    drop: float = Field(default=0.75, gt=0, lt=1)
    iterations: Count = 20


class Options(Settings):
    """What all differentiable strategies can be told."""

    order: Literal[1, 2] = 1
    """Second order: the gradient of architecture parameters goes through a step of the weights."""
    edges: Edges = "all"
    init: Init = "normal"
    hold: NonNegative = 0.0
    """Epochs in which weights alone are trained."""
    temperature: Annotated[tuple[Positive, Positive], Many] = (1.0, 1.0)
    """Of the noise, at the start and at the end; it changes linearly, epoch by epoch."""
    partial: Count = 1
    """Mixtures see one in so many channels; the others go past them (Xu et al. 2020, PC-DARTS, section 3.2)."""
    tune: bool = False
    """Whether the fastest way to run the network is measured when the phase begins; the run keeps what was found.
    Ways differ in rounding, so two searches with one seed come to the same numbers only if they run alike."""
    entropy: Entropy | None = None
    penalty: Penalty | None = None
    curvature: Curvature | None = None
    where: str = ""
    """Bounds on costs that what is derived keeps, beside those of the space: `latency('cpu.json') <= 3ms`. All
    alternatives are trained."""


class Relaxed:
    """A trainee: in each step architecture parameters, then weights, each with batches of a half of the images."""

    sampling: Sampling = "softmax"
    steady = True

    def __init__(self, job: Job, options: Options) -> None:
        self.job, self.options = job, options
        phase, training = job.phase, job.phase.training
        self.epochs = training.epochs
        self.opened = settle(job.space, phase.open, phase.fixed, job.architecture)
        self.within = self.opened.space.where(options.where) if options.where else self.opened.space
        graph, paths = self.opened.space.graph, set(self.opened.space.graph.decisions)
        narrow = partial(graph, paths, options.partial)
        self.task = Task(job, relax(narrow, paths, options.edges))
        self._feeds(job)
        self.steps = self.feed.steps
        self.network = self._network(fold(self.task.graph))
        self.alphas = Alphas(
            job.space.choices, list(self.network.names), options.init, generator(job.seed, "alphas")
        ).to(job.device)
        if not self.alphas.choices:
            hint = 'what a choice takes is added up as it is: options.edges = "weighted" has a parameter for each'
            several = any(choice.take is not None for choice in job.space.choices)
            text = f"phase `{phase.name}` has no architecture parameters: there is nothing to search"
            raise fail("A2215", text, None, hint if several else _NONE)
        if job.alphas is not None:
            self.alphas.load(job.alphas)
        self.module = nn.ModuleDict({"network": self.network, "objective": self.task.objective}).train()
        if job.weights is not None:
            take_over(self.network, job.weights, job.named)
        if training.sync_norms:
            synchronise(self.module)
        self.weights = Learner(
            self.module, phase.weights, epochs=self.epochs, steps=self.steps, precision=training.precision,
            accumulate=training.accumulate,
        )  # fmt: skip
        first = options.order == 1  # differences of gradients are taken in float32, of whole batches
        self.chooser = Learner(
            {"logits": self.alphas.logits}, phase.alphas, epochs=self.epochs, steps=self.steps,
            precision=training.precision if first else "float32", accumulate=training.accumulate if first else 1,
        )  # fmt: skip
        with_kernels(self.network, training, job.device, self._measured, job.decided)
        self.paths = DropPaths(self.network)
        self.call = Replayed(self.network, possible=replayable(training, self.paths))
        self.expected = None if options.penalty is None else Expected(job.space, options.penalty.cost).to(job.device)
        self.history = [self.alphas.logits.detach().cpu().clone()]
        self.eigenvalues: list[float] = []
        self.stopped: str | None = None
        self.returned: int | None = None

    @classmethod
    def mistakes(cls, phase: Phase, space: Space, options: Options) -> Iterator[tuple[Path, Diagnostic]]:
        """Nothing to search, a temperature of no noise, architecture parameters that are held to the end, and a cost
        that has no mean."""
        whose = f"phase `{phase.name}`: "
        if not searched(space, phase.open, phase.fixed):
            closing = "open" if phase.open is not None else "fixed"
            hint = "open some choices: `open = []` opens none" if closing == "open" else _LEFT
            hint = hint if space.choices else _NONE
            text = f"phase `{phase.name}` has no architecture parameters: there is nothing to search"
            yield (closing if space.choices else "strategy",), Diagnostic("A2215", text, None, hint)
        if cls.sampling == "softmax" and "temperature" in options.model_fields_set:
            text = f"{whose}`{phase.strategy}` draws nothing that a `temperature` could change"
            yield ("options", "temperature"), Diagnostic("A1109", text, None, "leave it out; `gdas` and `snas` draw")
        epochs = phase.training.epochs
        if options.hold >= epochs:
            held = "hold" in options.model_fields_set
            text = f"{whose}with `hold = {options.hold:g}`{'' if held else ' by default'}, none of {epochs} epochs"
            hint = f"`hold` is smaller than `training.epochs`: options.hold = {epochs // 2}"
            place: Path = ("options", "hold") if held else ("training", "epochs")
            yield place, Diagnostic("A1109", f"{text} trains architecture parameters", None, hint)
        if options.penalty is not None and (no_mean := unknown_mean(space, options.penalty.cost)) is not None:
            yield ("options", "penalty", "cost"), no_mean

    def _network(self, graph: Graph) -> MixedNetwork:
        """The mixtures as a module, run in the fastest way if that is to be measured."""
        dense = self.sampling != "single"

        def fastest() -> Mapping[str, bool]:
            inputs = self.task.given(self.feed.batch(0))
            return asdict(tuned(graph, inputs, dense=dense, precision=self.job.phase.training.precision)[1])

        plan = Plan(**self.job.decided("plan", fastest)) if self.options.tune else Plan()
        return planned(graph, plan, dense=dense, generator=generator(self.job.seed, "weights")).to(self.job.device)

    def _measured(self) -> Steps[MixedNetwork]:
        """Gradients of weights and of architecture parameters, which are taken in turns, taken at once."""
        inputs = self.task.part_of(self.feed)

        def call(network: MixedNetwork) -> Output:
            drawn = self._draw(0, "weights")
            found: Output = network(*inputs, weights=drawn.weights, active=drawn.active)
            return found

        return Steps(self.epochs * self.steps, [call], [self.alphas.logits])

    def _feeds(self, job: Job) -> None:
        rank, size = distributed.world()
        settings = job.phase.data
        assert settings is not None
        first, self.validation = job.data.halves()
        augment = job.phase.augment or settings.augment

        def feed(split: object, what: str) -> Feed:
            return Feed(
                split, job.phase.training.batch, seed=mixed(job.seed, what), augment=augment, device=job.device,  # type: ignore[arg-type]
                rank=rank, world=size, classes=len(job.data.classes),
            )  # fmt: skip

        self.feed, self.other = feed(first, "weights"), feed(self.validation, "alphas")

    # a step

    def step(self, index: int) -> Mapping[str, float | Tensor]:
        """Architecture parameters, then weights."""
        if self.job.phase.training.drop_path == "linear":
            self.paths.scale(index // self.steps / self.epochs)
        self.task.begin(index)
        measured: dict[str, float | Tensor] = {}
        batch = self.feed.batch(index)
        if index >= self.options.hold * self.steps:
            measured["alphas_loss"] = self._choose(index, batch)
        drawn = self._detached(self._draw(index, "weights"))
        update = self.weights.update(lambda part: self._loss(part, drawn, index), index, batch)
        return {"loss": update.loss, **measured}

    def _choose(self, index: int, batch: Batch) -> Tensor:
        """A step of the architecture parameters; their loss."""
        other = self.other.batch(index)
        if self.options.order == 2:
            return self._choose_unrolled(index, batch, other)

        def loss(part: Batch) -> Tensor:
            return self._loss(part, self._draw(index, "alphas"), index, still=True) + self._regular(index)

        return self.chooser.update(loss, index, other).loss

    def _choose_unrolled(self, index: int, batch: Batch, other: Batch) -> Tensor:
        """The same through a step of the weights; norms do not count what they see of weights that do not stay.

        In float32: what is left of a difference of gradients in 16 bits is noise.
        """
        settings = self.job.phase.weights
        parameters = list(self.weights.parameters.values())
        optimizer = self.weights.optimizer
        decays = {p: group["weight_decay"] for group in optimizer.param_groups for p in group["params"]}
        with exact(self.job.device), _unchanged(self.module):
            gradients, value = unrolled_gradient(
                lambda still: self._share(batch, self._draw(index, "alphas"), index, still=still),
                lambda: self._share(other, self._draw(index, "alphas"), index) + self._regular(index),
                parameters,
                [self.alphas.logits],
                rate=self.weights.rate(index),
                momentum=settings.momentum,
                velocity=[optimizer.state.get(p, {}).get("momentum_buffer") for p in parameters],
                decay=[decays[p] for p in parameters],
            )
        self.alphas.logits.grad = gradients[0]
        self.chooser.apply(index)
        return value

    def _loss(self, batch: Batch, drawn: Drawn, index: int, *, still: bool = False) -> Tensor:
        """`still`: weights take no gradients from it."""

        def call(*inputs: Tensor) -> object:
            return self.call(*inputs, weights=drawn.weights, active=drawn.active, still=still)

        return self.task.loss(call, batch, index)

    def _share(self, batch: Batch, drawn: Drawn, index: int, *, still: bool = False) -> Tensor:
        """What this process adds to the mean loss of all processes: some have more images than others."""
        return self._loss(batch, drawn, index, still=still) * batch.weight

    def _call(self, drawn: Drawn) -> Callable[..., object]:
        return lambda *inputs: self.network(*inputs, weights=drawn.weights, active=drawn.active)

    def _draw(self, index: int, what: str) -> Drawn:
        noise = generator(self.job.seed, "noise", what, index) if self.sampling != "softmax" else None
        return self.alphas.draw(self.sampling, self._temperature(index), noise)

    def _temperature(self, index: int) -> float:
        first, last = self.options.temperature
        return first + (last - first) * (index // self.steps) / max(1, self.epochs - 1)

    @staticmethod
    def _detached(drawn: Drawn) -> Drawn:
        return Drawn({name: weight.detach() for name, weight in drawn.weights.items()}, drawn.active)

    def _regular(self, index: int) -> Tensor:
        """What is added to the loss of architecture parameters."""
        total = torch.zeros((), device=self.job.device)
        entropy, penalty = self.options.entropy, self.options.penalty
        if entropy is not None:
            part = (index // self.steps) / max(1, self.epochs - 1)
            total = total + (entropy.first + (entropy.last - entropy.first) * part) * self.alphas.entropy()
        if penalty is not None and self.expected is not None:
            mean = self.expected(self.alphas.outcomes())
            if penalty.target is not None:
                above = (mean / penalty.target - 1).clamp_min(0)
            else:
                above = mean / float(self.expected({}))
            total = total + penalty.weight * above.to(total)
        return total

    # an epoch

    def evaluate(self, epoch: int) -> Mapping[str, float]:
        """The mixture's measures on the half of the images that architecture parameters see."""
        with self.weights.evaluating():
            drawn = self.alphas.draw()
            found = validated(self.task.measured(self._call(drawn), self.validation, epoch))
        found["entropy"] = float(self.alphas.entropy().detach())
        if self.expected is not None and self.options.penalty is not None:
            with torch.no_grad():
                found[f"expected_{self.options.penalty.cost}"] = float(self.expected(self.alphas.outcomes()))
        self.history.append(self.alphas.logits.detach().cpu().clone())
        self._watch_curvature(epoch, found)
        limit = self.job.phase.derive.limit
        if limit is not None and limit.stop and self.stopped is None:
            unlimited = self.job.phase.derive.model_copy(update={"limit": None})
            cells = crowded(self._derived(self.alphas.logits, unlimited), limit)
            if cells:
                self.stopped = f"more than {limit.most} of {', '.join(limit.labels)} in {', '.join(sorted(cells))}"
        return found

    def _derived(self, logits: Tensor, settings: Derive) -> Architecture:
        strengths = self.alphas.probabilities(logits)
        if self.within.bounded:  # what is not open stays, whatever else is given up for bounds
            return self.opened.completed(derived(self.within, strengths, settings))
        return derived(self.job.space, {**strengths, **self.opened.strengths}, settings)

    def shown(self) -> Mapping[str, float]:
        """The probabilities of all alternatives."""
        found = self.alphas.probabilities()
        return {
            f"{choice.path}/{label}": share
            for choice in self.alphas.choices
            for label, share in zip(choice.alternatives, found[choice.path], strict=True)
        }

    def _watch_curvature(self, epoch: int, found: dict[str, float]) -> None:
        settings = self.options.curvature
        if settings is None:
            return
        batch = self.other.batch(epoch * self.steps)
        noise = generator(self.job.seed, "eigenvalue", epoch)
        with exact(self.job.device), _unchanged(self.module):
            value = dominant_eigenvalue(
                lambda: self.task.loss(self._call(self.alphas.draw()), batch, epoch * self.steps) * batch.weight,
                self.alphas.logits, noise, settings.iterations,
            )  # fmt: skip
        found["eigenvalue"] = value
        self.eigenvalues.append(value)
        back = rising(self.eigenvalues, settings.window, settings.back, settings.drop)
        if back is not None and self.stopped is None:
            self.stopped = f"the dominant eigenvalue rises: architecture parameters of epoch {back + 1} are taken"
            self.returned = back + 1

    def finished(self) -> str | None:
        """Why the search is over early."""
        return self.stopped

    # state

    def state(self) -> State:
        """Weights, architecture parameters, their optimizers, and the history."""
        history = State({"history": torch.stack(self.history)}, {
            "eigenvalues": self.eigenvalues, "stopped": self.stopped, "returned": self.returned,
        })  # fmt: skip
        return State.joined(weights=self.weights.state(), alphas=self.chooser.state(), search=history)

    def restore(self, state: State) -> None:
        """Go on from a state."""
        self.weights.restore(state.part("weights"))
        self.chooser.restore(state.part("alphas"))
        search = state.part("search")
        self.history = list(search.tensors["history"])
        self.eigenvalues, self.stopped = list(search.facts["eigenvalues"]), search.facts["stopped"]
        self.returned = search.facts["returned"]

    # the end

    def outcome(self) -> Outcome:
        """The architecture that is derived, and the architecture parameters."""
        logits = self.history[self.returned if self.returned is not None else -1]
        rows = [self.alphas.probabilities(one) for one in self.history]
        return Outcome(
            architecture=self._derived(logits, self.job.phase.derive),
            alphas=self.alphas.named(logits),
            history={choice.path: [row[choice.path] for row in rows] for choice in self.alphas.choices},
            weights={name: tensor.detach() for name, tensor in self.network.state_dict().items()},
        )


@contextmanager
def _unchanged(module: nn.Module) -> Iterator[None]:
    """Statistics of norms are afterwards what they were."""
    kept = [buffer.clone() for buffer in module.buffers()]
    try:
        yield
    finally:
        with torch.no_grad():
            for buffer, before in zip(module.buffers(), kept, strict=True):
                buffer.copy_(before)

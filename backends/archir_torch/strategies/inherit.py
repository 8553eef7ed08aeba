"""An architecture with the weights of a supernet, or of a file: nothing is trained but statistics of norms."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from archir.diagnostics.errors import ArchError, Diagnostic
from archir.passes.expose import expose
from archir.recipes.open_choices import closed
from archir.recipes.recipe import Phase
from archir.recipes.training import Augment
from archir.spaces.space import Space
from archir.utils.seeds import mixed
from archir.utils.settings import Amount, Path, Settings
from archir_torch.lowering.module import lower
from archir_torch.lowering.precision import autocast
from archir_torch.search.inheritance import inherited, require_all, take_over
from archir_torch.search.job import Job, Outcome, strategy
from archir_torch.search.task import Task, tested
from archir_torch.training.checkpoint_state import State
from archir_torch.training.feed import Feed
from archir_torch.training.recalibration import recalibrate


class InheritOptions(Settings):
    """What `inherit` can be told."""

    recalibrate: Amount = 16
    """Batches on which statistics of norms are measured; with 0, they stay as they were."""


@strategy("inherit", InheritOptions, whole=True, refits=True, gives=("architecture", "weights"))
class Inherit:
    """One step, which measures statistics on the training images; what is held out is measured on."""

    epochs, steps = 1, 1

    def __init__(self, job: Job, options: InheritOptions) -> None:
        self.job, self.options = job, options
        if not job.weights or (job.architecture is None and job.space.choices and not job.phase.fixed):
            raise ArchError(_nothing(job.phase))
        self.architecture = closed(job.space, job.phase.fixed, job.architecture)
        self.graph = job.space.specialize(self.architecture)
        self.task = Task(job, self.graph)
        self.network = lower(self.task.graph).to(job.device)
        weights = inherited(job, self.architecture)
        require_all(self.network, weights, job.phase.name)
        take_over(self.network, weights, job.named)

    @classmethod
    def mistakes(cls, phase: Phase, space: Space, options: InheritOptions) -> Iterator[tuple[Path, Diagnostic]]:
        """No architecture, or no weights."""
        start = phase.start
        if start.weights is None or (start.architecture is None and space.choices and not phase.fixed):
            yield ("strategy",), _nothing(phase)

    def step(self, index: int) -> Mapping[str, float | Tensor]:
        """Measure statistics; the loss of the first batch with them."""
        training, seed = self.job.phase.training, mixed(self.job.seed, "recalibrate")
        feed = Feed(self.job.data.train, training.batch, seed=seed, augment=Augment(), device=self.job.device)
        count = min(self.options.recalibrate, feed.steps)
        with torch.no_grad(), autocast(training.precision, self.job.device):
            recalibrate(self.network, [self.task.given(feed.batch(number)) for number in range(count)])
            return {"loss": self.task.loss(self.network, feed.batch(0), 0)}

    def evaluate(self, epoch: int) -> Mapping[str, float]:
        """A look at the held-out images."""
        with torch.no_grad(), autocast(self.job.phase.training.precision, self.job.device):
            return tested(self.task.measured(self.network.eval(), self.job.data.held_out, epoch))

    def state(self) -> State:
        """The network's weights and statistics."""
        return State(dict(self.network.state_dict()), {})

    def restore(self, state: State) -> None:
        """Go on from a state."""
        self.network.load_state_dict(dict(state.tensors))

    def finished(self) -> str | None:
        """After the one epoch there is."""
        return None

    def outcome(self) -> Outcome:
        """The network."""
        weights = {name: tensor.detach().clone() for name, tensor in self.network.state_dict().items()}
        name, number = next(iter(self.graph.outputs.items()))
        return Outcome(architecture=self.architecture, network=expose(self.graph, {name: number}), weights=weights)


def _nothing(phase: Phase) -> Diagnostic:
    hint = (
        "start.architecture and start.weights name phases: one that found it, one that trained its weights; "
        'or fixed = { "PATTERN" = LABEL } says the architecture'
    )
    return Diagnostic("A2210", f"phase `{phase.name}` has no architecture, or no weights, to inherit", None, hint)

"""Evaluation of an architecture with the weights of a supernet or a file, after recalibrating its batch norms.

Nothing is trained.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from archir.diagnostics.errors import ArchError, Diagnostic
from archir.passes.expose import expose
from archir.recipes.augmentation import Augment
from archir.recipes.open_choices import fixed_architecture
from archir.recipes.recipe import Phase
from archir.spaces.space import Space
from archir.utils.seeds import derive_seed
from archir.utils.settings import Amount, Path, Settings
from archir_torch.lowering.module import lower
from archir_torch.lowering.precision import autocast
from archir_torch.search.inheritance import copy_matching, inherited_weights, require_all_weights
from archir_torch.search.job import Job, Outcome, strategy
from archir_torch.search.task import Task, as_held_out
from archir_torch.training.checkpoint_state import State
from archir_torch.training.feed import Feed
from archir_torch.training.recalibration import recalibrate


class InheritOptions(Settings):
    """Options of `inherit`."""

    recalibrate: Amount = 16
    """Number of batches from which batch-norm statistics are recomputed; 0 leaves the statistics unchanged."""


@strategy("inherit", InheritOptions, uses_all_samples=True, refits=True, gives=("architecture", "weights"))
class Inherit:
    """Strategy whose only step recalibrates batch norms on the training data.

    The network is evaluated on the held-out data.
    """

    epochs, steps = 1, 1

    def __init__(self, job: Job, options: InheritOptions) -> None:
        self.job, self.options = job, options
        if not job.weights or (job.architecture is None and job.space.choices and not job.phase.fixed):
            raise ArchError(_nothing_to_inherit(job.phase))
        self.architecture = fixed_architecture(job.space, job.phase.fixed, job.architecture)
        self.graph = job.space.specialize(self.architecture)
        self.task = Task(job, self.graph)
        self.network = lower(self.task.graph).to(job.device)
        weights = inherited_weights(job, self.architecture)
        require_all_weights(self.network, weights, job.phase.name)
        copy_matching(self.network, weights, job.renamed)

    @classmethod
    def mistakes(cls, phase: Phase, space: Space, options: InheritOptions) -> Iterator[tuple[Path, Diagnostic]]:
        """Yield an error if the recipe names no architecture or no weights for the phase to start from."""
        start = phase.start
        if start.weights is None or (start.architecture is None and space.choices and not phase.fixed):
            yield ("strategy",), _nothing_to_inherit(phase)

    def step(self, index: int) -> Mapping[str, float | Tensor]:
        """Recalibrate the batch norms. Return the loss of the first batch with the new statistics."""
        training, seed = self.job.phase.training, derive_seed(self.job.seed, "recalibrate")
        feed = Feed(self.job.data.train, training.batch, seed=seed, augment=Augment(), device=self.job.device)
        count = min(self.options.recalibrate, feed.steps)
        with torch.no_grad(), autocast(training.precision, self.job.device):
            recalibrate(self.network, [self.task.network_inputs(feed.batch(number)) for number in range(count)])
            return {"loss": self.task.loss(self.network, feed.batch(0), 0)}

    def evaluate(self, epoch: int) -> Mapping[str, float]:
        """Return the measures on the held-out data."""
        with torch.no_grad(), autocast(self.job.phase.training.precision, self.job.device):
            return as_held_out(self.task.measure(self.network.eval(), self.job.data.held_out))

    def state(self) -> State:
        """Return the network's weights and batch-norm statistics."""
        return State(dict(self.network.state_dict()), {})

    def restore(self, state: State) -> None:
        """Continue from a saved state."""
        self.network.load_state_dict(dict(state.tensors))

    def finished(self) -> str | None:
        """Return None: there is only one epoch, so the phase never stops early."""
        return None

    def outcome(self) -> Outcome:
        """Return the architecture, the network and its weights."""
        weights = {name: tensor.detach().clone() for name, tensor in self.network.state_dict().items()}
        name, number = next(iter(self.graph.outputs.items()))
        return Outcome(architecture=self.architecture, network=expose(self.graph, {name: number}), weights=weights)


def _nothing_to_inherit(phase: Phase) -> Diagnostic:
    """Return the error (A2210) for a phase that has no architecture or no weights to start from."""
    hint = (
        "start.architecture names a phase that found an architecture, start.weights one that trained its weights; "
        'or set the architecture with fixed = { "PATTERN" = LABEL }'
    )
    return Diagnostic("A2210", f"phase `{phase.name}` has no architecture, or no weights, to inherit", None, hint)

"""Use of a trained network as a supernet: all architectures in a space share its weights without further
training."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from archir.diagnostics.errors import ArchError, Diagnostic
from archir.recipes.job import SupernetRecord
from archir.recipes.open_choices import fix_choices
from archir.recipes.recipe import Phase
from archir.spaces.completion import largest
from archir.spaces.space import Space
from archir.utils.settings import Path, Settings
from archir_torch.reuse.start import order_start_weights
from archir_torch.search.inheritance import copy_matching, require_all_weights
from archir_torch.search.job import Job, Outcome, strategy
from archir_torch.strategies.untrained import Untrained
from archir_torch.supernet import SharedChannels, SuperNetwork


class ShareOptions(Settings):
    """Options of `share`."""

    sharing: SharedChannels = "heads"
    """Channels that a smaller attention uses.

    With `heads`, these are the first channels of each head; with `leading`, the first channels over all heads.
    """


@strategy("share", ShareOptions, orders=True, gives=("weights", "supernet"))
class Share(Untrained):
    """Strategy that makes a trained network a supernet, without training.

    The trained network is the largest architecture; other architectures use parts of its weights.
    """

    def __init__(self, job: Job, options: ShareOptions) -> None:
        name = job.phase.name
        if not job.weights:
            raise ArchError(_no_weights(job.phase))
        self.opened = fix_choices(job.space, job.phase.open, job.phase.fixed, job.architecture)
        graph, self.sharing = self.opened.space.graph, options.sharing
        self.network = SuperNetwork(graph, torch.Generator().manual_seed(0), options.sharing == "heads")
        largest_graph = job.space.specialize(self.opened.completed(largest(self.opened.space)))
        require_all_weights(self.network, job.weights, name)
        copy_matching(self.network, order_start_weights(job, largest_graph, job.weights), job.renamed)

    @classmethod
    def mistakes(cls, phase: Phase, space: Space, options: ShareOptions) -> Iterator[tuple[Path, Diagnostic]]:
        """Yield an error if the recipe names no weights for the phase to start from."""
        if phase.start.weights is None:
            yield ("strategy",), _no_weights(phase)

    def outcome(self) -> Outcome:
        """Return the supernet and its weights."""
        weights = {name: tensor.detach().clone() for name, tensor in self.network.state_dict().items()}
        return Outcome(weights=weights, supernet=SupernetRecord.of(self.opened, self.network.graph, self.sharing))


def _no_weights(phase: Phase) -> Diagnostic:
    """Return the error (A2210) for a phase that has no weights to share."""
    return Diagnostic("A2210", f"phase `{phase.name}` has no weights to share", None, "name them with start.weights")
